//! Failover before commit is invisible: whatever the first target does before its first output, the client gets one
//! complete answer of the second and headers that say what happened.

use std::time::Duration;

use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::{Fault, Guidance, Script};
use serde_json::json;

use crate::checks::{assert_whole_from, pair};
use crate::support::{Answer, World, chat};

/// Whom a failure counts against.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blamed {
    Endpoint,
    Target,
    /// Not a failure: the account waits with this model.
    Rate,
}

/// What is expected of the failed attempt: its kind, the calls that its sim counts, whom it is put down to.
#[derive(Clone, Copy, Debug)]
struct Expect(&'static str, u64, Blamed);

fn assert_failed_over(world: &World, answer: &Answer, Expect(kind, calls, blamed): Expect) {
    assert_whole_from(answer, "b");
    assert_eq!(answer.header("x-pointsman-target"), Some("b"));
    assert_eq!(answer.header("x-pointsman-model"), Some("gpt-4o"));
    assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
    assert_eq!(answer.header("x-pointsman-attempts"), Some("2"));
    assert_eq!(answer.header("x-pointsman-reason"), Some(format!("a:{kind}>b").as_str()));
    assert_eq!(answer.header("x-pointsman-substituted"), None);
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (calls, 1));
    let entry = world.entry(answer);
    assert_eq!((entry.terminal, entry.target.as_deref(), entry.status), ("success", Some("b"), 200));
    assert_eq!(entry.attempts.len(), 2);
    assert_eq!(entry.attempts[0].failure, Some(kind));
    assert_eq!((entry.attempts[0].action, entry.attempts[1].action), ("primary", "failover"));
    assert_eq!(entry.attempts[1].outcome, "succeeded");
    let failures = |kind| world.domain("a", kind).failures_in_a_row;
    let counted = (failures(DomainKind::Endpoint), failures(DomainKind::Target));
    match blamed {
        Blamed::Endpoint => assert_eq!(counted, (1, 0)),
        Blamed::Target => assert_eq!(counted, (0, 1)),
        Blamed::Rate => {
            assert_eq!(counted, (0, 0));
            assert_eq!(world.domain("a", DomainKind::Rate).state, DomainState::Throttled);
        }
    }
    world.assert_untouched("b");
}

/// A stream, then a plain answer, each in a world of its own.
async fn invisible(script: Script, expect: Expect) {
    invisible_in(script, expect, "").await;
}

async fn invisible_in(script: Script, expect: Expect, rest: &str) {
    for stream in [true, false] {
        one_way(script.clone(), expect, rest, stream).await;
    }
}

async fn one_way(script: Script, expect: Expect, rest: &str, stream: bool) {
    let world = pair(rest).await;
    world.sim(0).set(script);
    let answer = world.post(&chat("gpt-4o", stream)).await;
    assert_failed_over(&world, &answer, expect);
}

#[tokio::test]
async fn a_healthy_primary_answers() {
    let world = pair("").await;
    for stream in [false, true] {
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_whole_from(&answer, "a");
        assert_eq!(answer.header("x-pointsman-target"), Some("a"));
        assert_eq!(answer.header("x-pointsman-action"), Some("primary"));
        assert_eq!(answer.header("x-pointsman-attempts"), Some("1"));
        assert_eq!(answer.header("x-pointsman-reason"), None);
        assert_eq!(answer.header("x-pointsman-substituted"), None);
    }
    assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (2, 0));
}

// Before an answer

#[tokio::test]
async fn a_refused_connection_is_the_endpoints() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).kill().await.unwrap();
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_failed_over(&world, &answer, Expect("connect", 0, Blamed::Endpoint));
    }
}

#[tokio::test]
async fn a_reset_before_headers() {
    invisible(Script::reset_before_headers(), Expect("connect", 1, Blamed::Target)).await;
}

#[tokio::test]
async fn an_orderly_close_without_an_answer() {
    invisible(Script::close_after_read(), Expect("connect", 1, Blamed::Target)).await;
}

/// C003: the time limit holds from the start of the attempt, and a silent target is not tried twice.
#[tokio::test]
async fn silence_past_the_limit() {
    for stream in [true, false] {
        let world = pair("").await;
        world.sim(0).set(Script::silence());
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_failed_over(&world, &answer, Expect("timeout", 1, Blamed::Target));
        let waited = world.entry(&answer).attempts[0].duration_ms;
        assert!((400..10_000).contains(&waited), "{waited} ms instead of the target's own 400");
        // The connection of the silent attempt is closed, not left to itself.
        world.sim(0).wait_until(|sim| sim.active_requests() == 0).await.unwrap();
    }
}

#[tokio::test]
async fn headers_that_come_too_late() {
    let script = Script::slow_headers(Duration::from_secs(20));
    invisible(script, Expect("timeout", 1, Blamed::Target)).await;
}

// Statuses

#[tokio::test]
async fn status_500() {
    invisible(Script::server_error(500), Expect("server_error", 1, Blamed::Target)).await;
}

#[tokio::test]
async fn status_502_with_a_page_for_people() {
    invisible(Script::cdn_html(502), Expect("server_error", 1, Blamed::Target)).await;
}

/// C022, C023: the client's own request already succeeds, and its status line waited for that.
#[tokio::test]
async fn status_503_overloaded() {
    invisible(Script::openai_overloaded(), Expect("overloaded", 1, Blamed::Target)).await;
}

/// C065.
#[tokio::test]
async fn status_529() {
    invisible(Script::anthropic_style_529(), Expect("overloaded", 1, Blamed::Target)).await;
}

#[tokio::test]
async fn status_408_and_504_are_timeouts() {
    invisible(Script::status(408), Expect("timeout", 1, Blamed::Target)).await;
    invisible(Script::status(504), Expect("timeout", 1, Blamed::Target)).await;
}

#[tokio::test]
async fn status_429_with_and_without_guidance() {
    let expect = Expect("rate_limit", 1, Blamed::Rate);
    invisible(Script::openai_rate_limit(47), expect).await;
    invisible(Script::rate_limit(Guidance::Absent), expect).await;
    invisible(Script::rate_limit(Guidance::Garbage), expect).await;
}

// Answers that are none

#[tokio::test]
async fn html_in_a_200() {
    invisible(Script::healthy().html(), Expect("bad_response", 1, Blamed::Target)).await;
}

#[tokio::test]
async fn an_empty_200() {
    invisible(Script::healthy().empty_body(), Expect("bad_response", 1, Blamed::Target)).await;
}

#[tokio::test]
async fn a_200_without_choices() {
    invisible(Script::healthy().choices_empty(), Expect("bad_response", 1, Blamed::Target)).await;
}

#[tokio::test]
async fn an_error_in_a_200() {
    let error = json!({"type": "overloaded_error", "message": "Overloaded"});
    invisible(Script::error_event_first(error), Expect("overloaded", 1, Blamed::Target)).await;
    let error = json!({"type": "server_error", "message": "boom", "code": null});
    invisible(Script::error_event_after(0, error.clone()), Expect("server_error", 1, Blamed::Target)).await;
    invisible(Script::error_then_done(0, error), Expect("server_error", 1, Blamed::Target)).await;
}

/// C004's kin in Chat Completions: a quota error in the stream is the account's, not the target's.
#[tokio::test]
async fn a_quota_error_as_first_event_isolates_the_account() {
    for stream in [true, false] {
        let world = pair("").await;
        let error = json!({"type": "insufficient_quota", "code": "insufficient_quota", "message": "m"});
        world.sim(0).set(Script::error_event_first(error));
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_whole_from(&answer, "b");
        assert_eq!(answer.header("x-pointsman-reason"), Some("a:quota_exhausted>b"));
        assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Isolated);
        assert_eq!(world.domain("a", DomainKind::Target).failures_in_a_row, 0);
    }
}

#[tokio::test]
async fn a_malformed_first_event() {
    invisible(Script::malformed_event_at(0), Expect("bad_response", 1, Blamed::Target)).await;
}

// Streams without output

/// C001 (i).
#[tokio::test]
async fn a_stream_that_breaks_before_its_first_output() {
    let expect = Expect("bad_response", 1, Blamed::Target);
    invisible(Script::cut_after(0), expect).await;
    invisible(Script::reset_after(0), expect).await;
    invisible(Script::end_after(0), expect).await;
}

/// C019: role events and heartbeats are no progress.
#[tokio::test]
async fn a_stream_with_nothing_but_its_role() {
    let expect = Expect("timeout", 1, Blamed::Target);
    invisible(Script::role_only_then_silence(), expect).await;
    invisible(Script::role_only_then_silence().heartbeat(Duration::from_millis(20)), expect).await;
}

/// C019, for plain answers too: empty lines keep a connection alive, but are no answer.
#[tokio::test]
async fn a_stream_with_nothing_but_heartbeats() {
    let script = Script::heartbeats_only(Duration::from_millis(20));
    invisible(script, Expect("timeout", 1, Blamed::Target)).await;
}

/// C005, first run: the limit strikes while nothing comes, not when the late output is here.
#[tokio::test]
async fn a_first_output_that_comes_too_late() {
    let world = pair("").await;
    world.sim(0).set(Script::healthy().delay_first_token(Duration::from_secs(25)));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_failed_over(&world, &answer, Expect("timeout", 1, Blamed::Target));
    let entry = world.entry(&answer);
    assert!((400..10_000).contains(&entry.attempts[0].duration_ms), "{:?}", entry.attempts);
}

/// C005, second run, and C019: the first output disarms the limit; what follows may take longer than it in all.
#[tokio::test]
async fn a_steady_stream_outlives_the_limit_of_its_first_output() {
    let yaml = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-a, budget: { first_token: 1s, response: 1s, idle: 10s } }
  b: { provider: openai, base_url: "<b>", model: gpt-4o, api_key: sk-b }
"#;
    let world = crate::checks::world_from(&["a", "b"], yaml).await;
    world.sim(0).set(Script::healthy().tokens(12).between_tokens(Duration::from_millis(100)));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "a");
    assert_eq!(world.sim(1).calls(), 0);
    assert!(world.entry(&answer).duration_ms >= 1_100, "{}", world.entry(&answer).duration_ms);
}

/// C019: reasoning is output; a model that thinks aloud is not taken for a silent one.
#[tokio::test]
async fn reasoning_is_progress() {
    let world = pair("").await;
    let script = Script::answer("a answers late").reasoning("one two three", "reasoning_content");
    world.sim(0).set(script.fault(Fault::Pause { after: 1, lasting: Duration::from_millis(150) }));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_eq!(answer.header("x-pointsman-target"), Some("a"), "{}", answer.text());
    assert_eq!(answer.content(), "a answers late");
}

// Bookkeeping

/// C012, C071: each attempt counts for itself, in health and in the record.
#[tokio::test]
async fn every_failed_attempt_of_one_request_is_counted() {
    let yaml = r#"
targets:
  p1: { provider: openai, base_url: "<p1>", model: gpt-4o, api_key: sk-p1 }
  p2: { provider: openai, base_url: "<p2>", model: gpt-4o, api_key: sk-p2 }
  f: { provider: openai, base_url: "<f>", model: gpt-4o, api_key: sk-f }
"#;
    let world = crate::checks::world_from(&["p1", "p2", "f"], yaml).await;
    world.sim(0).set(Script::server_error(500));
    world.sim(1).set(Script::cut_after(0));
    let answer = world.post(&chat("gpt-4o", true)).await;
    assert_whole_from(&answer, "f");
    assert_eq!(answer.header("x-pointsman-reason"), Some("p1:server_error>p2:bad_response>f"));
    for name in ["p1", "p2"] {
        assert_eq!(world.domain(name, DomainKind::Target).failures_in_a_row, 1, "{name}");
    }
    let entry = world.entry(&answer);
    let told: Vec<_> = entry.attempts.iter().map(|a| (a.target.as_str(), a.failure, a.status)).collect();
    let expected = [
        ("p1", Some("server_error"), Some(500)),
        ("p2", Some("bad_response"), Some(200)),
        ("f", None, Some(200)),
    ];
    assert_eq!(told, expected);
    assert_eq!(entry.target.as_deref(), Some("f"));
    assert!(entry.usage.is_some(), "the usage is that of the one who answered");
}

/// C021: a caller that forbids rerouting gets the error, for a stream too.
#[tokio::test]
async fn nothing_is_rerouted_for_a_caller_that_forbids_it() {
    let scripts = [
        Script::error_event_after(0, json!({"type": "server_error", "message": "boom"})),
        Script::server_error(500),
        Script::silence(),
    ];
    for script in scripts {
        for stream in [true, false] {
            let world = pair("").await;
            world.sim(0).set(script.clone());
            let headers = [("x-pointsman-reroute", "none")];
            let answer = world.post_with(&chat("gpt-4o", stream), &headers).await;
            assert!(answer.status.is_server_error(), "{}", answer.text());
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
            assert_eq!(answer.json()["pointsman"]["terminal"], "exhausted");
        }
    }
}
