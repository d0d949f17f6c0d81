//! What a holder of a key, or of none, must not get by any request of either dialect.

use std::collections::BTreeSet;

use bytes::Bytes;
use pointsman_provider_sim::{Received, Script, Sim, SimConfig};
use serde_json::{Value, json};

use crate::clients::eventually;
use crate::line::hash;
use crate::support::{Answer, World};
use crate::tongue::{ALL, BOTH, Tongue};

const KEY: &str = "pk-team-a-0123456789";
const OTHER: &str = "pk-team-b-0123456789";

/// Models `cheap` and `dear`, a route over both, and keys: one for all, one for `cheap`, and the rest of the file.
async fn guarded(tongue: Tongue, granted: &str) -> World {
    let keys = format!(
        "keys: {{ team-a: {{ hash: \"{}\" }}, team-b: {{ hash: \"{}\", models: [{granted}] }} }}\n\
         routes: {{ agent: {{ models: [cheap, dear] }} }}\n\
         defaults: {{ budget: {{ max_same_target_attempts: 1 }} }}\n",
        hash(KEY),
        hash(OTHER)
    );
    tongue.world(&[("a", ", model: cheap"), ("b", ", model: dear")], &keys).await
}

/// C081: a key gets no other model by a failure, by another spelling, by the body's list or by the query.
#[tokio::test]
async fn no_way_leads_to_a_model_that_a_key_was_not_given() {
    for tongue in BOTH {
        let world = guarded(tongue, "cheap").await;
        let key = [("x-api-key", OTHER)];
        world.sim(0).set(tongue.overloaded());
        let failed = tongue.post(&world, &tongue.request_for("cheap", true), &key).await;
        assert!(failed.status.is_server_error(), "{}", failed.text());
        world.sim(0).set(Script::healthy());
        for name in ["dear", "agent", "anthropic/dear", "openai/dear", "DEAR", "dear ", " dear", "deary"] {
            let answer = tongue.post(&world, &tongue.request_for(name, true), &key).await;
            assert!([403, 404].contains(&answer.status.as_u16()), "{name}: {}", answer.text());
        }
        let mut listed = tongue.request_for("cheap", true);
        listed["models"] = json!(["cheap", "dear"]);
        assert_eq!(tongue.post(&world, &listed, &key).await.status, 403);
        let text = tongue.request_for("cheap", true).to_string();
        let twice = text.replacen('{', "{\"model\":\"dear\",", 1);
        assert_eq!(tongue.send(&world, tongue.path(), Bytes::from(twice), &key).await.status, 400);
        let path = format!("{}?model=dear", tongue.path());
        let answer = tongue.send(&world, &path, Bytes::from(text), &key).await;
        assert_eq!(answer.header("x-pointsman-model"), Some("cheap"));
        assert_eq!(world.sim(1).calls(), 0, "nothing ever came to the dear one");
    }
}

/// C081: a route that a key was given is the operator's word for all of its models.
#[tokio::test]
async fn a_route_is_granted_with_its_substitutes() {
    for (tongue, stream) in ALL {
        let world = guarded(tongue, "agent").await;
        world.sim(0).set(tongue.overloaded());
        let key = [("x-api-key", OTHER)];
        let answer = tongue.post(&world, &tongue.request_for("agent", stream), &key).await;
        tongue.assert_whole(&answer, "b");
        assert_eq!(answer.header("x-pointsman-substituted"), Some("true"));
        assert_eq!(tongue.post(&world, &tongue.request_for("dear", stream), &key).await.status, 403);
    }
}

/// What a provider got, without the wish for usage that the gateway adds to streams of Chat Completions.
fn own_words(received: &Received) -> String {
    String::from_utf8(received.body.to_vec())
        .unwrap()
        .replace("\"stream_options\":{\"include_usage\":true},", "")
}

/// C088, C093, C094: no field, header or query moves a request, changes whose it is, or is taken for a template.
#[tokio::test]
async fn nothing_of_a_request_changes_where_it_goes_or_whose_it_is() {
    let trap = Sim::start(SimConfig::named("trap")).await.unwrap();
    let url = trap.base_url();
    for (tongue, stream) in ALL {
        let world = guarded(tongue, "cheap").await;
        let mut body = tongue.request_for("cheap", stream);
        body["messages"][0]["content"] = json!("{{ 7 * 7 }} ${HOME} #{id} <%= 1 %>");
        for name in [
            "api_base",
            "base_url",
            "api_key",
            "custom_llm_provider",
            "aws_region_name",
            "vertex_credentials",
        ] {
            body[name] = json!(url);
        }
        body["extra_headers"] = json!({ "host": "evil.example", "authorization": "Bearer evil" });
        body["fallbacks"] = json!([{ "model": "dear", "api_base": url }]);
        body["metadata"] = json!({ "user_api_key_team_id": "team-b", "api_base": url, "no-log": true });
        body["litellm_params"] = json!({ "api_base": url, "mock_response": "mocked" });
        body["mock_response"] = json!("mocked");
        body["cache"] = json!({ "namespace": "team-b" });
        body["chat_template"] = json!("{{ 7 * 7 }} ${HOME}");
        let headers = [
            ("x-api-key", KEY),
            ("x-litellm-tags", "team-b"),
            ("x-base-url", url.as_str()),
            ("x-portkey-custom-host", url.as_str()),
            ("x-forwarded-host", "evil.example"),
        ];
        let text = Bytes::from(body.to_string());
        let path = format!("{}?api_base={url}&base_url={url}", tongue.path());
        let answer = tongue.send(&world, &path, text.clone(), &headers).await;
        tongue.assert_whole(&answer, "a");
        let received = &world.sim(0).received()[0];
        assert_eq!(own_words(received), text, "the client's own words, letter by letter");
        assert_eq!(received.header("host").unwrap(), world.sim(0).addr().to_string());
        assert_eq!(world.record().await.key.as_deref(), Some("team-a"));
    }
    assert_eq!((trap.calls(), trap.accepted_connections()), (0, 0));
}

/// C088: nor does a provider's word send a request, and with it the credential, anywhere else.
#[tokio::test]
async fn a_providers_redirect_is_not_followed() {
    let trap = Sim::start(SimConfig::named("trap")).await.unwrap();
    for (tongue, stream) in ALL {
        for status in [301, 302, 303, 307, 308] {
            let world = tongue.pair("").await;
            let location = format!("{}{}", trap.base_url(), tongue.path());
            world.sim(0).set(Script::status(status).header("location", location));
            let answer = tongue.ask(&world, stream).await;
            tongue.assert_whole(&answer, "b");
            assert_eq!((world.sim(0).calls(), answer.header("location")), (1, None));
        }
    }
    assert_eq!((trap.calls(), trap.accepted_connections()), (0, 0));
}

/// C089: a key is compared and nothing else: whatever is wrong with it, the refusal is the same.
#[tokio::test]
async fn a_wrong_key_is_refused_in_one_shape() {
    for tongue in BOTH {
        let world = guarded(tongue, "cheap").await;
        let long = "k".repeat(10_000);
        let wrong =
            ["", "sk-x' OR '1'='1", "sk-x'; DROP TABLE keys--", &long, &KEY[1..], "team-a", &hash(KEY)];
        let mut shapes = BTreeSet::new();
        for key in wrong {
            for (name, value) in [("x-api-key", key.to_owned()), ("authorization", format!("Bearer {key}"))] {
                let answer = tongue.post(&world, &tongue.request_for("cheap", true), &[(name, &value)]).await;
                assert_eq!(answer.status, 401, "{}", answer.text());
                let id = answer.header("x-request-id").unwrap().to_owned();
                shapes.insert(answer.text().replace(&id, "ID"));
            }
        }
        assert_eq!(shapes.len(), 1, "{shapes:?}");
        let bearer = format!("Bearer {OTHER}");
        let both = [("x-api-key", KEY), ("authorization", bearer.as_str())];
        let answer = tongue.post(&world, &tongue.request_for("cheap", true), &both).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(!answer.text().contains("pk-team"), "{}", answer.text());
        assert_eq!((world.sim(0).calls(), world.sim(1).calls()), (0, 0));
    }
}

/// C091: what a picture's or a document's address leads to is the provider's affair: nobody here looks.
#[tokio::test]
async fn no_address_in_a_request_is_visited() {
    let trap = Sim::start(SimConfig::named("trap")).await.unwrap();
    let addresses = [
        format!("{}/picture.png", trap.base_url()),
        format!("http://[::ffff:127.0.0.1]:{}/x", trap.addr().port()),
        format!("http://0x7f.1:{}/x", trap.addr().port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    for (tongue, stream) in ALL {
        let world = tongue.alone("").await;
        for address in &addresses {
            let mut body = tongue.request(stream);
            body["messages"][0]["content"] = pictures(tongue, address);
            let text = Bytes::from(body.to_string());
            tongue.assert_whole(&tongue.send(&world, tongue.path(), text.clone(), &[]).await, "a");
            assert_eq!(
                own_words(world.sim(0).received().last().unwrap()),
                text,
                "it is passed on as it came"
            );
        }
    }
    assert_eq!((trap.calls(), trap.accepted_connections()), (0, 0));
}

fn pictures(tongue: Tongue, address: &str) -> Value {
    match tongue {
        Tongue::Chat => json!([
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": address}},
        ]),
        Tongue::Messages => json!([
            {"type": "image", "source": {"type": "url", "url": address}},
            {"type": "document", "source": {"type": "url", "url": address}},
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"type": "url", "url": address}}]},
        ]),
    }
}

/// C092: of a client's headers a provider of Messages sees what it is meant to see, and no credential.
#[tokio::test]
async fn a_provider_of_messages_sees_no_header_of_the_clients() {
    let tongue = Tongue::Messages;
    let world = guarded(tongue, "cheap").await;
    let secret = "MARK-secret-of-the-client";
    let names = [
        "cookie",
        "proxy-authorization",
        "x-forwarded-for",
        "x-real-ip",
        "x-internal-secret",
        "traceparent",
        "x-stainless-lang",
        "user-agent",
        "openai-beta",
        "openai-organization",
        "referer",
        "te",
        "via",
        "x-request-id",
        "x-app",
        "anthropic-dangerous-direct-browser-access",
    ];
    let mut headers: Vec<(&str, &str)> = names.iter().map(|name| (*name, secret)).collect();
    let bearer = format!("Bearer {KEY}");
    headers.extend([
        ("authorization", bearer.as_str()),
        ("x-goog-api-key", KEY),
        ("api-key", KEY),
        ("anthropic-beta", "b-1"),
    ]);
    for stream in [true, false] {
        let body = Bytes::from(tongue.request_for("cheap", stream).to_string());
        let path = format!("/v1/messages?beta=true&key={KEY}");
        tongue.assert_whole(&tongue.send(&world, &path, body, &headers).await, "a");
    }
    for received in world.sim(0).received() {
        assert_eq!(received.path, "/v1/messages");
        let names: BTreeSet<&str> = received.headers.iter().map(|(name, _)| name.as_str()).collect();
        let ours = [
            "accept",
            "accept-encoding",
            "anthropic-beta",
            "anthropic-version",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "x-api-key",
            "x-pointsman-hop",
        ];
        assert_eq!(names, BTreeSet::from(ours));
        assert_eq!(received.header("x-api-key"), Some("sk-upstream-a"));
        let all = format!("{:?}", received.headers);
        assert!(!all.contains(secret) && !all.contains(KEY), "{all}");
    }
}

/// C095: in Messages, too, a marker in all that a client sends and gets is found nowhere afterwards.
#[tokio::test]
async fn content_and_credentials_of_messages_stay_out_of_what_is_kept() {
    let logs = crate::logs::capture();
    let tongue = Tongue::Messages;
    let keys = format!("keys: {{ team: {{ hash: \"{}\" }} }}\n", hash("MARK-gateway-key"));
    let world = tongue.world(&[("a", ""), ("b", "")], &keys).await;
    let mut body = tongue.request(false);
    body["system"] = json!("MARK-system");
    body["messages"][0]["content"] = json!([{"type": "text", "text": "MARK-prompt"}]);
    body["tools"] =
        json!([{"name": "MARK-tool", "input_schema": {"type": "object", "title": "MARK-schema"}}]);
    body["metadata"] = json!({ "user_id": "MARK-user" });
    body["not_known_yet"] = json!("MARK-field");
    let headers =
        [("x-api-key", "MARK-gateway-key"), ("cookie", "MARK-cookie"), ("anthropic-beta", "MARK-beta")];
    let error = |status| tongue.says(status, "MARK-type", "MARK-message");
    let inside = json!({"type": "MARK-type", "message": "MARK-message"});
    let answers = [
        Script::answer("MARK-output").tool_call("MARK-call", r#"{"MARK-argument":1}"#),
        Script::answer("MARK-output").reasoning("MARK-reasoning", "thinking"),
        Script::cut_after(2).tokens(5),
        Script::malformed_event_at(1),
        Script::error_event_first(inside.clone()),
        Script::error_event_after(1, inside),
        error(400),
        error(401),
        error(500),
        error(529),
    ];
    let mut told: Vec<Answer> = Vec::new();
    for script in answers {
        for stream in [false, true] {
            body["stream"] = json!(stream);
            for sim in &world.sims {
                sim.set(script.clone());
            }
            told.push(tongue.post(&world, &body, &headers).await);
            world.clock.advance(std::time::Duration::from_secs(3_600));
        }
    }
    world.everything_is_back().await;
    for answer in &told {
        let said = format!("{:?} {}", answer.headers, answer.text());
        for mark in
            ["MARK-gateway-key", "MARK-cookie", "MARK-prompt", "MARK-system", "MARK-user", "MARK-schema"]
        {
            assert!(!said.contains(mark), "{mark} is told to the client: {said}");
        }
    }
    assert_eq!(world.records().len(), 20);
    eventually("ends in the log", true, || logs.ends() >= 20).await;
    let metrics = world.gateway.app().metrics.render(world.gateway.app());
    for kept in [format!("{:?}", world.records()), metrics] {
        assert!(!kept.contains("MARK-"), "{kept}");
    }
    assert_eq!(logs.marked(), Vec::<String>::new());
}
