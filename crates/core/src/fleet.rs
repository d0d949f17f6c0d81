//! What all requests share: the health of failure domains, what is in flight, the retry budget, the queue.
//!
//! A call crosses a *lane*: the endpoint, the account, the account × upstream model (rate limits), the target and, for
//! requests with tools, structured output or images, the target × capability. [`Fleet::begin`] takes a permit from each
//! breaker on the lane, and the [`Ticket`] it returns must come back by [`Fleet::end`]: on every exit, also when the
//! client is gone.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::breaker::{BreakerState, Permit};
use crate::domain::{Domain, DomainIndex, DomainKind, DomainState};
use crate::kind::{Capability, FailureKind};
use crate::latency::{PeakEwma, Samples};
use crate::limit::{LimitHit, Usage};
use crate::policy::{CooldownCount, HealthPolicy, ProcessPolicy};
use crate::queue::Queue;
use crate::request::Shape;
use crate::retry_budget::RetryBudget;
use crate::target::{Catalog, Target, TargetLimits};
use crate::time::{Duration, Instant};

mod bind;
mod lane;
mod operate;
mod verdict;

pub use bind::Bindings;
pub use lane::{LaneIndex, Wanted};
pub use operate::DomainView;
pub use verdict::{Failure, Report};

use lane::{Lane, NamedLane};

/// The most transitions kept for whoever drives the fleet to collect.
const EVENTS_KEPT: usize = 4_096;
/// The most lanes of wildcard targets; beyond it a target's models share one lane.
const WILDCARD_LANES: usize = 1_024;
/// An upstream model with a longer name, in bytes, has no lane of its own at a wildcard target.
const LONGEST_MODEL: usize = 256;
/// When there are too many, the lane of a model that nobody asked for in this time may be forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// How soon to look again at a target that is full of requests or warming up.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A probe that others wait for is given this many times what its target usually takes, as a slow call is told from others.
const HURRY_FACTOR: u32 = 4;
/// As soon as so many samples say what is usual.
const HURRY_FROM: usize = 5;
/// And at least this.
const HURRY_LEAST: Duration = Duration::from_secs(1);
/// How soon a recovered target that is alone takes twice as many requests at once: a thousand within five seconds, so
/// that nobody who waits for it is turned away by its warming up.
const WARM_UP_DOUBLES: Duration = Duration::from_millis(500);

/// What is known of one target by its name; survives reloads.
#[derive(Clone, Debug, Default)]
pub struct TargetState {
    /// Requests in flight.
    pub in_flight: u32,
    /// Peak EWMA of the time to first token.
    pub first_token: PeakEwma,
    /// How long its streams took to their first token, lately.
    pub(crate) first_tokens: Samples,
    /// How long its plain answers took, lately.
    pub(crate) answers: Samples,
    /// Switched off by an operator.
    pub killed: bool,
    /// The provider's own word on how much of its rate limit is left, 0.0 to 1.0, and when it said so.
    pub headroom: Option<(f64, Instant)>,
    pub(crate) usage: Usage,
    pub(crate) limits: TargetLimits,
    /// Smooth weighted round-robin.
    pub(crate) credit: i64,
    /// When it was last given a call, as a sequence number.
    pub(crate) picked: u64,
}

/// A change of a domain's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: Instant,
    /// Of which domain.
    pub domain: DomainIndex,
    /// Before.
    pub from: DomainState,
    /// After.
    pub to: DomainState,
    /// Why, in words.
    pub cause: &'static str,
    /// Whether an operator should be told now.
    pub alert: bool,
}

/// Whether a lane may take a call now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Availability {
    /// Not now.
    Blocked(Block),
    /// Yes.
    Ready {
        /// Its share among its equivalents, 0.0 to 1.0.
        share: f64,
        /// The call would be a probe.
        probe: bool,
    },
}

/// Why a lane takes no call now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The reason.
    pub why: BlockReason,
    /// The domain to blame, where there is one.
    pub domain: Option<DomainIndex>,
    /// When it is due to change, where that is known.
    pub until: Option<Instant>,
}

/// Reasons for a [`Block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockReason {
    /// The target is in cooldown.
    Cooldown,
    /// All probes of a half-open breaker are on their way.
    HalfOpenFull,
    /// Isolated after a failure of this kind; `None` is an operator.
    Isolated(Option<FailureKind>),
    /// Switched off by an operator.
    Killed,
    /// A limit of the target's own.
    Limit(LimitHit),
    /// A breaker is open.
    Open,
    /// The provider asked to wait.
    Throttled,
    /// Alone and just recovered: it takes only a few requests at once.
    WarmingUp,
}

impl BlockReason {
    /// Whether it may be over at any moment, whenever another call ends.
    pub const fn is_momentary(self) -> bool {
        matches!(self, Self::HalfOpenFull | Self::Limit(LimitHit::Concurrency) | Self::WarmingUp)
    }

    /// Whether it is about rates and limits (429), not about health (503).
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Limit(_) | Self::Throttled)
    }
}

/// The right to make one call on a lane. It must come back by [`Fleet::end`].
#[must_use = "a ticket that does not come back holds its permits for ever"]
#[derive(Debug)]
pub struct Ticket {
    lane: LaneIndex,
    request: u64,
    permits: [Option<(DomainIndex, Permit)>; 3],
    /// Isolated domains that this call probes.
    probes: [Option<DomainIndex>; 2],
    estimated_tokens: u64,
    begun: Instant,
    /// A first token came.
    streamed: bool,
}

impl Ticket {
    /// Whether this call is a probe of a half-open or isolated domain.
    pub fn is_probe(&self) -> bool {
        self.permits.iter().flatten().any(|(_, p)| p.is_probe()) || self.probes.iter().any(Option::is_some)
    }

    /// Whether it is a probe that others may have to wait for; see [`Fleet::hurry`].
    fn is_hasty(&self) -> bool {
        self.permits.iter().flatten().any(|(_, p)| p.is_hasty())
    }
}

/// What [`Fleet::begin`] needs to know of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The lane.
    pub lane: LaneIndex,
    /// What the request asks of the model.
    pub capability: Capability,
    /// The request's number: two different requests must fail to authenticate before an account is isolated.
    pub request: u64,
    /// Prompt and output tokens, estimated.
    pub estimated_tokens: u64,
    /// Nothing else is left: a cooldown does not stop it, and open breakers may be probed early.
    pub last_resort: bool,
    /// It has no equivalent that could take its load.
    pub alone: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// Policies of the process.
    pub policy: ProcessPolicy,
    /// Same-target retries.
    pub retry_budget: RetryBudget,
    /// Waiting requests.
    pub queue: Queue,
    domains: Vec<Domain>,
    by_name: BTreeMap<(DomainKind, String), DomainIndex>,
    lanes: Vec<Lane>,
    wildcard_lanes: BTreeMap<(String, String, Option<&'static str>), NamedLane>,
    /// Those of other targets for each API of its own: as many as the configuration has targets, times a few.
    endpoint_lanes: BTreeMap<(String, &'static str), LaneIndex>,
    /// Domains of forgotten lanes.
    free: Vec<DomainIndex>,
    targets: Vec<TargetState>,
    target_by_name: BTreeMap<String, usize>,
    sequence: u64,
    transitions: Vec<Transition>,
    /// The number of bindings made so far.
    bound: u64,
}

impl Fleet {
    /// An empty fleet under these policies.
    pub fn new(policy: ProcessPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Whether the lane may take a call now.
    pub fn availability(&self, call: &Call, now: Instant) -> Availability {
        let Some((lane, state)) = self.lane_state(call.lane) else {
            return Availability::Blocked(Block { why: BlockReason::Killed, domain: None, until: None });
        };
        match self.blocked(lane, state, call, now) {
            Some(block) => Availability::Blocked(block),
            None => Availability::Ready {
                share: self.share(lane, state, call, now),
                probe: self.is_probe(lane, call, now),
            },
        }
    }

    /// Takes the right to make a call, or says why not.
    pub fn begin(&mut self, call: &Call, now: Instant) -> Result<Ticket, Block> {
        if call.last_resort {
            self.probe_early(call, now);
        }
        if let Availability::Blocked(block) = self.availability(call, now) {
            return Err(block);
        }
        let Some(lane) = self.lanes.get(call.lane.0).cloned() else {
            return Err(Block { why: BlockReason::Killed, domain: None, until: None });
        };
        let permits = self.take_permits(&lane, call, now)?;
        let probes = [lane.account, lane.target].map(|d| self.take_isolation_probe(d, now));
        self.sequence += 1;
        let sequence = self.sequence;
        if let Some(state) = self.targets.get_mut(lane.state) {
            state.in_flight += 1;
            state.picked = sequence;
            state.usage.charge(call.estimated_tokens, now);
        }
        Ok(Ticket {
            lane: call.lane,
            request: call.request,
            permits,
            probes,
            estimated_tokens: call.estimated_tokens,
            begun: now,
            streamed: false,
        })
    }

    /// The first meaningful output of the call came, `first_token` after it began (streams only).
    pub fn commit(
        &mut self,
        ticket: &mut Ticket,
        first_token: Option<Duration>,
        policy: &HealthPolicy,
        now: Instant,
    ) {
        let mut opened = false;
        for place in &mut ticket.permits {
            let Some((index, permit)) = *place else { continue };
            let Some(domain) = self.domains.get_mut(index.0) else { continue };
            let from = domain.state(now);
            // Slowness is a property of the target; its endpoint serves others too.
            let timed = if domain.kind == DomainKind::Endpoint { None } else { first_token };
            let (renewed, cause) = domain.breaker.commit(permit, timed, &policy.breaker, now);
            *place = Some((index, renewed));
            opened |= self.after_breaker(index, from, cause, now);
        }
        if opened && policy.cooldown.count == CooldownCount::Openings {
            self.mark_cooldown(ticket.lane, policy, now);
        }
        // It answers: a stream may live for an hour, an isolation that it disproves need not.
        self.lift_isolations(ticket, now);
        ticket.probes = [None; 2];
        let Some((_, state)) = self.lane_state_mut(ticket.lane) else { return };
        if let Some(took) = first_token {
            state.first_token.observe(took, now);
            state.first_tokens.push(took);
            ticket.streamed = true;
        }
    }

    /// Within which time a probe should have said something so as not to keep others waiting: four times what this target
    /// usually takes to the first token of a stream, or for a plain answer; never less than a second. `None` where the
    /// call is no such probe, or too little is known of the target. A target that is silent holds each of its few probes until a limit strikes: with a probe's
    /// own, nobody would notice for that long that it answers again.
    pub(crate) fn hurry(&self, ticket: &Ticket, shape: Shape) -> Option<Duration> {
        if !ticket.is_hasty() {
            return None;
        }
        let (_, state) = self.lane_state(ticket.lane).filter(|(lane, _)| !lane.apart)?;
        let usual = |samples: &Samples| samples.median().filter(|_| samples.len() >= HURRY_FROM);
        let usual = match shape {
            Shape::Streamed | Shape::Buffered => usual(&state.first_tokens),
            Shape::Plain => usual(&state.answers),
            // Whether it becomes a stream is up to the target.
            Shape::Gathered => usual(&state.answers).max(usual(&state.first_tokens)),
        };
        Some(usual?.saturating_mul(HURRY_FACTOR).max(HURRY_LEAST))
    }

    /// Collects the transitions since the last call.
    pub fn take_transitions(&mut self) -> Vec<Transition> {
        core::mem::take(&mut self.transitions)
    }

    /// The domain at this place.
    pub fn domain(&self, index: DomainIndex) -> Option<&Domain> {
        self.domains.get(index.0)
    }

    /// What is known of the target of this name.
    pub fn target_state(&self, name: &str) -> Option<&TargetState> {
        self.targets.get(*self.target_by_name.get(name)?)
    }

    pub(crate) fn state_of(&self, lane: LaneIndex) -> Option<&TargetState> {
        self.lane_state(lane).map(|(_, state)| state)
    }

    pub(crate) fn state_of_mut(&mut self, lane: LaneIndex) -> Option<&mut TargetState> {
        self.lane_state_mut(lane).map(|(_, state)| state)
    }

    pub(crate) fn account_of(&self, lane: LaneIndex) -> Option<DomainIndex> {
        self.lanes.get(lane.0).map(|l| l.account)
    }

    /// When the next early round of probes may begin on this lane, if one of its breakers is open.
    pub(crate) fn next_early_round(&self, call: &Call, now: Instant) -> Option<Instant> {
        let lane = self.lanes.get(call.lane.0)?;
        let open = lane
            .breakers(call.capability)
            .filter_map(|d| self.domains.get(d.0))
            .filter(|d| matches!(d.breaker.state(now), BreakerState::Open { .. }));
        open.map(|d| d.breaker.next_early_round()).max()
    }

    fn lane_state(&self, lane: LaneIndex) -> Option<(&Lane, &TargetState)> {
        let lane = self.lanes.get(lane.0)?;
        Some((lane, self.targets.get(lane.state)?))
    }

    fn lane_state_mut(&mut self, lane: LaneIndex) -> Option<(&Lane, &mut TargetState)> {
        let lane = self.lanes.get(lane.0)?;
        Some((lane, self.targets.get_mut(lane.state)?))
    }

    fn blocked(&self, lane: &Lane, state: &TargetState, call: &Call, now: Instant) -> Option<Block> {
        if state.killed {
            return Some(Block { why: BlockReason::Killed, domain: Some(lane.target), until: None });
        }
        let all = [
            self.isolated(lane, now),
            self.cooling(lane, call, now),
            self.throttled(lane, now),
            self.breaker_closed_to(lane, call, now),
            limited(state, now),
            self.warming_up(lane, state, call, now),
        ];
        // The gravest is the reason; it is over when all are.
        let last = all.iter().flatten().map(|b| b.until.unwrap_or(Instant::FAR_FUTURE)).max()?;
        let first = all.into_iter().flatten().next()?;
        Some(Block { until: Some(last).filter(|at| *at != Instant::FAR_FUTURE), ..first })
    }

    fn isolated(&self, lane: &Lane, now: Instant) -> Option<Block> {
        let isolated = [lane.account, lane.target].into_iter().find_map(|index| {
            let isolation = self.domains.get(index.0)?.isolation.as_ref()?;
            (!isolation.is_due(now)).then_some((index, isolation))
        });
        let (index, isolation) = isolated?;
        let why = BlockReason::Isolated(isolation.cause);
        // Its probe is on its way: what it says may come at any moment, and nothing is due in the past.
        let until = if isolation.probing {
            now.after(LOOK_AGAIN).max(isolation.probe_at)
        } else {
            isolation.probe_at
        };
        let until = Some(until).filter(|at| *at != Instant::FAR_FUTURE);
        Some(Block { why, domain: Some(index), until })
    }

    fn cooling(&self, lane: &Lane, call: &Call, now: Instant) -> Option<Block> {
        let domain = self.domains.get(lane.target.0)?;
        let until = domain.cooldown.until(now)?;
        // Probes of an early round pass: they are how a target that is alone comes back.
        let probing = domain.breaker.state(now) == BreakerState::HalfOpen;
        (!call.last_resort || !probing).then_some(Block {
            why: BlockReason::Cooldown,
            domain: Some(lane.target),
            until: Some(until),
        })
    }

    fn throttled(&self, lane: &Lane, now: Instant) -> Option<Block> {
        let until = self.domains.get(lane.rate.0)?.throttle.until(now)?;
        Some(Block { why: BlockReason::Throttled, domain: Some(lane.rate), until: Some(until) })
    }

    fn breaker_closed_to(&self, lane: &Lane, call: &Call, now: Instant) -> Option<Block> {
        let closed_to = lane.breakers(call.capability).filter_map(|index| {
            let domain = self.domains.get(index.0)?;
            if domain.breaker.room(now) > 0 {
                return None;
            }
            let (why, until) = match domain.breaker.state(now) {
                BreakerState::Open { until } => (BlockReason::Open, until),
                _ => (BlockReason::HalfOpenFull, now.after(LOOK_AGAIN)),
            };
            Some(Block { why, domain: Some(index), until: Some(until) })
        });
        closed_to.max_by_key(|block| block.until)
    }

    /// A target without equivalents keeps its whole share in a slow start; what is limited is how much it gets at once:
    /// as many as its probes at first, twice as many with every [`WARM_UP_DOUBLES`].
    fn warming_up(&self, lane: &Lane, state: &TargetState, call: &Call, now: Instant) -> Option<Block> {
        if !call.alone {
            return None;
        }
        let breaker = &self.domains.get(lane.target.0)?.breaker;
        let since = breaker.slow_start_since(now)?;
        let doublings = now.since(since).as_nanos() / WARM_UP_DOUBLES.as_nanos();
        let doublings = u32::try_from(doublings).unwrap_or(u32::MAX).min(20);
        let at_once = breaker.probes().max(1).saturating_mul(1 << doublings);
        (state.in_flight >= at_once).then_some(Block {
            why: BlockReason::WarmingUp,
            domain: Some(lane.target),
            until: Some(now.after(LOOK_AGAIN)),
        })
    }

    fn share(&self, lane: &Lane, state: &TargetState, call: &Call, now: Instant) -> f64 {
        if call.alone {
            return 1.0;
        }
        let shares = lane
            .breakers(call.capability)
            .filter_map(|d| self.domains.get(d.0))
            .map(|d| d.breaker.share(now));
        shares.fold(state.usage.share(&state.limits, now), f64::min)
    }

    fn is_probe(&self, lane: &Lane, call: &Call, now: Instant) -> bool {
        let isolated = [lane.account, lane.target];
        isolated.iter().any(|d| self.domains.get(d.0).is_some_and(|d| d.isolation.is_some()))
            || lane.breakers(call.capability).any(|d| {
                self.domains.get(d.0).is_some_and(|d| d.breaker.state(now) == BreakerState::HalfOpen)
            })
    }

    fn take_permits(
        &mut self,
        lane: &Lane,
        call: &Call,
        now: Instant,
    ) -> Result<[Option<(DomainIndex, Permit)>; 3], Block> {
        let mut permits = [None; 3];
        for (place, index) in permits.iter_mut().zip(lane.breakers(call.capability)) {
            let Some(domain) = self.domains.get_mut(index.0) else { continue };
            let settled = domain.breaker.settle(now);
            if let Some(permit) = domain.breaker.admit(now) {
                *place = Some((index, permit));
            }
            if let Some(cause) = settled {
                self.note(index, DomainState::Open, cause.words(), false, now);
            }
            if place.is_none() {
                // Cannot happen after `availability` said yes under the same borrow, but a permit must never leak.
                self.release(&permits);
                return Err(Block { why: BlockReason::HalfOpenFull, domain: Some(index), until: None });
            }
        }
        Ok(permits)
    }

    fn release(&mut self, permits: &[Option<(DomainIndex, Permit)>]) {
        for (index, permit) in permits.iter().flatten() {
            if let Some(domain) = self.domains.get_mut(index.0) {
                domain.breaker.release(*permit);
            }
        }
    }

    fn take_isolation_probe(&mut self, index: DomainIndex, now: Instant) -> Option<DomainIndex> {
        let isolation = self.domains.get_mut(index.0)?.isolation.as_mut()?;
        if !isolation.is_due(now) {
            return None;
        }
        isolation.probing = true;
        Some(index)
    }

    fn probe_early(&mut self, call: &Call, now: Instant) {
        let Some(lane) = self.lanes.get(call.lane.0).cloned() else { return };
        for index in lane.breakers(call.capability) {
            let Some(domain) = self.domains.get_mut(index.0) else { continue };
            let from = domain.state(now);
            if domain.breaker.half_open_early(now) {
                self.note(index, from, crate::breaker::BreakerCause::LastResort.words(), false, now);
            }
        }
    }

    fn note(
        &mut self,
        domain: DomainIndex,
        from: DomainState,
        cause: &'static str,
        alert: bool,
        now: Instant,
    ) {
        let Some(record) = self.domains.get_mut(domain.0) else { return };
        let to = record.state(now);
        record.told = to;
        record.cause = Some(cause);
        if self.transitions.len() < EVENTS_KEPT {
            self.transitions.push(Transition { at: now, domain, from, to, cause, alert });
        }
    }
}

fn limited(state: &TargetState, now: Instant) -> Option<Block> {
    let hit = state.usage.hit(&state.limits, state.in_flight, now)?;
    let until = match hit {
        LimitHit::Concurrency => now.after(LOOK_AGAIN),
        LimitHit::Requests | LimitHit::Tokens => state.usage.room_at(&state.limits, now),
    };
    Some(Block { why: BlockReason::Limit(hit), domain: None, until: Some(until) })
}
