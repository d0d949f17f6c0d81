//! What is out until an operator or a probe: accounts, targets, models that nobody knows; and what an operator does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::{Cause, Event};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::FailureKind::{self, *};
use pointsman_core::kind::Terminal;
use pointsman_core::request::resolve;
use world::{Run, World, failed, overloaded, secs, target};

/// A request that meets this failure on A and is served by B.
fn meet(world: &mut World, kind: FailureKind) {
    world.play(|name| (name == "A").then_some(failed(kind)));
}

fn account(world: &World) -> DomainState {
    world.state("A", DomainKind::Account)
}

#[test]
fn two_different_requests_must_fail_to_authenticate() {
    let mut world = World::new("A,B");
    meet(&mut world, Auth);
    assert_eq!(account(&world), DomainState::Closed);
    meet(&mut world, Auth);
    assert_eq!(account(&world), DomainState::Isolated);
}

#[test]
fn one_request_that_is_refused_twice_is_one_request() {
    let mut world = World::new("A,B");
    let request = world.request();
    for _ in 0..2 {
        // The same number: a request that meets one account through two of its targets.
        let mut run = world.start(request.clone());
        run.fail(&mut world, failed(Auth));
        run.step(&mut world, Event::ClientGone);
    }
    assert_eq!(account(&world), DomainState::Closed);
}

#[test]
fn a_success_between_two_refusals_of_a_credential_forgives_the_first() {
    let mut world = World::new("A,B");
    for _ in 0..5 {
        meet(&mut world, Auth);
        world.play(|_| None);
    }
    assert_eq!(account(&world), DomainState::Closed);
}

#[test]
fn an_isolated_account_takes_all_its_targets_out_and_no_other() {
    let mut world = World::with("A,B,C", |c| c.targets[1].account = "account-A".into());
    meet(&mut world, QuotaExhausted);
    assert_eq!(world.play(|_| None).attempts(), "C primary");
    assert_eq!(world.state("B", DomainKind::Account), DomainState::Isolated);
    assert_eq!(world.state("C", DomainKind::Account), DomainState::Closed);
}

#[test]
fn a_quota_that_is_used_up_isolates_at_once_and_tells_an_operator() {
    let mut world = World::new("A,B");
    meet(&mut world, QuotaExhausted);
    let told = world.fleet.take_transitions();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].from, told[0].to), (DomainState::Closed, DomainState::Isolated));
    assert!(told[0].alert);
}

#[test]
fn an_isolated_domain_gets_one_real_request_every_five_minutes() {
    for kind in [QuotaExhausted, Permission, ModelNotFound] {
        let mut world = World::new("A,B");
        meet(&mut world, kind);
        let mut probes = Vec::new();
        for second in 0..1_000u64 {
            world.pass(secs(1));
            // Several at once: only one may be the probe.
            let mut runs: Vec<Run> = (0..3).map(|_| world.go()).collect();
            let on_a = runs.iter().filter(|r| r.attempts() == "A primary").count();
            assert!(on_a <= 1, "{kind}");
            if on_a == 1 {
                probes.push(second + 1);
            }
            for run in &mut runs {
                run.finish(&mut world, |name| (name == "A").then_some(failed(kind)));
            }
        }
        assert_eq!(probes, [300, 600, 900], "{kind}");
    }
}

#[test]
fn a_successful_probe_brings_it_back() {
    let mut world = World::new("A,B");
    meet(&mut world, QuotaExhausted);
    world.pass(secs(300));
    assert_eq!(world.play(|_| None).attempts(), "A primary");
    assert_eq!(account(&world), DomainState::Closed);
}

#[test]
fn a_probe_that_commits_brings_it_back_before_its_stream_is_over() {
    let mut world = World::new("A,B");
    meet(&mut world, QuotaExhausted);
    world.pass(secs(300));
    let mut probe = world.go();
    assert_eq!(world.go().attempts(), "B primary", "one probe");
    probe.commit(&mut world);
    assert_eq!(account(&world), DomainState::Closed);
    assert_eq!(world.go().attempts(), "A primary");
}

#[test]
fn a_call_from_before_the_isolation_proves_nothing() {
    let mut world = World::new("A,B");
    let mut early = world.go();
    meet(&mut world, QuotaExhausted);
    early.succeed(&mut world);
    assert_eq!(account(&world), DomainState::Isolated);
}

#[test]
fn a_probe_that_comes_to_no_verdict_leaves_the_next_one_due_at_once() {
    for leave in [Event::ClientGone, Event::Failed(failed(InvalidRequest)), Event::Failed(failed(Cancelled))]
    {
        let mut world = World::new("A,B");
        meet(&mut world, Permission);
        world.pass(secs(300));
        for _ in 0..5 {
            let mut probe = world.go();
            assert_eq!(probe.attempts(), "A primary", "{leave:?}");
            probe.step(&mut world, leave);
        }
    }
}

#[test]
fn while_the_probe_of_an_isolated_target_is_out_others_wait_a_little_for_what_it_says() {
    let mut world = World::new("A");
    meet(&mut world, QuotaExhausted);
    world.pass(secs(300));
    let mut probe = world.go();
    assert!(probe.is_attempt());
    let mut other = world.go();
    assert!(other.wait() > world.now, "a wait lies in the future");
    // Nobody spins: fifty looks within the five seconds that are waited at most.
    let mut looks = 0;
    while other.is_wait() {
        looks += 1;
        world.now = other.wait();
        other.step(&mut world, Event::Tick);
    }
    assert!(looks <= 51, "{looks}");
    assert_eq!(other.ending(), (Terminal::Exhausted, Cause::NothingHealthy));
    let mut third = world.go();
    probe.succeed(&mut world);
    third.finish(&mut world, |_| None);
    assert_eq!(third.stop().terminal, Terminal::Success);
}

/// A wildcard target A beside X.
fn wildcards() -> World {
    World::with("X", |c| {
        let mut wild = target("A", None);
        wild.provider = "p".into();
        c.targets.push(wild);
    })
}

fn ask(world: &mut World, model: &str) -> Run {
    let request = world.request_for(&format!("p/{model}"));
    world.start(request)
}

#[test]
fn a_model_that_a_wildcard_target_does_not_have_is_out_for_a_minute_and_no_other_is() {
    let mut world = wildcards();
    ask(&mut world, "tpyo").fail(&mut world, failed(ModelNotFound));
    assert_eq!(ask(&mut world, "tpyo").ending(), (Terminal::Exhausted, Cause::NothingHealthy));
    assert!(ask(&mut world, "model").is_attempt(), "one client's typo is no other client's trouble");
    assert!(world.fleet.take_transitions().iter().all(|t| !t.alert));
    world.pass(secs(60));
    assert!(ask(&mut world, "tpyo").is_attempt());
}

#[test]
fn thousands_of_made_up_models_do_not_shut_out_the_real_ones() {
    let mut world = wildcards();
    for n in 0..2_000 {
        let mut run = ask(&mut world, &format!("made-up-{n}"));
        assert!(run.is_attempt(), "{n}");
        run.fail(&mut world, failed(ModelNotFound));
    }
    assert!(ask(&mut world, "real").is_attempt());
    assert!(world.fleet.domains(world.now).len() < 20_000, "the table is bounded");
}

#[test]
fn a_model_with_a_permission_problem_is_out_on_that_target_alone() {
    let mut world = World::with("A,B|C", |c| c.targets[2].account = "account-A".into());
    meet(&mut world, Permission);
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Isolated);
    assert_eq!(account(&world), DomainState::Closed);
    assert_eq!(world.state("C", DomainKind::Target), DomainState::Closed);
}

#[test]
fn an_isolation_is_not_undone_by_the_last_resort() {
    let mut world = World::new("A");
    meet(&mut world, QuotaExhausted);
    let run = world.go();
    assert_eq!(run.ending(), (Terminal::Exhausted, Cause::NothingHealthy));
    assert_eq!(run.stop().retry_after, Some(secs(300)), "when its probe is due");
}

#[test]
fn a_change_of_credential_starts_the_account_and_the_target_afresh() {
    let mut world = World::new("A,B");
    meet(&mut world, QuotaExhausted);
    for _ in 0..3 {
        world.hit(overloaded());
    }
    world.reload(|c| {
        c.targets[0].account = "account-A-new".into();
        c.targets[0].identity = "identity-A-new".into();
    });
    for view in world.fleet.domains_of("A", world.now) {
        assert_eq!((view.state, view.failures_in_a_row), (DomainState::Closed, 0), "{}", view.name);
    }
    assert_eq!(world.play(|_| None).attempts(), "A primary");
}

#[test]
fn what_a_reload_left_behind_is_shown_to_nobody() {
    let mut world = World::new("A,B");
    meet(&mut world, QuotaExhausted);
    let before = world.fleet.domains(world.now).len();
    world.reload(|c| {
        c.targets[0].account = "account-A-new".into();
        c.targets[0].identity = "identity-A-new".into();
    });
    assert_eq!(world.fleet.domains(world.now).len(), before);
    assert!(world.fleet.domains(world.now).iter().all(|v| v.state == DomainState::Closed));
    world.reload(|c| {
        c.targets.remove(0);
    });
    assert!(world.fleet.domains_of("A", world.now).is_empty());
}

#[test]
fn a_reload_that_changes_nothing_keeps_health() {
    let mut world = World::new("A,B");
    meet(&mut world, QuotaExhausted);
    world.reload(|c| c.targets[0].weight = 7);
    assert_eq!(account(&world), DomainState::Isolated);
    assert_eq!(world.play(|_| None).attempts(), "B primary");
}

#[test]
fn a_wildcards_models_stay_in_view_over_a_reload() {
    let mut world = wildcards();
    ask(&mut world, "tpyo").fail(&mut world, failed(ModelNotFound));
    world.reload(|_| {});
    let states: Vec<DomainState> = world.fleet.domains_of("A", world.now).iter().map(|v| v.state).collect();
    assert!(states.contains(&DomainState::Isolated));
}

#[test]
fn a_call_under_way_over_a_reload_gives_back_what_it_took() {
    let mut world = World::new("A,B");
    let mut run = world.go();
    world.reload(|c| c.targets[0].identity = "identity-A-new".into());
    run.fail(&mut world, overloaded());
    run.step(&mut world, Event::ClientGone);
    assert_eq!(world.in_flight(), 0);
    assert_eq!(world.view("A", DomainKind::Target).failures_in_a_row, 0, "it was another target then");
}

#[test]
fn a_kill_takes_a_target_out_survives_a_reload_and_is_taken_back() {
    let mut world = World::new("A,B");
    assert!(world.fleet.set_killed("A", true));
    world.reload(|c| c.targets[0].identity = "identity-A-new".into());
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Killed);
    assert_eq!(world.play(|_| None).attempts(), "B primary");
    // Not even as a last resort.
    assert!(world.fleet.set_killed("B", true));
    let run = world.go();
    assert_eq!(run.ending(), (Terminal::Exhausted, Cause::NothingHealthy));
    assert_eq!(run.stop().retry_after, None, "nobody knows when it comes back");
    assert!(world.fleet.revive("A", world.now));
    assert_eq!(world.play(|_| None).attempts(), "A primary");
    assert!(!world.fleet.set_killed("nobody", true));
}

#[test]
fn what_an_operator_isolates_no_probe_brings_back() {
    let mut world = World::new("A,B");
    assert!(world.fleet.isolate_target("A", world.now));
    for _ in 0..50 {
        world.pass(secs(300));
        assert_eq!(world.play(|_| None).attempts(), "B primary");
    }
    assert!(world.fleet.reset("A", world.now));
    assert_eq!(world.play(|_| None).attempts(), "A primary");
}

#[test]
fn a_reset_makes_answers_to_earlier_calls_meaningless() {
    let mut world = World::new("A,B");
    let mut runs: Vec<Run> = (0..6).map(|_| world.go()).collect();
    assert!(world.fleet.reset("A", world.now));
    for run in &mut runs {
        run.fail(&mut world, overloaded());
        run.step(&mut world, Event::ClientGone);
    }
    assert_eq!(world.view("A", DomainKind::Target).failures_in_a_row, 0);
}

#[test]
fn names_lead_to_a_route_then_a_model_then_a_providers_model_then_a_wildcard() {
    let world = wildcards();
    let first = |name: &str| {
        let resolved = resolve(&world.catalog, name)?;
        Some((resolved.route.is_some(), resolved.models[0].model.clone(), resolved.models[0].targets.clone()))
    };
    let at = |n| vec![pointsman_core::target::TargetIndex(n)];
    assert_eq!(first("route"), Some((true, "m0".into(), at(0))));
    assert_eq!(first("m0"), Some((false, "m0".into(), at(0))));
    assert_eq!(first("provider-X/m0"), Some((false, "m0".into(), at(0))));
    assert_eq!(first("p/other"), Some((false, "p/other".into(), at(1))));
    // There is only one provider with wildcards.
    assert_eq!(first("other"), Some((false, "p/other".into(), at(1))));
    assert_eq!(resolve(&World::new("A").catalog, "other"), None);
}

#[test]
fn a_known_name_leads_to_the_wildcard_of_whose_model_it_is_and_only_after_every_name_of_the_configuration() {
    let mut world = wildcards();
    let mut other = target("B", None);
    other.provider = "q".into();
    world.catalog.targets.push(other);
    let first = |world: &World, name: &str| {
        let choice = resolve(&world.catalog, name)?.models.remove(0);
        Some((choice.model, choice.upstream, choice.targets[0].0))
    };
    assert_eq!(first(&world, "known"), None, "two providers have wildcards");
    world.catalog.aliases.insert("known".into(), "q/known".into());
    world.catalog.aliases.insert("m0".into(), "q/m0".into());
    world.catalog.aliases.insert("absent".into(), "nobody/absent".into());
    assert_eq!(first(&world, "known"), Some(("q/known".into(), Some("known".into()), 2)));
    assert_eq!(first(&world, "m0"), Some(("m0".into(), None, 0)), "a target of its own");
    assert_eq!(first(&world, "absent"), None);
}
