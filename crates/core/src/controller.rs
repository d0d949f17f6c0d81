//! One request: a bounded state machine without I/O.
//!
//! It is fed with [`Event`]s and answers each with one [`Command`], which whoever drives it obeys. On a failure it asks,
//! in this order, and notes which answer decided:
//!
//! 1. Is the client gone? 2. Was output committed? 3. Could a side effect have happened with unknown outcome? 4. Does the
//!    kind of failure permit another attempt? 5. Are attempts, time and money left? 6. May the same target be retried?
//!    7. Is there an equivalent (failover)? 8. A permitted substitution (fallback)? 9. Stop.
//!
//! Every [`Command::Attempt`] has taken a ticket from the fleet, and every event that ends it gives the ticket back. A
//! controller that is dropped alive must first be told [`Event::ClientGone`].

use alloc::vec::Vec;

use crate::fleet::{BlockReason, Report, Ticket};
use crate::kind::{Action, FailureKind, Outcome, Phase, Terminal};
use crate::plan::{Candidate, Plan, Planner};
use crate::policy::MicroUsd;
use crate::request::Request;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::trace::{Decision, NoRetry, Rule, Trace};

mod choose;
mod command;
mod gates;

pub use command::{Attempt, AttemptLimits, Cause, Command, Event, Failed, Limit, Stop};

/// What is known of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRecord {
    /// Which candidate of the plan.
    pub candidate: usize,
    /// What brought it about.
    pub action: Action,
    /// When it began.
    pub started: Instant,
    /// When it ended, if it did.
    pub ended: Option<Instant>,
    /// How far it got.
    pub phase: Phase,
    /// How it came out; `None` while it lives.
    pub outcome: Option<Outcome>,
    /// How it failed, if it did.
    pub kind: Option<FailureKind>,
    /// The provider's status, if there was one.
    pub status: Option<u16>,
    /// What it may have cost, by estimate; `None` where the price is unknown.
    pub cost: Option<MicroUsd>,
}

impl AttemptRecord {
    /// Whether nothing was sent because the request cannot be said in the target's dialect.
    pub fn was_passed_over(&self) -> bool {
        self.kind == Some(FailureKind::Unsupported) && self.phase == Phase::NotSent
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Plan,
    Retry(usize),
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    then: Then,
    until: Instant,
    queued: bool,
}

/// What earlier failures of this request rule out for the rest of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Constraint {
    /// Not this candidate's account.
    NotAccountOf(usize),
    /// Not this model.
    NotChoice(usize),
    /// Not this candidate's provider.
    NotProviderOf(usize),
    /// Only windows larger than this candidate's.
    LargerWindowThan(usize),
}

/// See the module.
#[derive(Debug)]
pub struct Controller {
    request: Request,
    plan: Plan,
    started: Instant,
    deadline: Instant,
    attempts: Vec<AttemptRecord>,
    live: Option<Ticket>,
    waiting: Option<Waiting>,
    /// When the request first had to wait for a recovery.
    waiting_since: Option<Instant>,
    constraints: Vec<Constraint>,
    trace: Trace,
    ended: Option<Stop>,
}

impl Controller {
    /// Plans a request and takes the first step.
    pub fn start(request: Request, planner: &mut Planner<'_>, rng: &mut dyn Rng) -> (Self, Command) {
        planner.fleet.retry_budget.request(planner.now);
        let plan = Plan::make(&request, planner, rng);
        let deadline = planner.now.after(effective_deadline(&request));
        let mut controller = Self {
            request,
            plan,
            started: planner.now,
            deadline,
            attempts: Vec::new(),
            live: None,
            waiting: None,
            waiting_since: None,
            constraints: Vec::new(),
            trace: Trace::default(),
            ended: None,
        };
        let command = controller.choose(planner);
        (controller, command)
    }

    /// Takes one event and answers with what is to be done. After a stop every event is answered with that stop.
    pub fn step(&mut self, event: Event, planner: &mut Planner<'_>, rng: &mut dyn Rng) -> Command {
        if let Some(stop) = &self.ended {
            return Command::Stop(stop.clone());
        }
        if self.live.is_none() && !matches!(event, Event::ClientGone | Event::Tick) {
            // What is told of an attempt that ended already changes nothing.
            return Command::Carry;
        }
        match event {
            Event::Sent => self.reach(Phase::Sent),
            Event::Headers { status } => {
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.status = Some(status);
                }
                self.reach(Phase::Headers)
            }
            Event::Preamble => self.reach(Phase::Preamble),
            Event::Committed { first_token } => self.committed(first_token, planner),
            Event::Succeeded { tokens } => self.succeeded(tokens, planner),
            Event::Failed(failed) => self.failed(&failed, planner, rng),
            Event::ClientGone => self.client_gone(planner),
            Event::Tick => self.tick(planner, rng),
        }
    }

    /// Notes how far the attempt got. The same as [`Event::Sent`], [`Event::Headers`] or [`Event::Preamble`], for whoever
    /// holds no lock on the fleet: progress decides nothing.
    pub fn reached(&mut self, phase: Phase, status: Option<u16>) {
        if let Some(attempt) =
            self.attempts.last_mut().filter(|a| a.outcome.is_none() && phase < Phase::Committed)
        {
            attempt.phase = attempt.phase.max(phase);
            attempt.status = status.or(attempt.status);
        }
    }

    /// The request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The candidate chain.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The candidate at this place of the plan.
    pub fn candidate(&self, place: usize) -> Option<&Candidate> {
        self.plan.candidates.get(place)
    }

    /// All attempts so far.
    pub fn attempts(&self) -> &[AttemptRecord] {
        &self.attempts
    }

    /// Every decision so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// When the request came.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When its time is over.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How it ended, if it did.
    pub fn ended(&self) -> Option<&Stop> {
        self.ended.as_ref()
    }

    /// Whether output went to the client.
    pub fn is_committed(&self) -> bool {
        self.attempts.last().is_some_and(|a| a.phase >= Phase::Committed)
    }

    fn reach(&mut self, phase: Phase) -> Command {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.phase = attempt.phase.max(phase);
        }
        Command::Carry
    }

    fn committed(&mut self, first_token: Option<Duration>, planner: &mut Planner<'_>) -> Command {
        if self.is_committed() {
            return Command::Carry;
        }
        self.trace.note(planner.now, Decision::Commit);
        if let Some(ticket) = &mut self.live {
            planner.fleet.commit(ticket, first_token, &self.request.governance.health, planner.now);
        }
        self.reach(Phase::Committed)
    }

    fn succeeded(&mut self, tokens: Option<u64>, planner: &mut Planner<'_>) -> Command {
        self.end_attempt(Report::Succeeded { tokens }, planner);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.phase = Phase::Done;
            attempt.outcome = Some(Outcome::Succeeded);
        }
        self.stop(Terminal::Success, Rule::Plan, Cause::Success, planner)
    }

    fn client_gone(&mut self, planner: &mut Planner<'_>) -> Command {
        self.end_attempt(Report::Released, planner);
        self.leave_queue(planner);
        if let Some(attempt) = self.attempts.last_mut().filter(|a| a.outcome.is_none()) {
            attempt.kind = Some(FailureKind::Cancelled);
            let sent = attempt.phase >= Phase::Sent;
            attempt.outcome = Some(if sent { Outcome::Unknown } else { Outcome::Failed });
        }
        self.stop(Terminal::Cancelled, Rule::ClientGone, Cause::ClientGone, planner)
    }

    fn tick(&mut self, planner: &mut Planner<'_>, rng: &mut dyn Rng) -> Command {
        let Some(waiting) = self.waiting.take() else { return Command::Carry };
        match waiting.then {
            Then::Plan => {
                // Stays in the queue until it knows whether it goes on: its turn is by arrival.
                self.waiting = Some(waiting);
                self.choose(planner)
            }
            Then::Retry(_) if planner.now < waiting.until => {
                self.waiting = Some(waiting);
                Command::Wait { until: waiting.until }
            }
            Then::Retry(candidate) => self.after_backoff(candidate, planner, rng),
        }
    }

    /// Ends the attempt that lives, if one does, and gives its ticket back.
    fn end_attempt(&mut self, report: Report, planner: &mut Planner<'_>) {
        let Some(ticket) = self.live.take() else { return };
        planner.fleet.end(ticket, report, &self.request.governance.health, planner.now);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.ended = Some(planner.now);
        }
    }

    fn leave_queue(&mut self, planner: &mut Planner<'_>) {
        if self.waiting.take().is_some_and(|w| w.queued)
            && let Some(choice) = self.request.models.first()
        {
            planner.fleet.queue.leave(&choice.model, self.request.id);
        }
    }

    fn stop(&mut self, terminal: Terminal, rule: Rule, cause: Cause, planner: &mut Planner<'_>) -> Command {
        self.leave_queue(planner);
        self.trace.note(planner.now, Decision::Stop { terminal, rule });
        // Whoever must not come back, or need not, is given no time for it.
        let never = matches!(cause, Cause::CostSpent | Cause::ExhaustedQuota | Cause::ExhaustedTimeout);
        let comes_back = terminal == Terminal::Exhausted && !never;
        let recovery = if comes_back { self.soonest_recovery(planner) } else { None };
        let stop = Stop {
            terminal,
            cause,
            shown: self.shown(rule, cause),
            retry_after: recovery.map(|at| at.since(planner.now)),
        };
        self.ended = Some(stop.clone());
        Command::Stop(stop)
    }

    /// The attempt whose error the client is told of. Where one failure ended the request it is that one, which is the
    /// last; else the most telling one.
    fn shown(&self, rule: Rule, cause: Cause) -> Option<usize> {
        let deciding = match rule {
            Rule::Committed | Rule::SideEffect => true,
            Rule::KindForbids => cause == Cause::RequestsOwn && !self.is_substituted(),
            _ => false,
        };
        if deciding { self.attempts.len().checked_sub(1) } else { self.most_telling() }
    }

    /// The attempt whose error says most: the first real cause, never that of the last fallback by accident. One that was
    /// passed over unsent says something only where nothing else was tried.
    fn most_telling(&self) -> Option<usize> {
        let failed = |a: &AttemptRecord| a.kind.is_some_and(|k| k != FailureKind::Cancelled);
        let sent = self.attempts.iter().position(|a| failed(a) && !a.was_passed_over());
        sent.or_else(|| self.attempts.iter().position(failed))
    }

    fn soonest_recovery(&self, planner: &Planner<'_>) -> Option<Instant> {
        let blocks = self.blocks(planner);
        blocks.iter().filter(|(_, b)| b.why != BlockReason::Killed).filter_map(|(_, b)| b.until).min()
    }
}

/// The policy's deadline, shortened by the caller's own limit less min(5 %, 2 s): an answer that arrives after the
/// caller has given up helps nobody.
fn effective_deadline(request: &Request) -> Duration {
    let own = request.governance.budget.deadline;
    let Some(caller) = request.caller_deadline else { return own };
    let margin = caller.mul_f64(0.05).min(Duration::from_secs(2));
    own.min(caller.saturating_sub(margin))
}
