//! Every sequence of inputs up to a depth, over small worlds: what a request must never do, checked after each step.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::{Command, Controller, Event, Failed};
use pointsman_core::domain::{DomainIndex, DomainState};
use pointsman_core::fleet::{Availability, Fleet};
use pointsman_core::kind::FailureKind::*;
use pointsman_core::kind::{Action, Outcome, Phase};
use pointsman_core::plan::Planner;
use pointsman_core::request::{Request, Reroute};
use pointsman_core::rng::SplitMix64;
use pointsman_core::time::{Duration, Instant};
use world::{World, failed, ms, overloaded, rate_limit, secs};

/// One thing that may happen next.
#[derive(Clone, Copy, Debug)]
enum Input {
    Say(Event),
    /// The time of a wait comes; a tick that nobody waits for comes too.
    Tick,
    /// Time goes by before anything else happens.
    Pass(Duration),
    /// So little time is left.
    Left(Duration),
}

/// The whole alphabet: events of every class of the failure matrix, time, and what comes too early.
fn alphabet() -> Vec<Input> {
    let fail = |f: Failed| Input::Say(Event::Failed(f));
    vec![
        Input::Say(Event::ClientGone),
        Input::Say(Event::Succeeded { tokens: Some(10) }),
        Input::Say(Event::Committed { first_token: Some(ms(100)) }),
        Input::Say(Event::Headers { status: 200 }),
        fail(overloaded()),
        fail(failed(Timeout)),
        fail(failed(Connect)),
        fail(failed(Auth)),
        fail(rate_limit(secs(2))),
        fail(failed(ContextOverflow)),
        fail(failed(InvalidRequest)),
        fail(failed(BadResponse)),
        Input::Tick,
        Input::Left(ms(1_300)),
        Input::Left(ms(500)),
    ]
}

/// A few letters, for long words.
fn few() -> Vec<Input> {
    vec![
        Input::Say(Event::Failed(overloaded())),
        Input::Say(Event::Failed(failed(Auth))),
        Input::Say(Event::Committed { first_token: None }),
        Input::Tick,
        Input::Pass(secs(1)),
    ]
}

/// A world that each sequence starts from anew.
struct Setup {
    name: String,
    world: World,
    request: Request,
    /// A domain that is half-open at the start.
    half_open: Option<DomainIndex>,
}

impl Setup {
    fn new(word: &str, change: impl FnOnce(&mut Request)) -> Self {
        Self::of(word, World::new(word), change)
    }

    fn of(name: &str, mut world: World, change: impl FnOnce(&mut Request)) -> Self {
        let mut request = world.request();
        change(&mut request);
        Self { name: name.into(), world, request, half_open: None }
    }

    /// A's breaker has opened and is due.
    fn half_open(word: &str) -> Self {
        let mut world = World::new(word);
        for _ in 0..3 {
            world.hit(overloaded());
        }
        let told = world.fleet.take_transitions();
        let domain = told.iter().find(|t| t.to == DomainState::Open).unwrap().domain;
        world.pass(secs(30));
        Self { half_open: Some(domain), ..Self::of(word, world, |_| {}) }
    }

    /// All targets are out.
    fn all_open(word: &str) -> Self {
        let mut world = World::new(word);
        for _ in 0..40 {
            let mut request = world.request();
            request.sdk_retry = true;
            world.play_request(request, |_| Some(overloaded()));
            world.pass(ms(200));
        }
        Self::of(word, world, |_| {})
    }

    fn small_budget(word: &str) -> Self {
        let mut setup = Self::new(word, |r| {
            let budget = &mut r.governance.budget;
            (budget.max_attempts, budget.max_rejections) = (2, 2);
        });
        setup.name.push_str(" with a small budget");
        setup
    }
}

/// One sequence under way.
struct Walk<'a> {
    setup: &'a Setup,
    fleet: Fleet,
    now: Instant,
    rng: SplitMix64,
    controller: Controller,
    command: Command,
    gone: bool,
    stops: u32,
}

impl<'a> Walk<'a> {
    fn new(setup: &'a Setup) -> Self {
        let mut fleet = setup.world.fleet.clone();
        let (now, mut rng) = (setup.world.now, setup.world.rng.clone());
        let (catalog, bindings) = (&setup.world.catalog, &setup.world.bindings);
        let mut planner = Planner { now, catalog, bindings, fleet: &mut fleet };
        let (controller, command) = Controller::start(setup.request.clone(), &mut planner, &mut rng);
        let stops = u32::from(matches!(command, Command::Stop(_)));
        Self { setup, fleet, now, rng, controller, command, gone: false, stops }
    }

    /// Takes the input, and checks what came of it if `check` says so.
    fn take(&mut self, input: Input, check: bool) {
        let event = match input {
            Input::Say(event) => event,
            Input::Tick => {
                if let Command::Wait { until } = self.command {
                    self.now = self.now.max(until);
                }
                Event::Tick
            }
            Input::Pass(by) => {
                self.now = self.now.after(by);
                return;
            }
            Input::Left(left) => {
                self.now = self.now.max(self.controller.deadline().before(left));
                return;
            }
        };
        let before = self.controller.attempts().len();
        let was_committed = self.controller.is_committed();
        let command = self.step(event);
        self.gone |= event == Event::ClientGone;
        if check {
            self.check(&command, before, was_committed);
        }
        if command != Command::Carry {
            self.stops += u32::from(matches!(command, Command::Stop(_)));
            self.command = command;
        }
    }

    fn step(&mut self, event: Event) -> Command {
        let (catalog, bindings) = (&self.setup.world.catalog, &self.setup.world.bindings);
        let mut planner = Planner { now: self.now, catalog, bindings, fleet: &mut self.fleet };
        self.controller.step(event, &mut planner, &mut self.rng)
    }

    fn ended(&self) -> bool {
        matches!(self.command, Command::Stop(_))
    }

    fn check(&self, command: &Command, before: usize, was_committed: bool) {
        self.check_bounds();
        let begun = self.controller.attempts().len() - before;
        match command {
            Command::Attempt(_) => {
                assert_eq!(begun, 1);
                self.check_start(was_committed);
            }
            Command::Wait { until } => {
                assert_eq!(begun, 0);
                assert!(*until > self.now, "a wait has a future");
                assert!(*until <= self.controller.deadline(), "nobody waits beyond the deadline");
                self.check_nobody_sleeps_beside_room();
            }
            Command::Carry | Command::Stop(_) => assert_eq!(begun, 0),
        }
    }

    fn check_bounds(&self) {
        let budget = &self.setup.request.governance.budget;
        let attempts = self.controller.attempts();
        let rejected = attempts.iter().filter(|a| a.kind.is_some_and(|k| k.is_rejection())).count();
        assert!(rejected <= budget.max_rejections as usize);
        assert!(attempts.len() - rejected <= budget.max_attempts as usize);
        for attempt in attempts {
            let same = attempts.iter().filter(|a| a.candidate == attempt.candidate).count();
            assert!(same <= budget.max_same_target_attempts as usize);
        }
        let all_but_last = attempts.iter().rev().skip(1);
        assert!(all_but_last.clone().all(|a| a.ended.is_some() && a.outcome.is_some()));
        assert!(all_but_last.clone().all(|a| a.phase < Phase::Committed), "one voice");
    }

    fn check_start(&self, was_committed: bool) {
        let budget = &self.setup.request.governance.budget;
        let request = &self.setup.request;
        assert!(!was_committed && !self.gone);
        assert!(self.controller.deadline().since(self.now) >= budget.min_attempt, "in time");
        let attempts = self.controller.attempts();
        let this = attempts.last().unwrap();
        let choice = |a: &pointsman_core::controller::AttemptRecord| {
            self.controller.candidate(a.candidate).unwrap().choice
        };
        let last = attempts.iter().rev().nth(1);
        let expected = match last {
            None if choice(this) == 0 => Action::Primary,
            None => Action::Fallback,
            Some(last) if last.candidate == this.candidate => Action::Retry,
            Some(last) if choice(last) == choice(this) => Action::Failover,
            Some(_) => Action::Fallback,
        };
        assert_eq!(this.action, expected);
        let Some(last) = last else { return };
        let kind = last.kind.unwrap();
        let matrix = match this.action {
            Action::Retry => kind.permits_retry() && !request.sdk_retry,
            // In these worlds every target has an account and a provider of its own, and no window is known.
            Action::Failover | Action::Fallback => !matches!(
                kind,
                ContextOverflow | InvalidRequest | Policy | PartialStream | Cancelled | Unknown
            ),
            Action::Primary => false,
        };
        assert!(matrix, "{kind} does not permit a {}", this.action.name());
        assert!(choice(this) >= choice(last), "never back to an earlier model");
        let substitutes = request.governance.substitution.allowed && request.reroute == Reroute::Fallback;
        assert!(this.action != Action::Fallback || substitutes, "no silent substitution");
        assert!(this.action != Action::Failover || request.reroute != Reroute::None);
        assert!(request.replay_safe || last.outcome != Some(Outcome::Unknown), "no second side effect");
    }

    fn check_nobody_sleeps_beside_room(&self) {
        let attempts = self.controller.attempts();
        let Some(last) = attempts.last() else { return };
        if self.setup.request.reroute == Reroute::None {
            return;
        }
        let choice = self.controller.candidate(last.candidate).unwrap().choice;
        for (place, candidate) in self.controller.plan().candidates.iter().enumerate() {
            let untried = attempts.iter().all(|a| a.candidate != place);
            if candidate.choice == choice && untried {
                let call = candidate.call(&self.setup.request, false);
                let ready = self.fleet.availability(&call, self.now);
                assert!(matches!(ready, Availability::Blocked(_)), "asleep beside an equivalent with room");
            }
        }
    }

    /// The request is over, or is ended now by its client: what it took has come back.
    fn close(mut self) {
        if !self.ended() {
            self.take(Input::Say(Event::ClientGone), true);
        }
        assert_eq!(self.stops, 1, "exactly one stop");
        let attempts = self.controller.attempts().len();
        for event in [Event::Tick, Event::Failed(overloaded()), Event::ClientGone, Event::Sent] {
            assert_eq!(self.step(event), self.command, "after a stop there is only that stop");
        }
        assert_eq!(self.controller.attempts().len(), attempts);
        for attempt in self.controller.attempts() {
            assert!(attempt.outcome.is_some() && attempt.ended.is_some());
            assert!(attempt.outcome == Some(Outcome::Succeeded) || attempt.kind.is_some());
        }
        assert!(self.fleet.targets().all(|(_, state)| state.in_flight == 0), "no ticket is lost");
        assert_eq!(self.fleet.queue.iter().count(), 0, "no place in the queue is lost");
        if let Some(domain) = self.setup.half_open {
            let breaker = &self.fleet.domain(domain).unwrap().breaker;
            let room = breaker.room(self.now);
            assert!(room == 0 || room >= 2, "no probe is lost: {room}");
            let held = matches!(breaker.state(self.now), pointsman_core::breaker::BreakerState::HalfOpen);
            assert!(!held || room == 2, "all probes are back");
        }
    }
}

/// Visits every sequence up to the depth; answers how many there are.
fn explore(setup: &Setup, letters: &[Input], depth: usize) -> u64 {
    let mut word: Vec<usize> = Vec::new();
    let mut visited = 0;
    loop {
        let open = walk(setup, letters, &word);
        visited += 1;
        if open && word.len() < depth {
            word.push(0);
            continue;
        }
        // The next word: the last letter moves on, and what has no next letter is dropped.
        while word.last().is_some_and(|last| last + 1 == letters.len()) {
            word.pop();
        }
        match word.last_mut() {
            Some(last) => *last += 1,
            None => return visited,
        }
    }
}

/// Walks one word, checking its last letter (its beginning was visited before). Answers whether the request still lives.
fn walk(setup: &Setup, letters: &[Input], word: &[usize]) -> bool {
    let mut walk = Walk::new(setup);
    for (place, letter) in word.iter().enumerate() {
        walk.take(letters[*letter], place + 1 == word.len());
    }
    let open = !walk.ended();
    walk.close();
    open
}

const WORDS: [&str; 4] = ["A", "A,B", "A|C", "A,B|C"];

#[test]
fn every_sequence_of_four_inputs() {
    for word in WORDS {
        let visited = explore(&Setup::new(word, |_| {}), &alphabet(), 4);
        assert!(visited > 1_000, "{word}: {visited}");
    }
}

#[test]
fn every_sequence_of_four_inputs_with_a_small_budget() {
    for word in ["A", "A,B|C"] {
        explore(&Setup::small_budget(word), &alphabet(), 4);
    }
}

#[test]
fn every_sequence_of_three_inputs_of_a_request_that_must_not_be_sent_twice() {
    for word in WORDS {
        explore(&Setup::new(word, |r| r.replay_safe = false), &alphabet(), 3);
    }
}

#[test]
fn every_sequence_of_three_inputs_of_a_request_that_may_not_move() {
    for reroute in [Reroute::None, Reroute::Failover] {
        for word in WORDS {
            explore(&Setup::new(word, |r| r.reroute = reroute), &alphabet(), 3);
        }
    }
    for word in WORDS {
        explore(&Setup::new(word, |r| r.governance.substitution.allowed = false), &alphabet(), 3);
        explore(&Setup::new(word, |r| r.sdk_retry = true), &alphabet(), 3);
    }
}

#[test]
fn every_sequence_of_four_inputs_where_the_first_target_is_half_open() {
    for word in ["A", "A,B"] {
        explore(&Setup::half_open(word), &alphabet(), 4);
    }
}

#[test]
fn every_sequence_of_four_inputs_where_nothing_is_healthy() {
    for word in ["A", "A|C"] {
        explore(&Setup::all_open(word), &alphabet(), 4);
    }
}

#[test]
fn every_sequence_of_six_inputs_of_a_few_kinds() {
    for word in WORDS {
        explore(&Setup::new(word, |_| {}), &few(), 6);
        explore(&Setup::half_open(word), &few(), 5);
        explore(&Setup::all_open(word), &few(), 5);
    }
}
