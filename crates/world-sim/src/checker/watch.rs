//! One request as the world knows it.

use pointsman_core::controller::Command;
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_core::request::Reroute;
use pointsman_core::target::Catalog;
use pointsman_core::time::{Duration, Instant};

use super::{Checked, Invariant, Truth, broken};

/// What a client asked for.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its number.
    pub id: u64,
    /// What it asked for: 0 is the route, the rest are its models.
    pub choice: usize,
    /// When it came.
    pub arrived: Instant,
    /// When its time is over.
    pub deadline: Instant,
    /// It may be sent twice.
    pub replay_safe: bool,
    /// How far it may move.
    pub reroute: Reroute,
    /// It is a retry by the client's SDK.
    pub sdk_retry: bool,
    /// The only target that the caller allows, if there is one.
    pub only: Option<usize>,
    /// It has tools.
    pub tools: bool,
    /// Whatever it meets, it is its own fault.
    pub own_fault: bool,
}

/// An attempt that was made.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) target: usize,
    pub(super) choice: usize,
    pub(super) account: String,
    pub(super) kind: Option<FailureKind>,
    pub(super) phase: Phase,
    pub(super) executed: bool,
}

/// The attempt that was live before a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) target: usize,
    pub(super) begun: Instant,
}

/// Domains on which an attempt counts as a probe, with the epoch in which it began.
pub(super) type Probes = Vec<(usize, u64)>;

/// See the module.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(super) facts: Facts,
    pub(super) tried: Vec<Tried>,
    pub(super) live: Option<Live>,
    pub(super) committed: bool,
    pub(super) gone: bool,
    pub(super) ended: bool,
    pub(super) waiting_since: Option<Instant>,
    pub(super) queued: bool,
    pub(super) backing_off: bool,
    pub(super) probes: Probes,
    pub(super) isolation_probes: Probes,
}

impl Watch {
    /// A request that has just come.
    pub fn new(facts: Facts) -> Self {
        Self {
            facts,
            tried: Vec::new(),
            live: None,
            committed: false,
            gone: false,
            ended: false,
            waiting_since: None,
            queued: false,
            backing_off: false,
            probes: Vec::new(),
            isolation_probes: Vec::new(),
        }
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> usize {
        self.tried.len()
    }

    pub(super) const fn clone_live(&self) -> Option<Live> {
        self.live
    }

    pub(super) fn last(&self) -> Option<&Tried> {
        self.tried.last()
    }

    /// Takes in what happened.
    pub(super) fn take(&mut self, truth: &Truth, now: Instant, longest_throttle: Duration) -> Checked {
        if self.ended {
            return broken(Invariant::Accounted, format!("{truth:?} at {now} after its end"));
        }
        match truth {
            Truth::Committed { .. } => self.committed = true,
            Truth::Succeeded => {
                self.live = None;
                if let Some(tried) = self.tried.last_mut() {
                    tried.phase = Phase::Done;
                    tried.executed = true;
                }
            }
            Truth::Failed { failed, executed } => {
                self.live = None;
                if let Some(tried) = self.tried.last_mut() {
                    // Guidance that long means a quota, not a rate.
                    let quota = failed.kind == FailureKind::RateLimit
                        && failed.retry_after.is_some_and(|wait| wait > longest_throttle);
                    tried.kind = Some(if quota { FailureKind::QuotaExhausted } else { failed.kind });
                    tried.phase = failed.phase;
                    tried.executed = *executed;
                }
            }
            Truth::Gone => {
                self.gone = true;
                self.live = None;
            }
            Truth::Arrived | Truth::Ticked => {}
        }
        Ok(())
    }

    /// Takes in what the core answered, once that was checked.
    pub(super) fn obey(&mut self, command: &Command, now: Instant, catalog: &Catalog) {
        match command {
            Command::Attempt(attempt) => {
                self.queued = false;
                self.backing_off = false;
                self.waiting_since = None;
                self.live = Some(Live { target: attempt.target.0, begun: now });
                let target = catalog.target(attempt.target);
                self.tried.push(Tried {
                    target: attempt.target.0,
                    choice: attempt.choice,
                    account: target.map(|t| t.account.clone()).unwrap_or_default(),
                    kind: None,
                    phase: Phase::NotSent,
                    executed: false,
                });
            }
            Command::Wait { .. } => {
                self.waiting_since.get_or_insert(now);
                self.queued = self.tried.is_empty();
                self.backing_off = !self.queued;
            }
            Command::Stop(_) => {
                self.ended = true;
                self.queued = false;
            }
            Command::Carry => {}
        }
    }
}
