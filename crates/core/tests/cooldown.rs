//! The long penalty of a target that keeps failing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::Event;
use pointsman_core::cooldown::Cooldown;
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::FailureKind::*;
use pointsman_core::policy::{CooldownCount, CooldownPolicy};
use pointsman_core::request::Request;
use pointsman_core::time::{Duration, Instant};
use world::{World, failed, ms, overloaded, secs};

const START: Instant = Instant::from_millis(500_000);

fn policy() -> CooldownPolicy {
    CooldownPolicy::default()
}

#[test]
fn three_openings_in_two_minutes_start_a_penalty_of_a_minute() {
    let mut cooldown = Cooldown::default();
    assert_eq!(cooldown.mark(&policy(), START), None);
    assert_eq!(cooldown.mark(&policy(), START.after(secs(60))), None);
    let third = START.after(secs(120));
    assert_eq!(cooldown.mark(&policy(), third), Some(third.after(secs(60))));
    assert!(cooldown.until(third.after(ms(59_999))).is_some());
    assert_eq!(cooldown.until(third.after(secs(60))), None);
}

#[test]
fn openings_further_apart_than_the_window_start_none() {
    let mut cooldown = Cooldown::default();
    for n in 0..50 {
        assert_eq!(cooldown.mark(&policy(), START.after(secs(61) * n)), None);
    }
}

/// The penalties of a target that fails again as soon as each is over.
fn penalties(count: usize) -> Vec<u64> {
    let mut cooldown = Cooldown::default();
    let mut now = START;
    let mut all = Vec::new();
    while all.len() < count {
        if let Some(until) = cooldown.mark(&policy(), now) {
            all.push(until.since(now).as_secs());
            now = until;
        }
    }
    all
}

#[test]
fn each_relapse_doubles_the_penalty_up_to_ten_minutes() {
    assert_eq!(penalties(7), [60, 120, 240, 480, 600, 600, 600]);
}

#[test]
fn a_quiet_period_as_long_as_the_last_penalty_forgives() {
    let relapsed = |quiet: Duration| {
        let mut cooldown = Cooldown::default();
        let mut until = START;
        for _ in 0..3 {
            until = cooldown.mark(&policy(), START).unwrap_or(until);
        }
        cooldown.mark(&policy(), until.after(quiet)).map(|u| u.since(until.after(quiet)))
    };
    assert_eq!(relapsed(ms(59_999)), Some(secs(120)));
    assert_eq!(relapsed(secs(60)), None, "forgiven: it takes three openings again");
}

#[test]
fn what_comes_while_a_penalty_runs_was_under_way_before_and_doubles_nothing() {
    let mut cooldown = Cooldown::default();
    let mut until = None;
    for _ in 0..3 {
        until = cooldown.mark(&policy(), START);
    }
    for n in 1..30 {
        assert_eq!(cooldown.mark(&policy(), START.after(secs(n))), None);
    }
    assert_eq!(cooldown.until(START.after(secs(30))), until);
}

#[test]
fn a_penalty_that_is_lifted_is_over_and_a_relapse_still_doubles_it() {
    let mut cooldown = Cooldown::default();
    for _ in 0..3 {
        cooldown.mark(&policy(), START);
    }
    let lifted = START.after(secs(5));
    cooldown.lift(lifted);
    assert_eq!(cooldown.until(lifted), None);
    let again = lifted.after(secs(30));
    assert_eq!(cooldown.mark(&policy(), again), Some(again.after(secs(120))));
}

/// Fails A's probes as soon as they are due until A is in cooldown; B serves meanwhile.
fn cooled(change: impl Fn(&mut Request)) -> (World, Duration) {
    let mut world = World::new("A,B");
    let began = world.now;
    for _ in 0..200 {
        let mut request = world.request();
        change(&mut request);
        let run = world.play_request(request, |name| (name == "A").then_some(overloaded()));
        assert_eq!(run.stop().terminal.name(), "success");
        if world.state("A", DomainKind::Target) == DomainState::Cooldown {
            let took = world.now.since(began);
            return (world, took);
        }
        world.pass(secs(1));
    }
    panic!("no cooldown");
}

#[test]
fn an_opening_and_two_failed_probes_bring_the_cooldown() {
    // Three failures at 0, 1, 2 s open it; the probes at 32 s and 62 s fail.
    let (world, took) = cooled(|_| {});
    assert_eq!(took, secs(62));
    let view = world.view("A", DomainKind::Target);
    assert_eq!(view.until, Some(world.now.after(secs(60))));
}

#[test]
fn a_failure_that_opens_several_breakers_of_a_target_is_one_opening() {
    let (_, took) = cooled(|r| r.needs.tools = true);
    assert_eq!(took, secs(62), "tools open the target's breaker and that of its tools at once");
}

#[test]
fn a_target_in_cooldown_gets_no_request_while_an_equivalent_serves() {
    let (mut world, _) = cooled(|_| {});
    let until = world.now.after(secs(60));
    while world.now < until {
        assert_eq!(world.play(|_| None).attempts(), "B primary");
        world.pass(secs(1));
    }
    assert_eq!(world.play(|_| None).attempts(), "A primary", "its probe is due");
}

#[test]
fn a_failed_probe_after_the_penalty_is_a_relapse() {
    let (mut world, _) = cooled(|_| {});
    for penalty in [120, 240, 480, 600, 600] {
        world.now = world.view("A", DomainKind::Target).until.unwrap();
        world.play(|name| (name == "A").then_some(overloaded()));
        let view = world.view("A", DomainKind::Target);
        assert_eq!(view.state, DomainState::Cooldown);
        assert_eq!(view.until, Some(world.now.after(secs(penalty))));
    }
}

#[test]
fn calls_that_were_under_way_when_it_began_change_nothing() {
    for count in [CooldownCount::Openings, CooldownCount::Failures] {
        let mut world = World::with("A", |c| {
            let health = &mut c.routes.get_mut("route").unwrap().governance.health;
            health.cooldown = CooldownPolicy { count, failures: 1, ..policy() };
        });
        let mut runs: Vec<_> = (0..40).map(|_| world.go()).collect();
        for run in &mut runs {
            run.fail(&mut world, overloaded());
            run.step(&mut world, Event::ClientGone);
        }
        let until = world.view("A", DomainKind::Target).until;
        assert_eq!(until, Some(world.now.after(secs(60))), "{count:?}");
    }
}

#[test]
fn counting_failures_counts_every_failed_call_once() {
    let mut world = World::with("A,B", |c| {
        let health = &mut c.routes.get_mut("route").unwrap().governance.health;
        health.breaker.failures = 100;
        health.cooldown =
            CooldownPolicy { count: CooldownCount::Failures, failures: 3, window: secs(60), ..policy() };
    });
    for n in 1..=3 {
        assert_eq!(world.state("A", DomainKind::Target), DomainState::Closed, "before failure {n}");
        let mut request = world.request();
        request.needs.tools = true;
        world.play_request(request, |name| (name == "A").then_some(overloaded()));
        world.pass(secs(1));
    }
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Cooldown);
}

#[test]
fn an_endpoint_that_refuses_for_long_brings_its_target_into_cooldown() {
    let mut world = World::new("A,B");
    for _ in 0..200 {
        world.play(|name| (name == "A").then_some(failed(Connect)));
        world.pass(secs(1));
    }
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Cooldown);
    assert_eq!(world.state("B", DomainKind::Target), DomainState::Closed);
}

#[test]
fn a_target_that_is_alone_is_tried_also_in_cooldown_and_a_success_ends_it() {
    let mut world = World::with("A", |c| {
        c.routes.get_mut("route").unwrap().governance.health.cooldown.failures = 1;
    });
    for _ in 0..3 {
        world.hit(overloaded());
    }
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Cooldown);
    // Early probes fail for a while, and the clock of views and metrics goes on: no round lengthens the penalty.
    let until = world.view("A", DomainKind::Target).until;
    for _ in 0..50 {
        world.play(|_| Some(overloaded()));
        world.pass(secs(1));
        world.fleet.settle(world.now);
        if world.now >= until.unwrap() {
            break;
        }
        let view = world.view("A", DomainKind::Target);
        assert_eq!(view.state, DomainState::Cooldown);
        assert!(view.until <= until.map(|at| at.after(secs(30))), "a probe's own open time at most");
    }
    let run = world.play(|_| None);
    assert_eq!(run.stop().terminal.name(), "success");
    world.play(|_| None);
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Closed);
}

#[test]
fn a_settled_clock_never_shuts_out_the_last_resort_of_a_cooldown() {
    let mut world = World::with("A", |c| {
        let cooldown = &mut c.routes.get_mut("route").unwrap().governance.health.cooldown;
        cooldown.failures = 1;
        cooldown.base = secs(600);
    });
    for _ in 0..3 {
        world.hit(overloaded());
    }
    world.pass(secs(5));
    let mut probe = world.go();
    probe.fail(&mut world, overloaded());
    probe.step(&mut world, Event::ClientGone);
    // Longer than the breaker's own open time, nobody asks, and somebody looks.
    world.pass(secs(40));
    world.fleet.settle(world.now);
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Cooldown);
    assert!(world.go().is_attempt());
}

#[test]
fn probes_of_the_last_resort_that_fail_are_no_openings() {
    let mut world = World::new("A");
    for _ in 0..3 {
        world.hit(overloaded());
    }
    // Twenty early rounds within the twenty seconds of an outage.
    for _ in 0..20 {
        world.pass(secs(1));
        let mut probe = world.go();
        probe.fail(&mut world, overloaded());
        probe.step(&mut world, Event::ClientGone);
        assert_eq!(world.state("A", DomainKind::Target), DomainState::Open);
    }
    let told = world.fleet.take_transitions();
    assert!(told.iter().all(|t| t.to != DomainState::Cooldown));
    let rounds = told.iter().filter(|t| (t.from, t.to) == (DomainState::HalfOpen, DomainState::Open)).count();
    assert_eq!(rounds, 20, "but each is told");
}
