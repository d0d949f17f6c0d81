//! The simulated providers: how each call would go if nobody stopped it.
//!
//! What is decided here is the truth that the checker goes by: why a call failed, and whether it was executed.

use pointsman_core::controller::Failed;
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_core::request::Shape;
use pointsman_core::time::{Duration, Instant};

use crate::random::{Stream, seconds};
use crate::scenario::{Fault, FaultSpec, RateSpec, Scenario, TargetSpec};

mod course;

pub use course::{Course, Meeting};

/// In nanoseconds.
const MINUTE: u64 = 60_000_000_000;
/// How much more than its capacity a provider takes before it says that it is overloaded.
const OVERLOADED_AT: f64 = 3.0;

/// What a provider sees of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// How it is to be answered.
    pub shape: Shape,
    /// It has tools.
    pub tools: bool,
    /// It is malformed.
    pub typo: bool,
    /// The content filter refuses it.
    pub refused: bool,
    /// It is longer than any window.
    pub too_long: bool,
    /// The client reads slowly: where its stream breaks, the target is not to blame.
    pub slow_reader: bool,
}

/// A fault of one target, in the world's time.
#[derive(Clone, Debug)]
struct Trouble {
    what: Fault,
    from: Instant,
    until: Instant,
    share: f64,
    flapping: Option<Duration>,
    /// Whether it struck any call.
    struck: bool,
    /// How long after its end the first call succeeded.
    recovered: Option<Duration>,
}

/// How a target came back from a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// What had gone wrong.
    pub what: Fault,
    /// When it was over.
    pub until: Instant,
    /// How long after that the first call succeeded, if one did.
    pub after: Option<Duration>,
}

/// One simulated target.
#[derive(Clone, Debug)]
pub struct Provider {
    first_token: f64,
    answer: f64,
    spread: f64,
    capacity: Option<u32>,
    rate: Option<RateSpec>,
    unreliable: f64,
    troubles: Vec<Trouble>,
    minute: (u64, u32),
    in_flight: u32,
    luck: Stream,
    /// Everything is over: no noise, no limits.
    calm: bool,
}

impl Provider {
    /// The targets of a scenario, in its order. `epoch` is when the world begins.
    pub fn all_of(scenario: &Scenario, epoch: Instant) -> Vec<Self> {
        scenario.targets.iter().map(|spec| Self::of(spec, scenario, epoch)).collect()
    }

    fn of(spec: &TargetSpec, scenario: &Scenario, epoch: Instant) -> Self {
        let strikes = |fault: &&FaultSpec| {
            fault.targets.contains(&spec.name) || fault.region.as_ref().is_some_and(|r| *r == spec.region)
        };
        let troubles = scenario.faults.iter().filter(strikes).map(|fault| Trouble::of(fault, epoch));
        Self {
            first_token: spec.first_token,
            answer: spec.answer,
            spread: spec.spread,
            capacity: spec.capacity,
            rate: spec.rate,
            unreliable: spec.unreliable,
            troubles: troubles.collect(),
            minute: (0, 0),
            in_flight: 0,
            luck: Stream::of(scenario.seed, &format!("target {}", spec.name)),
            calm: false,
        }
    }

    /// From now on every call goes well that is well formed.
    pub fn calm_down(&mut self) {
        self.calm = true;
    }

    /// A call arrives: how it would go.
    pub fn call(&mut self, ask: &Ask, now: Instant) -> Course {
        let pace = self.pace(now);
        let connect = self.luck.span(0.002, 0.02);
        // A visitor that looks whether all is well again must not meet a rare long answer.
        let spread = if self.calm { 0.0 } else { self.spread };
        let thinks = seconds(self.first_token * pace * self.luck.log_normal(spread));
        let speaks = seconds(self.answer * pace * self.luck.log_normal(spread));
        let (noise, dice) = (self.luck.unit(), self.luck.unit());
        let healthy = Course::answer(connect, connect + thinks, connect + thinks + speaks);
        self.in_flight += 1;
        let course = self
            .own_fault_of(ask, &healthy)
            .or_else(|| self.struck(ask, &healthy, dice, now))
            .or_else(|| self.limited(&healthy, now))
            .or_else(|| {
                (!self.calm && noise < self.unreliable)
                    .then(|| healthy.refused(FailureKind::ServerError, 500))
            });
        self.interrupted(course.unwrap_or(healthy), ask, now)
    }

    /// A call is over. `well` says whether it was answered.
    pub fn release(&mut self, well: bool, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        // What only a visitor sees, long after, is no time to recover.
        let seen = well && !self.calm;
        let over = self.troubles.iter_mut().filter(|t| seen && t.recovered.is_none() && now >= t.until);
        for trouble in over {
            trouble.recovered = Some(now.since(trouble.until));
        }
    }

    /// Whether a call that came now would meet no fault, no limit and no crowd.
    pub fn is_well(&self, now: Instant) -> bool {
        let crowded = self.capacity.is_some_and(|most| self.in_flight >= most);
        let limited = self
            .rate
            .is_some_and(|r| self.minute.0 == now.as_nanos() / MINUTE && self.minute.1 >= r.per_minute);
        !crowded && !limited && !self.troubles.iter().any(|t| t.is_on(now))
    }

    /// How it came back from each fault that struck a call.
    pub fn recoveries(&self) -> impl Iterator<Item = Recovery> {
        let struck = self.troubles.iter().filter(|t| t.struck);
        struck.map(|t| Recovery { what: t.what, until: t.until, after: t.recovered })
    }

    /// By which factor it is slower than usual.
    fn pace(&self, now: Instant) -> f64 {
        let load = self.capacity.map_or(0.0, |most| f64::from(self.in_flight + 1) / f64::from(most.max(1)));
        let crowded = load.max(1.0).powf(1.5);
        let slowed = self.troubles.iter().filter(|t| t.is_on(now)).map(|t| t.slows_by(now));
        if self.calm { 1.0 } else { slowed.fold(crowded, |pace, factor| pace * factor) }
    }

    fn own_fault_of(&self, ask: &Ask, healthy: &Course) -> Option<Course> {
        if ask.typo {
            Some(healthy.refused(FailureKind::InvalidRequest, 400))
        } else if ask.refused {
            Some(healthy.refused(FailureKind::Policy, 400))
        } else if ask.too_long {
            Some(healthy.refused(FailureKind::ContextOverflow, 400))
        } else {
            None
        }
    }

    fn struck(&mut self, ask: &Ask, healthy: &Course, dice: f64, now: Instant) -> Option<Course> {
        let running = self.troubles.iter_mut().filter(|t| t.is_on(now) && dice < t.share);
        for trouble in running {
            if let Some(course) = healthy.under(trouble.what, ask) {
                trouble.struck = true;
                return Some(course);
            }
            trouble.struck |= trouble.slows_by(now) > 2.0;
        }
        None
    }

    fn limited(&mut self, healthy: &Course, now: Instant) -> Option<Course> {
        if self.calm {
            return None;
        }
        let beyond = self.capacity.is_some_and(|c| f64::from(self.in_flight) > f64::from(c) * OVERLOADED_AT);
        if beyond {
            return Some(healthy.refused(FailureKind::Overloaded, 529));
        }
        let rate = self.rate?;
        let number = now.as_nanos() / MINUTE;
        if self.minute.0 != number {
            self.minute = (number, 0);
        }
        self.minute.1 += 1;
        if self.minute.1 <= rate.per_minute {
            return None;
        }
        let left = Duration::from_nanos(MINUTE - now.as_nanos() % MINUTE);
        Some(healthy.rate_limited(rate.guidance.then_some(left)))
    }

    /// What is under way when connections begin to be refused or reset is lost.
    fn interrupted(&mut self, course: Course, ask: &Ask, now: Instant) -> Course {
        let end = now.after(course.end.unwrap_or(Duration::from_secs(3_600)));
        let cuts = self.troubles.iter_mut().filter(|t| t.cuts_connections());
        let soonest = cuts.filter_map(|t| Some((t.next_onset(now).filter(|at| *at < end)?, t)));
        match soonest.min_by_key(|(at, _)| *at) {
            Some((at, trouble)) => {
                trouble.struck = true;
                course.broken_at(at.since(now), ask)
            }
            None => course,
        }
    }
}

impl Trouble {
    fn of(fault: &FaultSpec, epoch: Instant) -> Self {
        Self {
            what: fault.what,
            from: epoch.after(seconds(fault.from)),
            until: epoch.after(seconds(fault.until)),
            share: fault.share,
            flapping: fault.flapping.map(seconds).filter(|period| !period.is_zero()),
            struck: false,
            recovered: None,
        }
    }

    fn is_on(&self, now: Instant) -> bool {
        let inside = now >= self.from && now < self.until;
        inside && self.flapping.is_none_or(|period| self.round(now, period).is_multiple_of(2))
    }

    /// In which of its periods a flapping fault is: the even ones are bad.
    fn round(&self, now: Instant, period: Duration) -> u128 {
        now.since(self.from).as_nanos() / period.as_nanos().max(1)
    }

    fn slows_by(&self, now: Instant) -> f64 {
        match self.what {
            Fault::BrownOut { factor } => factor,
            Fault::SlowStart { factor } => {
                let span = self.until.since(self.from).as_secs_f64().max(1e-9);
                let gone = now.since(self.from).as_secs_f64() / span;
                (factor * (1.0 - gone)).max(1.0)
            }
            _ => 1.0,
        }
    }

    fn cuts_connections(&self) -> bool {
        matches!(self.what, Fault::Refused | Fault::Reset) && self.share >= 1.0
    }

    /// When it begins next, strictly after `now`.
    fn next_onset(&self, now: Instant) -> Option<Instant> {
        if now < self.from {
            return Some(self.from);
        }
        let period = self.flapping?;
        let round = self.round(now, period);
        let next = round + if round.is_multiple_of(2) { 2 } else { 1 };
        let nanos = period.as_nanos().saturating_mul(next);
        let at = self.from.after(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        (at < self.until).then_some(at)
    }
}

/// What a failure says of itself, as I/O would see it.
fn failure(kind: FailureKind, phase: Phase, status: Option<u16>, lost: bool) -> Failed {
    Failed { kind, phase, status, retry_after: None, lost, excused: false }
}
