//! Recovery ramps up, it does not jump; and it never changes the model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::Event;
use pointsman_core::domain::{DomainKind, DomainState};
use world::{World, ms, overloaded, secs};

/// A world whose target A has just closed its breaker.
fn recovered(word: &str) -> World {
    let mut world = World::new(word);
    for _ in 0..3 {
        world.hit(overloaded());
    }
    world.pass(secs(30));
    for _ in 0..2 {
        world.play(|_| None);
    }
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Closed);
    world
}

#[test]
fn the_share_grows_from_a_tenth_to_the_whole_within_thirty_seconds() {
    let mut world = recovered("A,B");
    for (seconds, share) in [(0, 0.10), (10, 0.40), (20, 0.70), (30, 1.0)] {
        let at = world.view("A", DomainKind::Target);
        assert!((at.share - share).abs() < 1e-9, "{} after {seconds} s", at.share);
        world.pass(secs(10));
    }
    assert!((world.view("A", DomainKind::Target).share - 1.0).abs() < f64::EPSILON);
}

#[test]
fn a_recovered_target_gets_about_its_share_and_its_equivalents_the_rest() {
    for (seconds, low, high) in [(0, 60, 140), (10, 340, 460), (20, 640, 760), (30, 1_000, 1_000)] {
        let mut world = recovered("A,B");
        world.pass(secs(seconds));
        let mut on_a = 0;
        for _ in 0..1_000 {
            let mut run = world.go();
            on_a += u32::from(run.attempts() == "A primary");
            run.step(&mut world, Event::ClientGone);
        }
        // Five standard deviations of a binomial of 1,000 draws at most.
        assert!((low..=high).contains(&on_a), "{on_a} after {seconds} s");
    }
}

#[test]
fn recovery_never_changes_the_model() {
    let mut world = recovered("A|C");
    for _ in 0..30 {
        let mut run = world.go();
        assert_eq!(run.attempts(), "A primary");
        run.succeed(&mut world);
        world.pass(ms(100));
    }
}

#[test]
fn a_target_that_is_alone_takes_a_few_requests_at_once_and_twice_as_many_each_half_second() {
    for (millis, at_once) in [(0, 2), (499, 2), (500, 4), (1_000, 8), (1_500, 16)] {
        let mut world = recovered("A");
        world.pass(ms(millis));
        let runs: Vec<_> = (0..40).map(|_| world.go()).collect();
        let begun = runs.iter().filter(|r| r.is_attempt()).count();
        assert_eq!(begun, at_once, "after {millis} ms");
        assert!(runs.iter().skip(at_once).all(world::Run::is_wait), "the others wait, they are not refused");
    }
}

#[test]
fn after_the_slow_start_nothing_is_held_back() {
    let mut world = recovered("A");
    world.pass(secs(30));
    let runs: Vec<_> = (0..5_000).map(|_| world.go()).collect();
    assert!(runs.iter().all(world::Run::is_attempt));
}

#[test]
fn a_target_of_a_lower_tier_does_not_take_a_recovering_ones_share() {
    let mut world = World::with("A,B", |c| c.targets[1].priority = 2);
    for _ in 0..3 {
        world.hit(overloaded());
    }
    world.pass(secs(30));
    for _ in 0..2 {
        world.play(|_| None);
    }
    for _ in 0..50 {
        let mut run = world.go();
        assert_eq!(run.attempts(), "A primary", "tiers are an order, not a share");
        run.succeed(&mut world);
    }
}
