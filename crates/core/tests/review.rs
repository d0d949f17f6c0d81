//! What a stranger's review found: each test is a promise that was not kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use std::collections::BTreeSet;

use pointsman_core::controller::{Cause, Event};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::FailureKind::{self, *};
use pointsman_core::kind::{Phase, Terminal};
use pointsman_core::request::Request;
use world::{World, failed, overloaded, secs, target};

/// A and B of one model fail one after the other.
fn both(first: FailureKind, second: FailureKind) -> (World, world::Run) {
    let mut world = World::new("A,B");
    let run = world.play(|name| Some(failed(if name == "A" { first } else { second })));
    (world, run)
}

#[test]
fn the_failure_that_ends_a_request_as_its_own_fault_is_the_one_that_is_shown() {
    for second in [InvalidRequest, Policy] {
        let (world, run) = both(Overloaded, second);
        assert_eq!(run.stop().cause, Cause::RequestsOwn);
        assert_eq!(run.shown(&world).as_deref(), Some("B"), "{second:?}");
    }
}

#[test]
fn what_a_substitute_makes_of_a_request_is_not_the_requests_own_fault() {
    let mut world = World::new("A|C");
    let run = world.play(|name| Some(failed(if name == "A" { Overloaded } else { InvalidRequest })));
    assert_eq!(run.ending(), (Terminal::Exhausted, Cause::Exhausted));
    assert_eq!(run.shown(&world).as_deref(), Some("A"));
}

#[test]
fn the_stream_that_broke_is_the_one_that_is_shown() {
    let mut world = World::new("A,B");
    let mut run = world.go();
    run.fail(&mut world, overloaded());
    run.commit(&mut world);
    run.fail(&mut world, failed(PartialStream));
    assert_eq!(run.ending(), (Terminal::Partial, Cause::Committed));
    assert_eq!(run.shown(&world).as_deref(), Some("B"));
}

#[test]
fn the_attempt_that_may_have_had_a_side_effect_is_the_one_that_is_shown() {
    let mut world = World::new("A,B");
    let request = Request { replay_safe: false, ..world.request() };
    let run =
        world.play_request(request, |name| Some(if name == "A" { overloaded() } else { failed(Timeout) }));
    assert_eq!(run.ending(), (Terminal::ReconciliationRequired, Cause::SideEffect));
    assert_eq!(run.shown(&world).as_deref(), Some("B"));
}

#[test]
fn a_request_that_is_wrong_in_itself_is_not_told_when_to_come_back() {
    let mut world = World::new("A,B");
    // A is throttled, so that a time of recovery is known.
    let run = world.play(|name| {
        Some(match name {
            "A" => world::rate_limit(secs(60)),
            _ => failed(InvalidRequest),
        })
    });
    assert_eq!(run.stop().cause, Cause::RequestsOwn);
    assert_eq!(run.stop().retry_after, None);
}

#[test]
fn a_name_of_any_length_leaves_nothing_behind_at_a_wildcard_target() {
    let mut world = World::with("A", |c| c.targets.push(target("W", None)));
    let long = format!("provider-W/{}", "x".repeat(10_000));
    let request = world.request_for(&long);
    let mut run = world.start(request);
    assert!(run.is_attempt());
    run.step(&mut world, Event::ClientGone);
    let longest = world.fleet.domains(world.now).iter().map(|d| d.name.len()).max();
    assert!(longest < Some(1_000), "a name of {longest:?} bytes is kept");
}

#[test]
fn a_lane_is_claimed_only_by_those_who_want_it() {
    let mut world = World::new("A,B");
    world.catalog.targets[0].limits.concurrency = Some(1);
    world.bindings = world.fleet.bind(&world.catalog);
    let only = |world: &mut World, name: &str| {
        let mut request = world.request();
        request.preferences.only = vec![name.into()];
        request
    };
    let request = only(&mut world, "A");
    let mut first = world.start(request);
    let request = only(&mut world, "A");
    let mut second = world.start(request);
    assert!(second.is_wait(), "A is full");
    let mut third = world.go();
    assert_eq!(third.attempts(), "B primary", "who waits for A keeps nobody from B");
    first.step(&mut world, Event::Succeeded { tokens: None });
    let request = only(&mut world, "A");
    let mut fourth = world.start(request);
    assert!(fourth.is_wait(), "the room on A is the second's");
    world.now = second.wait();
    second.step(&mut world, Event::Tick);
    assert!(second.is_attempt());
    for run in [&mut second, &mut third, &mut fourth] {
        run.step(&mut world, Event::ClientGone);
    }
    assert_eq!(world.in_flight(), 0);
    let phases: BTreeSet<Phase> = second.controller.attempts().iter().map(|a| a.phase).collect();
    assert_eq!(phases, [Phase::NotSent].into());
}

#[test]
fn who_is_told_of_a_spent_quota_or_of_time_is_not_told_when_to_come_back() {
    for (kind, cause) in [(QuotaExhausted, Cause::ExhaustedQuota), (Timeout, Cause::ExhaustedTimeout)] {
        let mut world = World::new("A,B");
        // What takes targets out leads to a time of recovery, which is not this client's to wait for.
        let run = world.play(|_| Some(failed(kind)));
        assert_eq!((run.stop().cause, run.stop().retry_after), (cause, None));
    }
}

/// A request for this model of the wildcard target W, given up at once.
fn ask(world: &mut World, model: &str) {
    let request = world.request_for(&format!("provider-W/{model}"));
    let mut run = world.start(request);
    run.step(world, Event::ClientGone);
}

fn has_lane(world: &World, model: &str) -> bool {
    let name = format!("W/{model}");
    world.fleet.domains(world.now).iter().any(|d| d.kind == DomainKind::Target && d.name == name)
}

#[test]
fn nobody_fills_the_table_of_models_for_good() {
    let mut world = World::with("A", |c| c.targets.push(target("W", None)));
    for number in 0..1_100 {
        ask(&mut world, &format!("made-up-{number}"));
    }
    ask(&mut world, "real");
    assert!(!has_lane(&world, "real"), "it is full of models that were asked for just now");
    let domains = world.fleet.domains(world.now).len();
    // One that is in use stays, with what is known of it.
    let request = world.request_for("provider-W/made-up-0");
    let mut run = world.start(request);
    run.fail(&mut world, failed(ModelNotFound));
    world.pass(secs(59));
    ask(&mut world, "made-up-0");
    world.pass(secs(2));
    for number in 0..20 {
        ask(&mut world, &format!("real-{number}"));
        assert!(has_lane(&world, &format!("real-{number}")));
    }
    assert!(has_lane(&world, "made-up-0"));
    assert!(!has_lane(&world, "made-up-1"));
    assert_eq!(world.state("W", DomainKind::Endpoint), DomainState::Closed);
    assert_eq!(world.fleet.domains(world.now).len(), domains, "the table does not grow");
    assert!(
        world
            .fleet
            .domains(world.now)
            .iter()
            .filter(|d| d.name.starts_with("W/real"))
            .all(|d| { d.state == DomainState::Closed && d.isolated.is_none() })
    );
}

#[test]
fn what_was_under_way_on_a_forgotten_lane_says_nothing_of_the_next() {
    let mut world = World::with("A", |c| c.targets.push(target("W", None)));
    let mut runs: Vec<world::Run> = (0..3)
        .map(|_| {
            let request = world.request_for("provider-W/old");
            world.start(request)
        })
        .collect();
    world.pass(secs(1));
    for number in 1..1_024 {
        ask(&mut world, &format!("made-up-{number}"));
    }
    world.pass(secs(61));
    ask(&mut world, "new");
    assert!(has_lane(&world, "new") && !has_lane(&world, "old"));
    for run in &mut runs {
        run.fail(&mut world, failed(BadResponse));
    }
    let new = world.fleet.domains(world.now).into_iter().find(|d| d.name == "W/new").unwrap();
    assert_eq!((new.state, new.failures_in_a_row), (DomainState::Closed, 0));
    assert_eq!(world.in_flight(), 0);
}
