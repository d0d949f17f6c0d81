//! Many requests at once over a random fleet, with random events and random time: the promises that one process can
//! break.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use std::collections::BTreeMap;

use pointsman_core::controller::{Command, Event, Failed};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::{Action, FailureKind, Outcome, Phase, Terminal};
use pointsman_core::policy::{RetryOrder, Strategy as Order};
use pointsman_core::request::{Request, Reroute};
use pointsman_core::target::StructuredOutput;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use world::{Run, World, failed, ms, overloaded, secs};

/// What happens next; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Happening {
    Arrive {
        needs: u8,
        reroute: u8,
        replay_safe: bool,
    },
    /// To the attempt of a living request.
    Progress {
        run: usize,
        how: u8,
    },
    Fail {
        run: usize,
        kind: usize,
        phase: u8,
        excused: bool,
    },
    Gone {
        run: usize,
    },
    Pass {
        millis: u64,
    },
    Operate {
        target: usize,
        how: u8,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..3u8, 0..6u8, prop::bool::weighted(0.8))
            .prop_map(|(needs, reroute, replay_safe)| Happening::Arrive { needs, reroute, replay_safe }),
        4 => (any::<usize>(), 0..5u8).prop_map(|(run, how)| Happening::Progress { run, how }),
        6 => (any::<usize>(), 0..18usize, 0..5u8, prop::bool::weighted(0.1))
            .prop_map(|(run, kind, phase, excused)| Happening::Fail { run, kind, phase, excused }),
        1 => any::<usize>().prop_map(|run| Happening::Gone { run }),
        3 => prop_oneof![0..300u64, 0..40_000u64].prop_map(|millis| Happening::Pass { millis }),
        1 => (any::<usize>(), 0..5u8).prop_map(|(target, how)| Happening::Operate { target, how }),
    ]
}

#[derive(Clone, Debug)]
struct Scene {
    word: &'static str,
    order: Order,
    retry_first: bool,
    failures: u32,
    concurrency: Option<u32>,
    queue: u32,
    happenings: Vec<Happening>,
}

fn scene() -> impl Strategy<Value = Scene> {
    let orders: Vec<Order> = Order::NAMES.iter().map(|(_, order)| *order).collect();
    (
        prop::sample::select(vec!["A", "A,B", "A|C", "A,B|C", "A,B,D|C,E|F"]),
        prop::sample::select(orders),
        any::<bool>(),
        1..4u32,
        prop::option::of(1..4u32),
        0..5u32,
        prop::collection::vec(happening(), 1..120),
    )
        .prop_map(|(word, order, retry_first, failures, concurrency, queue, happenings)| Scene {
            word,
            order,
            retry_first,
            failures,
            concurrency,
            queue,
            happenings,
        })
}

/// The scene as it is played, with what is checked on the way.
struct Stage {
    world: World,
    queue: u32,
    runs: Vec<Run>,
    /// All commands in their order.
    log: Vec<String>,
    /// Calls that began on a half-open domain and did not commit or end: by target and epoch, which runs.
    probing: BTreeMap<(String, u64), Vec<usize>>,
    /// Runs before this one began before the last reload.
    reloads: usize,
}

impl Stage {
    fn set(scene: &Scene) -> Self {
        let mut world = World::with(scene.word, |c| {
            for target in &mut c.targets {
                target.limits.concurrency = scene.concurrency;
            }
            let route = &mut c.routes.get_mut("route").unwrap().governance;
            route.strategy = scene.order;
            route.health.breaker.failures = scene.failures;
            if scene.retry_first {
                route.retry.order = RetryOrder::RetryFirst;
            }
        });
        world.fleet.policy.queue.max = scene.queue;
        Self {
            world,
            queue: scene.queue,
            runs: Vec::new(),
            log: Vec::new(),
            probing: BTreeMap::new(),
            reloads: 0,
        }
    }

    fn play(scene: &Scene) -> Self {
        let mut stage = Self::set(scene);
        for happening in &scene.happenings {
            stage.happen(happening);
            stage.check_queue();
        }
        stage
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Arrive { needs, reroute, replay_safe } => self.arrive(*needs, *reroute, *replay_safe),
            Happening::Progress { run, how } => {
                let event = match how {
                    0 => Event::Sent,
                    1 => Event::Headers { status: 200 },
                    2 => Event::Preamble,
                    3 => Event::Committed { first_token: Some(ms(150)) },
                    _ => Event::Succeeded { tokens: Some(100) },
                };
                self.say(*run, event);
            }
            Happening::Fail { run, kind, phase, excused } => {
                let phases = [Phase::NotSent, Phase::Sent, Phase::Headers, Phase::Preamble, Phase::Committed];
                let kind = FailureKind::ALL[*kind];
                let phase = phases[usize::from(*phase)];
                let lost = matches!(kind, FailureKind::Connect | FailureKind::Timeout);
                let failure = Failed { phase, lost, excused: *excused, ..failed(kind) };
                self.say(*run, Event::Failed(failure));
            }
            Happening::Gone { run } => self.say(*run, Event::ClientGone),
            Happening::Pass { millis } => self.pass(*millis),
            Happening::Operate { target, how } => self.operate(*target, *how),
        }
    }

    fn arrive(&mut self, needs: u8, reroute: u8, replay_safe: bool) {
        let mut request = self.world.request();
        request.needs.tools = needs == 1;
        request.needs.structured_output = (needs == 2).then_some(StructuredOutput::JsonSchema);
        request.reroute = match reroute {
            0 => Reroute::None,
            1 => Reroute::Failover,
            _ => Reroute::Fallback,
        };
        request.replay_safe = replay_safe;
        request.affinity = Some(request.id * 7_919);
        let half_open = self.half_open_targets();
        let run = self.world.start(request);
        self.runs.push(run);
        self.after(self.runs.len() - 1, half_open);
    }

    /// Tells a living request, if there is one.
    fn say(&mut self, which: usize, event: Event) {
        let living: Vec<usize> =
            (0..self.runs.len()).filter(|r| self.runs[*r].controller.ended().is_none()).collect();
        let Some(place) = living.get(which.checked_rem(living.len()).unwrap_or(0)) else { return };
        self.tell(*place, event);
    }

    fn tell(&mut self, place: usize, event: Event) {
        let half_open = self.half_open_targets();
        let before = self.runs[place].controller.attempts().len();
        let was_committed = self.runs[place].controller.is_committed();
        if !matches!(event, Event::Sent | Event::Headers { .. } | Event::Preamble | Event::Tick) {
            // A commit or an end gives the probe back.
            self.probing.values_mut().for_each(|runs| runs.retain(|r| *r != place));
        }
        self.runs[place].step(&mut self.world, event);
        let begun = self.runs[place].controller.attempts().len() - before;
        assert!(begun <= 1);
        if begun == 1 {
            assert!(!was_committed, "3: one voice");
            self.after(place, half_open);
        }
    }

    /// Targets that are half-open now.
    fn half_open_targets(&self) -> Vec<String> {
        let names = self.world.catalog.targets.iter().map(|t| t.name.clone());
        names.filter(|n| self.world.state(n, DomainKind::Target) == DomainState::HalfOpen).collect()
    }

    /// Checks a run after a command that may have begun an attempt.
    fn after(&mut self, place: usize, half_open: Vec<String>) {
        let run = &self.runs[place];
        self.log.push(run.steps.last().unwrap().clone());
        if let Command::Attempt(attempt) = &run.command {
            let name = self.world.catalog.targets[attempt.target.0].name.clone();
            let view = self.world.view(&name, DomainKind::Target);
            // Open breakers of the last resort become half-open by the attempt itself.
            let in_force = place >= self.reloads;
            if in_force && (half_open.contains(&name) || view.state == DomainState::HalfOpen) {
                let probes = self.probing.entry((name.clone(), view.epoch)).or_default();
                probes.push(place);
                assert!(probes.len() <= 2, "8: {} probes of {name} at once", probes.len());
            }
            assert!(self.world.now <= run.controller.deadline(), "2: in time");
        }
        check_attempts(run);
    }

    fn pass(&mut self, millis: u64) {
        self.world.pass(ms(millis));
        for place in 0..self.runs.len() {
            let due = match self.runs[place].command {
                Command::Wait { until } => until <= self.world.now,
                _ => false,
            };
            if due && self.runs[place].controller.ended().is_none() {
                self.tell(place, Event::Tick);
            }
        }
    }

    fn operate(&mut self, target: usize, how: u8) {
        let name = self.world.catalog.targets[target % self.world.catalog.targets.len()].name.clone();
        let now = self.world.now;
        match how {
            0 => drop(self.world.fleet.set_killed(&name, true)),
            1 => drop(self.world.fleet.revive(&name, now)),
            2 => drop(self.world.fleet.reset(&name, now)),
            3 => self.world.fleet.settle(now),
            _ => {
                self.world.reload(|c| {
                    let place = target % c.targets.len();
                    c.targets[place].identity.push('x');
                });
                // What is under way crosses the lanes of before: its probes are another domain's.
                self.probing.clear();
                self.reloads = self.runs.len();
            }
        }
    }

    fn check_queue(&self) {
        let waiting: usize = self.world.fleet.queue.iter().map(|(_, n)| n).sum();
        assert!(waiting <= self.queue as usize, "the queue is bounded");
    }

    /// Ends all that lives, and checks that nothing is left.
    fn close(&mut self) {
        for place in 0..self.runs.len() {
            if self.runs[place].controller.ended().is_none() {
                self.tell(place, Event::ClientGone);
            }
            let run = &self.runs[place];
            check_attempts(run);
            for attempt in run.controller.attempts() {
                assert!(attempt.ended.is_some() && attempt.outcome.is_some(), "6: accounted");
            }
            let stops = run.steps.iter().filter(|s| s.starts_with("stop")).count();
            assert_eq!(stops, 1, "one end");
        }
        assert_eq!(self.world.in_flight(), 0, "every ticket came back");
        assert_eq!(self.world.fleet.queue.iter().count(), 0, "every place in the queue came back");
    }
}

fn check_attempts(run: &Run) {
    let request: &Request = run.controller.request();
    let budget = &request.governance.budget;
    let attempts = run.controller.attempts();
    let rejected = attempts.iter().filter(|a| a.kind.is_some_and(FailureKind::is_rejection)).count();
    assert!(attempts.len() - rejected <= budget.max_attempts as usize, "1: bounded");
    assert!(rejected <= budget.max_rejections as usize, "1: bounded");
    for attempt in attempts {
        let same = attempts.iter().filter(|a| a.candidate == attempt.candidate).count();
        assert!(same <= budget.max_same_target_attempts as usize, "1: bounded");
        let left = run.controller.deadline().since(attempt.started);
        assert!(left >= budget.min_attempt, "2: in time");
        if attempt.action == Action::Fallback {
            let may = request.governance.substitution.allowed && request.reroute == Reroute::Fallback;
            assert!(may, "5: no silent substitution");
        }
    }
    for pair in attempts.windows(2) {
        assert!(pair[0].phase < Phase::Committed, "3: one voice");
        assert!(request.replay_safe || pair[0].outcome != Some(Outcome::Unknown), "4: no second side effect");
        assert!(pair[1].started >= pair[0].ended.unwrap(), "one at a time");
    }
    let succeeded = attempts.iter().filter(|a| a.outcome == Some(Outcome::Succeeded)).count();
    let success = run.controller.ended().is_some_and(|s| s.terminal == Terminal::Success);
    assert_eq!(succeeded, usize::from(success));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, rng_seed: RngSeed::Fixed(20_261_130), ..ProptestConfig::default() })]

    #[test]
    fn no_promise_is_broken_whatever_happens_in_whichever_order(scene in scene()) {
        Stage::play(&scene).close();
    }

    #[test]
    fn the_same_seed_and_the_same_events_give_the_same_decisions(scene in scene()) {
        let (one, two) = (Stage::play(&scene), Stage::play(&scene));
        prop_assert_eq!(one.log, two.log);
        let mut one = one.world;
        let mut two = two.world;
        prop_assert_eq!(one.fleet.take_transitions(), two.fleet.take_transitions());
        prop_assert_eq!(one.fleet.domains(one.now), two.fleet.domains(two.now));
    }

    #[test]
    fn what_is_the_requests_own_fault_never_changes_a_domain(
        faults in prop::collection::vec((0..5usize, 0..4u8, 0..2_000u64), 1..150),
    ) {
        let own = [
            FailureKind::InvalidRequest,
            FailureKind::Policy,
            FailureKind::ContextOverflow,
            FailureKind::Cancelled,
            FailureKind::Unsupported,
        ];
        let mut world = World::new("A,B|C");
        for (kind, phase, millis) in faults {
            let phases = [Phase::NotSent, Phase::Sent, Phase::Headers, Phase::Preamble];
            let failure = Failed { phase: phases[usize::from(phase)], ..failed(own[kind]) };
            world.play(|_| Some(failure));
            world.pass(ms(millis));
        }
        prop_assert_eq!(world.fleet.take_transitions(), vec![]);
        for view in world.fleet.domains(world.now) {
            prop_assert_eq!((view.state, view.failures_in_a_row), (DomainState::Closed, 0));
        }
    }

    #[test]
    fn however_probes_end_a_half_open_domain_gets_all_of_them_back(
        ends in prop::collection::vec((0..6u8, 0..3_000u64), 1..60),
    ) {
        let mut world = World::new("A,B");
        for _ in 0..3 {
            world.hit(overloaded());
        }
        world.pass(secs(30));
        for (end, millis) in ends {
            let mut run = world.go();
            match end {
                0 => drop(run.fail(&mut world, failed(FailureKind::InvalidRequest)).clone()),
                1 => drop(run.fail(&mut world, failed(FailureKind::RateLimit)).clone()),
                2 => run.commit(&mut world),
                3 => run.succeed(&mut world),
                4 => drop(run.fail(&mut world, overloaded()).clone()),
                _ => {}
            }
            run.step(&mut world, Event::ClientGone);
            world.pass(ms(millis));
        }
        // Whatever it is now: once all waits are over it is closed, or two requests may probe it.
        world.pass(secs(700));
        let runs: Vec<Run> = (0..2).map(|_| world.go()).collect();
        prop_assert!(runs.iter().all(|r| r.attempts() == "A primary"));
    }
}

#[test]
fn a_queue_takes_no_more_than_its_number_and_refuses_the_rest_at_once() {
    let mut world = World::with("A", |c| c.targets[0].limits.concurrency = Some(1));
    world.fleet.policy.queue.max = 3;
    let runs: Vec<Run> = (0..10).map(|_| world.go()).collect();
    assert_eq!(runs.iter().filter(|r| r.is_attempt()).count(), 1);
    assert_eq!(runs.iter().filter(|r| r.is_wait()).count(), 3);
    let refused: Vec<_> = runs.iter().skip(4).map(Run::ending).collect();
    assert!(
        refused.iter().all(|e| *e == (Terminal::Exhausted, pointsman_core::controller::Cause::QueueFull))
    );
}

/// How many retries the process spends on so many requests within a second that all fail once.
fn retries(requests: u32) -> u32 {
    let mut world = World::with("A", |c| {
        c.routes.get_mut("route").unwrap().governance.health.breaker.failures = u32::MAX;
        c.routes.get_mut("route").unwrap().governance.health.breaker.rate.min_calls = u32::MAX;
    });
    let mut runs: Vec<Run> = (0..requests).map(|_| world.go()).collect();
    let mut retries = 0;
    for run in &mut runs {
        run.fail(&mut world, overloaded());
        retries += u32::from(run.is_wait());
    }
    retries
}

#[test]
fn retries_are_at_most_a_fifth_of_the_requests_of_ten_seconds_or_the_floor() {
    // The floor is 10 a second over ten seconds.
    assert_eq!(retries(50), 50);
    assert_eq!(retries(100), 100);
    assert_eq!(retries(300), 100);
    assert_eq!(retries(500), 100);
    assert_eq!(retries(1_000), 200);
    assert_eq!(retries(2_000), 400);
}
