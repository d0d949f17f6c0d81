//! What holds in every world, checked at every step against the world's own truth: what clients asked, what providers
//! did, what was sent where. Nothing here believes what the core writes down of itself.

use std::fmt;

use pointsman_core::controller::{Command, Controller, Failed};
use pointsman_core::fleet::Fleet;
use pointsman_core::policy::ProcessPolicy;
use pointsman_core::target::{Catalog, Governance};
use pointsman_core::time::{Duration, Instant};

use crate::scenario::Scenario;

mod health;
mod request;
mod shared;
mod watch;

use health::Health;
use shared::Shared;
pub use watch::{Facts, Watch};

/// A promise of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// 1. Attempts, rejections and tries of one target are bounded.
    Bounded,
    /// 2. No attempt after the deadline, too close to it, or after the client has gone.
    InTime,
    /// 3. One attempt speaks to the client, and after commit nothing is switched.
    OneVoice,
    /// 4. Nothing is replayed whose side effect may have happened.
    NoSecondSideEffect,
    /// 5. Another model answers only where that is allowed and said.
    NoSilentSubstitution,
    /// 6. Each attempt ends exactly once, and every permit comes back.
    Accounted,
    /// 7. Nothing leaves service without evidence against it.
    InnocentStayInService,
    /// 8. Few probes at once; recovery ramps up.
    CarefulProbes,
    /// 9. A target's own limits hold.
    ExactAdmission,
    /// The same seed gives the same decisions.
    Deterministic,
    /// What is known to be out is not called.
    FailsFast,
    /// A request ends as what it was.
    HonestEnd,
    /// Nobody gives up while a candidate has room, and attempts and time are left.
    NoEarlySurrender,
    /// No attempt where the kind of failure says that it cannot help.
    NoHopelessAttempt,
    /// Nobody sleeps while a healthy equivalent has room.
    NoNeedlessSleep,
    /// Same-target retries stay within the budget of the process.
    NoRetryStorm,
    /// When all faults are over, every target comes back and answers.
    NoWedge,
    /// Few wait, and not for long.
    QueueBounded,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When, in the world's time.
    pub at: Instant,
    /// The request at which it showed.
    pub request: u64,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} broken at {} by request {}: {}", self.invariant, self.at, self.request, self.what)
    }
}

/// What really happened in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Truth {
    /// A request came.
    Arrived,
    /// Output is about to go to the client.
    Committed {
        /// Time to first token, of a stream.
        first_token: Option<Duration>,
    },
    /// The attempt was answered.
    Succeeded,
    /// The attempt failed so.
    Failed {
        /// How.
        failed: Failed,
        /// The provider executed the request, or may have.
        executed: bool,
    },
    /// The client left.
    Gone,
    /// The time of a wait has come.
    Ticked,
}

/// One step as it is shown to the checker.
#[derive(Debug)]
pub struct Step<'a> {
    /// When.
    pub now: Instant,
    /// In which process.
    pub replica: usize,
    /// Its fleet, after the step.
    pub fleet: &'a mut Fleet,
    /// The request's controller, after the step.
    pub controller: &'a Controller,
    /// What happened.
    pub truth: Truth,
    /// What the core answered.
    pub command: &'a Command,
}

/// See the module.
#[derive(Debug)]
pub struct Checker {
    catalog: Catalog,
    governance: Governance,
    process: ProcessPolicy,
    choices: Vec<Vec<String>>,
    replicas: Vec<(Health, Shared)>,
}

type Checked = Result<(), (Invariant, String)>;

fn broken<T>(invariant: Invariant, what: impl Into<String>) -> Result<T, (Invariant, String)> {
    Err((invariant, what.into()))
}

impl Checker {
    /// A checker for this scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let catalog = scenario.catalog();
        let route: Vec<String> = scenario.models.iter().map(|m| m.name.clone()).collect();
        let single = route.iter().map(|name| vec![name.clone()]);
        let choices = std::iter::once(route.clone()).chain(single).collect();
        let replicas = (0..scenario.replicas).map(|_| (Health::new(scenario), Shared::new(scenario)));
        Self {
            governance: catalog.defaults.clone(),
            process: scenario.process_policy(),
            choices,
            replicas: replicas.collect(),
            catalog,
        }
    }

    /// Checks one step.
    ///
    /// # Errors
    ///
    /// The first promise that it breaks.
    pub fn step(&mut self, watch: &mut Watch, step: &mut Step<'_>) -> Result<(), Violation> {
        let (at, request) = (step.now, watch.facts.id);
        self.check(watch, step).map_err(|(invariant, what)| Violation { invariant, at, request, what })
    }

    fn check(&mut self, watch: &mut Watch, step: &mut Step<'_>) -> Checked {
        let before = watch.clone_live();
        watch.take(&step.truth, step.now, self.process.throttle.max)?;
        self.check_command(watch, step)?;
        let Some((health, shared)) = self.replicas.get_mut(step.replica) else { return Ok(()) };
        shared.release(&step.truth, before.as_ref(), step.now);
        health.release(&step.truth, watch, before.as_ref());
        health.transitions(step, before.as_ref(), &self.governance, &self.process)?;
        if let Command::Attempt(attempt) = step.command {
            health.begin(watch, attempt.target.0, step.now, &self.governance)?;
            shared.begin(attempt, step.now)?;
        }
        if step.truth == Truth::Arrived {
            health.ramp(step, &self.governance)?;
        }
        shared.check(watch, step, &self.process)?;
        watch.obey(step.command, step.now, &self.catalog);
        Ok(())
    }

    /// Takes in that an operator took a target out, or brought it back.
    pub fn operated(&mut self, replica: usize, target: usize, kill: bool, fleet: &mut Fleet) {
        if let Some((health, _)) = self.replicas.get_mut(replica) {
            health.operated(target, kill, fleet);
        }
    }

    /// Checks that nothing is left over once all requests have ended.
    ///
    /// # Errors
    ///
    /// The first thing that is.
    pub fn at_rest(&self, replica: usize, fleet: &Fleet, now: Instant) -> Result<(), Violation> {
        let lost = |what: String| Violation { invariant: Invariant::Accounted, at: now, request: 0, what };
        if let Some((name, state)) = fleet.targets().find(|(_, s)| s.in_flight > 0) {
            return Err(lost(format!("replica {replica} still counts {} calls to {name}", state.in_flight)));
        }
        match fleet.queue.iter().next() {
            Some((model, waiting)) => Err(lost(format!("replica {replica}: {waiting} wait for {model}"))),
            None => Ok(()),
        }
    }
}
