//! After a failure: the gates, in their order.

use super::{
    Cause, Command, Constraint, Controller, Decision, Duration, Failed, FailureKind, NoRetry, Outcome, Phase,
    Planner, Report, Rng, Rule, Terminal, Then, Waiting,
};
use crate::backoff::full_jitter;
use crate::fleet::{Availability, Failure};
use crate::kind::Onward;
use crate::policy::{OnPolicy, RetryOrder};
use crate::request::Reroute;

/// For a request that must not be sent twice, these answers too leave open whether it was executed.
const UNCLEAR_STATUS: [u16; 8] = [500, 502, 504, 520, 521, 522, 523, 524];

impl Controller {
    pub(super) fn failed(
        &mut self,
        failed: &Failed,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> Command {
        let failed = &as_quota(*failed, planner.fleet.policy.throttle.max);
        let outcome = self.note_failure(failed, planner);
        // 2. Committed?
        if self.is_committed() {
            return self.stop(Terminal::Partial, Rule::Committed, Cause::Committed, planner);
        }
        // 3. Could a side effect have happened with unknown outcome?
        if !self.request.replay_safe && outcome == Outcome::Unknown {
            return self.stop(Terminal::ReconciliationRequired, Rule::SideEffect, Cause::SideEffect, planner);
        }
        // 4. Does the kind permit another attempt at all?
        let Some(place) = self.attempts.last().map(|a| a.candidate) else { return Command::Carry };
        if !self.constrain(failed.kind, place) {
            return self.stop_for_kind(failed.kind, planner);
        }
        self.go_on(place, failed, planner, rng)
    }

    /// Gates 5 to 9.
    fn go_on(
        &mut self,
        place: usize,
        failed: &Failed,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> Command {
        if let Some(stop) = self.spent(planner) {
            return stop;
        }
        let equivalent = self.has_ready(place, true, planner);
        let retry_first = self.request.governance.retry.order == RetryOrder::RetryFirst;
        if retry_first && let Some(command) = self.retry(place, failed, equivalent, planner, rng) {
            return command;
        }
        // Where attempts are kept for a substitute, an equivalent may not take them.
        if self.attempts_to_spare(place, planner) > 0
            && let Some(command) = self.failover(place, planner)
        {
            return command;
        }
        if !retry_first && let Some(command) = self.retry(place, failed, false, planner, rng) {
            return command;
        }
        if let Some(command) = self.fallback(place, planner) {
            return command;
        }
        self.nothing_left(planner)
    }

    fn note_failure(&mut self, failed: &Failed, planner: &mut Planner<'_>) -> Outcome {
        let phase = self.attempts.last().map_or(failed.phase, |a| a.phase.max(failed.phase));
        let outcome = self.outcome(failed, phase);
        // After commit there is one kind of failure: a stream that broke.
        let kind = match failed.kind {
            FailureKind::Cancelled => FailureKind::Cancelled,
            _ if phase >= Phase::Committed => FailureKind::PartialStream,
            kind => kind,
        };
        let failure = Failure { kind, phase, retry_after: failed.retry_after, excused: failed.excused };
        self.end_attempt(Report::Failed(failure), planner);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.phase = phase;
            attempt.kind = Some(kind);
            attempt.status = failed.status.or(attempt.status);
            attempt.outcome = Some(outcome);
            let decision = Decision::Failed { candidate: attempt.candidate, kind, phase, outcome };
            self.trace.note(planner.now, decision);
        }
        outcome
    }

    fn outcome(&self, failed: &Failed, phase: Phase) -> Outcome {
        let sent = phase >= Phase::Sent;
        let status = failed.status.or_else(|| self.attempts.last().and_then(|a| a.status));
        // Without a status no answer came, whoever says otherwise.
        let silent = status.is_none() && matches!(failed.kind, FailureKind::Connect | FailureKind::Timeout);
        // A provider that had begun to answer had begun to execute.
        let unclear = |s: u16| {
            let begun = (200..300).contains(&s) && failed.kind.counts_against_breaker();
            begun || UNCLEAR_STATUS.contains(&s)
        };
        let unclear = !self.request.replay_safe && status.is_some_and(unclear);
        if sent && (failed.lost || silent || unclear) { Outcome::Unknown } else { Outcome::Failed }
    }

    /// Notes what this failure rules out for the rest of the request; `false` if it rules out everything.
    fn constrain(&mut self, kind: FailureKind, place: usize) -> bool {
        let choice = self.plan.candidates.get(place).map_or(0, |c| c.choice);
        if kind == FailureKind::Policy {
            let lifted = self.request.governance.substitution.on_policy == OnPolicy::Fallback;
            self.constraints.push(Constraint::NotChoice(choice));
            return lifted;
        }
        // Nothing was learned of a provider that was passed over unsent.
        if self.attempts.last().is_some_and(super::AttemptRecord::was_passed_over) {
            return true;
        }
        match kind.failover() {
            Onward::Any => true,
            Onward::No => false,
            Onward::OtherAccount => {
                self.constraints.push(Constraint::NotAccountOf(place));
                true
            }
            Onward::OtherProvider => {
                self.constraints.push(Constraint::NotProviderOf(place));
                true
            }
            Onward::LargerWindow => {
                self.constraints.push(Constraint::LargerWindowThan(place));
                true
            }
        }
    }

    pub(super) fn keeps_constraints(&self, place: usize, planner: &Planner<'_>) -> bool {
        let Some(candidate) = self.plan.candidates.get(place) else { return false };
        let provider_of = |p: usize| {
            let target = self.plan.candidates.get(p).and_then(|c| planner.catalog.target(c.target));
            target.map(|t| t.provider.as_str())
        };
        self.constraints.iter().all(|constraint| match *constraint {
            Constraint::NotAccountOf(p) => {
                self.plan.candidates.get(p).is_none_or(|c| c.account != candidate.account)
            }
            Constraint::NotChoice(choice) => candidate.choice != choice,
            Constraint::NotProviderOf(p) => provider_of(p) != provider_of(place),
            Constraint::LargerWindowThan(p) => {
                let least = self.plan.candidates.get(p).and_then(|c| c.window);
                matches!((least, candidate.window), (Some(least), Some(own)) if own > least)
            }
        })
    }

    fn stop_for_kind(&mut self, kind: FailureKind, planner: &mut Planner<'_>) -> Command {
        let (terminal, cause) = match kind {
            // What a substitute makes of the request says nothing of the request at the model that it was meant for.
            kind if kind != FailureKind::Cancelled && self.is_substituted() => {
                (self.exhausted_terminal(), self.exhausted_cause())
            }
            FailureKind::Policy => (Terminal::PolicyStop, Cause::RequestsOwn),
            FailureKind::Cancelled => (Terminal::Deadline, Cause::Deadline),
            FailureKind::Unknown => (Terminal::Exhausted, Cause::Exhausted),
            _ => (Terminal::Rejected, Cause::RequestsOwn),
        };
        self.stop(terminal, Rule::KindForbids, cause, planner)
    }

    /// Whether the last attempt was on another model than the first.
    pub(super) fn is_substituted(&self) -> bool {
        let choice = |a: &super::AttemptRecord| self.plan.candidates.get(a.candidate).map(|c| c.choice);
        self.attempts.first().and_then(choice) != self.attempts.last().and_then(choice)
    }

    /// 5. Attempts, rejections and time.
    fn spent(&mut self, planner: &mut Planner<'_>) -> Option<Command> {
        let budget = &self.request.governance.budget;
        if self.remaining(planner.now) < budget.min_attempt {
            return Some(self.stop(Terminal::Deadline, Rule::TimeSpent, Cause::Deadline, planner));
        }
        if self.attempts_left() == 0 || self.rejections() >= budget.max_rejections {
            let cause = self.exhausted_cause();
            return Some(self.stop(self.exhausted_terminal(), Rule::AttemptsSpent, cause, planner));
        }
        None
    }

    fn rejections(&self) -> u32 {
        count(self.attempts.iter().filter(|a| a.kind.is_some_and(|k| k.is_rejection())))
    }

    fn attempts_left(&self) -> u32 {
        let executed = count(self.attempts.iter()).saturating_sub(self.rejections());
        self.request.governance.budget.max_attempts.saturating_sub(executed)
    }

    /// Attempts that need not be kept for a substitute of another model.
    fn attempts_to_spare(&self, place: usize, planner: &Planner<'_>) -> u32 {
        let kept = if self.has_ready(place, false, planner) {
            self.request.governance.budget.reserve_attempts
        } else {
            0
        };
        self.attempts_left().saturating_sub(kept)
    }

    /// Whether an untried candidate takes calls now: an equivalent of the one at `place`, or a substitute for it.
    fn has_ready(&self, place: usize, equivalent: bool, planner: &Planner<'_>) -> bool {
        let Some(choice) = self.plan.candidates.get(place).map(|c| c.choice) else { return false };
        (0..self.plan.candidates.len()).any(|other| {
            let same = self.plan.candidates.get(other).is_some_and(|c| c.choice == choice);
            same == equivalent
                && self.may_follow(other, choice)
                && self.is_open_to(other, planner)
                && self.is_ready(other, planner)
        })
    }

    /// Whether the request may go from a model to this candidate: never back to an earlier model.
    pub(super) fn may_follow(&self, place: usize, choice: usize) -> bool {
        let Some(next) = self.plan.candidates.get(place).map(|c| c.choice) else { return false };
        next >= choice && self.may_move(next == choice)
    }

    fn may_move(&self, equivalent: bool) -> bool {
        match (self.request.reroute, equivalent) {
            (Reroute::None, _) | (Reroute::Failover, false) => false,
            (_, true) => true,
            (Reroute::Fallback, false) => self.request.may_substitute(),
        }
    }

    /// 6. The same target once more. With an equivalent that has room nobody sleeps: then only at once or not at all.
    fn retry(
        &mut self,
        place: usize,
        failed: &Failed,
        equivalent: bool,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> Option<Command> {
        if let Some(why) = self.forbids_retry(place, failed, equivalent, planner) {
            self.trace.note(planner.now, Decision::NoRetry(why));
            return None;
        }
        let before = count(self.attempts.iter().filter(|a| a.candidate == place)).saturating_sub(1);
        let jitter = full_jitter(&self.request.governance.retry, before, rng);
        let jitter = if equivalent { Duration::ZERO } else { jitter };
        let wait = jitter.max(failed.retry_after.unwrap_or_default()).max(self.blocked_for(place, planner));
        if !self.wait_fits(wait, equivalent, planner) {
            self.trace.note(planner.now, Decision::NoRetry(NoRetry::Wait(wait)));
            return None;
        }
        // Last, so that a retry which does not come is not paid for.
        let policy = planner.fleet.policy.retry_budget.clone();
        if !planner.fleet.retry_budget.take(&policy, planner.now) {
            self.trace.note(planner.now, Decision::NoRetry(NoRetry::Budget));
            return None;
        }
        if wait.is_zero() {
            return self.attempt(place, Rule::Retry, false, planner).ok();
        }
        let until = planner.now.after(wait);
        self.waiting = Some(Waiting { then: Then::Retry(place), until, queued: false });
        self.trace.note(planner.now, Decision::Wait { until, rule: Rule::Retry });
        Some(Command::Wait { until })
    }

    /// How long a limit still keeps calls from a candidate: a retry before that would not pass.
    fn blocked_for(&self, place: usize, planner: &Planner<'_>) -> Duration {
        let Some(candidate) = self.plan.candidates.get(place) else { return Duration::ZERO };
        match planner.fleet.availability(&candidate.call(&self.request, false), planner.now) {
            Availability::Blocked(block) => block.until.map_or(Duration::MAX, |at| at.since(planner.now)),
            Availability::Ready { .. } => Duration::ZERO,
        }
    }

    fn forbids_retry(
        &self,
        place: usize,
        failed: &Failed,
        equivalent: bool,
        planner: &Planner<'_>,
    ) -> Option<NoRetry> {
        let budget = &self.request.governance.budget;
        let same = self.attempts.iter().filter(|a| a.candidate == place);
        let connects = count(same.clone().filter(|a| a.kind == Some(FailureKind::Connect)));
        let resent =
            failed.kind == FailureKind::Connect && failed.phase >= Phase::Sent && !self.request.replay_safe;
        // A rate limit is waited out only on the provider's word, and only where nobody else has room.
        let limited = failed.kind == FailureKind::RateLimit && (equivalent || failed.retry_after.is_none());
        let candidate = self.plan.candidates.get(place)?;
        if limited
            || !failed.kind.permits_retry()
            || connects > 1
            || resent
            || self.request.reroute == Reroute::None
        {
            return Some(NoRetry::Kind);
        }
        if self.request.sdk_retry {
            return Some(NoRetry::SdkRetries);
        }
        if count(same) >= budget.max_same_target_attempts {
            return Some(NoRetry::SameTarget);
        }
        if self.attempts_to_spare(place, planner) == 0 || !self.is_affordable(candidate) {
            return Some(NoRetry::AttemptsKept);
        }
        match planner.fleet.availability(&candidate.call(&self.request, false), planner.now) {
            Availability::Blocked(block) if !block.why.is_limit() => Some(NoRetry::Blocked(block.why)),
            Availability::Ready { probe: true, .. } => Some(NoRetry::Probing),
            _ => None,
        }
    }

    /// A retry waits no longer than `retry.max`, and leaves time for itself (and for a substitute, where one is left).
    fn wait_fits(&self, wait: Duration, equivalent: bool, planner: &Planner<'_>) -> bool {
        let budget = &self.request.governance.budget;
        if equivalent {
            return wait.is_zero();
        }
        let reserve = if self.attempts.last().is_some_and(|a| self.has_ready(a.candidate, false, planner)) {
            budget.reserve_for_fallback.span(budget.deadline)
        } else {
            Duration::ZERO
        };
        let needed = wait.saturating_add(budget.min_attempt).saturating_add(reserve);
        wait <= self.request.governance.retry.max && needed <= self.remaining(planner.now)
    }

    pub(super) fn after_backoff(
        &mut self,
        place: usize,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> Command {
        if let Some(stop) = self.spent(planner) {
            return stop;
        }
        match self.attempt(place, Rule::Retry, false, planner) {
            Ok(command) => command,
            Err(block) => {
                // Others opened it meanwhile: go on as if the retry had not been possible.
                self.trace.note(planner.now, Decision::NoRetry(NoRetry::Blocked(block.why)));
                let failed = Failed {
                    kind: FailureKind::Timeout,
                    phase: Phase::NotSent,
                    status: None,
                    retry_after: None,
                    lost: false,
                    excused: true,
                };
                self.go_on(place, &failed, planner, rng)
            }
        }
    }

    /// 7. The next equivalent.
    fn failover(&mut self, place: usize, planner: &mut Planner<'_>) -> Option<Command> {
        if !self.may_move(true) {
            return None;
        }
        let choice = self.plan.candidates.get(place)?.choice;
        self.try_in_order(|c| c.choice == choice, Rule::Failover, planner)
    }

    /// 8. The next substitution: models in the order of the route, never back to an earlier one.
    fn fallback(&mut self, place: usize, planner: &mut Planner<'_>) -> Option<Command> {
        if !self.may_move(false) {
            return None;
        }
        let choice = self.plan.candidates.get(place)?.choice;
        self.try_in_order(|c| c.choice > choice, Rule::Fallback, planner)
    }

    /// 9. Nothing is left.
    fn nothing_left(&mut self, planner: &mut Planner<'_>) -> Command {
        let unaffordable = self.plan.candidates.iter().any(|c| !self.is_affordable(c));
        let rule = if unaffordable { Rule::CostSpent } else { Rule::NothingLeft };
        let cause = self.exhausted_cause();
        self.stop(self.exhausted_terminal(), rule, cause, planner)
    }

    fn exhausted_cause(&self) -> Cause {
        let all = |kind: FailureKind| {
            self.attempts.iter().filter(|a| !a.was_passed_over()).all(|a| a.kind == Some(kind))
        };
        let telling = self.most_telling().and_then(|place| self.attempts.get(place)).and_then(|a| a.kind);
        if telling.is_some_and(|k| k.is_requests_own() && k != FailureKind::Cancelled) {
            Cause::RequestsOwn
        } else if all(FailureKind::RateLimit) {
            Cause::ExhaustedRateLimit
        } else if all(FailureKind::QuotaExhausted) {
            Cause::ExhaustedQuota
        } else if all(FailureKind::Timeout) {
            Cause::ExhaustedTimeout
        } else {
            Cause::Exhausted
        }
    }

    fn exhausted_terminal(&self) -> Terminal {
        let policy = self.attempts.first().is_some_and(|a| a.kind == Some(FailureKind::Policy));
        match self.exhausted_cause() {
            Cause::RequestsOwn if policy => Terminal::PolicyStop,
            Cause::RequestsOwn => Terminal::Rejected,
            _ => Terminal::Exhausted,
        }
    }
}

/// Who is told to come back after more than the longest throttle has met a quota, not a rate.
fn as_quota(failed: Failed, longest_throttle: Duration) -> Failed {
    let beyond = failed.retry_after.is_some_and(|after| after > longest_throttle);
    let kind = if beyond && failed.kind == FailureKind::RateLimit {
        FailureKind::QuotaExhausted
    } else {
        failed.kind
    };
    Failed { kind, ..failed }
}

fn count<'a>(attempts: impl Iterator<Item = &'a super::AttemptRecord>) -> u32 {
    u32::try_from(attempts.count()).unwrap_or(u32::MAX)
}
