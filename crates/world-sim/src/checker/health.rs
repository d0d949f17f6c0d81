//! Failure domains of one process: whoever leaves service does so on evidence, whoever is out is not called, and recovery
//! is careful. The evidence is the world's own: what the providers really did.

use std::collections::BTreeMap;

use pointsman_core::breaker::BreakerCause;
use pointsman_core::controller::{Command, Failed};
use pointsman_core::domain::{DomainIndex, DomainKind, DomainState, ISOLATION_PROBE_EVERY};
use pointsman_core::fleet::{Fleet, Transition};
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_core::policy::ProcessPolicy;
use pointsman_core::target::Governance;
use pointsman_core::time::{Duration, Instant};

use super::watch::{Live, Probes};
use super::{Checked, Invariant, Step, Truth, Watch, broken};
use crate::scenario::Scenario;

mod ramp;

use ramp::Ramp;

/// What the core says when a target's long penalty begins.
const COOLDOWN: &str = "it keeps failing";
/// What it says when an isolated domain is back.
const LIFTED: &str = "a request succeeded";
/// Openings that begin the first cooldown (the documented default).
const OPENINGS: u32 = 3;

/// The domains of one target.
#[derive(Clone, Copy, Debug)]
struct Lane {
    endpoint: usize,
    account: usize,
    rate: usize,
    target: usize,
    tools: usize,
}

/// What is known of one domain.
#[derive(Clone, Debug, Default)]
struct Domain {
    open: bool,
    half_open: bool,
    isolated_since: Option<Instant>,
    /// Raised by every change of the breaker and by every isolation.
    epoch: u64,
    probes: u32,
    isolation_probes: u32,
    /// Counted failures since the breaker changed last.
    guilty: u32,
    /// First tokens since then.
    timed: u32,
    /// Requests whose authentication failed since the last success.
    strikes: Vec<u64>,
    /// No call before this: a provider said so.
    throttled: Instant,
    ramp: Option<Ramp>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Health {
    lanes: Vec<Lane>,
    domains: Vec<Domain>,
    names: BTreeMap<(DomainKind, String), usize>,
    seen: BTreeMap<DomainIndex, usize>,
    /// Openings on each target's lane.
    openings: Vec<u32>,
    killed: Vec<bool>,
    ramps: usize,
}

impl Health {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut names = BTreeMap::new();
        let mut place = |kind: DomainKind, name: String| {
            let next = names.len();
            *names.entry((kind, name)).or_insert(next)
        };
        let lanes = scenario.targets.iter().map(|t| Lane {
            endpoint: place(DomainKind::Endpoint, t.endpoint()),
            account: place(DomainKind::Account, t.account()),
            rate: place(DomainKind::Rate, format!("{}/{}", t.account(), t.model)),
            target: place(DomainKind::Target, t.name.clone()),
            tools: place(DomainKind::Capability, format!("{}/tools", t.name)),
        });
        let lanes: Vec<Lane> = lanes.collect();
        Self {
            openings: vec![0; lanes.len()],
            killed: vec![false; lanes.len()],
            lanes,
            domains: vec![Domain::default(); names.len()],
            names,
            seen: BTreeMap::new(),
            ramps: 0,
        }
    }

    fn lane(&self, target: usize) -> Option<Lane> {
        self.lanes.get(target).copied()
    }

    /// The breakers that a call crosses.
    fn breakers(&self, target: usize, tools: bool) -> impl Iterator<Item = usize> {
        let lane = self.lane(target);
        let crossed = lane.map(|l| [Some(l.endpoint), Some(l.target), Some(l.tools).filter(|_| tools)]);
        crossed.into_iter().flatten().flatten()
    }

    /// An attempt that committed or ended is no probe any more, and what it met is evidence.
    pub(super) fn release(&mut self, truth: &Truth, watch: &mut Watch, live: Option<&Live>) {
        let Some(live) = live else { return };
        if matches!(truth, Truth::Arrived | Truth::Ticked) {
            return;
        }
        for (probes, isolation) in [(&mut watch.probes, false), (&mut watch.isolation_probes, true)] {
            for (place, epoch) in Probes::drain(probes, ..) {
                let Some(domain) = self.domains.get_mut(place).filter(|d| d.epoch == epoch) else { continue };
                let out = if isolation { &mut domain.isolation_probes } else { &mut domain.probes };
                *out = out.saturating_sub(1);
            }
        }
        self.count(truth, watch, live);
    }

    fn count(&mut self, truth: &Truth, watch: &Watch, live: &Live) {
        let crossed: Vec<usize> = self.breakers(live.target, watch.facts.tools).collect();
        let account = self.lane(live.target).map(|l| l.account);
        for place in crossed {
            let guilty = matches!(truth, Truth::Failed { failed, .. } if self.is_guilty(place, live, failed));
            let timed = matches!(truth, Truth::Committed { first_token: Some(_) });
            let Some(domain) = self.domains.get_mut(place) else { continue };
            domain.guilty += u32::from(guilty);
            domain.timed += u32::from(timed);
        }
        let Some(account) = account.and_then(|place| self.domains.get_mut(place)) else { return };
        match truth {
            Truth::Succeeded => account.strikes.clear(),
            Truth::Failed { failed, .. }
                if failed.kind == FailureKind::Auth
                    && account.strikes.len() < 2
                    && !account.strikes.contains(&watch.facts.id) =>
            {
                account.strikes.push(watch.facts.id);
            }
            _ => {}
        }
    }

    /// Whether a failure counts against this domain: before the request was sent it is the endpoint, after it the target.
    fn is_guilty(&self, place: usize, live: &Live, failed: &Failed) -> bool {
        let endpoint = self.lane(live.target).is_some_and(|l| l.endpoint == place);
        let not_sent = failed.phase == Phase::NotSent;
        failed.kind.counts_against_breaker() && !failed.excused && endpoint == not_sent
    }

    pub(super) fn transitions(
        &mut self,
        step: &mut Step<'_>,
        live: Option<&Live>,
        governance: &Governance,
        process: &ProcessPolicy,
    ) -> Checked {
        self.note_rate_limit(step, live, process);
        for transition in step.fleet.take_transitions() {
            let Some(place) = self.place(step.fleet, transition.domain) else { continue };
            self.justify(place, &transition, step, live, governance, process)?;
            self.apply(place, &transition, live);
        }
        Ok(())
    }

    fn place(&mut self, fleet: &Fleet, index: DomainIndex) -> Option<usize> {
        if let Some(place) = self.seen.get(&index) {
            return Some(*place);
        }
        let domain = fleet.domain(index)?;
        let place = *self.names.get(&(domain.kind, domain.name.clone()))?;
        self.seen.insert(index, place);
        Some(place)
    }

    /// Guidance is a promise that nothing is sent before: it holds whatever the core makes of it.
    fn note_rate_limit(&mut self, step: &Step<'_>, live: Option<&Live>, process: &ProcessPolicy) {
        let (Truth::Failed { failed, .. }, Some(live)) = (&step.truth, live) else { return };
        let wait = failed.retry_after.unwrap_or(process.throttle.initial);
        if failed.kind != FailureKind::RateLimit || wait > process.throttle.max {
            return;
        }
        let rate = self.lane(live.target).map(|l| l.rate);
        if let Some(domain) = rate.and_then(|place| self.domains.get_mut(place)) {
            domain.throttled = domain.throttled.max(step.now.after(wait));
        }
    }

    /// Whoever leaves service, or comes back to it, does so on evidence of this very step.
    fn justify(
        &self,
        place: usize,
        transition: &Transition,
        step: &Step<'_>,
        live: Option<&Live>,
        governance: &Governance,
        process: &ProcessPolicy,
    ) -> Checked {
        let breaker = &governance.health.breaker;
        let Some(domain) = self.domains.get(place) else { return Ok(()) };
        let guilty = match (&step.truth, live) {
            (Truth::Failed { failed, .. }, Some(live)) => self.is_guilty(place, live, failed),
            _ => false,
        };
        let cause = transition.cause;
        let timed = matches!(step.truth, Truth::Committed { first_token: Some(_) });
        let slow = breaker.slow.as_ref();
        let rate = f64::from(breaker.rate.min_calls) * breaker.rate.share;
        let justified = if cause == BreakerCause::Consecutive.words() {
            guilty && domain.guilty >= breaker.failures
        } else if cause == BreakerCause::ProbeFailed.words() {
            guilty && domain.half_open
        } else if cause == BreakerCause::Rate.words() {
            guilty && f64::from(domain.guilty) >= rate
        } else if cause == BreakerCause::Slow.words() {
            timed && slow.is_some_and(|rule| domain.timed >= rule.min_calls)
        } else if cause == BreakerCause::ProbesSucceeded.words() {
            domain.half_open && self.speaks_well(place, step, live)
        } else if cause == COOLDOWN {
            live.is_some_and(|l| self.may_cool_down(l, step))
        } else if cause == BreakerCause::TimeOver.words() || cause == BreakerCause::LastResort.words() {
            domain.open
        } else if cause == LIFTED {
            matches!(step.truth, Truth::Committed { .. } | Truth::Succeeded)
        } else {
            match transition.to {
                DomainState::Throttled => is_rate_limit(&step.truth),
                DomainState::Isolated => self.may_be_isolated(place, step, live, process),
                _ => true,
            }
        };
        if justified {
            return Ok(());
        }
        let name = self.names.iter().find(|(_, p)| **p == place).map(|(name, _)| name);
        let what =
            format!("{name:?} becomes {} because “{cause}” after {:?}", transition.to.name(), step.truth);
        broken(Invariant::InnocentStayInService, what)
    }

    /// A probe has succeeded: the call was answered, or, as far as the endpoint goes, taken.
    fn speaks_well(&self, place: usize, step: &Step<'_>, live: Option<&Live>) -> bool {
        let endpoint = live.and_then(|l| self.lane(l.target)).is_some_and(|l| l.endpoint == place);
        match &step.truth {
            Truth::Committed { .. } | Truth::Succeeded => true,
            Truth::Failed { failed, .. } => endpoint && failed.phase > Phase::NotSent,
            _ => false,
        }
    }

    fn may_cool_down(&self, live: &Live, step: &Step<'_>) -> bool {
        let openings = self.openings.get(live.target).is_some_and(|n| *n >= OPENINGS);
        let evidence = match &step.truth {
            Truth::Failed { failed, .. } => failed.kind.counts_against_breaker() && !failed.excused,
            Truth::Committed { .. } => true,
            _ => false,
        };
        openings && evidence
    }

    fn may_be_isolated(
        &self,
        place: usize,
        step: &Step<'_>,
        live: Option<&Live>,
        process: &ProcessPolicy,
    ) -> bool {
        let (Truth::Failed { failed, .. }, Some(lane)) =
            (&step.truth, live.and_then(|l| self.lane(l.target)))
        else {
            return false;
        };
        let struck_twice = self.domains.get(place).is_some_and(|d| d.strikes.len() >= 2);
        let long = failed.retry_after.is_some_and(|wait| wait > process.throttle.max);
        match failed.kind {
            FailureKind::Auth => place == lane.account && struck_twice,
            FailureKind::QuotaExhausted => place == lane.account,
            FailureKind::RateLimit => place == lane.account && long,
            FailureKind::ModelNotFound | FailureKind::Permission => place == lane.target,
            _ => false,
        }
    }

    fn apply(&mut self, place: usize, transition: &Transition, live: Option<&Live>) {
        let cause = transition.cause;
        use BreakerCause::{Consecutive, LastResort, ProbeFailed, Rate, Slow, TimeOver};
        let opens = [Consecutive, ProbeFailed, Rate, Slow];
        let half_opens = [TimeOver, LastResort];
        let opened = opens.iter().any(|c| c.words() == cause);
        let half_opened = half_opens.iter().any(|c| c.words() == cause);
        let closed = cause == BreakerCause::ProbesSucceeded.words();
        if let Some(openings) = live.and_then(|l| self.openings.get_mut(l.target)).filter(|_| opened) {
            *openings += 1;
        }
        let Some(domain) = self.domains.get_mut(place) else { return };
        if opened || half_opened || closed || cause == COOLDOWN {
            domain.epoch += 1;
            domain.open = opened || cause == COOLDOWN;
            domain.half_open = half_opened;
            (domain.guilty, domain.timed, domain.probes) = (0, 0, 0);
            self.ramps -= usize::from(domain.ramp.take().is_some());
            if closed {
                domain.ramp = Some(Ramp::new(transition.at));
                self.ramps += 1;
            }
        } else if cause == LIFTED {
            domain.isolated_since = None;
        } else if transition.to == DomainState::Isolated {
            domain.isolated_since.get_or_insert(transition.at);
            domain.isolation_probes = 0;
            domain.epoch += 1;
            domain.probes = 0;
        }
    }

    /// An operator took a target out, or brought it back: then everything on its lane begins afresh.
    pub(super) fn operated(&mut self, target: usize, kill: bool, fleet: &mut Fleet) {
        if let Some(killed) = self.killed.get_mut(target) {
            *killed = kill;
        }
        fleet.take_transitions();
        let Some(lane) = self.lane(target).filter(|_| !kill) else { return };
        for place in [lane.endpoint, lane.account, lane.rate, lane.target, lane.tools] {
            let Some(domain) = self.domains.get_mut(place) else { continue };
            self.ramps -= usize::from(domain.ramp.is_some());
            *domain = Domain { epoch: domain.epoch + 1, ..Domain::default() };
        }
    }

    /// An attempt begins: nothing on its lane may be known to be out, and probes are few.
    pub(super) fn begin(
        &mut self,
        watch: &mut Watch,
        target: usize,
        now: Instant,
        governance: &Governance,
    ) -> Checked {
        let Some(lane) = self.lane(target) else { return Ok(()) };
        if self.killed.get(target) == Some(&true) {
            return broken(Invariant::FailsFast, format!("target {target} is called while it is killed"));
        }
        if self.domains.get(lane.rate).is_some_and(|d| now < d.throttled) {
            return broken(Invariant::FailsFast, format!("target {target} is called while it is throttled"));
        }
        let most = governance.health.breaker.probes.max(1);
        for place in self.breakers(target, watch.facts.tools).collect::<Vec<_>>() {
            let Some(domain) = self.domains.get_mut(place) else { continue };
            if domain.open {
                return broken(
                    Invariant::FailsFast,
                    format!("target {target} is called while a breaker is open"),
                );
            }
            if domain.half_open {
                domain.probes += 1;
                watch.probes.push((place, domain.epoch));
                if domain.probes > most {
                    let what = format!("{} probes at once at target {target}", domain.probes);
                    return broken(Invariant::CarefulProbes, what);
                }
            }
        }
        [lane.account, lane.target]
            .into_iter()
            .try_for_each(|place| self.probe_isolated(watch, place, target, now))
    }

    fn probe_isolated(&mut self, watch: &mut Watch, place: usize, target: usize, now: Instant) -> Checked {
        let Some(domain) = self.domains.get_mut(place) else { return Ok(()) };
        let Some(since) = domain.isolated_since else { return Ok(()) };
        if now < since.after(ISOLATION_PROBE_EVERY) {
            return broken(Invariant::FailsFast, format!("target {target} is called while it is isolated"));
        }
        domain.isolation_probes += 1;
        watch.isolation_probes.push((place, domain.epoch));
        if domain.isolation_probes > 1 {
            return broken(
                Invariant::CarefulProbes,
                format!("two probes of isolated target {target} at once"),
            );
        }
        Ok(())
    }
}

const fn is_rate_limit(truth: &Truth) -> bool {
    matches!(truth, Truth::Failed { failed, .. } if matches!(failed.kind, FailureKind::RateLimit))
}

/// How long a slow start lasts, and what it begins with.
const fn slow_start(governance: &Governance) -> Duration {
    governance.health.breaker.slow_start
}

/// Whether this command begins the first attempt of a request, and on which target.
const fn first_target(command: &Command) -> Option<usize> {
    match command {
        Command::Attempt(attempt) if attempt.number == 1 => Some(attempt.target.0),
        _ => None,
    }
}
