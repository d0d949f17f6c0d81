//! What a finished call says about the domains that it crossed.

use super::{Domain, DomainIndex, DomainKind, DomainState, Fleet, HealthPolicy, Instant, LaneIndex, Ticket};
use crate::breaker::{BreakerCause, Fault, Permit};
use crate::domain::{ISOLATION_PROBE_EVERY, Isolation, UNKNOWN_MODEL_FOR};
use crate::kind::{FailureKind, Phase};
use crate::limit::Usage;
use crate::policy::CooldownCount;
use crate::throttle::Throttled;
use crate::time::Duration;

/// How a call failed, as far as health is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// The normalised class.
    pub kind: FailureKind,
    /// How far it got.
    pub phase: Phase,
    /// The provider's guidance on when to come back.
    pub retry_after: Option<Duration>,
    /// It says nothing against the target: the limit that struck was not the target's own, or the client had been slow
    /// for a second before a stream broke.
    pub excused: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Report {
    /// It failed.
    Failed(Failure),
    /// It was given up without a verdict: the client is gone.
    Released,
    /// It ended well, with this many tokens in and out if that is known.
    Succeeded {
        /// Prompt and output tokens.
        tokens: Option<u64>,
    },
}

/// What one call did to the domains that it crossed.
#[derive(Default)]
struct Seen {
    failed: bool,
    opened: bool,
}

/// Tokens were taken by estimate: what the call really took replaces it. A call that was refused unexecuted took none;
/// what one took that broke is not known, so its estimate stays.
fn settle_usage(usage: &mut Usage, ticket: &Ticket, report: &Report, now: Instant) {
    match report {
        Report::Succeeded { tokens: Some(actual) } => {
            usage.settle(ticket.estimated_tokens, *actual, ticket.begun, now);
        }
        Report::Failed(f) if f.phase == Phase::NotSent => {
            usage.refund(ticket.estimated_tokens, ticket.begun, now)
        }
        Report::Failed(f) if is_unexecuted(f.kind) => {
            usage.settle(ticket.estimated_tokens, 0, ticket.begun, now)
        }
        _ => {}
    }
}

const fn is_unexecuted(kind: FailureKind) -> bool {
    kind.is_rejection()
        || matches!(
            kind,
            FailureKind::ContextOverflow
                | FailureKind::InvalidRequest
                | FailureKind::Overloaded
                | FailureKind::RateLimit
        )
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Bad(Fault),
    Good,
    Neutral,
}

impl Fleet {
    /// Gives a ticket back with what its call says. `policy` is that of the route whose request it was.
    pub fn end(&mut self, ticket: Ticket, report: Report, policy: &HealthPolicy, now: Instant) {
        if let Some((lane, state)) = self.lane_state_mut(ticket.lane) {
            let apart = lane.apart;
            state.in_flight = state.in_flight.saturating_sub(1);
            settle_usage(&mut state.usage, &ticket, &report, now);
            if matches!(report, Report::Succeeded { .. }) && !ticket.streamed && !apart {
                state.answers.push(now.since(ticket.begun));
            }
        }
        let mut seen = Seen::default();
        for (index, permit) in ticket.permits.iter().flatten() {
            let verdict = self.verdict(*index, &report);
            self.give_back(*index, *permit, verdict, &mut seen, policy, now);
        }
        // One call is one opening (or one failure), however many of its domains it concerns.
        let mark = match policy.cooldown.count {
            CooldownCount::Failures => seen.failed,
            CooldownCount::Openings => seen.opened,
        };
        if mark {
            self.mark_cooldown(ticket.lane, policy, now);
        }
        self.hold_open_in_cooldown(ticket.lane, now);
        match report {
            Report::Succeeded { .. } => self.credit(&ticket, now),
            Report::Failed(failure) => self.blame(&ticket, failure, now),
            Report::Released => {}
        }
        self.end_isolation_probes(&ticket, &report, now);
    }

    /// The provider's own word on how much of the rate limit is left, 0.0 to 1.0.
    pub fn observe_headroom(&mut self, lane: LaneIndex, share: f64, now: Instant) {
        if let Some((_, state)) = self.lane_state_mut(lane) {
            state.headroom = Some((share.clamp(0.0, 1.0), now));
        }
    }

    fn verdict(&self, index: DomainIndex, report: &Report) -> Verdict {
        let kind = self.domain(index).map(|d| d.kind);
        let endpoint = kind == Some(DomainKind::Endpoint);
        match report {
            Report::Released => Verdict::Neutral,
            Report::Succeeded { .. } => Verdict::Good,
            Report::Failed(f) if endpoint => match f.phase {
                Phase::NotSent if f.kind.counts_against_breaker() && !f.excused => {
                    Verdict::Bad(Fault::BeforeCommit)
                }
                Phase::NotSent => Verdict::Neutral,
                // It took the request: as an endpoint it is well, whatever the target made of it.
                _ => Verdict::Good,
            },
            Report::Failed(f) => {
                let counts = f.kind.counts_against_breaker() && !f.excused && f.phase != Phase::NotSent;
                // The target answers; what it cannot do is keep to a schema.
                let elsewhere = f.kind == FailureKind::SchemaInvalid && kind != Some(DomainKind::Capability);
                let after = f.kind == FailureKind::PartialStream || f.phase >= Phase::Committed;
                match (counts && !elsewhere, after) {
                    (false, _) => Verdict::Neutral,
                    (true, true) => Verdict::Bad(Fault::AfterCommit),
                    (true, false) => Verdict::Bad(Fault::BeforeCommit),
                }
            }
        }
    }

    fn give_back(
        &mut self,
        index: DomainIndex,
        permit: Permit,
        verdict: Verdict,
        seen: &mut Seen,
        policy: &HealthPolicy,
        now: Instant,
    ) {
        let Some(domain) = self.domains.get_mut(index.0) else { return };
        let from = domain.state(now);
        // A probe that was sent before its time and failed is no new opening.
        let early = domain.breaker.is_early_round();
        let current = domain.breaker.is_current(permit);
        seen.failed |= matches!(verdict, Verdict::Bad(_)) && current && !early;
        let cause = match verdict {
            Verdict::Neutral => {
                domain.breaker.release(permit);
                None
            }
            Verdict::Good => domain.breaker.succeed(permit, &policy.breaker, now),
            Verdict::Bad(fault) => domain.breaker.fail(permit, fault, &policy.breaker, now),
        };
        seen.opened |= self.after_breaker(index, from, cause, now) && !early;
    }

    /// A breaker that an early probe opened again would be due long before the penalty of its target is over.
    fn hold_open_in_cooldown(&mut self, lane: LaneIndex, now: Instant) {
        let Some(index) = self.lanes.get(lane.0).map(|l| l.target) else { return };
        let Some(domain) = self.domains.get_mut(index.0) else { return };
        if let Some(until) = domain.cooldown.until(now) {
            domain.breaker.hold_open(until);
        }
    }

    /// Tells of a change of a breaker. Answers whether it opened.
    pub(super) fn after_breaker(
        &mut self,
        index: DomainIndex,
        from: DomainState,
        cause: Option<BreakerCause>,
        now: Instant,
    ) -> bool {
        let Some(cause) = cause else { return false };
        let opened = !matches!(cause, BreakerCause::ProbesSucceeded);
        if !opened && let Some(domain) = self.domains.get_mut(index.0) {
            // It answers again: what is left of a penalty would only hurt those who have nothing else. A relapse still
            // doubles it, since the record of the penalty stays.
            domain.cooldown.lift(now);
        }
        self.note(index, from, cause.words(), false, now);
        opened
    }

    pub(super) fn mark_cooldown(&mut self, lane: LaneIndex, policy: &HealthPolicy, now: Instant) {
        let Some(index) = self.lanes.get(lane.0).map(|l| l.target) else { return };
        let Some(domain) = self.domains.get_mut(index.0) else { return };
        let from = domain.state(now);
        let Some(until) = domain.cooldown.mark(&policy.cooldown, now) else { return };
        domain.breaker.force_open(until, &policy.breaker, now);
        self.note(index, from, "it keeps failing", true, now);
    }

    fn credit(&mut self, ticket: &Ticket, now: Instant) {
        let Some(lane) = self.lanes.get(ticket.lane.0).cloned() else { return };
        if let Some(rate) = self.domains.get_mut(lane.rate.0) {
            rate.throttle.succeeded();
        }
        if let Some(account) = self.domains.get_mut(lane.account.0) {
            account.strike = None;
        }
        self.lift_isolations(ticket, now);
    }

    /// A probe came back well. Calls from before the isolation prove nothing.
    pub(super) fn lift_isolations(&mut self, ticket: &Ticket, now: Instant) {
        for index in ticket.probes.iter().flatten() {
            self.lift_isolation(*index, now);
        }
    }

    fn lift_isolation(&mut self, index: DomainIndex, now: Instant) {
        let Some(domain) = self.domains.get_mut(index.0) else { return };
        // An operator's word is lifted by an operator.
        if domain.isolation.as_ref().is_some_and(|i| i.cause.is_some()) {
            domain.isolation = None;
            self.note(index, DomainState::Isolated, "a request succeeded", false, now);
        }
    }

    fn blame(&mut self, ticket: &Ticket, failure: Failure, now: Instant) {
        let Some(lane) = self.lanes.get(ticket.lane.0).cloned() else { return };
        match failure.kind {
            FailureKind::RateLimit => self.throttle(lane.rate, lane.account, failure.retry_after, now),
            FailureKind::QuotaExhausted => {
                self.isolate(lane.account, failure.kind, ISOLATION_PROBE_EVERY, true, now)
            }
            FailureKind::Auth => self.strike(lane.account, ticket.request, now),
            // There is no lane for this model any more: the one that it shares is not to blame.
            FailureKind::Permission | FailureKind::ModelNotFound if lane.any_model => {}
            FailureKind::Permission => {
                self.isolate(lane.target, failure.kind, ISOLATION_PROBE_EVERY, true, now)
            }
            FailureKind::ModelNotFound if lane.wildcard => {
                self.isolate(lane.target, failure.kind, UNKNOWN_MODEL_FOR, false, now);
            }
            FailureKind::ModelNotFound => {
                self.isolate(lane.target, failure.kind, ISOLATION_PROBE_EVERY, true, now)
            }
            _ => {}
        }
    }

    fn throttle(
        &mut self,
        rate: DomainIndex,
        account: DomainIndex,
        guidance: Option<Duration>,
        now: Instant,
    ) {
        let policy = self.policy.throttle.clone();
        let Some(domain) = self.domains.get_mut(rate.0) else { return };
        let from = domain.state(now);
        match domain.throttle.limit(guidance, &policy, now) {
            Throttled::Until(until) if from != DomainState::Throttled && until > now => {
                self.note(rate, from, "the provider limits the rate", false, now);
            }
            Throttled::Until(_) => {}
            Throttled::Quota => {
                self.isolate(account, FailureKind::QuotaExhausted, ISOLATION_PROBE_EVERY, true, now);
            }
        }
    }

    /// One request may have been unlucky (a key being rotated); two different ones isolate the account.
    fn strike(&mut self, account: DomainIndex, request: u64, now: Instant) {
        let Some(domain) = self.domains.get_mut(account.0) else { return };
        match domain.strike {
            Some(earlier) if earlier != request => {
                self.isolate(account, FailureKind::Auth, ISOLATION_PROBE_EVERY, true, now);
            }
            _ => domain.strike = Some(request),
        }
    }

    fn isolate(
        &mut self,
        index: DomainIndex,
        kind: FailureKind,
        probe_after: Duration,
        alert: bool,
        now: Instant,
    ) {
        let Some(domain) = self.domains.get_mut(index.0) else { return };
        let from = domain.state(now);
        if domain.isolation.as_ref().is_some_and(|i| i.cause.is_none()) {
            return;
        }
        let since = domain.isolation.as_ref().map_or(now, |i| i.since);
        domain.isolation =
            Some(Isolation { since, ..Isolation::new(Some(kind), now.after(probe_after), now) });
        if from != DomainState::Isolated {
            self.note(index, from, isolation_words(kind), alert, now);
        }
    }

    /// A probe of an isolated domain that came to no verdict on it leaves the next one due at once.
    fn end_isolation_probes(&mut self, ticket: &Ticket, report: &Report, now: Instant) {
        for index in ticket.probes.iter().flatten() {
            let Some(isolation) = self.domains.get_mut(index.0).and_then(isolation_mut) else { continue };
            isolation.probing = false;
            let verdict = matches!(report, Report::Failed(f) if !f.kind.is_requests_own() && !f.excused);
            if verdict && isolation.probe_at <= now {
                isolation.probe_at = now.after(ISOLATION_PROBE_EVERY);
            }
        }
    }
}

fn isolation_mut(domain: &mut Domain) -> Option<&mut Isolation> {
    domain.isolation.as_mut()
}

const fn isolation_words(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Auth => "its credential was refused for two different requests",
        FailureKind::QuotaExhausted => "its quota is used up",
        FailureKind::Permission => "it has no permission for the model",
        FailureKind::ModelNotFound => "the provider does not know the model",
        _ => "isolated",
    }
}
