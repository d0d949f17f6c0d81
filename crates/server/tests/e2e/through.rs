//! What gets through: of the client to the provider, of the provider to the client, and of both into what is kept.

use std::collections::BTreeSet;

use bytes::Bytes;
use pointsman_provider_sim::{Script, Sim, SimConfig};
use serde_json::json;

use crate::clients::{eventually, gateway};
use crate::doors::{KEY, calls, guarded, hash};
use crate::support::{World, chat, world};

/// C092: what a provider gets is made by the gateway; nothing of the client's gets through unless it is meant for it.
#[tokio::test]
async fn a_provider_sees_no_header_of_the_clients() {
    let world = guarded().await;
    let secret = "MARK-secret-of-the-client";
    let names = [
        "x-goog-api-key-2",
        "cookie",
        "proxy-authorization",
        "x-forwarded-for",
        "x-forwarded-host",
        "forwarded",
        "x-real-ip",
        "x-internal-secret",
        "anthropic-beta",
        "traceparent",
        "baggage",
        "x-stainless-lang",
        "x-stainless-os",
        "user-agent",
        "openai-organization",
        "openai-project",
        "referer",
        "x-sim-script-2",
        "te",
        "via",
        "x-request-id",
    ];
    let mut headers: Vec<(&str, &str)> = names.iter().map(|name| (*name, secret)).collect();
    headers.push(("x-api-key", KEY));
    headers.push(("openai-beta", "assistants=v2"));
    let path = format!("/v1/chat/completions?key={KEY}");
    for stream in [false, true] {
        let body = Bytes::from(chat("cheap", stream).to_string());
        assert_eq!(world.send("POST", &path, body, &headers).await.status, 200);
    }
    for received in world.sim(0).received() {
        assert_eq!(received.path, "/v1/chat/completions");
        let names: BTreeSet<&str> = received.headers.iter().map(|(name, _)| name.as_str()).collect();
        let ours = [
            "accept",
            "accept-encoding",
            "authorization",
            "content-length",
            "content-type",
            "host",
            "openai-beta",
            "user-agent",
            "x-pointsman-hop",
        ];
        assert_eq!(names, BTreeSet::from(ours));
        assert_eq!(received.header("authorization"), Some("Bearer sk-upstream-a"));
        assert_eq!(received.header("openai-beta"), Some("assistants=v2"));
        assert_eq!(received.header("accept-encoding"), Some("identity"));
        assert!(received.header("user-agent").unwrap().starts_with("pointsman/"));
        let all = format!("{:?}", received.headers);
        assert!(!all.contains(secret) && !all.contains(KEY), "{all}");
    }
}

/// C092, the other way: a client sees the gateway's own headers, and of the provider's only its rate limits.
#[tokio::test]
async fn a_client_sees_no_header_of_the_provider() {
    let world = gateway("", &[""], "").await;
    let script = Script::healthy()
        .header("set-cookie", "__cf_bm=1")
        .header("server", "cloudflare")
        .header("openai-organization", "org-secret")
        .header("openai-processing-ms", "12")
        .header("cf-ray", "1")
        .header("access-control-allow-origin", "*")
        .header("x-ratelimit-remaining-requests", "99")
        .header("strict-transport-security", "max-age=1");
    world.sim(0).set(script.clone());
    let ours = [
        "content-type",
        "date",
        "x-request-id",
        "x-pointsman-action",
        "x-pointsman-attempts",
        "x-pointsman-model",
        "x-pointsman-target",
        "x-pointsman-upstream-request-id",
        "x-ratelimit-remaining-requests",
    ];
    for (stream, more) in [
        (false, &["content-length"][..]),
        (true, &["cache-control", "transfer-encoding", "x-accel-buffering"][..]),
    ] {
        let answer = world.post(&chat("gpt-4o", stream)).await;
        let names: BTreeSet<&str> = answer.headers.keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ours.iter().chain(more).copied().collect());
        assert!(answer.header("x-pointsman-upstream-request-id").unwrap().starts_with("req_sim_"));
    }
    let mut refusal = Script::status(400);
    refusal.headers = script.headers;
    world.sim(0).set(refusal);
    let answer = world.post(&chat("gpt-4o", false)).await;
    assert_eq!(answer.status, 400);
    for name in ["set-cookie", "server", "openai-organization", "cf-ray", "access-control-allow-origin"] {
        assert_eq!(answer.header(name), None);
    }
}

/// C088, C093, C094: no field of the body moves a request, changes whose it is, or is taken for a template.
#[tokio::test]
async fn nothing_in_a_body_changes_where_it_goes_or_whose_it_is() {
    let world = guarded().await;
    let trap = Sim::start(SimConfig::named("trap")).await.unwrap();
    let url = trap.base_url();
    let mut body = chat("cheap", false);
    for name in
        ["api_base", "base_url", "api_key", "custom_llm_provider", "proxy", "aws_region_name", "organization"]
    {
        body[name] = json!(url);
    }
    body["extra_headers"] = json!({ "host": "evil.example", "authorization": "Bearer evil" });
    body["fallbacks"] = json!([{ "model": "expensive", "api_base": url }]);
    body["metadata"] = json!({ "user_api_key_team_id": "team-b", "api_base": url, "no-log": true });
    body["litellm_params"] = json!({ "api_base": url, "mock_response": "mocked" });
    body["mock_response"] = json!("mocked");
    body["cache"] = json!({ "namespace": "team-b" });
    body["chat_template"] = json!("{{ 7 * 7 }} ${HOME}");
    body["user"] = json!("team-b");
    let headers = [
        ("x-api-key", KEY),
        ("x-litellm-tags", "team-b"),
        ("x-base-url", &url),
        ("x-portkey-custom-host", &url),
    ];
    let text = Bytes::from(body.to_string());
    let path = format!("/v1/chat/completions?api_base={url}&base_url={url}");
    let answer = world.send("POST", &path, text.clone(), &headers).await;
    assert_eq!(answer.header("x-pointsman-target"), Some("a"), "{}", answer.text());
    assert!(answer.text().contains("fp_a"));
    assert_eq!((trap.calls(), trap.accepted_connections()), (0, 0));
    let received = &world.sim(0).received()[0];
    assert_eq!(received.header("authorization"), Some("Bearer sk-upstream-a"));
    assert_eq!(received.header("host").unwrap(), world.sim(0).addr().to_string());
    assert_eq!(received.body, text, "to the provider they are the client's own words, letter by letter");
    assert_eq!(world.record().await.key.as_deref(), Some("team-a"));
}

// Bring your own key

async fn byok() -> World {
    gateway("", &["api_key: caller", "api_key: caller"], "").await
}

const OWN: (&str, &str) = ("x-pointsman-provider-key-openai", "sk-of-the-caller");

#[tokio::test]
async fn a_callers_own_credential_is_used_for_its_own_request_only() {
    let world = byok().await;
    assert_eq!(world.post_with(&chat("gpt-4o", false), &[OWN]).await.status, 200);
    let other = ("x-pointsman-provider-key-openai", "sk-of-another");
    assert_eq!(world.post_with(&chat("gpt-4o", true), &[other]).await.status, 200);
    let received = world.sim(0).received();
    assert_eq!(received[0].header("authorization"), Some("Bearer sk-of-the-caller"));
    assert_eq!(received[1].header("authorization"), Some("Bearer sk-of-another"));
    assert!(received.iter().all(|r| r.header("x-pointsman-provider-key-openai").is_none()));
    for headers in [&[][..], &[("x-pointsman-provider-key-azure", "sk-1")][..]] {
        let answer = world.post_with(&chat("gpt-4o", false), headers).await;
        assert_eq!(answer.status, 401, "{}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "provider_key_missing");
    }
    for value in ["", &"k".repeat(2_000)] {
        let answer =
            world.post_with(&chat("gpt-4o", false), &[("x-pointsman-provider-key-openai", value)]).await;
        assert_eq!(answer.status, 400);
    }
    assert_eq!(calls(&world), 2);
}

/// The refusal is the caller's own affair: it is told by the provider's words, and nobody else notices.
#[tokio::test]
async fn a_refused_credential_of_the_callers_is_401_and_blames_nobody() {
    let refusal = |status: u16, code: &str, message: &str| {
        let kind = if status == 429 { "requests" } else { "invalid_request_error" };
        let body = json!({ "error": { "message": message, "type": kind, "param": null, "code": code } });
        Script::status(status).body(body.to_string())
    };
    for stream in [false, true] {
        let world = byok().await;
        world.sim(0).set(refusal(401, "invalid_api_key", "Incorrect API key provided."));
        for _ in 0..5 {
            let answer = world.post_with(&chat("gpt-4o", stream), &[OWN]).await;
            assert_eq!(answer.status, 401, "{}", answer.text());
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            let error = answer.json()["error"].clone();
            assert_eq!(error["code"], "invalid_api_key");
            assert_eq!(error["message"], "Incorrect API key provided.");
        }
        assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (5, 0), "no other target is tried with it");
        world.nobody_is_blamed();
        // Another caller's limit and quota are no one else's either.
        world
            .sim(0)
            .set(refusal(429, "rate_limit_exceeded", "Rate limit reached.").header("retry-after", "7"));
        let answer = world.post_with(&chat("gpt-4o", stream), &[OWN]).await;
        assert_eq!(answer.status, 429, "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("7"));
        assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
        world.sim(0).set(refusal(403, "permission_denied", "Not for you."));
        assert_eq!(world.post_with(&chat("gpt-4o", stream), &[OWN]).await.status, 403);
        world.nobody_is_blamed();
        world.sim(0).set(Script::healthy());
        assert_eq!(world.post_with(&chat("gpt-4o", stream), &[OWN]).await.status, 200);
        assert_eq!(world.sim(1).calls(), 0);
    }
}

/// C095: a marker in everything that a client sends and gets is found nowhere afterwards.
#[tokio::test]
async fn content_and_credentials_stay_out_of_logs_ledger_metrics_and_errors() {
    let logs = crate::logs::capture();
    let rest = format!("keys: {{ team-a: {{ hash: \"{}\" }} }}\n", hash("MARK-gateway-key"));
    let world = gateway("", &["api_key: MARK-upstream-key", "api_key: caller"], &rest).await;
    let mut body = chat("gpt-4o", false);
    body["messages"][0]["content"] = json!("MARK-prompt");
    body["tools"] = json!([{ "type": "function", "function": { "name": "MARK-tool", "parameters": { "title": "MARK-schema" } } }]);
    body["user"] = json!("MARK-user");
    body["prompt_cache_key"] = json!("MARK-cache-key");
    body["metadata"] = json!({ "MARK-name": "MARK-value" });
    let headers = [
        ("x-api-key", "MARK-gateway-key"),
        ("x-pointsman-provider-key-openai", "MARK-caller-key"),
        ("cookie", "MARK-cookie"),
        ("x-sim-script", "MARK-header"),
    ];
    let answers = [
        Script::answer("MARK-output").tool_call("MARK-call", r#"{"MARK-argument":1}"#),
        Script::answer("MARK-output").reasoning("MARK-reasoning", "reasoning_content"),
        Script::answer("MARK-output MARK-output MARK-output").fault(pointsman_provider_sim::Fault::Cut { after: 2 }),
        Script::malformed_event_at(1),
        Script::status(500).body("MARK-error-body"),
        Script::healthy().html().body("<html>MARK-page</html>"),
        Script::status(400).body(r#"{"error":{"message":"MARK-message","type":"MARK-type","code":"MARK-code","param":"MARK-param"}}"#),
        Script::status(401).body(r#"{"error":{"message":"Incorrect API key provided: MARK-upstream-key","type":"x","code":"invalid_api_key"}}"#),
    ];
    let mut told = Vec::new();
    for script in answers {
        for stream in [false, true] {
            body["stream"] = json!(stream);
            for sim in &world.sims {
                sim.set(script.clone());
            }
            let query = "/v1/chat/completions?key=MARK-gateway-key";
            told.push(world.send("POST", query, Bytes::from(body.to_string()), &headers).await);
            world.clock.advance(std::time::Duration::from_secs(3_600));
        }
    }
    let garbage = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"MARK-broken""#;
    told.push(world.send("POST", "/v1/chat/completions", Bytes::from(garbage), &headers).await);
    told.push(
        world
            .send("POST", "/v1/chat/completions", Bytes::from("{}"), &[("x-api-key", "MARK-wrong-key")])
            .await,
    );
    world.everything_is_back().await;
    for answer in &told {
        let said = format!("{:?} {}", answer.headers, answer.text());
        for mark in [
            "MARK-upstream-key",
            "MARK-gateway-key",
            "MARK-caller-key",
            "MARK-wrong-key",
            "MARK-cookie",
            "MARK-prompt",
            "MARK-broken",
        ] {
            assert!(!said.contains(mark), "{mark} is told to the client: {said}");
        }
    }
    assert_eq!(world.records().len(), 16);
    nothing_is_marked("the ledger", &format!("{:?}", world.records()));
    nothing_is_marked("the metrics", &world.gateway.app().metrics.render(world.gateway.app()));
    for path in ["/metrics", "/admin/v1/requests", "/admin/v1/targets", "/admin/v1/audit"] {
        nothing_is_marked(path, &admin(&world, path).await);
    }
    eventually("ends in the log", true, || logs.ends() >= 16).await;
    assert_eq!(logs.marked(), Vec::<String>::new());
}

fn nothing_is_marked(what: &str, text: &str) {
    assert!(!text.is_empty(), "{what}");
    let at =
        text.find("MARK-").map(|at| text[at.saturating_sub(200)..].chars().take(300).collect::<String>());
    assert_eq!(at, None, "{what}");
}

async fn admin(world: &World, path: &str) -> String {
    let address = world.gateway.admin_addr();
    let mut raw = crate::clients::Raw::connect(address).await;
    raw.send(&format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).await;
    let text = raw.rest().await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{path}: {text}");
    text
}

#[tokio::test]
async fn a_marker_in_the_log_would_be_found() {
    let logs = crate::logs::capture();
    tracing::debug!(secret = "MARK-control", "a control line");
    assert!(logs.lines().iter().any(|line| line.contains("MARK-control")));
}

/// A provider that breaks the connection over a header must not be made to by whoever holds a key.
#[tokio::test]
async fn a_header_that_is_passed_on_may_not_be_of_any_length() {
    let world = world(&[("a", "gpt-4o")], "").await;
    let long = "b".repeat(4 * 1024 + 1);
    let answer = world.post_with(&chat("gpt-4o", false), &[("openai-beta", &long)]).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("openai-beta"), "{}", answer.text());
    assert_eq!(world.sim(0).calls(), 0);
}
