//! What simulated worlds found: each test is a seed, cut down to what was needed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::{Cause, Event};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::Terminal;
use pointsman_core::request::{Request, Reroute};
use pointsman_core::target::TargetIndex;
use world::{World, ms, overloaded, rate_limit, secs};

/// A has room for one call and is busy; one request waits for it in front of the one that is looked at.
fn busy_with_one_waiting() -> World {
    let mut world = World::with("A", |catalog| catalog.targets[0].limits.concurrency = Some(1));
    let busy = world.go();
    assert!(busy.is_attempt());
    let first = world.go();
    assert!(first.is_wait());
    // Room comes, and it is the first one's.
    let mut busy = busy;
    busy.succeed(&mut world);
    world
}

#[test]
fn nobody_waits_for_a_turn_that_leaves_no_time_for_an_attempt() {
    let mut world = busy_with_one_waiting();
    // The default `min_attempt` is 1 s, and the second in line looks again after 20 ms. The caller's own 1,060 ms, less
    // 5 %, leave 1,007 ms.
    let request = Request { caller_deadline: Some(ms(1_060)), ..world.request() };
    let run = world.start(request);
    assert_eq!(run.ending(), (Terminal::Exhausted, Cause::QueueFull));
}

#[test]
fn a_turn_that_leaves_time_for_an_attempt_is_waited_for() {
    let mut world = busy_with_one_waiting();
    // 1,100 ms, less 5 %, are 1,045 ms.
    let request = Request { caller_deadline: Some(ms(1_100)), ..world.request() };
    assert!(world.start(request).is_wait());
}

#[test]
fn whoever_finds_no_place_to_wait_for_the_own_model_is_answered_by_the_substitute() {
    let mut world = World::with("A|C", |catalog| {
        let route = catalog.routes.get_mut("route").unwrap();
        route.governance.substitution.wait = secs(3);
    });
    world.hit(rate_limit(secs(2)));
    // Where there is a place, the own model is waited for.
    let mut waiting = world.go();
    assert!(waiting.is_wait());
    waiting.step(&mut world, Event::ClientGone);
    world.fleet.policy.queue.max = 0;
    assert_eq!(world.go().attempts(), "C fallback");
}

#[test]
fn whoever_finds_no_place_to_wait_for_a_turn_is_answered_by_the_substitute() {
    let mut world = World::with("A|C", |catalog| catalog.targets[0].limits.concurrency = Some(1));
    world.fleet.policy.queue.max = 1;
    let mut busy = world.go();
    assert_eq!(busy.attempts(), "A primary");
    let bound = Request { reroute: Reroute::Failover, ..world.request() };
    assert!(world.start(bound).is_wait());
    // Room comes, it is the one's who waits, and there is no second place behind it.
    busy.succeed(&mut world);
    assert_eq!(world.go().attempts(), "C fallback");
}

#[test]
fn whoever_comes_while_a_target_in_cooldown_is_probed_waits_for_what_the_probes_say() {
    let mut world = World::with("A", |catalog| {
        let route = catalog.routes.get_mut("route").unwrap();
        route.governance.health.cooldown.failures = 1;
    });
    while world.state("A", DomainKind::Target) != DomainState::Cooldown {
        world.hit(overloaded());
        world.pass(secs(1));
    }
    // Two probes at once are the default, and two that succeed close the breaker.
    let (mut one, mut other) = (world.go(), world.go());
    assert!(one.is_attempt() && other.is_attempt());
    let mut third = world.go();
    assert!(third.is_wait(), "{:?}", third.command);
    one.succeed(&mut world);
    other.succeed(&mut world);
    world.now = third.wait();
    third.step(&mut world, Event::Tick);
    assert_eq!(third.attempt().target, TargetIndex(0));
}
