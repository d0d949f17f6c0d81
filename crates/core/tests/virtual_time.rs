//! Outages in virtual time: what a quick one, a long one and a total one cost, and what one client can do to others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::{Event, Failed};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::FailureKind::{self, *};
use pointsman_core::kind::{Phase, Terminal};
use pointsman_core::time::{Duration, Instant};
use world::sim::Sim;
use world::{World, failed, ms, secs};

/// An answer takes 200 ms, a failure 20 ms; who is silent is so for as long as he is let.
fn outage(
    down: &[&str],
    kind: FailureKind,
    from: Instant,
    to: Instant,
) -> impl FnMut(&str, Instant) -> (Duration, Option<Failed>) {
    let down: Vec<String> = down.iter().map(|n| (*n).to_owned()).collect();
    move |name, now| match down.iter().any(|n| n == name) && now >= from && now < to {
        true if kind == Timeout => (Duration::MAX, None),
        true => (ms(20), Some(failed(kind))),
        false => (ms(200), None),
    }
}

const OUTAGES: [FailureKind; 4] = [Connect, Overloaded, ServerError, Timeout];
/// Those that are found out at once: of silence nobody knows before the time to first token (30 s) is over.
const LOUD_OUTAGES: [FailureKind; 3] = [Connect, Overloaded, ServerError];

#[test]
fn a_quick_outage_costs_a_target_no_more_than_its_open_time_and_the_clients_nothing() {
    for kind in LOUD_OUTAGES {
        let mut sim = Sim::new(World::new("A,B"));
        let from = sim.world.now.after(secs(10));
        sim.traffic(ms(100), secs(120));
        sim.run(&mut outage(&["A"], kind, from, from.after(secs(10))));
        assert!(sim.fared.iter().all(world::sim::Fared::succeeded), "{kind}");
        let told = sim.world.fleet.take_transitions();
        let opened = told.iter().find(|t| t.to == DomainState::Open).expect("it opened").at;
        assert!(opened.since(from) <= ms(500), "{kind}: found out at once");
        let back = sim.calls.iter().find(|(at, name)| *at > opened && name == "A").unwrap().0;
        assert!(
            back.since(opened) <= secs(30).saturating_add(ms(100)),
            "{kind}: probed when its time is over"
        );
        assert!(told.iter().all(|t| t.to != DomainState::Cooldown), "{kind}: no long penalty");
        assert_eq!(told.iter().filter(|t| t.to == DomainState::Open).count(), 1, "{kind}");
    }
}

#[test]
fn a_long_outage_brings_cooldown_with_few_calls_and_is_forgiven() {
    for kind in OUTAGES {
        let mut sim = Sim::new(World::new("A,B"));
        let from = sim.world.now.after(secs(10));
        let to = from.after(secs(600));
        sim.traffic(ms(100), secs(2_400));
        sim.run(&mut outage(&["A"], kind, from, to));
        assert!(sim.fared.iter().all(world::sim::Fared::succeeded), "{kind}: nobody noticed");
        let told = sim.world.fleet.take_transitions();
        let cooldowns: Vec<Instant> =
            told.iter().filter(|t| t.to == DomainState::Cooldown).map(|t| t.at).collect();
        let expected: &[u64] = match kind {
            // Whatever is sent to a silent target fails 30 s later. Opened at 30 s, failed probes at 90 s and 150 s: 60 s
            // until 210 s; failed at 240 s, 120 s until 360 s; failed at 390 s, 240 s until 630 s, when it is well.
            Timeout => &[150, 240, 390],
            // Opened at 0 s, failed probes at 30 s and 60 s: 60 s; then 120, 240 and 480 s, the last until 960 s.
            _ => &[60, 120, 240, 480],
        };
        let starts: Vec<u64> = cooldowns.iter().map(|at| at.since(from).as_secs()).collect();
        assert_eq!(starts.len(), expected.len(), "{kind}: {starts:?}");
        for (got, expected) in starts.iter().zip(expected) {
            assert!(got.abs_diff(*expected) <= 3, "{kind}: {starts:?}");
        }
        let wasted = sim.calls.iter().filter(|(at, name)| name == "A" && *at >= from && *at < to).count();
        // Ten a second until it is found out: what was sent within 30 s of silence, or three failures.
        let until_found = if kind == Timeout { 300 } else { 3 };
        assert!(wasted <= until_found + 2 * 6, "{kind}: until it is found out, then probes: {wasted}");
        let back = sim.calls.iter().find(|(at, name)| *at >= to && name == "A").unwrap().0;
        assert!(back.since(*cooldowns.last().unwrap()) <= secs(481), "{kind}");
        // 480 s after the end of the last penalty it is forgiven: three failures open it, and no more.
        let mut world = sim.world;
        assert!(world.now.since(back) > secs(481));
        for _ in 0..3 {
            let mut run = world.go();
            assert_eq!(run.attempts(), "A primary");
            run.fail(&mut world, failed(kind));
            run.step(&mut world, Event::ClientGone);
            world.pass(secs(1));
        }
        assert_ne!(world.state("A", DomainKind::Target), DomainState::Cooldown, "{kind}");
    }
}

/// When the first request succeeded after the recovery, and from when on all that arrived did.
fn after_recovery(sim: &Sim, recovery: Instant) -> (Duration, Duration) {
    let first = sim.fared.iter().filter(|f| f.succeeded() && f.ended > recovery).map(|f| f.ended).min();
    let last = sim.fared.iter().filter(|f| !f.succeeded()).map(|f| f.arrived).max();
    (first.expect("an answer").since(recovery), last.map_or(Duration::ZERO, |at| at.since(recovery)))
}

#[test]
fn a_route_with_a_single_target_answers_again_within_two_seconds_of_its_recovery() {
    for kind in OUTAGES {
        // 47 s: whatever was sent before the end of a silence is far from its own limit then.
        for length in [secs(1), secs(10), secs(47), secs(60), secs(600)] {
            if length > secs(60) && kind != Overloaded {
                continue;
            }
            let mut sim = Sim::new(World::new("A"));
            let from = sim.world.now.after(secs(5));
            let to = from.after(length);
            sim.traffic(ms(100), length.saturating_add(secs(40)));
            sim.run_streams(&mut outage(&["A"], kind, from, to));
            let (first, all) = after_recovery(&sim, to);
            assert!(first <= secs(2), "{kind}: first answer {first:?} after an outage of {length:?}");
            assert!(all <= secs(2), "{kind}: refused still {all:?} after an outage of {length:?}");
        }
    }
}

/// What comes back slowly: its hasty probes find nothing, the patient one must.
#[test]
fn a_single_target_that_is_slow_after_a_silence_comes_back_when_what_hangs_is_over() {
    let mut sim = Sim::new(World::new("A"));
    let from = sim.world.now.after(secs(20));
    let to = from.after(secs(47));
    sim.traffic(ms(100), secs(180));
    sim.run(&mut |_, now| match now {
        now if now < from => (ms(200), None),
        now if now < to => (Duration::MAX, None),
        _ => (secs(3), None),
    });
    let (first, all) = after_recovery(&sim, to);
    // The patient probe of before hangs for 30 s at most; the next one takes 3 s, and a second one closes it.
    assert!(first <= secs(33) && all <= secs(37), "{first:?}, {all:?}");
}

#[test]
fn a_single_target_that_becomes_slow_goes_on_answering() {
    let mut sim = Sim::new(World::new("A"));
    let slow = sim.world.now.after(secs(60));
    sim.traffic(ms(100), secs(180));
    sim.run_streams(&mut |_, now| (if now < slow { ms(200) } else { secs(3) }, None));
    let told = sim.world.fleet.take_transitions();
    assert!(told.iter().any(|t| t.to == DomainState::Open), "for slowness");
    let mut answered: Vec<Instant> = sim.fared.iter().filter(|f| f.succeeded()).map(|f| f.ended).collect();
    answered.sort_unstable();
    let longest = answered.windows(2).map(|w| w[1].since(w[0])).max().unwrap();
    assert!(longest <= secs(4), "{longest:?} without an answer");
    assert!(
        sim.fared.iter().all(|f| f.terminal != Terminal::Exhausted || f.tried.is_empty()),
        "none is cut short"
    );
}

#[test]
fn a_route_whose_targets_all_failed_answers_again_within_two_seconds_of_a_recovery() {
    for kind in OUTAGES {
        let mut sim = Sim::new(World::new("A,B|C"));
        let from = sim.world.now.after(secs(5));
        let to = from.after(secs(47));
        sim.traffic(ms(100), secs(90));
        sim.run_streams(&mut outage(&["A", "B", "C"], kind, from, to));
        let (first, all) = after_recovery(&sim, to);
        assert!(first <= secs(2) && all <= secs(2), "{kind}: {first:?}, {all:?}");
    }
}

#[test]
fn an_outage_of_a_single_target_is_no_storm_of_calls() {
    let mut sim = Sim::new(World::new("A"));
    let from = sim.world.now.after(secs(5));
    sim.traffic(ms(20), secs(65));
    sim.run(&mut outage(&["A"], Overloaded, from, from.after(secs(60))));
    let during = sim.calls.iter().filter(|(at, _)| *at >= from && *at < from.after(secs(60))).count();
    // A second of traffic at most until it is found out; then two probes a second at most.
    assert!(during <= 50 + 2 * 60, "{during} calls for 3,000 requests");
}

#[test]
fn nobody_waits_longer_than_the_longest_wait() {
    let mut sim = Sim::new(World::new("A"));
    let from = sim.world.now;
    sim.traffic(ms(5), secs(20));
    sim.run(&mut outage(&["A"], Connect, from, from.after(secs(60))));
    let longest = sim.fared.iter().map(|f| f.ended.since(f.arrived)).max().unwrap();
    // Waiting is bounded by 5 s; the last attempt and its retry come on top.
    assert!(longest <= secs(6), "{longest:?}");
}

#[test]
fn waiting_is_first_come_first_served() {
    let mut sim = Sim::new(World::with("A", |c| c.targets[0].limits.concurrency = Some(2)));
    sim.traffic(ms(10), secs(1));
    sim.run(&mut |_, _| (ms(40), None));
    assert!(sim.fared.iter().all(world::sim::Fared::succeeded));
    let order: Vec<u64> = sim.fared.iter().map(|f| f.id).collect();
    assert!(order.windows(2).all(|w| w[0] < w[1] + 2), "{order:?}");
}

#[test]
fn one_clients_troubles_isolate_and_open_nothing_for_others() {
    let troubles: [(&str, Failed); 7] = [
        ("a typo", failed(InvalidRequest)),
        ("a prompt that is too long", failed(ContextOverflow)),
        ("a parameter that is not supported", failed(Unsupported)),
        ("a refusal by content policy", failed(Policy)),
        ("a tiny timeout of the caller", failed(Cancelled)),
        ("a limit that was cut by the caller's deadline", Failed { excused: true, ..failed(Timeout) }),
        ("a client that reads too slowly", Failed { excused: true, ..failed(PartialStream) }),
    ];
    for (what, trouble) in troubles {
        let mut world = World::new("A");
        for _ in 0..500 {
            let mut run = world.go();
            assert!(run.is_attempt(), "{what}");
            if trouble.phase == Phase::Committed {
                run.commit(&mut world);
            }
            run.fail(&mut world, trouble);
            run.step(&mut world, Event::ClientGone);
            world.pass(ms(37));
        }
        assert_eq!(world.fleet.take_transitions(), [], "{what}");
        assert_eq!(world.in_flight(), 0);
        assert_eq!(world.play(|_| None).attempts(), "A primary", "{what}");
    }
}

#[test]
fn a_client_that_always_leaves_costs_no_target_anything() {
    let mut world = World::new("A");
    for n in 0..300 {
        let mut run = world.go();
        match n % 4 {
            0 => {}
            1 => drop(run.step(&mut world, Event::Sent).clone()),
            2 => drop(run.step(&mut world, Event::Headers { status: 200 }).clone()),
            _ => run.commit(&mut world),
        }
        run.step(&mut world, Event::ClientGone);
    }
    assert_eq!(world.fleet.take_transitions(), []);
    assert_eq!(world.in_flight(), 0);
}

#[test]
fn a_domain_is_seen_closed_open_half_open_in_slow_start_and_closed() {
    let mut world = World::new("A,B");
    let see = |world: &mut World| {
        world.fleet.settle(world.now);
        let view = world.view("A", DomainKind::Target);
        (view.state, (view.share * 100.0).round() as u32)
    };
    assert_eq!(see(&mut world), (DomainState::Closed, 100));
    for _ in 0..3 {
        world.hit(failed(ServerError));
    }
    assert_eq!(see(&mut world), (DomainState::Open, 100));
    assert_eq!(world.view("A", DomainKind::Target).until, Some(world.now.after(secs(30))));
    world.pass(ms(29_999));
    assert_eq!(see(&mut world).0, DomainState::Open);
    world.pass(ms(1));
    assert_eq!(see(&mut world).0, DomainState::HalfOpen);
    world.play(|_| None);
    assert_eq!(see(&mut world).0, DomainState::HalfOpen);
    world.play(|_| None);
    assert_eq!(see(&mut world), (DomainState::Closed, 10));
    world.pass(secs(15));
    assert_eq!(see(&mut world), (DomainState::Closed, 55));
    world.pass(secs(15));
    assert_eq!(see(&mut world), (DomainState::Closed, 100));
    let told: Vec<_> = world.fleet.take_transitions().iter().map(|t| (t.from.name(), t.to.name())).collect();
    assert_eq!(told, [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]);
}
