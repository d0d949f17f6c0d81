//! The candidate chain: who may serve a request, in which order, why the others may not, and what is waited for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use std::collections::BTreeSet;

use pointsman_core::controller::{Cause, Event};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::kind::FailureKind::*;
use pointsman_core::kind::Terminal;
use pointsman_core::plan::Exclusion;
use pointsman_core::request::Request;
use pointsman_core::target::{Catalog, Contract, Model, Price, StructuredOutput};
use world::{Run, World, failed, ms, overloaded, rate_limit, secs};

/// Why A is left out of `[A | B]`; B, which has everything, keeps the chain from being empty.
fn why(catalog: impl FnOnce(&mut Catalog), request: impl FnOnce(&mut Request)) -> Option<Exclusion> {
    let mut world = World::with("A,B", |c| {
        c.targets[1].model = Some("m1".into());
        c.models.insert("m1".into(), everything());
        c.routes.get_mut("route").unwrap().models.push("m1".into());
        c.routes.get_mut("route").unwrap().governance.substitution.allowed = true;
        let b = &mut c.targets[1];
        b.data.training = Some(false);
        b.data.zero_retention = Some(true);
        b.tags = BTreeSet::from(["eu".into()]);
        catalog(c);
    });
    let mut asked = world.request();
    request(&mut asked);
    let run = world.start(asked);
    let excluded = run.controller.plan().excluded.iter().find(|e| e.target.0 == 0)?;
    Some(excluded.why.clone())
}

fn everything() -> Model {
    Model {
        context_window: Some(1_000_000),
        max_output: Some(100_000),
        modalities: Some(["text", "image", "audio", "file"].map(String::from).into()),
        tools: Some(true),
        parallel_tool_calls: Some(true),
        structured_output: Some(StructuredOutput::JsonSchema),
        reasoning: Some(false),
        prefill: Some(true),
        prompt_caching: Some(true),
        price: Some(Price::of(1, 1)),
    }
}

fn m0(catalog: &mut Catalog, change: impl FnOnce(&mut Model)) {
    change(catalog.models.get_mut("m0").unwrap());
}

fn requires(catalog: &mut Catalog, contract: Contract) {
    catalog.routes.get_mut("route").unwrap().governance.requires = contract;
}

#[test]
fn what_is_known_at_a_target_holds_there_in_place_of_what_is_known_of_the_name() {
    let excluded_with = |known: Option<Model>| {
        why(
            |c| {
                m0(c, |m| m.tools = Some(true));
                c.targets[0].known = known;
            },
            |r| r.needs.tools = true,
        )
    };
    assert_eq!(excluded_with(None), None);
    let without = Model { tools: Some(false), ..everything() };
    assert_eq!(excluded_with(Some(without)), Some(Exclusion::Lacks("tools")));
}

#[test]
fn what_is_said_here_comes_before_what_is_known_there() {
    let said = Model { max_output: Some(5), tools: Some(false), ..Model::default() };
    let both = said.over(&everything());
    assert_eq!(both, Model { max_output: Some(5), tools: Some(false), ..everything() });
}

#[test]
fn what_a_request_needs_and_a_model_is_known_to_lack_excludes_it() {
    type Case = (fn(&mut Model), fn(&mut Request), &'static str);
    let cases: [Case; 6] = [
        (|m| m.tools = Some(false), |r| r.needs.tools = true, "tools"),
        (
            |m| m.parallel_tool_calls = Some(false),
            |r| r.needs.parallel_tool_calls = true,
            "parallel tool calls",
        ),
        (
            |m| m.structured_output = Some(StructuredOutput::JsonObject),
            |r| r.needs.structured_output = Some(StructuredOutput::JsonSchema),
            "structured output",
        ),
        (
            |m| m.prefill = Some(false),
            |r| r.needs.prefill = true,
            "the continuation of an assistant message (prefill)",
        ),
        (
            |m| m.modalities = Some(["text".into()].into()),
            |r| {
                r.needs.modalities.insert("image");
            },
            "image",
        ),
        (
            |m| m.modalities = Some(["text".into()].into()),
            |r| {
                r.needs.modalities.insert("audio");
            },
            "audio",
        ),
    ];
    for (model, needs, reason) in cases {
        assert_eq!(why(|c| m0(c, model), needs), Some(Exclusion::Lacks(reason)));
        assert_eq!(why(|c| m0(c, model), |_| {}), None, "{reason}: a request without that need passes");
        assert_eq!(why(|_| {}, needs), None, "{reason}: what is unknown passes");
        let strict = why(
            |_| {},
            |r| {
                needs(r);
                r.preferences.require_parameters = true;
            },
        );
        assert_eq!(strict, Some(Exclusion::Lacks(reason)), "unless the caller requires what it sends");
    }
}

#[test]
fn what_a_route_requires_must_be_known() {
    let cases = [
        (Contract { tools: true, ..Contract::default() }, "tools"),
        (Contract { parallel_tool_calls: true, ..Contract::default() }, "parallel tool calls"),
        (
            Contract { structured_output: Some(StructuredOutput::JsonObject), ..Contract::default() },
            "structured output",
        ),
        (Contract { modalities: ["image".into()].into(), ..Contract::default() }, "its input modalities"),
        (
            Contract { context_window_min: Some(1_000_000), ..Contract::default() },
            "its smallest context window",
        ),
        (
            Contract { max_output_tokens_min: Some(100_000), ..Contract::default() },
            "its smallest maximum output",
        ),
    ];
    for (contract, reason) in cases {
        let unknown = why(|c| requires(c, contract.clone()), |_| {});
        assert_eq!(unknown, Some(Exclusion::Contract(reason)));
        let known = why(
            |c| {
                requires(c, contract.clone());
                m0(c, |m| *m = everything());
            },
            |_| {},
        );
        assert_eq!(known, None, "{reason}");
    }
}

#[test]
fn a_callers_preferences_narrow() {
    type Case = (fn(&mut Request), &'static str);
    let cases: [Case; 8] = [
        (|r| r.preferences.only = vec!["B".into()], "provider.only"),
        (|r| r.preferences.only = vec!["Provider-B".into()], "provider.only"),
        (|r| r.preferences.ignore = vec!["provider-A".into()], "provider.ignore"),
        (|r| r.preferences.no_training = true, "data_collection"),
        (|r| r.preferences.zero_retention = true, "zdr"),
        (|r| r.preferences.tags = vec!["eu".into()], "x-pointsman-tags"),
        (|r| r.preferences.quantizations = vec!["fp8".into()], "provider.quantizations"),
        (|r| r.preferences.max_price = Some(Price::of(9, 9)), "provider.max_price"),
    ];
    for (wants, reason) in cases {
        assert_eq!(why(|_| {}, wants), Some(Exclusion::Preference(reason)));
    }
}

#[test]
fn a_target_that_wants_the_callers_credential_stays_only_if_it_came() {
    let wants = |c: &mut Catalog| c.targets[0].caller_key = true;
    assert_eq!(why(wants, |_| {}), Some(Exclusion::CallerKeyMissing));
    assert_eq!(
        why(wants, |r| {
            r.caller_keys.insert("provider-A".into());
        }),
        None
    );
}

#[test]
fn an_estimate_excludes_only_above_six_fifths_of_the_window() {
    let window = |c: &mut Catalog| m0(c, |m| m.context_window = Some(1_000));
    let asks = |prompt, output| {
        move |r: &mut Request| {
            r.needs.prompt_tokens = prompt;
            r.needs.max_output = Some(output);
        }
    };
    assert_eq!(why(window, asks(1_000, 200)), None);
    let expected = Exclusion::ContextWindow { estimate: 1_201, window: 1_000 };
    assert_eq!(why(window, asks(1_001, 200)), Some(expected));
}

#[test]
fn an_estimate_never_excludes_the_last_candidate() {
    let mut world = World::with("A|C", |c| {
        for (model, window) in [("m0", 1_000), ("m1", 2_000)] {
            c.models.get_mut(model).unwrap().context_window = Some(window);
        }
    });
    let mut request = world.request();
    request.needs.prompt_tokens = 50_000;
    assert_eq!(world.start(request).attempts(), "C fallback", "the widest one is left");
}

#[test]
fn without_a_candidate_the_reason_is_told() {
    let cause = |change: fn(&mut Catalog), wants: fn(&mut Request)| {
        let mut world = World::with("A,B", change);
        let mut request = world.request();
        wants(&mut request);
        world.start(request).ending()
    };
    let keys = |c: &mut Catalog| c.targets.iter_mut().for_each(|t| t.caller_key = true);
    assert_eq!(cause(keys, |_| {}), (Terminal::Rejected, Cause::CallerKeyMissing));
    let zdr = |r: &mut Request| r.preferences.zero_retention = true;
    assert_eq!(cause(|_| {}, zdr), (Terminal::Rejected, Cause::NoCompliantTarget));
    let tools = |c: &mut Catalog| requires(c, Contract { tools: true, ..Contract::default() });
    assert_eq!(cause(tools, |_| {}), (Terminal::Rejected, Cause::NoCapableTarget));
}

#[test]
fn the_callers_order_comes_first_and_may_be_all_there_is() {
    let mut world = World::new("A,B,C|D");
    let mut request = world.request();
    request.preferences.order = vec!["C".into(), "provider-B".into()];
    let run = world.play_request(request.clone(), |_| Some(failed(BadResponse)));
    assert_eq!(run.attempts(), "C primary, B failover, A failover, D fallback");
    request.preferences.allow_fallbacks = Some(false);
    let run = world.play_request(request, |_| Some(failed(BadResponse)));
    assert_eq!(run.attempts(), "C primary, B failover");
}

#[test]
fn the_requested_model_comes_first_then_tiers_then_the_configuration() {
    let mut world = World::with("A,B,C|D,E", |c| {
        for (place, tier) in [(0, 3), (1, 1), (2, 1), (3, 2), (4, 1)] {
            c.targets[place].priority = tier;
        }
        c.routes.get_mut("route").unwrap().governance.budget.max_attempts = 9;
    });
    let run = world.play(|_| Some(failed(BadResponse)));
    assert_eq!(run.attempts(), "B primary, C failover, A failover, E fallback, D failover");
}

/// A request for `[A | C]` while A is throttled for three seconds and another model may answer after `wait`.
fn with_patience(wait: u64) -> Run {
    let mut world = World::with("A|C", |c| {
        c.routes.get_mut("route").unwrap().governance.substitution.wait = secs(wait);
    });
    let mut limited = world.go();
    limited.fail(&mut world, rate_limit(secs(3)));
    limited.step(&mut world, Event::ClientGone);
    world.play(|_| None)
}

#[test]
fn substitution_waits_for_the_own_model_as_long_as_the_route_says() {
    assert_eq!(with_patience(0).steps, ["C fallback", "stop success"]);
    assert_eq!(with_patience(5).steps, ["wait 3s", "A primary", "stop success"]);
    assert_eq!(with_patience(1).attempts(), "C fallback", "it would not be back in time");
}

#[test]
fn a_wait_that_leaves_no_time_for_an_attempt_is_not_begun() {
    let mut world = World::with("A", |c| {
        c.routes.get_mut("route").unwrap().governance.budget.deadline = secs(4);
    });
    let mut limited = world.go();
    limited.fail(&mut world, rate_limit(ms(3_001)));
    limited.step(&mut world, Event::ClientGone);
    assert_eq!(world.go().ending(), (Terminal::Exhausted, Cause::NothingHasRoom));
    world.pass(ms(1));
    assert!(world.go().is_wait(), "3 s of waiting leave the 1 s that an attempt is worth");
}

#[test]
fn the_last_resort_tries_what_is_soonest_to_recover() {
    let mut world = World::new("A,B");
    // A opens, and two seconds later B.
    for _ in 0..3 {
        world.play(|name| (name == "A").then_some(overloaded()));
    }
    world.pass(secs(2));
    for _ in 0..3 {
        let mut request = world.request();
        request.sdk_retry = true;
        world.play_request(request, |_| Some(failed(BadResponse)));
    }
    assert_eq!(world.state("A", DomainKind::Target), DomainState::Open);
    assert_eq!(world.state("B", DomainKind::Target), DomainState::Open);
    assert_eq!(world.go().attempts(), "A primary");
}

#[test]
fn a_breaker_that_is_due_within_a_second_is_waited_for() {
    let mut world = World::new("A");
    for _ in 0..3 {
        world.hit(overloaded());
    }
    world.pass(ms(29_500));
    assert_eq!(world.play(|_| None).steps, ["wait 500ms", "A primary", "stop success"]);
}

#[test]
fn the_words_of_a_trace_name_targets_and_reasons_and_nothing_else() {
    let mut world = World::new("A,B");
    let run = world.play(|name| (name == "A").then_some(overloaded()));
    let started = run.controller.started();
    let name = |place: usize| ["A", "B"][place].to_owned();
    let words: Vec<String> =
        run.controller.trace().entries().iter().map(|e| e.decision.words(&name, started)).collect();
    assert_eq!(words.len(), 4, "{words:?}");
    for (line, parts) in words.iter().zip([
        vec!["primary", "A"],
        vec!["A", "overloaded", "headers", "failed"],
        vec!["failover", "B"],
        vec!["success"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
}
