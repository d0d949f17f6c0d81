//! Nothing in the core panics, whatever the clock, the spans and the numbers of a configuration are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::backoff::full_jitter;
use pointsman_core::breaker::{Breaker, Fault};
use pointsman_core::controller::{Command, Event, Failed};
use pointsman_core::cooldown::Cooldown;
use pointsman_core::kind::FailureKind;
use pointsman_core::latency::{PeakEwma, Samples};
use pointsman_core::limit::Usage;
use pointsman_core::policy::{
    BreakerPolicy, Budget, CooldownPolicy, MicroUsd, RateRule, Reserve, RetryBudgetPolicy, RetryPolicy,
    SlowRule, Strategy as Order, ThrottlePolicy,
};
use pointsman_core::retry_budget::RetryBudget;
use pointsman_core::rng::SplitMix64;
use pointsman_core::target::{Model, Price, TargetLimits};
use pointsman_core::throttle::Throttle;
use pointsman_core::time::{Duration, Instant};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use world::{World, failed};

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::from_secs(30)),
        Just(Duration::from_nanos(u64::MAX)),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_secs),
    ]
}

fn instant() -> impl Strategy<Value = Instant> {
    prop_oneof![
        Just(Instant::ZERO),
        Just(Instant::FAR_FUTURE),
        (0..100u64).prop_map(|n| Instant::from_nanos(u64::MAX - n)),
        any::<u64>().prop_map(Instant::from_nanos),
        any::<u64>().prop_map(Instant::from_millis),
    ]
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..4u32, Just(u32::MAX), any::<u32>()]
}

fn real() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(0.5),
        Just(1.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-1.0),
        any::<f64>()
    ]
}

fn breaker_policy() -> impl Strategy<Value = BreakerPolicy> {
    (
        number(),
        span(),
        number(),
        number(),
        (real(), number(), span()),
        prop::option::of((real(), real(), number())),
        span(),
    )
        .prop_map(|(failures, open_for, probes, probe_successes, rate, slow, slow_start)| {
            BreakerPolicy {
                failures,
                open_for,
                probes,
                probe_successes,
                rate: RateRule { share: rate.0, min_calls: rate.1, window: rate.2 },
                slow: slow.map(|(factor, share, min_calls)| SlowRule { factor, share, min_calls }),
                slow_start,
            }
        })
}

fn cooldown_policy() -> impl Strategy<Value = CooldownPolicy> {
    (0..4u32, span(), span(), span()).prop_map(|(failures, window, base, max)| CooldownPolicy {
        failures,
        window,
        base,
        max,
        ..CooldownPolicy::default()
    })
}

fn budget() -> impl Strategy<Value = Budget> {
    let reserve = prop_oneof![real().prop_map(Reserve::Share), span().prop_map(Reserve::Span)];
    (span(), reserve, span(), number(), number(), prop::option::of(any::<u64>()), (span(), span(), span()))
        .prop_map(|(deadline, reserve, min_attempt, attempts, kept, cost, limits)| {
            let mut budget = Budget {
                deadline,
                reserve_for_fallback: reserve,
                min_attempt,
                max_attempts: attempts.min(20),
                max_same_target_attempts: attempts.min(20),
                reserve_attempts: kept,
                max_cost: cost.map(MicroUsd),
                ..Budget::default()
            };
            (budget.limits.connect, budget.limits.first_token, budget.limits.response) = limits;
            budget
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn a_breaker_takes_any_policy_and_any_clock(
        policy in breaker_policy(),
        calls in prop::collection::vec((instant(), 0..5u8, span()), 1..60),
    ) {
        let mut breaker = Breaker::default();
        for (now, how, took) in calls {
            let share = breaker.share(now);
            prop_assert!((0.0..=1.0).contains(&share) || share.is_nan());
            let Some(permit) = breaker.admit(now) else {
                breaker.half_open_early(now);
                continue;
            };
            match how {
                0 => breaker.release(permit),
                1 => { breaker.succeed(permit, &policy, now); }
                2 => { breaker.fail(permit, Fault::BeforeCommit, &policy, now); }
                3 => { breaker.fail(permit, Fault::AfterCommit, &policy, now); }
                _ => {
                    let (permit, _) = breaker.commit(permit, Some(took), &policy, now);
                    breaker.succeed(permit, &policy, now);
                }
            }
        }
    }

    #[test]
    fn penalties_and_throttles_take_any_policy_and_any_clock(
        policy in cooldown_policy(),
        throttle in (span(), span()),
        marks in prop::collection::vec((instant(), prop::option::of(span())), 1..60),
    ) {
        let (initial, max) = throttle;
        let mut cooldown = Cooldown::default();
        let mut limit = Throttle::default();
        for (now, guidance) in marks {
            cooldown.mark(&policy, now);
            limit.limit(guidance, &ThrottlePolicy { initial, max }, now);
            prop_assert!(cooldown.until(now).is_none_or(|until| until > now));
            prop_assert!(limit.until(now).is_none_or(|until| until > now));
        }
    }

    #[test]
    fn usage_latency_backoff_and_the_retry_budget_take_any_number(
        limits in (prop::option::of(number()), prop::option::of(any::<u64>()), prop::option::of(number())),
        calls in prop::collection::vec((instant(), any::<u64>(), any::<u64>(), span()), 1..40),
        retry in (span(), span(), number(), real(), number()),
    ) {
        let limits = TargetLimits { rpm: limits.0, tpm: limits.1, concurrency: limits.2 };
        let (base, max, retries, ratio, floor_per_second) = retry;
        let policy = RetryPolicy { base, max, ..RetryPolicy::default() };
        let wait = full_jitter(&policy, retries, &mut SplitMix64::new(1));
        prop_assert!(wait <= max);
        let (mut usage, mut samples, mut peak, mut budget) =
            (Usage::default(), Samples::default(), PeakEwma::default(), RetryBudget::default());
        let retries = RetryBudgetPolicy { ratio, floor_per_second };
        let mut then = Instant::ZERO;
        for (now, estimate, actual, took) in calls {
            usage.charge(estimate, now);
            usage.settle(estimate, actual, then, now);
            usage.refund(actual, then, now);
            usage.hit(&limits, 0, now);
            prop_assert!(usage.room_at(&limits, now) >= now);
            prop_assert!((0.0..=1.0).contains(&usage.share(&limits, now)));
            samples.push(took);
            peak.observe(took, now);
            peak.at(then);
            budget.request(now);
            budget.take(&retries, now);
            budget.remaining_ratio(&retries, now);
            then = now;
        }
        samples.median();
    }

    #[test]
    fn a_request_takes_any_budget_policy_price_and_clock(
        budget in budget(),
        breaker in breaker_policy(),
        cooldown in cooldown_policy(),
        price in (any::<u64>(), any::<u64>(), any::<u64>(), prop::option::of(any::<u64>())),
        caller in prop::option::of(span()),
        order in 0..8usize,
        events in prop::collection::vec((instant(), 0..8u8, 0..18usize, prop::option::of(span())), 1..40),
    ) {
        let mut world = World::with("A,B|C", |c| {
            let route = &mut c.routes.get_mut("route").unwrap().governance;
            route.budget = budget;
            route.strategy = Order::NAMES[order].1;
            route.health.breaker = breaker;
            route.health.cooldown = cooldown;
            route.substitution.price_ceiling = Some(2.0);
            for model in ["m0", "m1"] {
                let price = Some(Price::of(price.0, price.1));
                c.models.insert(model.into(), Model { price, ..Model::default() });
            }
            c.targets[0].limits = TargetLimits { rpm: Some(0), tpm: Some(u64::MAX), concurrency: Some(1) };
        });
        let mut request = world.request();
        request.needs.prompt_tokens = price.2;
        request.needs.max_output = price.3;
        request.caller_deadline = caller;
        let mut run = world.start(request.clone());
        for (now, how, kind, guidance) in events {
            // The clock of a process never goes back, so neither does this one, unless it says so itself.
            world.now = if how == 7 { now } else { world.now.max(now) };
            let event = match how {
                0 => Event::Committed { first_token: guidance },
                1 => Event::Succeeded { tokens: Some(price.2) },
                2 => Event::ClientGone,
                3 | 4 => Event::Tick,
                _ => Event::Failed(Failed { retry_after: guidance, ..failed(FailureKind::ALL[kind]) }),
            };
            run.step(&mut world, event);
            world.fleet.settle(world.now);
            world.fleet.domains(world.now);
            if let Command::Stop(_) = run.command {
                request.id += 1_000;
                run = world.start(request.clone());
            }
        }
        run.step(&mut world, Event::ClientGone);
        prop_assert_eq!(world.in_flight(), 0);
    }
}
