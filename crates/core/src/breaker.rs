//! The short circuit breaker of one failure domain.
//!
//! ```text
//!            failures in a row, failure rate, slowness
//!   closed ────────────────────────────────────────────▶ open
//!      ▲                                                 │ open_for is over (or early, as a last resort)
//!      │ probe_successes                                 ▼
//!      └──────────────────────────────────────────── half-open ──── one failure ──▶ open
//! ```
//!
//! After closing, the share grows back from 10 % to 100 % (slow start). Every transition raises the epoch; a permit
//! carries the epoch it was given in, and an answer of an older epoch changes nothing.

use crate::latency::Samples;
use crate::policy::{BreakerPolicy, SlowRule};
use crate::time::{Duration, Instant};

mod window;
use window::Window;

/// Counted failures closer together than this are one, as long as the domain also succeeds.
const BURST: Duration = Duration::from_millis(100);
/// Without a success for this long, failures of a burst count one by one.
const BURST_NEEDS_SUCCESS_WITHIN: Duration = Duration::from_secs(1);
/// An open breaker is made half-open early at most this often.
const EARLY_ROUND: Duration = Duration::from_secs(1);
/// Samples of latency that are kept from one window of calls, beyond the first few: the 64 of the median then reach back
/// over two windows.
const SAMPLES_PER_WINDOW: u32 = 30;
/// No answer that begins within this is slow, however quick its domain was before: an idle server that comes under load
/// may well take four times as long, and to stop using it would be the outage.
const SLOW_FROM: Duration = Duration::from_secs(1);
/// Where a slow start begins.
const SLOW_START_FROM: f64 = 0.1;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests pass.
    Closed,
    /// A few probes pass.
    HalfOpen,
    /// Nothing passes until then.
    Open {
        /// When it becomes half-open.
        until: Instant,
    },
}

/// Why a breaker changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerCause {
    /// Too many failures in a row.
    Consecutive,
    /// Half-open before its time because nothing else was left.
    LastResort,
    /// An operator, or new configuration.
    Operator,
    /// A probe failed.
    ProbeFailed,
    /// Enough probes succeeded.
    ProbesSucceeded,
    /// Too large a share of calls failed.
    Rate,
    /// Too large a share of calls was slow.
    Slow,
    /// Its time was over.
    TimeOver,
}

impl BreakerCause {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Consecutive => "too many failures in a row",
            Self::LastResort => "nothing else was left, so it is probed early",
            Self::Operator => "reset by an operator or new configuration",
            Self::ProbeFailed => "a probe failed",
            Self::ProbesSucceeded => "enough probes succeeded",
            Self::Rate => "too large a share of calls failed",
            Self::Slow => "too large a share of calls was slow",
            Self::TimeOver => "its time is over",
        }
    }
}

/// The right to make one call, given by [`Breaker::admit`]; it must come back by exactly one of
/// [`Breaker::release`], [`Breaker::succeed`] or [`Breaker::fail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    epoch: u64,
    probe: bool,
    hasty: bool,
}

impl Permit {
    /// Whether it is one of the few probes of a half-open breaker.
    pub const fn is_probe(self) -> bool {
        self.probe
    }

    /// Whether it is a probe that others may have to wait for, beside a patient one: where nothing else is left it should
    /// be given back soon. See [`Breaker::admit`].
    pub const fn is_hasty(self) -> bool {
        self.hasty
    }
}

/// What a call that failed says about its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Before commit.
    BeforeCommit,
    /// A stream that broke after commit.
    AfterCommit,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: BreakerState,
    epoch: u64,
    /// Counted failures in a row before commit; a commit ends the row.
    row: u32,
    /// Streams in a row that broke after commit; only a complete answer ends the row, or a target that cuts every
    /// stream would never open.
    row_partial: u32,
    last_counted: Option<Instant>,
    last_success: Option<Instant>,
    calls: Window,
    first_token: Samples,
    last_sample: Option<Instant>,
    probes_out: u32,
    probes_ok: u32,
    /// Whether a patient probe is on its way.
    patient_out: bool,
    /// Whether the last probe was a hasty one.
    last_hasty: bool,
    /// Why it opened last.
    opened_by: BreakerCause,
    last_early: Option<Instant>,
    early_round: bool,
    closed_at: Option<Instant>,
    /// The policy of the route whose request opened it: it governs the way back.
    policy: BreakerPolicy,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: BreakerState::Closed,
            epoch: 0,
            row: 0,
            row_partial: 0,
            last_counted: None,
            last_success: None,
            calls: Window::default(),
            first_token: Samples::default(),
            last_sample: None,
            probes_out: 0,
            probes_ok: 0,
            patient_out: false,
            last_hasty: false,
            opened_by: BreakerCause::Operator,
            last_early: None,
            early_round: false,
            closed_at: None,
            policy: BreakerPolicy::default(),
        }
    }
}

impl Breaker {
    /// Where it stands at `now`; an open time that is over reads as half-open.
    pub fn state(&self, now: Instant) -> BreakerState {
        match self.state {
            BreakerState::Open { until } if now >= until => BreakerState::HalfOpen,
            state => state,
        }
    }

    /// Makes an open breaker whose time is over half-open, and says so.
    pub fn settle(&mut self, now: Instant) -> Option<BreakerCause> {
        match self.state {
            BreakerState::Open { until } if now >= until => {
                self.half_open();
                Some(BreakerCause::TimeOver)
            }
            _ => None,
        }
    }

    /// The number of transitions so far.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Counted failures in a row.
    pub fn failures_in_a_row(&self) -> u32 {
        self.row.max(self.row_partial)
    }

    /// How many more probes a half-open breaker lets through; `u32::MAX` when closed, 0 when open.
    pub fn room(&self, now: Instant) -> u32 {
        match self.state {
            BreakerState::Closed => u32::MAX,
            BreakerState::HalfOpen => self.probes().saturating_sub(self.probes_out),
            BreakerState::Open { until } if now >= until => self.probes(),
            BreakerState::Open { .. } => 0,
        }
    }

    /// Its share of what its equivalents would give it, 0.1 to 1.0: below 1.0 only in a slow start.
    pub fn share(&self, now: Instant) -> f64 {
        let Some(at) = self.slow_start_since(now) else { return 1.0 };
        let span = self.policy.slow_start.as_secs_f64();
        let grown = now.since(at).as_secs_f64() / span;
        (SLOW_START_FROM + (1.0 - SLOW_START_FROM) * grown).min(1.0)
    }

    /// Since when it is in a slow start, if it is.
    pub fn slow_start_since(&self, now: Instant) -> Option<Instant> {
        let at = self.closed_at?;
        let running = self.state == BreakerState::Closed && now.since(at) < self.policy.slow_start;
        running.then_some(at)
    }

    /// Probes that a half-open round lets through at once: never none, or it could not close again.
    pub fn probes(&self) -> u32 {
        self.policy.probes.max(1)
    }

    /// Whether the permit is of the present epoch: only then does its answer count.
    pub const fn is_current(&self, permit: Permit) -> bool {
        permit.epoch == self.epoch
    }

    /// Asks for the right to make one call.
    ///
    /// One probe at a time is patient: it finds a domain that is slow but alive. The others are hasty: they find one that
    /// had been silent and answers again, which nobody would if all probes hung as long as they may. Where there is only
    /// one probe they take turns. One that opened for slowness was never silent: there all are patient.
    pub fn admit(&mut self, now: Instant) -> Option<Permit> {
        if self.room(now) == 0 {
            return None;
        }
        self.settle(now);
        let probe = self.state == BreakerState::HalfOpen;
        let hasty =
            probe && self.may_be_silent() && (self.patient_out || self.probes() == 1 && !self.last_hasty);
        if probe {
            self.probes_out += 1;
            self.patient_out |= !hasty;
            self.last_hasty = hasty;
        }
        Some(Permit { epoch: self.epoch, probe, hasty })
    }

    /// Gives a permit back without a verdict: cancelled, or the request's own fault.
    pub fn release(&mut self, permit: Permit) {
        if permit.probe && permit.epoch == self.epoch {
            self.probes_out = self.probes_out.saturating_sub(1);
            self.patient_out &= permit.hasty;
        }
    }

    /// The first meaningful output came. A probe has thereby succeeded (a stream may live for an hour: its permit must
    /// not); for the rest it ends a row of failures before commit. Returns the permit to go on with.
    pub fn commit(
        &mut self,
        permit: Permit,
        first_token: Option<Duration>,
        policy: &BreakerPolicy,
        now: Instant,
    ) -> (Permit, Option<BreakerCause>) {
        if permit.epoch != self.epoch {
            return (permit, None);
        }
        self.row = 0;
        self.last_success = Some(now);
        let cause = if permit.probe {
            self.probe_succeeded(permit, now)
        } else {
            self.observe_slowness(first_token, policy, now)
        };
        (Permit { epoch: self.epoch, probe: false, hasty: false }, cause)
    }

    /// The call ended well.
    pub fn succeed(&mut self, permit: Permit, policy: &BreakerPolicy, now: Instant) -> Option<BreakerCause> {
        if permit.epoch != self.epoch {
            return None;
        }
        self.row = 0;
        self.row_partial = 0;
        self.last_success = Some(now);
        if permit.probe {
            return self.probe_succeeded(permit, now);
        }
        self.calls.add_call(now, policy.rate.window);
        None
    }

    /// The call failed in a way that counts. Answers with the cause if that opened it.
    pub fn fail(
        &mut self,
        permit: Permit,
        fault: Fault,
        policy: &BreakerPolicy,
        now: Instant,
    ) -> Option<BreakerCause> {
        if permit.epoch != self.epoch {
            return None;
        }
        if self.state == BreakerState::HalfOpen {
            return Some(self.open(BreakerCause::ProbeFailed, policy, now));
        }
        if self.is_same_burst(fault, now) {
            return None;
        }
        self.last_counted = Some(now);
        let row = match fault {
            Fault::BeforeCommit => &mut self.row,
            Fault::AfterCommit => &mut self.row_partial,
        };
        *row = row.saturating_add(1);
        let enough = *row >= policy.failures;
        self.calls.add_call(now, policy.rate.window);
        self.calls.add_failure(now, policy.rate.window);
        let counts = self.calls.counts(now);
        let cause = if enough {
            BreakerCause::Consecutive
        } else if counts.calls >= policy.rate.min_calls && counts.failure_share() >= policy.rate.share {
            BreakerCause::Rate
        } else {
            return None;
        };
        Some(self.open(cause, policy, now))
    }

    /// Makes an open breaker half-open before its time, at most once a second. Answers whether it did.
    pub fn half_open_early(&mut self, now: Instant) -> bool {
        let BreakerState::Open { .. } = self.state else { return false };
        if now < self.next_early_round() {
            return false;
        }
        self.last_early = Some(now);
        self.half_open();
        self.early_round = true;
        true
    }

    /// When the next early round may begin.
    pub fn next_early_round(&self) -> Instant {
        self.last_early.map_or(Instant::ZERO, |at| at.after(EARLY_ROUND))
    }

    /// Whether it is half-open before its time: a probe that fails then is no new opening.
    pub const fn is_early_round(&self) -> bool {
        self.early_round
    }

    /// Opens it until then, whatever its counts say: a cooldown has begun.
    pub fn force_open(&mut self, until: Instant, policy: &BreakerPolicy, now: Instant) {
        if !matches!(self.state, BreakerState::Open { .. }) {
            self.open(BreakerCause::Operator, policy, now);
        }
        self.state = BreakerState::Open { until };
    }

    /// Keeps it open at least until then, if it is open.
    pub(crate) fn hold_open(&mut self, least: Instant) {
        if let BreakerState::Open { until } = &mut self.state {
            *until = (*until).max(least);
        }
    }

    /// Closes it and forgets its failures; permits of before change nothing any more.
    pub fn reset(&mut self) {
        let epoch = self.epoch + 1;
        *self = Self { epoch, ..Self::default() };
    }

    fn may_be_silent(&self) -> bool {
        self.opened_by != BreakerCause::Slow
    }

    fn is_same_burst(&self, fault: Fault, now: Instant) -> bool {
        let close = self.last_counted.is_some_and(|at| now.since(at) < BURST);
        // Streams that break together were lost with one connection: they had all produced output.
        let alive = fault == Fault::AfterCommit
            || self.last_success.is_some_and(|at| now.since(at) < BURST_NEEDS_SUCCESS_WITHIN);
        close && alive
    }

    fn observe_slowness(
        &mut self,
        first_token: Option<Duration>,
        policy: &BreakerPolicy,
        now: Instant,
    ) -> Option<BreakerCause> {
        let (Some(took), Some(rule)) = (first_token, policy.slow.as_ref()) else { return None };
        let slow = took >= SLOW_FROM
            && self.first_token.len() >= rule.min_calls as usize
            && self.first_token.median().is_some_and(|m| took.as_secs_f64() > m.as_secs_f64() * rule.factor);
        self.remember(took, rule, policy, now);
        self.calls.add_timed(now, policy.rate.window, slow);
        let counts = self.calls.counts(now);
        if !slow || counts.timed < rule.min_calls || counts.slow_share() < rule.share {
            return None;
        }
        Some(self.open(BreakerCause::Slow, policy, now))
    }

    /// Keeps a sample for the median. At high traffic only some are kept, or the first seconds of a brown-out would
    /// already be most of what the median looks at, and nothing would be slow any more.
    fn remember(&mut self, took: Duration, rule: &SlowRule, policy: &BreakerPolicy, now: Instant) {
        let apart = policy.rate.window / SAMPLES_PER_WINDOW;
        let few = self.first_token.len() < rule.min_calls as usize;
        if few || self.last_sample.is_none_or(|at| now.since(at) >= apart) {
            self.first_token.push(took);
            self.last_sample = Some(now);
        }
    }

    fn probe_succeeded(&mut self, permit: Permit, now: Instant) -> Option<BreakerCause> {
        self.release(permit);
        self.probes_ok += 1;
        if self.probes_ok < self.policy.probe_successes {
            return None;
        }
        self.epoch += 1;
        self.state = BreakerState::Closed;
        self.closed_at = Some(now);
        self.forget_counts();
        Some(BreakerCause::ProbesSucceeded)
    }

    fn open(&mut self, cause: BreakerCause, policy: &BreakerPolicy, now: Instant) -> BreakerCause {
        self.epoch += 1;
        self.policy = policy.clone();
        self.state = BreakerState::Open { until: now.after(policy.open_for) };
        // A probe that fails of what is slow is no silence.
        if !(self.opened_by == BreakerCause::Slow && cause == BreakerCause::ProbeFailed) {
            self.opened_by = cause;
        }
        self.forget_counts();
        cause
    }

    fn half_open(&mut self) {
        self.epoch += 1;
        self.state = BreakerState::HalfOpen;
        self.forget_counts();
    }

    fn forget_counts(&mut self) {
        self.early_round = false;
        self.row = 0;
        self.row_partial = 0;
        self.probes_out = 0;
        self.probes_ok = 0;
        self.patient_out = false;
        self.calls = Window::default();
    }
}
