//! What holds for every endpoint whose answer is one JSON object.

use bytes::Bytes;
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::pair;
use crate::support::{Answer, World, chat};

const QUICK: &str = "defaults: { retry: { base: 1ms, max: 1ms }, budget: { max_same_target_attempts: 1 } }\n";

/// Each endpoint with a request for it and the name of its answer's list.
pub fn all() -> [(&'static str, Value, &'static str); 5] {
    [
        ("embeddings", json!({ "model": "gpt-4o", "input": ["one", "two"] }), "data"),
        ("moderations", json!({ "model": "gpt-4o", "input": "some text" }), "results"),
        ("images/generations", json!({ "model": "gpt-4o", "prompt": "a lamp", "n": 2 }), "data"),
        ("completions", json!({ "model": "gpt-4o", "prompt": "Once", "max_tokens": 20 }), "choices"),
        (
            "rerank",
            json!({ "model": "gpt-4o", "query": "q", "documents": ["x", "y"], "top_n": 1 }),
            "results",
        ),
    ]
}

/// The first four: OpenAI has no `/rerank`.
fn of_openai() -> impl Iterator<Item = (&'static str, Value, &'static str)> {
    all().into_iter().filter(|(name, ..)| *name != "rerank")
}

impl World {
    pub async fn ask(&self, endpoint: &str, body: &Value) -> Answer {
        self.send("POST", &format!("/v1/{endpoint}"), Bytes::from(body.to_string()), &[]).await
    }
}

/// One complete answer, all of it by this sim.
pub fn assert_from(answer: &Answer, who: &str, list: &str) {
    let body = answer.json();
    assert_eq!(answer.status, 200, "{body}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(body["system_fingerprint"], format!("fp_{who}"), "{body}");
    assert!(!body[list].as_array().unwrap().is_empty(), "{body}");
    assert_eq!(answer.header("x-pointsman-target"), Some(who));
}

#[tokio::test]
async fn each_answer_goes_through_as_it_is_with_who_answered() {
    for (endpoint, request, list) in of_openai() {
        let world = pair("").await;
        let answer = world.ask(endpoint, &request).await;
        assert_from(&answer, "a", list);
        assert_eq!(answer.header("x-pointsman-action"), Some("primary"));
        let received = &world.sim(0).received()[0];
        assert_eq!(received.path, format!("/v1/{endpoint}"));
        assert_eq!(received.json().unwrap(), request);
        assert_eq!(received.header("authorization"), Some("Bearer sk-upstream-a"));
        let entry = world.entry(&answer);
        assert_eq!((entry.endpoint, entry.dialect), (Some(endpoint), "chat"));
        assert_eq!(entry.terminal, "success");
        assert!(entry.usage.unwrap().input_tokens > 0);
    }
}

#[tokio::test]
async fn an_overloaded_primary_fails_over() {
    for (endpoint, request, list) in of_openai() {
        for script in [Script::openai_overloaded(), Script::server_error(500), Script::openai_rate_limit(9)] {
            let world = pair(QUICK).await;
            world.sim(0).set(script);
            let answer = world.ask(endpoint, &request).await;
            assert_from(&answer, "b", list);
            assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
            assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 1));
        }
    }
}

#[tokio::test]
async fn a_lost_connection_or_silence_fails_over() {
    for (endpoint, request, list) in of_openai() {
        for script in [
            Script::reset_before_headers(),
            Script::close_after_read(),
            Script::silence(),
            Script::cut_after(0),
        ] {
            let world = pair(QUICK).await;
            world.sim(0).set(script);
            assert_from(&world.ask(endpoint, &request).await, "b", list);
        }
        let world = pair(QUICK).await;
        world.sim(0).kill().await.unwrap();
        assert_from(&world.ask(endpoint, &request).await, "b", list);
    }
}

#[tokio::test]
async fn an_answer_that_is_none_fails_over_and_counts_against_its_target() {
    let error = r#"{"error":{"message":"No capacity.","type":"server_error","param":null,"code":null}}"#;
    for (endpoint, request, list) in of_openai() {
        for script in [
            Script::healthy().html(),
            Script::fixed(200, "application/json", ""),
            Script::fixed(200, "application/json", r#"{"object":"list"}"#),
            Script::fixed(200, "application/json", error),
            Script::fixed(200, "application/json", r#"{"data":[{"x":1}],"results":[{"#),
            Script::healthy().choices_empty(),
        ] {
            let world = pair(QUICK).await;
            world.sim(0).set(script.clone());
            assert_from(&world.ask(endpoint, &request).await, "b", list);
            let views = world.gateway.app().with_fleet(|f| f.domains_of("a", world.clock.now()));
            let own = views.iter().find(|v| v.name == format!("a ({endpoint})")).unwrap();
            assert_eq!(own.failures_in_a_row, 1, "{endpoint}: {script:?}");
        }
    }
}

/// A dead upstream must not stay healthy because nobody talks with it, nor be lost to those who do.
#[tokio::test]
async fn c025_an_endpoint_that_keeps_failing_opens_its_own_breaker_and_no_other() {
    let world = pair(QUICK).await;
    world.sim(0).enqueue(std::iter::repeat_n(Script::status(503), 3));
    for _ in 0..3 {
        world.ask("embeddings", &all()[0].1).await;
        // Failures within 100 ms of each other are one.
        world.clock.advance(std::time::Duration::from_millis(200));
    }
    let views = world.gateway.app().with_fleet(|f| f.domains_of("a", world.clock.now()));
    let state = |name: &str| {
        views.iter().find(|v| v.kind == DomainKind::Target && v.name == name).map(|view| view.state)
    };
    assert_eq!(state("a (embeddings)"), Some(DomainState::Open));
    assert_eq!(state("a"), Some(DomainState::Closed));
    assert_from(&world.ask("embeddings", &all()[0].1).await, "b", "data");
    assert_eq!(world.sim(0).calls(), 3);
    crate::checks::assert_whole_from(&world.post(&chat("gpt-4o", false)).await, "a");
}

#[tokio::test]
async fn the_requests_own_fault_is_told_in_the_providers_words_and_blames_nobody() {
    for (endpoint, request, _) in of_openai() {
        let world = pair(QUICK).await;
        world.sim(0).set(Script::invalid_request("input"));
        let answer = world.ask(endpoint, &request).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.error()["param"], "input");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (1, 0));
        world.assert_untouched("a");
    }
}

#[tokio::test]
async fn errors_are_in_openais_form_whatever_headers_say() {
    let world = pair("").await;
    let headers = [("anthropic-version", "2023-06-01")];
    for (endpoint, mut request, _) in of_openai() {
        request["model"] = json!("gpt-4");
        let path = format!("/v1/{endpoint}");
        let unknown = world.send("POST", &path, Bytes::from(request.to_string()), &headers).await;
        assert_eq!(unknown.status, 404);
        assert_eq!(unknown.error()["code"], "model_not_found");
        let method = world.send("GET", &path, Bytes::new(), &headers).await;
        assert_eq!((method.status.as_u16(), &method.error()["code"]), (405, &json!("method_not_allowed")));
        let garbage = world.send("POST", &path, Bytes::from("{"), &[]).await;
        assert_eq!(
            (garbage.status.as_u16(), &garbage.error()["type"]),
            (400, &json!("invalid_request_error"))
        );
        let nameless = world.send("POST", &path, Bytes::from("{}"), &[]).await;
        assert_eq!(nameless.status, 400);
    }
}

#[tokio::test]
async fn every_base_url_that_people_use_leads_there() {
    let world = pair("").await;
    for prefix in ["", "/v1", "/openai/v1", "/anthropic/v1"] {
        let body = Bytes::from(all()[0].1.to_string());
        let answer = world.send("POST", &format!("{prefix}/embeddings"), body, &[]).await;
        assert_from(&answer, "a", "data");
    }
    let other = world.send("POST", "/v1beta/embeddings", Bytes::from("{}"), &[]).await;
    assert_eq!(other.status, 404);
}

#[tokio::test]
async fn a_ranking_goes_to_a_server_that_has_it() {
    let yaml = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-a }
  b: { provider: vllm, base_url: "<b>", model: gpt-4o }
"#;
    let world = crate::checks::world_from(&["a", "b"], yaml).await;
    let answer = world.ask("rerank", &all()[4].1).await;
    assert_from(&answer, "b", "results");
    assert_eq!(answer.header("x-pointsman-action"), Some("primary"));
    assert_eq!(answer.json()["results"], json!([{ "index": 1, "relevance_score": 1.0 }]));
    assert_eq!(world.sim(1).received()[0].path, "/v1/rerank");
}

/// OpenAI documents a default, and its SDK's example names no model.
#[tokio::test]
async fn a_moderation_without_a_model_means_the_documented_one() {
    let yaml = r#"targets: { a: { provider: openai, base_url: "<a>", model: "*", api_key: sk-a } }"#;
    let world = crate::checks::world_from(&["a"], yaml).await;
    let answer = world.ask("moderations", &json!({ "input": ["fine", "kill"] })).await;
    assert_from(&answer, "a", "results");
    assert_eq!(answer.json()["results"][1]["flagged"], true);
    let sent = world.sim(0).received()[0].json().unwrap();
    assert_eq!(sent, json!({ "model": "omni-moderation-latest", "input": ["fine", "kill"] }));
}
