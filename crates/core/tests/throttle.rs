//! Rate limits and a target's own limits: waited out, never a failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::{Cause, Event, Failed};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::FailureKind::*;
use pointsman_core::kind::Terminal;
use pointsman_core::policy::{Strategy, ThrottlePolicy};
use pointsman_core::target::TargetLimits;
use pointsman_core::throttle::{Throttle, Throttled};
use pointsman_core::time::{Duration, Instant};
use world::{World, failed, ms, rate_limit, secs};

const START: Instant = Instant::from_millis(500_000);

fn limit(throttle: &mut Throttle, guidance: Option<Duration>, now: Instant) -> Option<Duration> {
    match throttle.limit(guidance, &ThrottlePolicy::default(), now) {
        Throttled::Quota => None,
        Throttled::Until(until) => Some(until.since(now)),
    }
}

#[test]
fn a_shorter_guidance_never_shortens_a_longer_one() {
    let mut throttle = Throttle::default();
    assert_eq!(limit(&mut throttle, Some(secs(40)), START), Some(secs(40)));
    assert_eq!(limit(&mut throttle, Some(secs(1)), START.after(secs(10))), Some(secs(30)));
    assert_eq!(limit(&mut throttle, Some(secs(60)), START.after(secs(20))), Some(secs(60)));
}

#[test]
fn without_guidance_the_wait_is_five_seconds_and_doubles_up_to_the_longest() {
    let mut throttle = Throttle::default();
    let mut now = START;
    let waits: Vec<u64> = (0..9)
        .map(|_| {
            let wait = limit(&mut throttle, None, now).unwrap();
            now = now.after(wait);
            wait.as_secs()
        })
        .collect();
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
    throttle.succeeded();
    assert_eq!(limit(&mut throttle, None, now), Some(secs(5)));
}

#[test]
fn limits_that_calls_meet_together_are_one_step_of_the_doubling() {
    let mut throttle = Throttle::default();
    for _ in 0..50 {
        assert_eq!(limit(&mut throttle, None, START), Some(secs(5)));
    }
    assert_eq!(limit(&mut throttle, None, START.after(secs(5))), Some(secs(10)));
}

#[test]
fn guidance_up_to_ten_minutes_is_a_rate_and_beyond_it_a_quota() {
    assert_eq!(limit(&mut Throttle::default(), Some(secs(600)), START), Some(secs(600)));
    assert_eq!(limit(&mut Throttle::default(), Some(ms(600_001)), START), None);
    assert_eq!(limit(&mut Throttle::default(), Some(Duration::MAX), START), None);
}

#[test]
fn a_rate_limit_is_about_the_account_and_the_upstream_model() {
    let mut world = World::with("A,B,C", |c| {
        // B is another region of the same account and model; C is another model of the same account.
        for n in [1, 2] {
            c.targets[n].account = "account-A".into();
        }
        c.targets[2].upstream_model = Some("another".into());
    });
    let run = world.play(|name| (name == "A").then_some(rate_limit(secs(30))));
    assert_eq!(run.attempts(), "A primary, C failover");
    for (name, state) in
        [("A", DomainState::Throttled), ("B", DomainState::Throttled), ("C", DomainState::Closed)]
    {
        assert_eq!(world.state(name, DomainKind::Rate), state, "{name}");
    }
}

#[test]
fn a_hundred_rate_limits_open_no_breaker() {
    let mut world = World::new("A,B");
    for _ in 0..100 {
        world.play(|name| (name == "A").then_some(rate_limit(ms(10))));
        world.pass(ms(10));
    }
    assert_eq!(world.view("A", DomainKind::Target).failures_in_a_row, 0);
    assert_eq!(world.play(|_| None).attempts(), "A primary");
}

#[test]
fn where_all_are_limited_the_refusal_says_so_with_a_true_retry_after() {
    let mut world = World::new("A,B");
    let mut run = world.go();
    run.fail(&mut world, rate_limit(secs(60)));
    run.fail(&mut world, rate_limit(secs(20)));
    world.pass(secs(4));
    let run = world.go();
    assert_eq!(run.ending(), (Terminal::Exhausted, Cause::NothingHasRoom));
    assert_eq!(run.stop().retry_after, Some(secs(16)));
}

#[test]
fn what_is_out_for_two_reasons_is_back_when_both_are_over() {
    let mut world = World::new("A");
    let mut limited = world.go();
    let mut broken: Vec<_> = (0..3).map(|_| world.go()).collect();
    for run in &mut broken {
        run.fail(&mut world, failed(BadResponse));
    }
    limited.fail(&mut world, rate_limit(secs(120)));
    // The breaker is due after 30 s, the rate limit after 120 s.
    assert_eq!(limited.stop().retry_after, Some(secs(120)));
}

#[test]
fn a_short_throttle_is_waited_out_and_the_target_is_primary_again() {
    let mut world = World::new("A");
    let mut first = world.go();
    let failure = Failed { retry_after: Some(secs(3)), ..failed(RateLimit) };
    first.fail(&mut world, failure);
    first.step(&mut world, Event::ClientGone);
    let mut run = world.go();
    assert_eq!(run.wait(), world.now.after(secs(3)));
    run.finish(&mut world, |_| None);
    assert_eq!(run.attempts(), "A primary");
}

#[test]
fn a_throttle_that_is_longer_than_the_longest_wait_is_refused_at_once() {
    let mut world = World::new("A");
    world.play(|_| Some(rate_limit(secs(6))));
    assert_eq!(world.go().ending(), (Terminal::Exhausted, Cause::NothingHasRoom));
}

fn limited(limits: TargetLimits) -> World {
    World::with("A,B", |c| c.targets[0].limits = limits)
}

#[test]
fn a_target_that_is_full_of_requests_is_passed_over() {
    let mut world = limited(TargetLimits { concurrency: Some(2), ..TargetLimits::default() });
    let mut runs: Vec<_> = (0..4).map(|_| world.go()).collect();
    let names: Vec<String> = runs.iter().map(world::Run::attempts).collect();
    assert_eq!(names, ["A primary", "A primary", "B primary", "B primary"]);
    runs[0].step(&mut world, Event::ClientGone);
    assert_eq!(world.go().attempts(), "A primary");
}

#[test]
fn a_target_is_paced_by_its_requests_per_minute() {
    let mut world = limited(TargetLimits { rpm: Some(10), ..TargetLimits::default() });
    let mut on_a = Vec::new();
    for _ in 0..1_200 {
        let mut run = world.go();
        if run.attempts().starts_with('A') {
            on_a.push(world.now);
        }
        run.succeed(&mut world);
        world.pass(ms(250));
    }
    for at in &on_a {
        let minute = on_a.iter().filter(|o| **o >= *at && o.since(*at) < secs(60)).count();
        // A bucket of ten that is refilled within a minute gives less than twice ten in any minute.
        assert!(minute < 20, "{minute} in a minute");
    }
    assert!((40..=60).contains(&on_a.len()), "ten a minute, and one bucket: {} in five minutes", on_a.len());
}

#[test]
fn tokens_are_taken_by_estimate_and_settled_with_what_was_used() {
    let tokens = |actual: Option<u64>| {
        let mut world = limited(TargetLimits { tpm: Some(10_000), ..TargetLimits::default() });
        let mut on_a = 0;
        for _ in 0..30 {
            let mut request = world.request();
            request.needs.prompt_tokens = 1_000;
            request.needs.max_output = Some(4_000);
            let mut run = world.start(request);
            on_a += u32::from(run.attempts() == "A primary");
            run.step(&mut world, Event::Succeeded { tokens: actual });
        }
        on_a
    };
    assert_eq!(tokens(None), 2, "5,000 of 10,000 each: the estimate stands where nothing is known");
    assert!(tokens(Some(1_000)) > 5, "most of each estimate comes back");
}

#[test]
fn a_call_that_was_never_sent_takes_nothing_from_a_targets_limits() {
    let mut world = World::with("A", |c| {
        c.targets[0].limits = TargetLimits { rpm: Some(2), tpm: Some(10), ..TargetLimits::default() };
        c.routes.get_mut("route").unwrap().governance.health.breaker.failures = 1_000;
    });
    for _ in 0..20 {
        let mut request = world.request();
        request.needs.prompt_tokens = 5;
        let mut run = world.start(request);
        assert!(run.is_attempt());
        run.fail(&mut world, failed(Connect));
        run.step(&mut world, Event::ClientGone);
    }
}

#[test]
fn from_85_percent_of_a_limit_the_share_of_a_target_falls_to_nothing() {
    let mut world = World::with("A,B", |c| {
        c.targets[0].limits.rpm = Some(100);
        c.routes.get_mut("route").unwrap().governance.strategy = Strategy::Priority;
    });
    let mut calls = Vec::new();
    for _ in 0..200 {
        let mut run = world.go();
        calls.push(run.attempts() == "A primary");
        run.succeed(&mut world);
    }
    assert!(calls[..85].iter().all(|on_a| *on_a), "below 85 % it has its whole share");
    // From then on its share is 15/15, 14/15, … 1/15: it takes 50 calls on average (15 times the harmonic number of 15)
    // until it has had its last 15, against 15 with its whole share.
    let others = calls.iter().enumerate().filter(|(_, on_a)| **on_a).nth(99).map_or(115, |(at, _)| at - 99);
    assert!((10..100).contains(&others), "{others} calls went to B before the limit of A was reached");
}

#[test]
fn a_target_that_is_alone_keeps_its_whole_share_up_to_its_limit() {
    let mut world = World::with("A|C", |c| c.targets[0].limits.rpm = Some(100));
    for call in 0..100 {
        let mut run = world.go();
        assert_eq!(run.attempts(), "A primary", "call {call}: load never changes the model");
        run.succeed(&mut world);
    }
    assert_eq!(world.go().attempts(), "C fallback");
}

#[test]
fn headroom_prefers_what_the_provider_says_has_most_left() {
    let mut world = World::with("A,B,C", |c| {
        c.routes.get_mut("route").unwrap().governance.strategy = Strategy::Headroom;
    });
    let run = world.go();
    let lanes: Vec<_> = run.controller.plan().candidates.iter().map(|c| (c.target.0, c.lane)).collect();
    for (target, share) in [(0, 0.2), (1, 0.9), (2, 0.5)] {
        let (_, lane) = lanes.iter().find(|(t, _)| *t == target).unwrap();
        world.fleet.observe_headroom(*lane, share, world.now);
    }
    let run = world.play(|_| Some(failed(BadResponse)));
    assert_eq!(run.attempts(), "B primary, C failover, A failover");
}
