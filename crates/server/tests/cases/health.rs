//! What is remembered of failures: limits, spent accounts, breakers, and the way back.

use std::time::Duration;

use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::Script;
use serde_json::json;

use crate::support::Answer;
use crate::tongue::{ALL, AT_ONCE, BOTH, Tongue, metric};

fn retry_after(answer: &Answer) -> u64 {
    answer.header("retry-after").unwrap_or_else(|| panic!("{}", answer.text())).parse().unwrap()
}

/// C010: the client is told what the provider said of its limits, and when to come back.
#[tokio::test]
async fn a_rate_limit_reaches_the_client_with_what_the_provider_said() {
    let cases = [
        (Tongue::Chat, "x-ratelimit-remaining-requests"),
        (Tongue::Messages, "anthropic-ratelimit-input-tokens-remaining"),
    ];
    for (tongue, name) in cases {
        for stream in [true, false] {
            let world = tongue.alone("").await;
            world.sim(0).set(tongue.rate_limit(30).header(name, "0").header("x-internal", "secret"));
            let answer = tongue.ask(&world, stream).await;
            assert_eq!(answer.status, 429, "{}", answer.text());
            assert!((20..=30).contains(&retry_after(&answer)));
            assert_eq!(answer.header(name), Some("0"));
            assert_eq!(answer.header("x-internal"), None);
            // Nothing was asked now, so nothing was said; the time is still the true one.
            world.clock.advance(Duration::from_secs(10));
            let answer = tongue.ask(&world, stream).await;
            assert_eq!(answer.status, 429, "{}", answer.text());
            assert!((10..=20).contains(&retry_after(&answer)), "{}", retry_after(&answer));
            assert_eq!((answer.header(name), world.sim(0).calls()), (None, 1));
        }
    }
}

/// C010: of several that were asked nobody's limits are the client's.
#[tokio::test]
async fn of_several_limited_targets_no_ones_headers_are_told() {
    let tongue = Tongue::Chat;
    let world = tongue.pair("").await;
    for (sim, seconds, left) in [(0, 90, "0"), (1, 60, "7")] {
        let script = tongue.rate_limit(seconds).header("x-ratelimit-remaining-tokens", left);
        world.sim(sim).set(script);
    }
    let answer = tongue.ask(&world, true).await;
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert!((40..=60).contains(&retry_after(&answer)), "the soonest of the two");
    assert_eq!(answer.header("x-ratelimit-remaining-tokens"), None);
}

/// C011: operators see a spent account, and an ordinary 400 that speaks of something else is none.
#[tokio::test]
async fn a_spent_account_is_shown_to_operators() {
    let balance = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.";
    for (tongue, stream) in ALL {
        let world = tongue.pair("").await;
        world.sim(0).set(tongue.says(400, "invalid_request_error", balance));
        tongue.assert_whole(&tongue.ask(&world, stream).await, "b");
        let isolated = || metric(&world, "pointsman_domain_state", &[("domain", "account")]);
        assert_eq!(isolated(), 5.0, "5 is isolated");
        let world = tongue.pair("").await;
        world.sim(0).set(tongue.says(400, "invalid_request_error", "temperature: must be at most 1"));
        assert_eq!(tongue.ask(&world, stream).await.status, 400);
        world.assert_untouched("a");
    }
}

/// C014: however a server words it, and wherever: no retry, the larger window, and one word for the client.
#[tokio::test]
async fn a_prompt_that_is_too_long_goes_to_the_larger_window_of_another_model() {
    let texts = [
        "prompt is too long: 209303 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
        "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens",
        "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
    ];
    for (tongue, stream) in ALL {
        let model = tongue.model();
        let rest = format!(
            "models: {{ {model}: {{ context_window: 30000 }}, large: {{ context_window: 1000000 }} }}\n\
             routes: {{ r: {{ models: [{model}, large] }} }}\n"
        );
        for text in texts {
            let inside = Script::error_event_first(json!({"type": "invalid_request_error", "message": text}));
            for script in [tongue.says(400, "invalid_request_error", text), inside] {
                let world = tongue.world(&[("a", ""), ("b", ", model: large")], &rest).await;
                world.sim(0).set(script.clone());
                let answer = tongue.post(&world, &tongue.request_for("r", stream), &[]).await;
                tongue.assert_whole(&answer, "b");
                assert_eq!(answer.header("x-pointsman-reason"), Some("a:context_overflow>b"), "{text}");
                world.sim(1).set(script);
                let answer = tongue.post(&world, &tongue.request_for("r", stream), &[]).await;
                assert_eq!(answer.status, 400, "{}", answer.text());
                let error = answer.json()["error"].clone();
                assert_eq!(error["type"], "invalid_request_error", "{error}");
                match tongue {
                    Tongue::Chat => assert_eq!(error["code"], "context_length_exceeded", "{error}"),
                    Tongue::Messages => {
                        let said = error["message"].as_str().unwrap();
                        assert!(
                            said.starts_with("prompt is too long") || said.contains("context limit"),
                            "{said}"
                        );
                    }
                }
                assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (2, 2));
                world.assert_untouched("a");
            }
        }
    }
}

/// C015: with every target of a pool out of service the least bad one is tried rather than nobody.
#[tokio::test]
async fn a_pool_that_is_open_as_a_whole_is_not_dark() {
    let health = "breaker: { failures: 1, open_for: 10m }, budget: { max_same_target_attempts: 1 }";
    for (tongue, stream) in ALL {
        let world = tongue.pair(&format!("defaults: {{ {health} }}\n")).await;
        for sim in &world.sims {
            sim.enqueue([Script::server_error(500)]);
        }
        assert!(tongue.ask(&world, stream).await.status.is_server_error());
        for name in ["a", "b"] {
            assert_eq!(world.domain(name, DomainKind::Target).state, DomainState::Open);
        }
        let answer = tongue.ask(&world, stream).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// C015: where nobody may be tried the client is told when to come back, and never a 500.
#[tokio::test]
async fn a_pool_that_is_limited_as_a_whole_says_when_to_come_back() {
    for (tongue, stream) in ALL {
        let world = tongue.pair("").await;
        world.sim(0).set(tongue.rate_limit(90));
        world.sim(1).set(tongue.rate_limit(60));
        for told in ["exhausted_rate_limit", "nothing_has_room"] {
            let answer = tongue.ask(&world, stream).await;
            assert_eq!(answer.status, 429, "{}", answer.text());
            assert_eq!(answer.json()["pointsman"]["reason"], told);
            assert!((40..=60).contains(&retry_after(&answer)));
        }
        assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 1));
    }
}

/// C020: one limit is enough, whatever a target's weight: until its time is over nothing goes there, then one request.
#[tokio::test]
async fn a_limited_target_of_great_weight_gets_nothing_until_its_time_is_over() {
    for tongue in BOTH {
        let weights = [("a", ", weight: 200"), ("b", ", weight: 1")];
        let rest = "defaults: { strategy: weighted }\nthrottle: { initial: 15s }\n";
        let world = tongue.world(&weights, rest).await;
        world.sim(0).set(Script::status(429));
        let mut asked_at = Vec::new();
        for second in (0..60).step_by(5) {
            let before = world.sim(0).calls();
            tongue.assert_whole(&tongue.ask(&world, true).await, "b");
            if world.sim(0).calls() > before {
                asked_at.push(second);
            }
            world.clock.advance(Duration::from_secs(5));
        }
        // 15 s after the first, and twice as long after the second.
        assert_eq!(asked_at, [0, 15, 45], "{tongue:?}");
    }
}

/// C020, C025: failures in a row open the breaker however seldom requests come, of streams and of plain answers.
#[tokio::test]
async fn failures_in_a_row_open_the_breaker_at_any_traffic() {
    let failures =
        [Script::status(503), Script::server_error(500), Script::end_after(0), Script::cut_after(0)];
    for (tongue, stream) in ALL {
        for script in failures.clone() {
            let world = tongue.pair("").await;
            world.sim(0).set(script.clone());
            for _ in 0..10 {
                tongue.assert_whole(&tongue.ask(&world, stream).await, "b");
                world.clock.advance(Duration::from_secs(5));
                if world.domain("a", DomainKind::Target).state == DomainState::Open {
                    break;
                }
            }
            assert_eq!(world.domain("a", DomainKind::Target).state, DomainState::Open, "{script:?}");
            assert_eq!(world.sim(0).calls(), 3, "{tongue:?} {script:?}");
        }
    }
}

/// C012, C071: each failed attempt of a request counts, in either dialect.
#[tokio::test]
async fn every_failed_attempt_of_a_request_is_counted() {
    for (tongue, stream) in ALL {
        let rest = format!("defaults: {{ budget: {{ max_same_target_attempts: 1 }}, {AT_ONCE} }}\n");
        let world = tongue.world(&[("p1", ""), ("p2", ""), ("f", "")], &rest).await;
        world.sim(0).set(Script::server_error(500));
        world.sim(1).set(Script::server_error(500));
        tongue.assert_whole(&tongue.ask(&world, stream).await, "f");
        for name in ["p1", "p2"] {
            assert_eq!(world.domain(name, DomainKind::Target).failures_in_a_row, 1, "{name}");
            let failed = [("target", name), ("outcome", "failed")];
            let unknown = [("target", name), ("outcome", "unknown")];
            let counted = |labels: &[(&str, &str)]| metric(&world, "pointsman_attempts_total", labels);
            assert_eq!(counted(&failed) + counted(&unknown), 1.0, "{name}");
        }
    }
}
