//! Who is asked, how often and in which order, when a target fails before and after its first output.

use std::time::Duration;

use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::support::{Answer, World};
use crate::tongue::{ALL, AT_ONCE, BOTH, Tongue, metric};

fn calls(world: &World) -> Vec<u64> {
    world.sims.iter().map(|sim| sim.calls()).collect()
}

/// `b` answered after `a` had failed in this way.
fn assert_went_over(tongue: Tongue, answer: &Answer, kind: &str) {
    tongue.assert_whole(answer, "b");
    assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
    assert_eq!(answer.header("x-pointsman-reason"), Some(format!("a:{kind}>b").as_str()));
}

/// C001 (ii), C002: metrics count half an answer as none, whether its connection breaks or ends in good order.
#[tokio::test]
async fn half_an_answer_is_no_success_in_any_count() {
    for tongue in BOTH {
        let world = tongue.pair("").await;
        for script in [Script::cut_after(40), Script::end_after(40)] {
            world.sim(0).set(script.tokens(60));
            let answer = tongue.ask(&world, true).await;
            tongue.assert_broken(&answer);
            assert_eq!(tongue.text(&answer).split_whitespace().count(), 40);
            assert_eq!(world.entry(&answer).terminal, "partial");
        }
        let counted = |terminal| metric(&world, "pointsman_requests_total", &[("terminal", terminal)]);
        assert_eq!((counted("partial"), counted("success")), (2.0, 0.0), "{tongue:?}");
        let failed = metric(&world, "pointsman_attempts_total", &[("target", "a"), ("outcome", "succeeded")]);
        assert_eq!(failed, 0.0, "{tongue:?}");
        assert_eq!(metric(&world, "pointsman_success_after_failover_total", &[]), 0.0);
        assert_eq!(calls(&world), [2, 0], "after the first output nobody else is asked");
    }
}

/// C003: a silent target is given up in its time, and not asked again although it is alone.
#[tokio::test]
async fn silence_is_not_retried_on_the_only_target() {
    let budget = "budget: { first_token: 300ms, response: 300ms, max_same_target_attempts: 3 }";
    for (tongue, stream) in ALL {
        let world = tongue.alone(&format!("defaults: {{ {budget}, {AT_ONCE} }}\n")).await;
        world.sim(0).set(Script::silence());
        let answer = tongue.ask(&world, stream).await;
        assert_eq!((answer.status.as_u16(), world.sim(0).calls()), (504, 1), "{}", answer.text());
        let waited = world.entry(&answer).attempts[0].duration_ms;
        assert!((300..10_000).contains(&waited), "{waited}");
        world.sim(0).wait_until(|sim| sim.active_requests() == 0 && sim.aborted() == 1).await.unwrap();
    }
}

/// C003: the headers of a stream have a limit of their own, and it ends with them.
#[tokio::test]
async fn the_limit_of_the_headers_is_no_limit_of_the_first_output() {
    for tongue in BOTH {
        let limits = ", budget: { headers: 500ms, first_token: 30s }";
        let world = tongue.world(&[("a", limits), ("b", "")], "").await;
        world.sim(0).set(Script::slow_headers(Duration::from_secs(25)));
        let answer = tongue.ask(&world, true).await;
        assert_went_over(tongue, &answer, "timeout");
        assert!(world.entry(&answer).attempts[0].duration_ms < 10_000);
        world.sim(0).set(Script::healthy().delay_first_token(Duration::from_millis(800)));
        tongue.assert_whole(&tongue.ask(&world, true).await, "a");
    }
}

/// C003: a stream as a whole has one, too.
#[tokio::test]
async fn a_stream_that_outlives_its_time_ends_in_one_error() {
    for tongue in BOTH {
        let world = tongue.pair("defaults: { budget: { stream: 700ms } }\n").await;
        world.sim(0).set(Script::healthy().tokens(1_000).between_tokens(Duration::from_millis(20)));
        let answer = tongue.ask(&world, true).await;
        tongue.assert_broken(&answer);
        assert_eq!((world.entry(&answer).terminal, calls(&world)), ("partial", vec![1, 0]));
        world.sim(0).wait_until(|sim| sim.active_requests() == 0 && sim.aborted() == 1).await.unwrap();
        world.assert_untouched("a");
    }
}

fn chunk(delta: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    let chunk = json!({"id": "c-a", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// Everything that a stream may begin with before there is output, then an error about money.
fn lifecycle_and_no_quota(tongue: Tongue) -> Script {
    let body = match tongue {
        Tongue::Chat => {
            let begun = [json!({"role": "assistant", "content": ""}), json!({}), json!({"content": null})];
            let error = json!({"error": {"message": "m", "type": "insufficient_quota", "code": "insufficient_quota"}});
            begun.iter().map(chunk).collect::<String>() + &format!(": still there\n\ndata: {error}\n\n")
        }
        Tongue::Messages => {
            let start = json!({"type": "message_start", "message": {"id": "m-a", "type": "message", "role": "assistant",
                "model": tongue.model(), "content": [], "stop_reason": null, "usage": {"input_tokens": 3, "output_tokens": 1}}});
            let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
            let error = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m",
                "details": {"error_code": "enforced_spend_limit_reached"}}});
            [start, json!({"type": "ping"}), block, json!({"type": "ping"}), error]
                .iter()
                .map(event)
                .collect()
        }
    };
    Script::fixed(200, "text/event-stream", body)
}

/// C004: what only opens a stream is no output; the one who answers opens the client's stream, once.
#[tokio::test]
async fn an_error_after_nothing_but_lifecycle_events_goes_over() {
    for tongue in BOTH {
        let world = tongue.pair("").await;
        world.sim(0).set(lifecycle_and_no_quota(tongue));
        let answer = tongue.ask(&world, true).await;
        assert_went_over(tongue, &answer, "quota_exhausted");
        let opened = ["\"role\":\"assistant\"", "message_start"].map(|m| answer.text().matches(m).count());
        // The event and its `type` both name it; the message in it has a role, too.
        let expected = if tongue == Tongue::Chat { [1, 0] } else { [1, 2] };
        assert_eq!(opened, expected, "{}", answer.text());
        assert!(!answer.text().contains("c-a") && !answer.text().contains("m-a"), "{}", answer.text());
        assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Isolated);
    }
}

/// C005: a first output that is late is given up at the limit, not when it comes.
#[tokio::test]
async fn the_limit_of_the_first_output_strikes_in_time() {
    for tongue in BOTH {
        let world = tongue.pair("").await;
        world.sim(0).set(Script::healthy().delay_first_token(Duration::from_secs(25)));
        let answer = tongue.ask(&world, true).await;
        assert_went_over(tongue, &answer, "timeout");
        let waited = world.entry(&answer).attempts[0].duration_ms;
        assert!((400..10_000).contains(&waited), "{waited}");
    }
}

/// C005: the first output disarms it; what follows may take longer than it in all.
#[tokio::test]
async fn the_limit_of_the_first_output_is_no_limit_of_the_stream() {
    for tongue in BOTH {
        let limits = ", budget: { first_token: 1s, response: 1s, idle: 10s }";
        let world = tongue.world(&[("a", limits), ("b", "")], "").await;
        world.sim(0).set(Script::healthy().tokens(12).between_tokens(Duration::from_millis(100)));
        let answer = tongue.ask(&world, true).await;
        tongue.assert_whole(&answer, "a");
        assert!(world.entry(&answer).duration_ms >= 1_100);
        assert_eq!(calls(&world), [1, 0]);
    }
}

/// C006: what would be refused again is asked once, however many tries there were.
#[tokio::test]
async fn what_cannot_help_is_not_tried_again() {
    let defaults = format!(
        "defaults: {{ budget: {{ max_same_target_attempts: 4, max_attempts: 6 }}, {AT_ONCE}, retry_order }}\n"
    );
    let refusals = [
        (400, "invalid_request_error", "bad param"),
        (401, "authentication_error", "said of a key"),
        (403, "permission_error", "not for you"),
        (404, "not_found_error", "said of a model"),
        (413, "request_too_large", "too many bytes"),
        (422, "invalid_request_error", "cannot be processed"),
    ];
    for order in ["failover_first", "retry_first"] {
        let retry = format!("retry: {{ base: 1ms, max: 2ms, order: {order} }}");
        let rest = defaults.replace(AT_ONCE, &retry).replace(", retry_order", "");
        for (tongue, stream) in ALL {
            for (status, kind, said) in refusals {
                let world = tongue.alone(&rest).await;
                world.sim(0).set(tongue.says(status, kind, said));
                let answer = tongue.ask(&world, stream).await;
                assert_eq!(world.sim(0).calls(), 1, "{status} by {order}: {}", answer.text());
                let own = [400, 413, 422].contains(&status);
                assert_eq!(answer.status == status, own, "{status}: {}", answer.text());
                let told = answer.text().contains(said);
                assert!(told == own || status == 404, "{status}: {}", answer.text());
            }
        }
    }
}

/// C007: of two numbers the more specific one holds, and they are not multiplied.
#[tokio::test]
async fn a_routes_own_number_of_tries_holds_alone() {
    for tongue in BOTH {
        let model = tongue.model();
        let rest = format!(
            "defaults: {{ budget: {{ max_same_target_attempts: 2 }}, breaker: {{ failures: 100 }}, {AT_ONCE} }}\n\
             routes: {{ patient: {{ models: [{model}], budget: {{ max_same_target_attempts: 6, max_attempts: 6 }} }} }}\n"
        );
        for (name, tries) in [("patient", 6), (model, 2)] {
            let world = tongue.alone(&rest).await;
            world.sim(0).set(Script::server_error(500));
            let answer = tongue.post(&world, &tongue.request_for(name, true), &[]).await;
            assert!(answer.status.is_server_error(), "{}", answer.text());
            assert_eq!(world.sim(0).calls(), tries, "{name}");
        }
    }
}

/// C007: however many tries a request has, all together retry no more than the process may: 20 % of ten are two.
#[tokio::test]
async fn retries_of_all_requests_together_are_bounded() {
    let tongue = Tongue::Chat;
    let world = tongue
        .alone(&format!(
            "defaults: {{ budget: {{ max_same_target_attempts: 4 }}, breaker: {{ failures: 100 }}, {AT_ONCE} }}\n\
             retry_budget: {{ ratio: 20%, floor_per_second: 0 }}\n"
        ))
        .await;
    world.sim(0).set(Script::server_error(500));
    for _ in 0..10 {
        assert_eq!(tongue.ask(&world, true).await.status, 503);
    }
    let retries = world.sim(0).calls() - 10;
    assert!((1..=2).contains(&retries), "{retries}");
}

/// C008: nobody sleeps while another target has room, in whatever order and with however many tries.
#[tokio::test]
async fn a_limit_of_one_target_is_not_waited_out_while_another_has_room() {
    let policies = ["budget: { max_same_target_attempts: 1 }", "retry: { order: retry_first }"];
    for policy in policies {
        for (tongue, stream) in ALL {
            let world = tongue.pair(&format!("defaults: {{ {policy} }}\n")).await;
            world.sim(0).set(tongue.rate_limit(47));
            let answer = tongue.ask(&world, stream).await;
            assert_went_over(tongue, &answer, "rate_limit");
            assert!(world.entry(&answer).duration_ms < 20_000);
            let due = world.due_in("a", DomainKind::Rate);
            assert!(due <= Duration::from_secs(48) && due > Duration::from_secs(27), "{due:?}");
        }
    }
}

/// C009: where nobody else has room the provider's word is waited out, in Messages as well.
#[tokio::test]
async fn a_retry_waits_as_long_as_the_provider_says() {
    for tongue in BOTH {
        let world = tongue.alone("").await;
        world.sim(0).enqueue([tongue.rate_limit(2)]);
        let answer = tongue.ask(&world, true).await;
        tongue.assert_whole(&answer, "a");
        assert_eq!(answer.header("x-pointsman-action"), Some("retry"));
        let entry = world.entry(&answer);
        let gap = entry.attempts[1].start_ms - entry.attempts[0].start_ms;
        assert!(gap >= 2_000, "{gap}");
    }
}

/// C013: an impatient caller gets its own timeout, and takes the target from nobody.
#[tokio::test]
async fn a_tiny_deadline_of_a_caller_blames_no_target() {
    for (tongue, kind) in [(Tongue::Chat, "timeout"), (Tongue::Messages, "timeout_error")] {
        let world = tongue.alone("defaults: { budget: { min_attempt: 10ms } }\n").await;
        world.sim(0).set(Script::healthy().delay_headers(Duration::from_secs(5)));
        for round in 0..10 {
            let headers = [("x-pointsman-deadline-ms", "60")];
            let answer = tongue.post(&world, &tongue.request(round % 2 == 0), &headers).await;
            assert_eq!(answer.status, 504, "{}", answer.text());
            assert_eq!(answer.json()["error"]["type"], kind);
            world.clock.advance(Duration::from_millis(150));
        }
        assert!(world.sim(0).calls() > 0, "attempts were made");
        world.assert_untouched("a");
        world.sim(0).set(Script::healthy());
        tongue.assert_whole(&tongue.ask(&world, true).await, "a");
    }
}

/// C017: a refused account is no retry, whichever way it is refused: the pool is walked to its end.
#[tokio::test]
async fn a_pool_of_dead_accounts_is_walked_to_the_one_that_lives() {
    for tongue in BOTH {
        let names = ["k1", "k2", "k3", "k4", "k5", "k6"];
        let targets: Vec<(&str, &str)> = names.iter().map(|name| (*name, "")).collect();
        let world = tongue
            .world(&targets, "defaults: { budget: { max_attempts: 2, max_same_target_attempts: 1 } }\n")
            .await;
        let spent = match tongue {
            Tongue::Chat => Script::payment_required(),
            Tongue::Messages => tongue.says(402, "billing_error", "no credits are left"),
        };
        let dead = tongue.says(401, "authentication_error", "no such key");
        let barred = tongue.says(403, "permission_error", "not for you");
        for (place, script) in [&dead, &spent, &barred, &spent, &dead].into_iter().enumerate() {
            world.sim(place).set(script.clone());
        }
        for _ in 0..3 {
            tongue.assert_whole(&tongue.ask(&world, true).await, "k6");
        }
        // By now all five are known to be dead.
        assert_eq!(tongue.ask(&world, false).await.header("x-pointsman-attempts"), Some("1"), "{tongue:?}");
    }
}

/// C018, C023: by kind and not by the hundreds; a stream's status line waits until somebody answers.
#[tokio::test]
async fn the_kind_of_a_failure_decides_who_may_take_over() {
    let statuses = [
        (429, "rate_limit_error", Some("rate_limit")),
        (408, "timeout_error", Some("timeout")),
        (500, "api_error", Some("server_error")),
        (502, "api_error", Some("server_error")),
        (503, "overloaded_error", Some("overloaded")),
        (529, "overloaded_error", Some("overloaded")),
        (401, "authentication_error", Some("auth")),
        (403, "permission_error", Some("permission")),
        (404, "not_found_error", Some("model_not_found")),
        (400, "invalid_request_error", None),
        (422, "invalid_request_error", None),
    ];
    for (tongue, stream) in ALL {
        for (status, kind, expected) in statuses {
            let world = tongue.pair("").await;
            world.sim(0).set(tongue.says(status, kind, "model: said by the provider"));
            let answer = tongue.ask(&world, stream).await;
            match expected {
                Some(kind) => assert_went_over(tongue, &answer, kind),
                None => {
                    assert_eq!(
                        (answer.status.as_u16(), world.sim(1).calls()),
                        (status, 0),
                        "{}",
                        answer.text()
                    );
                    world.assert_untouched("a");
                }
            }
        }
    }
}

/// C021: who wants no rerouting gets none, also when the failure comes after the stream has begun.
#[tokio::test]
async fn a_caller_that_forbids_rerouting_gets_the_error() {
    for tongue in BOTH {
        let error = json!({"type": "overloaded_error", "message": "Overloaded"});
        for script in [Script::error_event_after(0, error), tongue.overloaded(), Script::cut_after(0)] {
            let rest = "defaults: { budget: { max_same_target_attempts: 1 } }\n";
            let world = tongue.pair(rest).await;
            world.sim(0).set(script);
            let headers = [("x-pointsman-reroute", "none")];
            let answer = tongue.post(&world, &tongue.request(true), &headers).await;
            assert!(answer.status.is_server_error(), "{}", answer.text());
            assert_eq!(calls(&world), [1, 0], "{tongue:?}");
        }
    }
}

/// C022: the second priority serves the very request on which the first one fails.
#[tokio::test]
async fn the_next_priority_serves_the_first_request_already() {
    for (tongue, stream) in ALL {
        let tiers = [("spare", ", priority: 2"), ("first", ", priority: 1")];
        let world = tongue.world(&tiers, "").await;
        world.sim(1).set(Script::status(503));
        let answer = tongue.ask(&world, stream).await;
        tongue.assert_whole(&answer, "spare");
        assert_eq!(calls(&world), [1, 1]);
    }
}

/// C024: a broken answer is not continued elsewhere, so no refusal from there can hide why it broke.
#[tokio::test]
async fn a_broken_answer_is_not_continued_by_another() {
    for tongue in BOTH {
        let world = tongue.pair("").await;
        world.sim(0).set(Script::cut_after(40).tokens(60));
        world.sim(1).set(tongue.says(400, "invalid_request_error", "prefill is not supported"));
        let answer = tongue.ask(&world, true).await;
        let last = tongue.assert_broken(&answer);
        assert!(!answer.text().contains("prefill"), "{}", answer.text());
        assert_eq!(last["pointsman"]["attempts"][0]["target"], "a", "{last}");
        assert_eq!(last["pointsman"]["attempts"][0]["failure"], "partial_stream", "{last}");
        assert_eq!(calls(&world), [1, 0]);
    }
}

/// C104: an overload that is told late and inside the stream is one attempt of the one budget.
#[tokio::test]
async fn an_overload_inside_the_stream_counts_as_one_attempt() {
    let overloaded = json!({"type": "overloaded_error", "message": "Overloaded"});
    let rest = format!(
        "defaults: {{ budget: {{ max_same_target_attempts: 3 }}, breaker: {{ failures: 100 }}, {AT_ONCE} }}\n"
    );
    for tongue in BOTH {
        for first in [true, false] {
            let world = tongue.alone(&rest).await;
            let failing = if first {
                Script::error_event_first(overloaded.clone())
            } else {
                Script::error_event_after(0, overloaded.clone())
            };
            let failing = failing.delay_headers(Duration::from_millis(150));
            world.sim(0).enqueue([failing.clone()]);
            let answer = tongue.ask(&world, true).await;
            tongue.assert_whole(&answer, "a");
            assert_eq!(answer.header("x-pointsman-attempts"), Some("2"));
            world.sim(0).reset_counters();
            world.sim(0).set(failing);
            let answer = tongue.ask(&world, true).await;
            assert!(answer.status.is_server_error(), "{}", answer.text());
            assert_eq!(world.sim(0).calls(), 3, "{tongue:?}");
        }
    }
}
