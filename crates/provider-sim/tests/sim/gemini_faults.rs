//! Faults on Gemini's endpoints: errors in Google's words, and streams that break.

use std::time::Duration;

use pointsman_provider_sim::{BrokenEvent, Fault, Guidance, Script, Sim, SimConfig};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::gemini::{Way, chunks, generate, hi, seen};
use crate::raw::{End, assert_silent, events, exchange, exchange_until};
use crate::sim;

fn detail<'a>(error: &'a Value, kind: &str) -> Option<&'a Value> {
    let own = |detail: &&Value| detail["@type"] == format!("type.googleapis.com/google.rpc.{kind}");
    error["details"].as_array()?.iter().find(own)
}

#[tokio::test]
async fn errors_have_googles_envelope() {
    for (script, code, status) in [
        (Script::openai_rate_limit(2), 429, "RESOURCE_EXHAUSTED"),
        (Script::openai_quota(), 429, "RESOURCE_EXHAUSTED"),
        (Script::openai_overloaded(), 503, "UNAVAILABLE"),
        (Script::server_error(500), 500, "INTERNAL"),
        (Script::server_error(504), 504, "DEADLINE_EXCEEDED"),
        (Script::context_length_exceeded(), 400, "INVALID_ARGUMENT"),
        (Script::invalid_request("top_p"), 400, "INVALID_ARGUMENT"),
        (Script::invalid_api_key(), 400, "INVALID_ARGUMENT"),
        (Script::status(403), 403, "PERMISSION_DENIED"),
        (Script::model_not_found("m"), 404, "NOT_FOUND"),
    ] {
        let seen = seen(script, Way::Whole).await;
        let body = seen.json();
        assert_eq!((seen.status, &body["error"]["code"]), (code, &json!(code)));
        assert_eq!(body["error"]["status"], status);
        assert!(body["error"]["message"].is_string());
    }
    let body = seen(Script::context_length_exceeded(), Way::Whole).await.json();
    assert!(
        body["error"]["message"].as_str().unwrap().contains("exceeds the maximum number of tokens allowed")
    );
    let body = seen(Script::invalid_api_key(), Way::Whole).await.json();
    assert_eq!(detail(&body["error"], "ErrorInfo").unwrap()["reason"], "API_KEY_INVALID");
}

#[tokio::test]
async fn when_to_come_back_is_told_in_the_body_alone() {
    for (guidance, delay) in [
        (Guidance::Seconds(46), Some("46s")),
        (Guidance::Millis(1_500), Some("1.5s")),
        (Guidance::Date(7), Some("7s")),
        (Guidance::Text(3), Some("3s")),
        (Guidance::Absent, None),
    ] {
        let seen = seen(Script::rate_limit(guidance.clone()), Way::Whole).await;
        let error = seen.json()["error"].clone();
        let told = detail(&error, "RetryInfo").map(|info| info["retryDelay"].as_str().unwrap().to_owned());
        assert_eq!(told.as_deref(), delay, "{guidance:?}");
        assert!(seen.headers.iter().all(|(name, _)| !name.contains("retry") && !name.contains("ratelimit")));
    }
}

#[tokio::test]
async fn a_limit_per_minute_and_one_per_day_differ_by_their_quota_alone() {
    let of = |script| async move { seen(script, Way::Whole).await.json()["error"].clone() };
    let (minute, day) = (of(Script::rate_limit(Guidance::Absent)).await, of(Script::openai_quota()).await);
    let quota = |error: &Value| detail(error, "QuotaFailure").unwrap()["violations"][0]["quotaId"].clone();
    assert_eq!(quota(&minute), "GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    assert_eq!(quota(&day), "GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    assert_eq!(minute["message"], day["message"]);
}

#[tokio::test]
async fn where_an_array_was_asked_for_an_error_is_in_a_list() {
    let array = seen(Script::openai_overloaded(), Way::Array).await;
    assert_eq!((array.status, &array.json()[0]["error"]["status"]), (503, &json!("UNAVAILABLE")));
    let events = seen(Script::openai_overloaded(), Way::Events).await;
    assert_eq!(events.json()["error"]["status"], "UNAVAILABLE");
}

#[tokio::test]
async fn an_error_in_a_stream_is_its_last_chunk() {
    let overloaded = || json!({"type": "overloaded_error", "message": "Overloaded"});
    for way in [Way::Events, Way::Array] {
        for (script, before) in [
            (Script::error_event_first(overloaded()), 0),
            (Script::error_event_after(0, overloaded()), 0),
            (Script::error_event_after(2, overloaded()), 2),
            (Script::error_then_done(2, overloaded()), 2),
        ] {
            let seen = seen(script, way).await;
            let chunks = chunks(&seen, way);
            assert_eq!((seen.status, chunks.len()), (200, before + 1), "{way:?}");
            assert_eq!(
                (&chunks[before]["error"]["code"], &chunks[before]["error"]["status"]),
                (&json!(503), &json!("UNAVAILABLE"))
            );
        }
    }
    let own = json!({"error": {"code": 499, "message": "Cancelled", "status": "CANCELLED"}});
    let last = chunks(&seen(Script::error_event_after(1, own.clone()), Way::Events).await, Way::Events).pop();
    assert_eq!(last, Some(own));
    let failed = seen(Script::response_failed_after(0, "rate_limit_exceeded"), Way::Events).await;
    assert_eq!(chunks(&failed, Way::Events)[0]["error"]["status"], "RESOURCE_EXHAUSTED");
}

#[tokio::test]
async fn a_stream_breaks_where_the_script_says() {
    for (script, end) in [
        (Script::cut_after(3), End::Closed),
        (Script::end_after(3), End::KeptAlive),
        (Script::healthy().tokens(3).no_done(), End::KeptAlive),
    ] {
        for way in [Way::Events, Way::Array] {
            let seen = seen(script.clone(), way).await;
            assert_eq!(seen.end, end, "{script:?}");
            assert_eq!(seen.chunks.len(), 3, "{script:?}");
            assert!(!seen.text().contains("finishReason") && !seen.text().ends_with(']'));
        }
    }
    assert_eq!(seen(Script::reset_after(1), Way::Events).await.end, End::Reset);
    assert_eq!(seen(Script::end_after(0), Way::Events).await.body.len(), 0);
}

#[tokio::test]
async fn hanging_streams_stay_open_and_silent() {
    for (script, outputs) in
        [(Script::role_only_then_silence(), 0), (Script::stall_after(2), 2), (Script::unended().tokens(2), 2)]
    {
        let sim = sim(script).await;
        let mut client = TcpStream::connect(sim.addr()).await.unwrap();
        let ask = generate("m", Way::Events, hi());
        let seen = exchange_until(&mut client, &ask, |seen| events(&seen.body).len() == outputs).await;
        assert_eq!(seen.status, 200);
        assert_silent(&mut client).await;
        drop(client);
        sim.wait_until(|sim| sim.aborted() == 1).await.unwrap();
    }
}

#[tokio::test]
async fn heartbeats_are_comments_or_in_an_array_white_space() {
    let script = Script::answer("late")
        .delay_first_token(Duration::from_millis(80))
        .heartbeat(Duration::from_millis(10));
    let events = seen(script.clone(), Way::Events).await;
    assert!(events.text().starts_with(": keep-alive\r\n\r\n"));
    let array = seen(script, Way::Array).await;
    assert!(array.text().starts_with('\n'));
    assert_eq!(chunks(&array, Way::Array).len(), 2);
}

#[tokio::test]
async fn a_broken_chunk_stands_in_for_one_output_and_the_rest_follows() {
    for broken in [BrokenEvent::TruncatedJson, BrokenEvent::InvalidUtf8, BrokenEvent::Empty] {
        let script = || Script::answer("a b c d").fault(Fault::Malformed { after: 1, event: broken });
        let events = events(&seen(script(), Way::Events).await.body);
        let bad = |data: &String| data.contains('\u{fffd}') || serde_json::from_str::<Value>(data).is_err();
        let places: Vec<usize> = (0..events.len()).filter(|at| bad(&events[*at])).collect();
        assert_eq!((events.len(), places), (5, vec![1]), "{broken:?}");
        let array = seen(script(), Way::Array).await;
        assert_eq!(array.end, End::KeptAlive);
        assert!(serde_json::from_slice::<Value>(&array.body).is_err(), "{broken:?}");
    }
}

#[tokio::test]
async fn whole_answers_html_and_resets_break_as_on_any_endpoint() {
    assert!(seen(Script::healthy().html(), Way::Events).await.text().starts_with("<!DOCTYPE html>"));
    assert_eq!(seen(Script::healthy().empty_body(), Way::Whole).await.body.len(), 0);
    assert_eq!(seen(Script::reset_before_headers(), Way::Whole).await.end, End::Reset);
    let cut = seen(Script::cut_after(1), Way::Whole).await;
    assert!(cut.body.len() < cut.header("content-length").unwrap().parse().unwrap());
}

#[tokio::test]
async fn a_key_may_stand_in_its_header_in_the_query_or_be_a_bearer_token() {
    let config = SimConfig { api_key: Some("k1".into()), models: vec!["m".into()], ..SimConfig::named("a") };
    let sim = Sim::start(config).await.unwrap();
    let ask = |model: &str, query: &str, header: &str| {
        let body = hi().to_string();
        let length = body.len();
        format!("POST /v1beta/models/{model}:generateContent{query} HTTP/1.1\r\nhost: sim\r\n{header}content-length: {length}\r\n\r\n{body}")
            .into_bytes()
    };
    for (query, header, status) in [
        ("", "x-goog-api-key: k1\r\n", 200),
        ("", "authorization: Bearer k1\r\n", 200),
        ("?key=k1", "", 200),
        ("?key=k2", "", 400),
        ("", "", 400),
    ] {
        let seen = exchange(sim.addr(), &ask("m", query, header)).await;
        assert_eq!(seen.status, status, "{query} {header}");
        if status == 400 {
            assert_eq!(detail(&seen.json()["error"], "ErrorInfo").unwrap()["reason"], "API_KEY_INVALID");
        }
    }
    let unknown = exchange(sim.addr(), &ask("other", "?key=k1", "")).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
    assert!(unknown.json()["error"]["message"].as_str().unwrap().starts_with("models/other is not found"));
}

#[tokio::test]
async fn what_was_received_shows_only_the_end_of_a_key() {
    let sim = sim(Script::healthy()).await;
    let ask = crate::raw::request(
        "POST",
        "/v1beta/models/m:generateContent?key=AIza-very-secret-1234",
        &hi().to_string(),
    );
    exchange(sim.addr(), &ask).await;
    let shown = exchange(sim.addr(), &crate::raw::request("GET", "/_sim/received", "")).await.text();
    assert!(shown.contains("key=***1234") && !shown.contains("secret"), "{shown}");
}
