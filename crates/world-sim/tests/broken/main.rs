//! For each promise a core that breaks it, and the checker that notices. The core itself is real: it is lied to, or its
//! commands are not obeyed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod seam;

use std::sync::atomic::{AtomicU64, Ordering};

use pointsman_core::controller::{Cause, Command, Event, Failed, Stop};
use pointsman_core::fleet::{Call, Wanted};
use pointsman_core::kind::{Action, Capability, FailureKind, Phase, Terminal};
use pointsman_core::plan::Planner;
use pointsman_core::request::Request;
use pointsman_core::target::TargetIndex;
use pointsman_core::time::Duration;
use pointsman_world_sim::checker::Invariant;
use pointsman_world_sim::scenario::{Fault, FaultSpec, Scenario};
use pointsman_world_sim::seeds::play_twice;
use pointsman_world_sim::shrink::shrink;
use pointsman_world_sim::world::{World, play};
use seam::Broken;

/// `m0` at t0 and t1, `m1` at t2; five requests a second for a minute.
fn small() -> Scenario {
    let text = r#"{
        "name": "small", "requests": 300,
        "models": [{ "name": "m0" }, { "name": "m1" }],
        "targets": [{ "name": "t0", "model": "m0" }, { "name": "t1", "model": "m0" }, { "name": "t2", "model": "m1" }],
        "clients": [{ "streams": 1.0, "arrival": { "poisson": { "per_second": 5.0 } } }]
    }"#;
    Scenario::from_json(text).unwrap()
}

/// Only t0.
fn lonely() -> Scenario {
    let mut scenario = small();
    scenario.targets.truncate(1);
    scenario.models.truncate(1);
    scenario
}

fn with_fault(mut scenario: Scenario, what: Fault, targets: &[&str]) -> Scenario {
    scenario.faults.push(FaultSpec {
        what,
        targets: targets.iter().map(|name| (*name).into()).collect(),
        region: None,
        from: 5.0,
        until: 25.0,
        share: 1.0,
        flapping: None,
    });
    scenario
}

const UNAVAILABLE: Fault = Fault::Status { status: 503 };

/// The faithful core keeps every promise in this world, and the broken one breaks exactly this one first.
fn assert_caught(scenario: &Scenario, seam: Broken, invariant: Invariant) {
    assert_eq!(play(scenario).violation, None, "the real core, in the same world");
    let violation = World::new(scenario, seam).play().violation.expect("nobody noticed");
    assert_eq!(violation.invariant, invariant, "{violation}");
}

#[test]
fn broken_bound_on_attempts_is_caught() {
    let scenario = with_fault(small(), UNAVAILABLE, &["t0", "t1", "t2"]);
    let seam =
        Broken { start: |request, _| request.governance.budget.max_attempts += 1, ..Broken::default() };
    let mut tight = scenario;
    tight.policy.max_attempts = Some(1);
    assert_caught(&tight, seam, Invariant::Bounded);
}

#[test]
fn broken_bound_on_tries_of_one_target_is_caught() {
    let scenario = with_fault(lonely(), UNAVAILABLE, &["t0"]);
    let start = |request: &mut Request, _: &mut Planner<'_>| {
        request.governance.budget.max_same_target_attempts += 1;
    };
    let mut patient = scenario;
    patient.policy.failures = 50;
    assert_caught(&patient, Broken { start, ..Broken::default() }, Invariant::Bounded);
}

#[test]
fn broken_deadline_is_caught() {
    let mut scenario = with_fault(small(), Fault::Silence, &["t0"]);
    scenario.clients[0].deadline = Some(3.0);
    let seam = Broken { start: |request, _| request.caller_deadline = None, ..Broken::default() };
    assert_caught(&scenario, seam, Invariant::InTime);
}

#[test]
fn broken_smallest_attempt_is_caught() {
    let mut scenario = with_fault(small(), UNAVAILABLE, &["t0", "t1"]);
    scenario.clients[0].deadline = Some(1.055);
    let start = |request: &mut Request, _: &mut Planner<'_>| {
        request.governance.budget.min_attempt = Duration::from_millis(900);
    };
    assert_caught(&scenario, Broken { start, ..Broken::default() }, Invariant::InTime);
}

#[test]
fn broken_end_when_the_client_has_gone_is_caught() {
    let mut scenario = small();
    scenario.clients[0].patience = Some(1.0);
    let seam = Broken {
        command: |moment, command| match (moment.event, moment.last) {
            (Some(Event::ClientGone), Some(last)) => Command::Attempt(last.clone()),
            _ => command,
        },
        ..Broken::default()
    };
    assert_caught(&scenario, seam, Invariant::InTime);
}

#[test]
fn broken_stop_after_commit_is_caught() {
    let scenario = with_fault(small(), Fault::Cut, &["t0"]);
    let seam = Broken {
        command: |moment, command| match (&command, moment.last) {
            (Command::Stop(Stop { terminal: Terminal::Partial, .. }), Some(last)) => {
                Command::Attempt(last.clone())
            }
            _ => command,
        },
        ..Broken::default()
    };
    assert_caught(&scenario, seam, Invariant::OneVoice);
}

#[test]
fn broken_guard_of_side_effects_is_caught() {
    let mut scenario = with_fault(small(), Fault::Reset, &["t0"]);
    scenario.clients[0].unsafe_share = 1.0;
    let seam = Broken { start: |request, _| request.replay_safe = true, ..Broken::default() };
    assert_caught(&scenario, seam, Invariant::NoSecondSideEffect);
}

#[test]
fn broken_word_on_what_was_lost_is_caught() {
    let mut scenario = with_fault(small(), Fault::Reset, &["t0"]);
    scenario.clients[0].unsafe_share = 1.0;
    scenario.clients[0].streams = 0.0;
    let event = |_: &Request, event| match event {
        Event::Failed(failed) => Event::Failed(Failed { lost: false, status: Some(503), ..failed }),
        event => event,
    };
    assert_caught(&scenario, Broken { event, ..Broken::default() }, Invariant::NoSecondSideEffect);
}

#[test]
fn broken_choice_of_the_model_is_caught() {
    let seam = Broken {
        command: |_, command| match command {
            Command::Attempt(mut attempt) => {
                attempt.target = TargetIndex(2);
                Command::Attempt(attempt)
            }
            command => command,
        },
        ..Broken::default()
    };
    assert_caught(&small(), seam, Invariant::NoSilentSubstitution);
}

#[test]
fn broken_ban_on_substitution_is_caught() {
    let mut scenario = with_fault(small(), UNAVAILABLE, &["t0", "t1"]);
    scenario.policy.substitution = false;
    let seam =
        Broken { start: |request, _| request.governance.substitution.allowed = true, ..Broken::default() };
    assert_caught(&scenario, seam, Invariant::NoSilentSubstitution);
}

#[test]
fn broken_word_for_a_fallback_is_caught() {
    let scenario = with_fault(small(), UNAVAILABLE, &["t0", "t1"]);
    let seam = Broken {
        command: |_, command| match command {
            Command::Attempt(mut attempt) if attempt.action == Action::Fallback => {
                attempt.action = Action::Failover;
                Command::Attempt(attempt)
            }
            command => command,
        },
        ..Broken::default()
    };
    assert_caught(&scenario, seam, Invariant::NoSilentSubstitution);
}

#[test]
fn broken_end_of_an_abandoned_attempt_is_caught() {
    let mut scenario = small();
    scenario.clients[0].patience = Some(1.0);
    let instead = |moment: &seam::Moment<'_>| {
        let gone = moment.event == Some(Event::ClientGone);
        let stop =
            Stop { terminal: Terminal::Cancelled, cause: Cause::ClientGone, shown: None, retry_after: None };
        gone.then_some(Command::Stop(stop))
    };
    assert_caught(&scenario, Broken { instead, ..Broken::default() }, Invariant::Accounted);
}

#[test]
fn broken_return_of_a_ticket_is_caught() {
    // One call more is counted than was made, and it never ends.
    let start = |request: &mut Request, planner: &mut Planner<'_>| {
        let Some(target) = planner.catalog.find("t0").filter(|_| request.id == 50) else { return };
        let wanted = Wanted { target, upstream_model: "m0", endpoint: None };
        let lane = planner.fleet.lane(planner.catalog, planner.bindings, &wanted, planner.now).unwrap();
        let call = Call {
            lane,
            capability: Capability::Text,
            request: request.id,
            estimated_tokens: 0,
            last_resort: false,
            alone: false,
        };
        drop(planner.fleet.begin(&call, planner.now));
    };
    assert_caught(&small(), Broken { start, ..Broken::default() }, Invariant::Accounted);
}

/// What a client that leaves is taken for.
const fn innocent(event: Event) -> Event {
    if !matches!(event, Event::ClientGone) {
        return event;
    }
    Event::Failed(Failed {
        kind: FailureKind::BadResponse,
        phase: Phase::Headers,
        status: None,
        retry_after: None,
        lost: false,
        excused: false,
    })
}

#[test]
fn broken_protection_of_the_innocent_is_caught() {
    let mut scenario = lonely();
    scenario.clients[0].patience = Some(0.1);
    let seam = Broken {
        event: |_, event| innocent(event),
        // The client is told what it was: only the target suffers.
        command: |moment, command| match command {
            Command::Stop(stop) if moment.event == Some(innocent(Event::ClientGone)) => {
                Command::Stop(Stop { terminal: Terminal::Cancelled, ..stop })
            }
            command => command,
        },
        ..Broken::default()
    };
    assert_caught(&scenario, seam, Invariant::InnocentStayInService);
}

#[test]
fn broken_excuse_for_slow_readers_is_caught() {
    let mut scenario = with_fault(small(), Fault::Cut, &["t0"]);
    scenario.clients[0].slow_readers = 1.0;
    let event = |_: &Request, event| match event {
        Event::Failed(failed) => Event::Failed(Failed { excused: false, ..failed }),
        event => event,
    };
    assert_caught(&scenario, Broken { event, ..Broken::default() }, Invariant::InnocentStayInService);
}

#[test]
fn broken_patience_of_a_breaker_is_caught() {
    let scenario = with_fault(small(), UNAVAILABLE, &["t0"]);
    let seam =
        Broken { start: |request, _| request.governance.health.breaker.failures = 1, ..Broken::default() };
    assert_caught(&scenario, seam, Invariant::InnocentStayInService);
}

#[test]
fn broken_number_of_probes_is_caught() {
    let mut scenario = with_fault(lonely(), UNAVAILABLE, &["t0"]);
    scenario.policy.open_for = 5.0;
    let seam =
        Broken { start: |request, _| request.governance.health.breaker.probes = 50, ..Broken::default() };
    assert_caught(&scenario, seam, Invariant::CarefulProbes);
}

#[test]
fn broken_slow_start_is_caught() {
    let mut scenario = with_fault(small(), UNAVAILABLE, &["t0"]);
    scenario.requests = 900;
    scenario.policy.open_for = 5.0;
    let start = |request: &mut Request, _: &mut Planner<'_>| {
        request.governance.health.breaker.slow_start = Duration::ZERO;
    };
    assert_caught(&scenario, Broken { start, ..Broken::default() }, Invariant::CarefulProbes);
}

#[test]
fn broken_breaker_that_lets_calls_through_is_caught() {
    let scenario = with_fault(small(), UNAVAILABLE, &["t0"]);
    let start = |request: &mut Request, planner: &mut Planner<'_>| {
        if request.id.is_multiple_of(10) {
            planner.fleet.reset("t0", planner.now);
        }
    };
    assert_caught(&scenario, Broken { start, ..Broken::default() }, Invariant::FailsFast);
}

#[test]
fn broken_ear_for_guidance_is_caught() {
    let scenario = with_fault(small(), Fault::RateLimit { retry_after: Some(20.0) }, &["t0"]);
    let event = |_: &Request, event| match event {
        Event::Failed(failed) => Event::Failed(Failed { retry_after: None, ..failed }),
        event => event,
    };
    assert_caught(&scenario, Broken { event, ..Broken::default() }, Invariant::FailsFast);
}

#[test]
fn broken_limit_of_a_target_is_caught() {
    let mut scenario = lonely();
    scenario.targets[0].concurrency = Some(2);
    // Whoever should wait for room is let in.
    let seam = Broken {
        command: |moment, command| match (&command, moment.any) {
            (Command::Wait { .. }, Some(any)) => Command::Attempt(any.clone()),
            _ => command,
        },
        ..Broken::default()
    };
    assert_caught(&scenario, seam, Invariant::ExactAdmission);
}

#[test]
fn broken_haste_to_an_equivalent_is_caught() {
    let scenario = with_fault(small(), UNAVAILABLE, &["t0"]);
    let seam = Broken {
        command: |moment, command| match &command {
            Command::Attempt(attempt) if attempt.action == Action::Failover => {
                Command::Wait { until: moment.now.after(Duration::from_secs(1)) }
            }
            _ => command,
        },
        ..Broken::default()
    };
    assert_caught(&scenario, seam, Invariant::NoNeedlessSleep);
}

#[test]
fn broken_search_for_a_candidate_is_caught() {
    let scenario = with_fault(small(), UNAVAILABLE, &["t0"]);
    let seam = Broken { start: |request, _| request.governance.budget.max_attempts = 1, ..Broken::default() };
    assert_caught(&scenario, seam, Invariant::NoEarlySurrender);
}

#[test]
fn broken_kill_switch_is_caught() {
    let scenario = with_fault(small(), Fault::Killed, &["t0"]);
    let start = |_: &mut Request, planner: &mut Planner<'_>| {
        planner.fleet.set_killed("t0", false);
    };
    assert_caught(&scenario, Broken { start, ..Broken::default() }, Invariant::FailsFast);
}

#[test]
fn broken_retry_budget_is_caught() {
    let mut scenario = with_fault(lonely(), Fault::Overloaded, &["t0"]);
    scenario.policy.retry_floor = 0;
    scenario.policy.retry_ratio = 0.05;
    scenario.policy.failures = 1_000;
    scenario.faults[0].share = 0.4;
    let start = |_: &mut Request, planner: &mut Planner<'_>| {
        planner.fleet.policy.retry_budget.floor_per_second = 1_000;
    };
    assert_caught(&scenario, Broken { start, ..Broken::default() }, Invariant::NoRetryStorm);
}

#[test]
fn broken_length_of_the_queue_is_caught() {
    let mut scenario = lonely();
    scenario.targets[0].concurrency = Some(1);
    scenario.policy.queue = 3;
    let seam = Broken { start: |_, planner| planner.fleet.policy.queue.max = 1_000, ..Broken::default() };
    assert_caught(&scenario, seam, Invariant::QueueBounded);
}

#[test]
fn broken_patience_of_the_queue_is_caught() {
    let mut scenario = lonely();
    scenario.targets[0].concurrency = Some(1);
    scenario.policy.queue_wait = 1.0;
    let start = |_: &mut Request, planner: &mut Planner<'_>| {
        planner.fleet.policy.queue.max_wait = Duration::from_secs(60);
    };
    assert_caught(&scenario, Broken { start, ..Broken::default() }, Invariant::QueueBounded);
}

#[test]
fn broken_word_on_the_end_is_caught() {
    let scenario = with_fault(small(), UNAVAILABLE, &["t0", "t1", "t2"]);
    let seam = Broken {
        command: |_, command| match command {
            Command::Stop(stop) => Command::Stop(Stop { terminal: Terminal::Success, ..stop }),
            command => command,
        },
        ..Broken::default()
    };
    assert_caught(&scenario, seam, Invariant::HonestEnd);
}

#[test]
fn broken_ear_for_a_clients_own_fault_is_caught() {
    let mut scenario = small();
    scenario.clients[0].typos = 0.1;
    let event = |_: &Request, event| match event {
        Event::Failed(failed) => Event::Failed(Failed { kind: FailureKind::ServerError, ..failed }),
        event => event,
    };
    assert_caught(&scenario, Broken { event, ..Broken::default() }, Invariant::NoHopelessAttempt);
}

#[test]
fn broken_way_back_into_service_is_caught() {
    // Whoever looks whether a target is back finds that it never will be.
    let start = |request: &mut Request, planner: &mut Planner<'_>| {
        if let Some(name) = request.preferences.only.first() {
            planner.fleet.set_killed(name, true);
        }
    };
    assert_caught(&small(), Broken { start, ..Broken::default() }, Invariant::NoWedge);
}

#[test]
fn broken_ear_for_the_callers_preferences_is_caught() {
    let seam = Broken { start: |request, _| request.preferences.only.clear(), ..Broken::default() };
    assert_caught(&small(), seam, Invariant::NoSilentSubstitution);
}

#[test]
fn broken_determinism_is_caught() {
    static WORLDS: AtomicU64 = AtomicU64::new(0);
    let mut scenario = small();
    scenario.policy.strategy = "sticky".into();
    let seam = || Broken {
        start: |request, _| {
            // What differs from one process to the next must not decide.
            request.affinity = Some(WORLDS.load(Ordering::Relaxed) * 7 + request.id);
        },
        ..Broken::default()
    };
    let outcome = play_twice(&scenario, |scenario| {
        WORLDS.fetch_add(1, Ordering::Relaxed);
        World::new(scenario, seam()).play()
    });
    assert_eq!(outcome.violation.map(|v| v.invariant), Some(Invariant::Deterministic));
    assert_eq!(play_twice(&scenario, play).violation, None);
}

#[test]
fn a_failing_world_shrinks_to_what_is_needed() {
    let mut scenario = with_fault(small(), Fault::Cut, &["t0"]);
    scenario = with_fault(scenario, Fault::DeadKey, &["t2"]);
    scenario.replicas = 2;
    let broken = |scenario: &Scenario| {
        let seam = Broken {
            command: |moment, command| match (&command, moment.last) {
                (Command::Stop(Stop { terminal: Terminal::Partial, .. }), Some(last)) => {
                    Command::Attempt(last.clone())
                }
                _ => command,
            },
            ..Broken::default()
        };
        World::new(scenario, seam).play()
    };
    let violation = broken(&scenario).violation.expect("it is broken");
    let (smallest, found) = shrink(&scenario, &violation, broken);
    assert_eq!(found.invariant, Invariant::OneVoice);
    assert_eq!((smallest.targets.len(), smallest.faults.len(), smallest.replicas), (1, 1, 1));
    assert!(smallest.requests < scenario.requests / 2, "{}", smallest.requests);
    assert_eq!(broken(&smallest).violation.as_ref(), Some(&found), "and it fails in the same way again");
}
