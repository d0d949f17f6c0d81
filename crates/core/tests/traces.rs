//! Whole requests, step by step: which rule decides what, by the documented order of questions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::{Cause, Event, Failed};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::FailureKind::*;
use pointsman_core::kind::{Outcome, Phase, Terminal};
use pointsman_core::policy::{MicroUsd, RetryOrder};
use pointsman_core::request::Reroute;
use pointsman_core::target::{Catalog, Governance, Model, Price};
use pointsman_core::trace::{Decision, NoRetry, Rule};
use world::{World, failed, ms, overloaded, rate_limit, secs};

fn route(catalog: &mut Catalog) -> &mut Governance {
    &mut catalog.routes.get_mut("route").unwrap().governance
}

fn world_with(word: &str, change: impl FnOnce(&mut Governance)) -> World {
    World::with(word, |catalog| change(route(catalog)))
}

#[test]
fn failover_first_leaves_a_target_before_it_retries_one() {
    let run = World::new("A,B|C").play(|_| Some(overloaded()));
    assert_eq!(run.attempts(), "A primary, B failover, B retry, C fallback");
    assert_eq!(run.stop().terminal, Terminal::Exhausted);
}

#[test]
fn retry_first_retries_before_it_leaves() {
    let mut world = world_with("A,B|C", |g| g.retry.order = RetryOrder::RetryFirst);
    let run = world.play(|_| Some(overloaded()));
    assert_eq!(run.attempts(), "A primary, A retry, B failover, C fallback");
    assert!(run.steps.iter().take(3).all(|s| !s.starts_with("wait")), "nobody sleeps while B has room");
}

#[test]
fn failover_and_fallback_come_at_once_and_a_retry_within_its_jitter() {
    let mut world = World::new("A,B|C");
    let before = world.now;
    let run = world.play(|_| Some(overloaded()));
    let waits: Vec<&String> = run.steps.iter().filter(|s| s.starts_with("wait")).collect();
    assert_eq!(waits.len(), 1, "{:?}", run.steps);
    assert_eq!(run.steps[0..2], ["A primary", "B failover"]);
    // uniform(0, min(5 s, 500 ms * 2^0))
    assert!(world.now.since(before) <= ms(500));
}

#[test]
fn backoff_is_full_jitter_and_doubles_up_to_its_ceiling() {
    let mut world = world_with("A", |g| {
        g.budget.max_same_target_attempts = 8;
        g.budget.max_attempts = 8;
        g.health.breaker.failures = 100;
    });
    let mut longest = [secs(0); 7];
    for _ in 0..200 {
        let mut run = world.go();
        for slot in &mut longest {
            run.fail(&mut world, overloaded());
            *slot = (*slot).max(run.wait().since(world.now));
            world.now = run.wait();
            run.step(&mut world, Event::Tick);
        }
        run.succeed(&mut world);
        world.pass(secs(10));
    }
    let ceilings = [500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000].map(ms);
    for (got, ceiling) in longest.iter().zip(ceilings) {
        assert!(*got <= ceiling && *got > ceiling * 9 / 10, "{got:?} of {ceiling:?}");
    }
}

#[test]
fn a_rate_limit_that_fits_is_waited_out_where_a_target_is_alone() {
    let mut world = World::new("A");
    let mut run = world.go();
    run.fail(&mut world, rate_limit(secs(2)));
    assert!(run.wait() >= world.now.after(secs(2)), "never inside the window that it was told is closed");
    run.finish(&mut world, |_| None);
    assert_eq!(run.attempts(), "A primary, A retry");
    assert_eq!(run.stop().terminal, Terminal::Success);
}

#[test]
fn guidance_beyond_the_longest_retry_wait_fails_fast_with_a_true_retry_after() {
    let mut world = World::new("A");
    let run = world.play(|_| Some(rate_limit(secs(30))));
    assert_eq!(run.steps, ["A primary", "stop exhausted"]);
    assert_eq!(run.ending(), (Terminal::Exhausted, Cause::ExhaustedRateLimit));
    assert_eq!(run.stop().retry_after, Some(secs(30)));
}

#[test]
fn nobody_sleeps_on_a_rate_limit_while_an_equivalent_has_room() {
    let mut world = World::new("A,B");
    let run = world.play(|name| (name == "A").then_some(rate_limit(secs(1))));
    assert_eq!(run.steps, ["A primary", "B failover", "stop success"]);
    let run = world.play(|_| None);
    assert_eq!(run.attempts(), "B primary", "A is throttled until its second is over");
    world.pass(secs(1));
    assert_eq!(world.play(|_| None).attempts(), "A primary");
}

#[test]
fn guidance_of_a_day_is_a_quota_and_not_a_rate() {
    let mut world = World::new("A,B");
    let run = world.play(|name| (name == "A").then_some(rate_limit(secs(86_400))));
    assert_eq!(run.attempts(), "A primary, B failover");
    assert_eq!(world.state("A", DomainKind::Account), DomainState::Isolated);
    assert_eq!(world.state("A", DomainKind::Rate), DomainState::Closed);
}

#[test]
fn a_retry_waits_until_the_whole_throttle_is_over_not_only_its_own_guidance() {
    let mut world = World::new("A");
    let mut first = world.go();
    let mut second = world.go();
    first.fail(&mut world, rate_limit(secs(4)));
    second.fail(&mut world, rate_limit(secs(1)));
    assert!(second.wait() >= world.now.after(secs(4)));
}

#[test]
fn a_request_that_an_sdk_repeats_gets_no_same_target_retry_but_moves_on() {
    let mut world = World::new("A,B|C");
    let mut request = world.request();
    request.sdk_retry = true;
    let run = world.play_request(request, |_| Some(overloaded()));
    assert_eq!(run.attempts(), "A primary, B failover, C fallback");
}

#[test]
fn one_attempt_is_kept_for_a_permitted_substitute() {
    for order in [RetryOrder::FailoverFirst, RetryOrder::RetryFirst] {
        for (max, word, expected) in [
            (1, "A,B|C", "A primary"),
            (2, "A,B|C", "A primary, C fallback"),
            (2, "A|C", "A primary, C fallback"),
            (3, "A|C", "A primary, A retry, C fallback"),
            (3, "A,B,D|C", "A primary, B failover, C fallback"),
        ] {
            let mut world = world_with(word, |g| {
                g.budget.max_attempts = max;
                g.retry.order = order;
            });
            let run = world.play(|_| Some(overloaded()));
            if order == RetryOrder::FailoverFirst || word == "A|C" || max < 3 {
                assert_eq!(run.attempts(), expected, "{order:?} {max} {word}");
            } else {
                assert_eq!(run.attempts(), "A primary, A retry, C fallback");
            }
        }
    }
}

#[test]
fn nothing_is_kept_for_a_substitute_that_cannot_take_a_call() {
    let mut world = world_with("A,B|C", |g| g.budget.max_attempts = 2);
    assert!(world.fleet.set_killed("C", true));
    assert_eq!(world.play(|_| Some(overloaded())).attempts(), "A primary, B failover");
}

#[test]
fn a_request_never_goes_back_to_an_earlier_model() {
    let mut world = world_with("A,B|C,D", |g| g.budget.max_attempts = 6);
    // B is out when it is B's turn, and back when C has failed.
    assert!(world.fleet.set_killed("B", true));
    let mut run = world.go();
    run.fail(&mut world, failed(BadResponse));
    assert_eq!(run.attempts(), "A primary, C fallback");
    assert!(world.fleet.set_killed("B", false));
    run.finish(&mut world, |_| Some(failed(BadResponse)));
    assert_eq!(run.attempts(), "A primary, C fallback, D failover");
}

#[test]
fn no_attempt_starts_with_less_than_the_shortest_worthwhile_time() {
    for (left, goes) in [(1_000, true), (999, false), (0, false)] {
        let mut world = World::new("A,B");
        let mut run = world.go();
        world.now = run.controller.deadline().before(ms(left));
        run.fail(&mut world, failed(Timeout));
        assert_eq!(run.is_attempt(), goes, "{left} ms are left");
        if !goes {
            assert_eq!(run.ending(), (Terminal::Deadline, Cause::Deadline));
        }
    }
}

#[test]
fn a_deadline_that_is_shorter_than_an_attempt_is_worth_starts_nothing() {
    let mut world = World::new("A");
    let mut request = world.request();
    request.caller_deadline = Some(ms(1_000));
    let run = world.start(request);
    // 1,000 ms less 5 % are 950 ms, below `min_attempt` of 1 s.
    assert_eq!(run.steps, ["stop deadline"]);
}

#[test]
fn a_caller_may_shorten_the_deadline_by_its_limit_less_a_margin_and_never_lengthen_it() {
    let mut world = World::new("A");
    for (caller, own) in [
        (None, secs(570)),
        (Some(secs(20)), secs(19)),
        (Some(secs(100)), secs(98)),
        (Some(secs(572)), secs(570)),
        (Some(secs(10_000)), secs(570)),
    ] {
        let mut request = world.request();
        request.caller_deadline = caller;
        let mut run = world.start(request);
        assert_eq!(run.controller.deadline(), world.now.after(own), "{caller:?}");
        run.step(&mut world, Event::ClientGone);
    }
}

#[test]
fn an_attempt_has_its_own_limits_and_leaves_the_reserve_while_others_are_left() {
    let mut world = world_with("A,B", |g| {
        g.budget.deadline = secs(40);
        g.budget.limits.first_token = secs(35);
    });
    let mut run = world.go();
    let first = run.attempt().limits.first_output;
    // 40 s less 25 %: the limit is not the target's own any more.
    assert_eq!((first.within, first.own), (secs(30), false));
    world.pass(secs(5));
    run.fail(&mut world, failed(Timeout));
    let last = run.attempt().limits.first_output;
    assert_eq!((last.within, last.own), (secs(35), true), "nothing is left to keep time for");
}

#[test]
fn no_time_is_kept_for_targets_that_the_caller_rules_out() {
    let mut world = world_with("A,B", |g| g.budget.deadline = secs(40));
    let mut request = world.request();
    request.reroute = Reroute::None;
    let run = world.start(request);
    assert_eq!(run.attempt().limits.whole.within, secs(40));
}

#[test]
fn five_dead_credentials_do_not_spend_the_attempts_for_the_sixth() {
    let mut world = World::new("A,B,C,D,E,F");
    let run = world.play(|name| (name != "F").then_some(failed(Auth)));
    assert_eq!(run.attempts(), "A primary, B failover, C failover, D failover, E failover, F failover");
    assert_eq!(run.stop().terminal, Terminal::Success);
    // A second request meets them too, and from then on they are remembered.
    assert_eq!(world.play(|name| (name != "F").then_some(failed(Auth))).stop().terminal, Terminal::Success);
    assert_eq!(world.play(|_| None).attempts(), "F primary");
}

#[test]
fn rejections_are_bounded_by_a_number_of_their_own() {
    for (max, expected) in [(8, 8), (3, 3)] {
        let mut world = world_with("A,B,C,D,E,F,G,H,I,J", |g| g.budget.max_rejections = max);
        let run = world.play(|_| Some(failed(Permission)));
        assert_eq!(run.controller.attempts().len(), expected);
        assert_eq!(run.stop().terminal, Terminal::Exhausted);
    }
}

#[test]
fn rejections_and_attempts_do_not_count_against_each_other() {
    let mut world = World::new("A,B,C,D,E,F,G");
    let kinds = |name: &str| match name {
        "A" | "C" | "E" => failed(Permission),
        _ => failed(BadResponse),
    };
    let run = world.play(|name| Some(kinds(name)));
    // B, D, F and G executed: four attempts; A, C and E did not.
    assert_eq!(run.controller.attempts().len(), 7);
}

#[test]
fn a_caller_that_wants_no_rerouting_gets_one_attempt() {
    for (reroute, expected) in [
        (Reroute::None, "A primary"),
        (Reroute::Failover, "A primary, B failover, B retry"),
        (Reroute::Fallback, "A primary, B failover, B retry, C fallback"),
    ] {
        let mut world = World::new("A,B|C");
        let mut request = world.request();
        request.reroute = reroute;
        let run = world.play_request(request, |_| Some(overloaded()));
        assert_eq!(run.attempts(), expected, "{reroute:?}");
    }
}

#[test]
fn a_side_effect_of_unknown_outcome_stops_everything() {
    let sent = |f: Failed| Failed { phase: Phase::Sent, status: None, lost: true, ..f };
    let status = |s| Failed { status: Some(s), ..failed(ServerError) };
    let stops = [
        sent(failed(Connect)),
        sent(failed(Timeout)),
        // A driver that forgets to say that the connection was lost changes nothing: no answer came.
        Failed { phase: Phase::Sent, ..failed(Connect) },
        status(500),
        status(502),
        status(504),
        status(520),
        status(524),
        // A 200 had come: whatever follows, it may have been executed.
        failed(BadResponse),
        Failed { status: Some(200), phase: Phase::Preamble, ..overloaded() },
    ];
    for failure in stops {
        let mut world = World::new("A,B|C");
        let mut request = world.request();
        request.replay_safe = false;
        let run = world.play_request(request, |_| Some(failure));
        assert_eq!(run.attempts(), "A primary", "{failure:?}");
        assert_eq!(run.ending(), (Terminal::ReconciliationRequired, Cause::SideEffect), "{failure:?}");
        assert_eq!(run.controller.attempts()[0].outcome, Some(Outcome::Unknown));
    }
}

#[test]
fn a_refusal_that_executed_nothing_lets_an_unsafe_request_move_on() {
    let goes = [
        failed(Connect),
        Failed { phase: Phase::NotSent, ..failed(Timeout) },
        overloaded(),
        Failed { status: Some(503), ..failed(ServerError) },
        failed(RateLimit),
        failed(Auth),
        // Refused inside a stream before anything was done.
        Failed { status: Some(200), ..failed(QuotaExhausted) },
    ];
    for failure in goes {
        let mut world = World::new("A,B");
        let mut request = world.request();
        request.replay_safe = false;
        let run = world.play_request(request, |name| (name == "A").then_some(failure));
        assert_eq!(run.attempts(), "A primary, B failover", "{failure:?}");
    }
}

#[test]
fn a_lost_answer_of_a_replay_safe_request_is_unknown_and_yet_moves_on() {
    let mut world = World::new("A,B");
    let run = world.play(|name| (name == "A").then_some(failed(Timeout)));
    assert_eq!(run.attempts(), "A primary, B failover");
    assert_eq!(run.controller.attempts()[0].outcome, Some(Outcome::Unknown));
    assert_eq!(run.controller.attempts()[1].outcome, Some(Outcome::Succeeded));
}

/// A model that costs one dollar per million tokens in each direction.
fn priced(catalog: &mut Catalog, model: &str, per_million: u64) {
    let price = Some(Price::of(per_million, per_million));
    catalog.models.insert(model.into(), Model { price, ..Model::default() });
}

#[test]
fn a_ceiling_of_cost_bounds_all_attempts_together() {
    // 1,000 tokens in and 1,000 out at 1 USD per million are 2,000 micro-dollars an attempt.
    for (max, expected) in [(1_999, ""), (2_000, "A primary"), (4_000, "A primary, B failover")] {
        let mut world = World::with("A,B,C", |catalog| {
            priced(catalog, "m0", 1_000_000);
            route(catalog).budget.max_cost = Some(MicroUsd(max));
        });
        let mut request = world.request();
        request.needs.prompt_tokens = 1_000;
        request.needs.max_output = Some(1_000);
        let run = world.play_request(request, |_| Some(failed(BadResponse)));
        assert_eq!(run.attempts(), expected, "{max}");
        assert_eq!(run.stop().terminal, Terminal::Exhausted);
    }
}

#[test]
fn an_unknown_price_fails_a_ceiling_of_cost_and_a_rejection_costs_nothing() {
    let mut world = world_with("A", |g| g.budget.max_cost = Some(MicroUsd(1_000_000_000)));
    assert_eq!(world.play(|_| None).ending(), (Terminal::Exhausted, Cause::CostSpent));
    let mut world = World::with("A,B", |catalog| {
        priced(catalog, "m0", 1_000_000);
        route(catalog).budget.max_cost = Some(MicroUsd(2_000));
    });
    let mut request = world.request();
    request.needs.prompt_tokens = 1_000;
    request.needs.max_output = Some(1_000);
    let run = world.play_request(request, |name| (name == "A").then_some(failed(Auth)));
    assert_eq!(run.attempts(), "A primary, B failover");
}

#[test]
fn a_substitute_costs_no_more_than_its_ceiling_and_its_price_must_be_known() {
    for (own, ceiling, goes) in
        [(2_000, Some(2.0), true), (2_001, Some(2.0), false), (9_000, None, true), (0, Some(2.0), false)]
    {
        let mut world = World::with("A|C", |catalog| {
            priced(catalog, "m0", 1_000);
            if own > 0 {
                priced(catalog, "m1", own);
            }
            route(catalog).substitution.price_ceiling = ceiling;
        });
        let run = world.play(|name| (name == "A").then_some(failed(BadResponse)));
        let expected = if goes { "A primary, C fallback" } else { "A primary" };
        assert_eq!(run.attempts(), expected, "{own} {ceiling:?}");
    }
}

#[test]
fn the_error_shown_is_the_first_real_cause_and_not_the_last_fallbacks() {
    let mut world = World::new("A|C");
    let run =
        world.play(|name| Some(if name == "A" { rate_limit(secs(30)) } else { failed(InvalidRequest) }));
    assert_eq!(run.attempts(), "A primary, C fallback");
    assert_eq!(run.shown(&world).as_deref(), Some("A"));
}

#[test]
fn an_equivalents_word_on_the_request_itself_is_what_the_client_is_told() {
    let mut world = World::new("A,B");
    let run = world.play(|name| Some(failed(if name == "A" { Timeout } else { InvalidRequest })));
    assert_eq!(run.attempts(), "A primary, B failover");
    assert_eq!(run.ending(), (Terminal::Rejected, Cause::RequestsOwn));
    assert_eq!(run.shown(&world).as_deref(), Some("B"));
}

#[test]
fn a_substitutes_refusal_does_not_hide_why_it_was_asked() {
    for kind in [InvalidRequest, Policy] {
        let mut world = World::new("A|C");
        let run = world.play(|name| Some(failed(if name == "A" { BadResponse } else { kind })));
        assert_eq!(run.attempts(), "A primary, C fallback");
        assert_eq!(run.ending(), (Terminal::Exhausted, Cause::Exhausted));
        assert_eq!(run.shown(&world).as_deref(), Some("A"));
    }
}

#[test]
fn a_client_error_that_all_agree_on_is_the_requests_own() {
    let mut world = World::new("A,B");
    let run = world.play(|_| Some(failed(Unsupported)));
    assert_eq!(run.attempts(), "A primary, B failover");
    assert_eq!(run.ending(), (Terminal::Rejected, Cause::RequestsOwn));
    assert_eq!(run.shown(&world).as_deref(), Some("A"));
}

#[test]
fn what_all_attempts_met_is_what_the_client_is_told() {
    for (kind, cause) in [
        (RateLimit, Cause::ExhaustedRateLimit),
        (QuotaExhausted, Cause::ExhaustedQuota),
        (Timeout, Cause::ExhaustedTimeout),
        (BadResponse, Cause::Exhausted),
    ] {
        let run = World::new("A,B").play(|_| Some(failed(kind)));
        assert_eq!(run.ending(), (Terminal::Exhausted, cause), "{kind}");
        let run = World::new("A,B").play(|name| Some(failed(if name == "A" { kind } else { ServerError })));
        assert_eq!(run.ending().1, Cause::Exhausted, "{kind}");
    }
}

#[test]
fn a_tick_before_the_end_of_a_backoff_starts_nothing() {
    let mut world = World::new("A");
    let mut run = world.go();
    run.fail(&mut world, rate_limit(secs(2)));
    let until = run.wait();
    world.pass(secs(1));
    run.step(&mut world, Event::Tick);
    assert_eq!(run.wait(), until);
    assert_eq!(run.attempts(), "A primary");
}

#[test]
fn what_is_told_of_an_attempt_that_ended_changes_nothing() {
    let mut world = World::new("A");
    let mut run = world.go();
    run.fail(&mut world, overloaded());
    let until = run.wait();
    for event in [
        Event::Sent,
        Event::Preamble,
        Event::Committed { first_token: None },
        Event::Succeeded { tokens: None },
        Event::Failed(failed(InvalidRequest)),
    ] {
        run.step(&mut world, event);
        assert_eq!(run.wait(), until, "{event:?}");
    }
    world.now = until;
    run.step(&mut world, Event::Tick);
    assert_eq!(run.attempts(), "A primary, A retry");
}

#[test]
fn a_client_that_goes_during_a_backoff_ends_it() {
    let mut world = World::new("A");
    let mut run = world.go();
    run.fail(&mut world, overloaded());
    run.step(&mut world, Event::ClientGone);
    assert_eq!(run.ending(), (Terminal::Cancelled, Cause::ClientGone));
    world.pass(secs(60));
    run.step(&mut world, Event::Tick);
    assert_eq!(run.attempts(), "A primary");
}

#[test]
fn a_first_attempt_on_another_model_is_called_a_fallback() {
    let mut world = World::new("A|C");
    assert!(world.fleet.set_killed("A", true));
    assert_eq!(world.play(|_| None).attempts(), "C fallback");
}

#[test]
fn a_routes_first_model_that_nothing_serves_does_not_make_the_next_one_primary() {
    let mut world = World::new("A|C");
    world.reload(|c| {
        c.targets.remove(0);
    });
    assert_eq!(world.play(|_| None).attempts(), "C fallback");
}

#[test]
fn no_other_model_answers_where_substitution_is_not_allowed() {
    let mut world = world_with("A|C", |g| g.substitution.allowed = false);
    assert!(world.fleet.set_killed("A", true));
    let run = world.play(|_| None);
    assert_eq!(run.ending(), (Terminal::Exhausted, Cause::NothingHealthy));
}

#[test]
fn the_trace_says_which_rule_decided_each_step() {
    let mut world = World::new("A,B|C");
    let run = world.play(|_| Some(overloaded()));
    let rules: Vec<Rule> = run.controller.trace().entries().iter().filter_map(rule).collect();
    let expected =
        [Rule::Plan, Rule::Failover, Rule::Retry, Rule::Retry, Rule::Fallback, Rule::AttemptsSpent];
    // The first `Retry` is the decision to wait, the second the attempt.
    assert_eq!(rules, expected);
    let why: Vec<NoRetry> = run.controller.trace().entries().iter().filter_map(no_retry).collect();
    // After C the four attempts are spent: rule 5 comes before the question of a retry.
    assert_eq!(why, [NoRetry::SameTarget]);
}

fn rule(entry: &pointsman_core::trace::Entry) -> Option<Rule> {
    match entry.decision {
        Decision::Attempt { rule, .. } | Decision::Wait { rule, .. } | Decision::Stop { rule, .. } => {
            Some(rule)
        }
        _ => None,
    }
}

fn no_retry(entry: &pointsman_core::trace::Entry) -> Option<NoRetry> {
    match entry.decision {
        Decision::NoRetry(why) => Some(why),
        _ => None,
    }
}
