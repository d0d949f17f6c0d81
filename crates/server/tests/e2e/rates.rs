//! Rate limits and quotas: guidance is obeyed, nobody sleeps while another has room, and money that is gone is not asked
//! for again.

use std::time::Duration;

use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::{Guidance, Script};
use serde_json::json;

use crate::checks::{alone, assert_whole_from, pair, world_from};
use crate::support::{World, chat};

/// C008: no sleep while another target is healthy, and the limited one is left alone until the instant it named.
#[tokio::test]
async fn another_target_answers_at_once_and_the_limited_one_waits_its_time() {
    let world = pair("").await;
    world.sim(0).set(Script::openai_rate_limit(47));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "b");
    assert!(world.entry(&answer).duration_ms < 20_000, "nobody waited for 47 s");
    let due = world.due_in("a", DomainKind::Rate);
    assert!(due <= Duration::from_secs(47) && due > Duration::from_secs(27), "{due:?}");
    assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 0, "a limit is no failure");
}

/// C020's kin: from the first 429 on no request reaches the target until its time is over, then at once.
#[tokio::test]
async fn a_throttled_target_gets_nothing_until_its_time_is_over() {
    let world = pair("").await;
    world.sim(0).enqueue([Script::openai_rate_limit(15)]);
    world.post(&chat("gpt-4o", true)).await;
    for _ in 0..5 {
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_whole_from(&answer, "b");
        assert_eq!(answer.header("x-pointsman-attempts"), Some("1"));
    }
    assert_eq!(world.sim(0).calls(), 1);
    world.clock.advance(Duration::from_secs(15));
    assert_whole_from(&world.post(&chat("gpt-4o", true)).await, "a");
    assert_eq!(world.sim(0).calls(), 2);
}

/// The time between the starts of the two attempts of a request whose only target is limited once.
async fn gap(guidance: Guidance, stream: bool) -> u64 {
    let world = alone("").await;
    world.sim(0).enqueue([Script::rate_limit(guidance)]);
    let answer = world.post(&chat("gpt-4o", stream)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(answer.header("x-pointsman-action"), Some("retry"));
    let entry = world.entry(&answer);
    assert_eq!(entry.attempts.len(), 2);
    entry.attempts[1].start_ms - entry.attempts[0].start_ms
}

/// C009: where nobody else has room, the provider's word is waited out and not a moment less.
#[tokio::test]
async fn a_retry_waits_as_long_as_the_provider_says_in_seconds() {
    assert!(gap(Guidance::Seconds(2), true).await >= 2_000);
}

#[tokio::test]
async fn a_retry_waits_as_long_as_the_provider_says_in_milliseconds() {
    assert!(gap(Guidance::Millis(1_500), false).await >= 1_500);
}

#[tokio::test]
async fn a_retry_waits_until_the_date_that_the_provider_says() {
    // An HTTP date has whole seconds: three from now are at least two.
    assert!(gap(Guidance::Date(3), true).await >= 2_000);
}

#[tokio::test]
async fn a_retry_waits_for_the_reset_that_the_provider_says() {
    assert!(gap(Guidance::Reset("1s".into()), true).await >= 1_000);
    assert!(gap(Guidance::Text(1), true).await >= 1_000);
}

/// C009: what cannot be read, and a date that is over, is no guidance: nothing is waited out, and the gateway's own time
/// holds.
#[tokio::test]
async fn guidance_that_cannot_be_read_is_none() {
    for guidance in [Guidance::Garbage, Guidance::Negative, Guidance::Absent, Guidance::Date(-3_600)] {
        let world = alone("").await;
        world.sim(0).set(Script::rate_limit(guidance.clone()));
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_eq!(answer.status, 429, "{guidance:?}: {}", answer.text());
        assert_eq!(world.sim(0).calls(), 1, "{guidance:?}");
        assert!(world.due_in("a", DomainKind::Rate) <= Duration::from_secs(5), "{guidance:?}");
        let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=5).contains(&after), "{after}");
    }
}

/// C009, C063 (vi): nobody waits a day; beyond the longest throttle it is no rate any more.
#[tokio::test]
async fn guidance_beyond_the_longest_throttle_fails_fast_as_a_quota() {
    for seconds in [86_400, 604_800] {
        let world = alone("").await;
        world.sim(0).set(Script::openai_rate_limit(seconds));
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.error()["code"], "insufficient_quota");
        assert_eq!(world.sim(0).calls(), 1);
        assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Isolated);
    }
}

/// C010: the client is told the true time, after an attempt and without one.
#[tokio::test]
async fn the_client_is_told_when_to_come_back() {
    let world = alone("").await;
    world.sim(0).set(Script::openai_rate_limit(30).header("x-ratelimit-remaining-requests", "0"));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.error()["code"], "rate_limit_exceeded");
    assert_eq!(
        answer.header("x-should-retry"),
        Some("false"),
        "the gateway has spent what a retry may spend"
    );
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((20..=30).contains(&after), "{after}");

    let answer = world.post(&chat("gpt-4o", false)).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.error()["code"], "rate_limit_exceeded");
    assert_eq!(answer.header("x-should-retry"), Some("true"), "nothing was sent");
    let later: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((10..=after).contains(&later), "{later}");
    assert_eq!(answer.json()["pointsman"]["attempts"], json!([]));
    assert_eq!(world.sim(0).calls(), 1);
}

/// C010: of several the soonest.
#[tokio::test]
async fn of_several_limited_targets_the_soonest_is_told() {
    let world = pair("").await;
    world.sim(0).set(Script::openai_rate_limit(300));
    world.sim(1).set(Script::openai_rate_limit(40));
    for (attempts, should_retry) in [("2", "false"), ("0", "true")] {
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("x-pointsman-attempts"), Some(attempts));
        assert_eq!(answer.header("x-should-retry"), Some(should_retry));
        let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((20..=40).contains(&after), "{after}");
    }
}

async fn assert_quota(script: Script) {
    let world = pair("").await;
    world.sim(0).set(script);
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "b");
    assert_eq!(answer.header("x-pointsman-reason"), Some("a:quota_exhausted>b"));
    assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Isolated);
    assert!(world.due_in("a", DomainKind::Account) > Duration::from_secs(120), "for minutes");
    assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 0);
    // The next request does not pay for it again.
    let answer = world.post(&chat("gpt-4o", false)).await;
    assert_whole_from(&answer, "b");
    assert_eq!(answer.header("x-pointsman-attempts"), Some("1"));
    assert_eq!(world.sim(0).calls(), 1);
}

/// C011, C063 (i), (iv): whatever the status, a spent account is left at once and for long.
#[tokio::test]
async fn a_spent_account_is_left_whatever_the_status() {
    let balance = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.";
    let anthropic = json!({"type": "error", "error": {"type": "invalid_request_error", "message": balance}});
    let gemini = json!([{"error": {
        "code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota. * Quota exceeded for metric: \
            generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0",
    }}]);
    assert_quota(Script::openai_quota()).await;
    assert_quota(Script::payment_required()).await;
    assert_quota(Script::fixed(400, "application/json", anthropic.to_string())).await;
    assert_quota(Script::fixed(429, "application/json", gemini.to_string())).await;
}

async fn throttled_for(script: Script) -> (World, Duration) {
    let world = pair("").await;
    world.sim(0).set(script);
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "b");
    assert_eq!(answer.header("x-pointsman-reason"), Some("a:rate_limit>b"));
    assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Closed);
    let due = world.due_in("a", DomainKind::Rate);
    (world, due)
}

/// C063 (ii), (iii), (v): a rate is a rate also where the text speaks of quota, for as long as the answer says.
#[tokio::test]
async fn a_rate_limit_lasts_as_long_as_headers_body_or_text_say() {
    let gemini = json!([{"error": {
        "code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31s"}],
    }}]);
    let azure_text = json!({"error": {"code": "429", "message":
        "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token \
         rate limit of your current OpenAI S0 pricing tier. Please retry after 27 seconds."}});
    let cases = [
        (Script::openai_rate_limit(22), 22),
        (Script::fixed(429, "application/json", gemini.to_string()), 31),
        (Script::azure_429(27), 27),
        (Script::fixed(429, "application/json", azure_text.to_string()), 27),
    ];
    for (script, seconds) in cases {
        let (_world, due) = throttled_for(script.clone()).await;
        assert!(due <= Duration::from_secs(seconds), "{due:?} is over {seconds} s");
        assert!(due > Duration::from_secs(seconds - 15), "{due:?} is far under {seconds} s: {script:?}");
    }
}

/// C018: by table, not by hundreds: which statuses lead on and which do not.
#[tokio::test]
async fn the_table_of_kinds_decides_who_may_take_over() {
    let not_found = Script::model_not_found("gpt-4o");
    let denied = json!({"error": {"message": "Project does not have access", "type": "invalid_request_error",
        "param": null, "code": "unsupported_country_region_territory"}});
    let cases = [
        (Script::openai_rate_limit(60), Some("rate_limit")),
        (Script::status(408), Some("timeout")),
        (Script::status(400), None),
        (not_found, Some("model_not_found")),
        (Script::fixed(403, "application/json", denied.to_string()), Some("permission")),
    ];
    for (script, kind) in cases {
        let world = pair("").await;
        world.sim(0).set(script);
        let answer = world.post(&chat("gpt-4o", true)).await;
        match kind {
            Some(kind) => {
                assert_whole_from(&answer, "b");
                assert_eq!(answer.header("x-pointsman-reason"), Some(format!("a:{kind}>b").as_str()));
            }
            None => assert_eq!((answer.status.as_u16(), world.sim(1).calls()), (400, 0)),
        }
    }
}

/// C017: a dead key is no retry: all of a pool is walked, and dead keys are remembered.
#[tokio::test]
async fn dead_keys_are_walked_past_and_remembered() {
    let names = ["k1", "k2", "k3", "k4", "k5", "k6"];
    let mut yaml = String::from("targets:\n");
    for name in names {
        yaml += &format!(
            "  {name}: {{ provider: openai, base_url: \"<{name}>\", model: gpt-4o, api_key: sk-{name} }}\n"
        );
    }
    yaml += "defaults: { budget: { max_attempts: 2 } }\n";
    let world = world_from(&names, &yaml).await;
    for place in 0..5 {
        world.sim(place).set(Script::invalid_api_key());
    }
    // One refusal may be a mishap; a second request that meets it settles it.
    for attempts in ["6", "6", "1"] {
        let answer = world.post(&chat("gpt-4o", true)).await;
        assert_whole_from(&answer, "k6");
        assert_eq!(answer.header("x-pointsman-attempts"), Some(attempts));
    }
    assert!(names[..5].iter().all(|n| world.domain(n, DomainKind::Account).state == DomainState::Isolated));
}

/// C066: the refusal of a credential of ours is never the client's 401, and nothing of it is told.
#[tokio::test]
async fn a_refused_credential_of_ours_is_not_the_clients() {
    let message =
        "Incorrect API key provided: sk-upstr***eam-a. You can find your API key at https://example.com.";
    let body =
        json!({"error": {"message": message, "type": "invalid_request_error", "code": "invalid_api_key"}});
    for stream in [true, false] {
        let world = alone("").await;
        world.sim(0).set(Script::fixed(401, "application/json", body.to_string()));
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 503, "{}", answer.text());
        let error = answer.error();
        assert_eq!(error["type"], "service_unavailable_error");
        assert_eq!(error["code"], "upstream_failed", "no client may take it for load");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        for secret in ["sk-", "upstr", "Incorrect", "example.com"] {
            assert!(!error["message"].as_str().unwrap().contains(secret), "{error}");
        }
        assert_eq!(answer.json()["pointsman"]["attempts"][0]["failure"], "auth");
        assert_eq!(world.sim(0).calls(), 1);
    }
}
