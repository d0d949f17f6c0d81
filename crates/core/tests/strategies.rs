//! The order inside one model and tier: each strategy's own promise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use std::collections::BTreeMap;

use pointsman_core::controller::Event;
use pointsman_core::policy::Strategy as Order;
use pointsman_core::target::{Model, Price};
use pointsman_core::time::Duration;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use world::{Run, World, failed, ms, overloaded, secs};

fn world(word: &str, order: Order) -> World {
    World::with(word, |c| c.routes.get_mut("route").unwrap().governance.strategy = order)
}

/// The target of a request that is over at once.
fn served(world: &mut World) -> String {
    let run = world.play(|_| None);
    run.attempts().split(' ').next().unwrap().to_owned()
}

fn count(world: &mut World, calls: u32) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for _ in 0..calls {
        *counts.entry(served(world)).or_insert(0) += 1;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn weighted_gives_each_target_its_weight_in_each_cycle(weights in prop::collection::vec(0..9u32, 4)) {
        let cycle: u32 = weights.iter().sum();
        prop_assume!(cycle > 0);
        let mut world = World::with("A,B,C,D", |c| {
            c.routes.get_mut("route").unwrap().governance.strategy = Order::Weighted;
            for (target, weight) in c.targets.iter_mut().zip(&weights) {
                target.weight = *weight;
            }
        });
        for _ in 0..3 {
            let counts = count(&mut world, cycle);
            for (name, weight) in ["A", "B", "C", "D"].iter().zip(&weights) {
                prop_assert_eq!(counts.get(*name).copied().unwrap_or(0), *weight);
            }
        }
    }

    #[test]
    fn weighted_is_smooth_no_target_is_ever_more_than_a_call_from_its_share(
        weights in prop::collection::vec(1..9u32, 3),
    ) {
        let total: u32 = weights.iter().sum();
        let mut world = World::with("A,B,C", |c| {
            c.routes.get_mut("route").unwrap().governance.strategy = Order::Weighted;
            for (target, weight) in c.targets.iter_mut().zip(&weights) {
                target.weight = *weight;
            }
        });
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for calls in 1..=3 * total {
            *counts.entry(served(&mut world)).or_insert(0) += 1;
            for (name, weight) in ["A", "B", "C"].iter().zip(&weights) {
                let got = f64::from(counts.get(*name).copied().unwrap_or(0));
                let share = f64::from(calls * weight) / f64::from(total);
                prop_assert!((got - share).abs() <= 1.0, "{} of {} after {}", got, share, calls);
            }
        }
    }

    #[test]
    fn sticky_moves_only_the_share_of_a_lost_target(lost in 0..5usize, salt in any::<u64>()) {
        let names = ["A", "B", "C", "D", "E"];
        let mut world = world("A,B,C,D,E", Order::Sticky);
        let before: Vec<String> = (0..100).map(|n| sticky(&mut world, salt ^ n)).collect();
        prop_assert!(world.fleet.set_killed(names[lost], true));
        for (n, was) in before.iter().enumerate() {
            let now = sticky(&mut world, salt ^ n as u64);
            prop_assert_ne!(&now, names[lost]);
            if was != names[lost] {
                prop_assert_eq!(&now, was, "its conversation stays where its cache is");
            }
        }
        prop_assert!(world.fleet.set_killed(names[lost], false));
        for (n, was) in before.iter().enumerate() {
            prop_assert_eq!(&sticky(&mut world, salt ^ n as u64), was);
        }
    }

    #[test]
    fn least_busy_always_picks_one_with_the_fewest_in_flight(ends in prop::collection::vec(any::<usize>(), 1..80)) {
        let mut world = world("A,B,C", Order::LeastBusy);
        let mut running: Vec<Run> = Vec::new();
        for (n, end) in ends.iter().enumerate() {
            let busy = |world: &World, name: &str| world.fleet.target_state(name).unwrap().in_flight;
            let least = ["A", "B", "C"].iter().map(|name| busy(&world, name)).min().unwrap();
            let run = world.go();
            let name = run.attempts().split(' ').next().unwrap().to_owned();
            prop_assert_eq!(busy(&world, &name), least + 1);
            running.push(run);
            if n % 3 == 0 {
                let mut over = running.swap_remove(end % running.len());
                over.succeed(&mut world);
            }
        }
    }
}

fn sticky(world: &mut World, affinity: u64) -> String {
    let mut request = world.request();
    request.affinity = Some(affinity.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut run = world.start(request);
    run.step(world, Event::ClientGone);
    run.attempts().split(' ').next().unwrap().to_owned()
}

#[test]
fn sticky_spreads_conversations_over_all_targets() {
    let mut world = world("A,B,C,D", Order::Sticky);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for n in 0..2_000 {
        *counts.entry(sticky(&mut world, n)).or_insert(0) += 1;
    }
    // 500 each, a standard deviation of 19.
    assert!(counts.values().all(|n| (400..600).contains(n)), "{counts:?}");
}

#[test]
fn priority_keeps_the_order_of_the_configuration_and_the_tiers() {
    let mut world = World::with("A,B,C", |c| c.targets[0].priority = 2);
    let run = world.play(|_| Some(failed(pointsman_core::kind::FailureKind::BadResponse)));
    assert_eq!(run.attempts(), "B primary, C failover, A failover");
}

#[test]
fn round_robin_gives_each_its_turn() {
    let mut world = world("A,B,C", Order::RoundRobin);
    for calls in [1, 7, 30] {
        let counts = count(&mut world, calls * 3);
        assert!(counts.len() == 3 && counts.values().all(|n| *n == calls), "{counts:?}");
    }
}

#[test]
fn round_robin_stays_fair_among_those_that_are_left() {
    let mut world = world("A,B,C", Order::RoundRobin);
    assert!(world.fleet.set_killed("B", true));
    let counts = count(&mut world, 20);
    assert_eq!((counts["A"], counts["C"]), (10, 10));
}

#[test]
fn weights_of_targets_that_are_out_are_not_saved_up() {
    let mut world = world("A,B", Order::Weighted);
    assert!(world.fleet.set_killed("A", true));
    assert_eq!(count(&mut world, 100)["B"], 100);
    assert!(world.fleet.set_killed("A", false));
    let counts = count(&mut world, 10);
    assert!(counts["A"].abs_diff(counts["B"]) <= 2, "no burst on the one that came back: {counts:?}");
}

#[test]
fn lowest_cost_orders_by_price_and_an_unknown_price_comes_last() {
    // Targets of one model cost the same in the catalog: the order of the configuration stays.
    let mut world = World::with("A,B", |c| {
        c.routes.get_mut("route").unwrap().governance.strategy = Order::LowestCost;
        let price = Some(Price::of(1, 1));
        c.models.insert("m0".into(), Model { price, ..Model::default() });
    });
    assert_eq!(served(&mut world), "A");
}

/// A request that runs for so long on the target that it meets.
fn answer(world: &mut World, first_token: impl Fn(&str) -> Duration) -> String {
    let mut run = world.go();
    let name = run.attempts().split(' ').next().unwrap().to_owned();
    let took = first_token(&name);
    world.pass(took);
    run.step(world, Event::Committed { first_token: Some(took) });
    run.succeed(world);
    name
}

#[test]
fn lowest_latency_prefers_the_faster_and_yet_tries_the_slower_again() {
    let mut world = world("A,B", Order::LowestLatency);
    let mut on_b = 0;
    for _ in 0..300 {
        let name = answer(&mut world, |name| ms(if name == "A" { 2_000 } else { 200 }));
        on_b += u32::from(name == "B");
        world.pass(secs(1));
    }
    assert!((240..300).contains(&on_b), "{on_b} of 300 went to the faster one");
    // A is fast now, B slow: that is found out, since an old peak fades.
    let late: Vec<String> =
        (0..300).map(|_| answer(&mut world, |name| ms(if name == "A" { 200 } else { 2_000 }))).collect();
    let on_a = late.iter().skip(100).filter(|n| *n == "A").count();
    assert!(on_a > 150, "{on_a} of 200");
}

#[test]
fn lowest_latency_does_not_send_everything_to_a_target_that_nobody_knows() {
    let mut world = world("A,B", Order::LowestLatency);
    for _ in 0..20 {
        let mut run = world.go();
        if run.attempts() == "A primary" {
            run.step(&mut world, Event::Committed { first_token: Some(ms(300)) });
        }
        if run.attempts() == "A primary" {
            run.succeed(&mut world);
        }
        // What went to B hangs.
    }
    let hanging = world.fleet.target_state("B").unwrap().in_flight;
    assert!(hanging <= 2, "{hanging} requests wait for one that never answered");
}

#[test]
fn load_and_recovery_never_change_the_model() {
    for (_, order) in Order::NAMES {
        let mut world = world("A,B|C,D", order);
        for _ in 0..3 {
            world.hit(overloaded());
        }
        for _ in 0..50 {
            let mut run = world.go();
            assert!(run.attempts().ends_with("primary"), "{order:?}");
            run.step(&mut world, Event::ClientGone);
            world.pass(ms(300));
        }
    }
}
