//! Who is let in, and to what.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use pointsman_provider_sim::{Script, Sim};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::clients::{gateway, http1_to};
use crate::support::{Answer, World, chat, world_of};

pub const KEY: &str = "pm-team-a-0123456789";
const OTHER: &str = "pm-team-b-0123456789";

pub fn hash(key: &str) -> String {
    let mut text = String::from("sha256:");
    for byte in digest(&SHA256, key.as_bytes()).as_ref() {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// Two models, a route over both, and two keys: one for everything, one for `cheap` alone.
pub async fn guarded() -> World {
    let rest = format!(
        "routes: {{ agent: {{ models: [cheap, expensive] }} }}\nkeys:\n  team-a: {{ hash: \"{}\" }}\n  team-b: {{ hash: \"{}\", models: [cheap] }}\n",
        hash(KEY),
        hash(OTHER)
    );
    gateway("", &["model: cheap", "model: expensive"], &rest).await
}

pub fn calls(world: &World) -> u64 {
    world.sims.iter().map(Sim::calls).sum()
}

/// The one shape in which a wrong key is refused, whatever is wrong with it.
fn assert_unknown(answer: &Answer) {
    assert_eq!(answer.status, 401, "{}", answer.text());
    let mut body = answer.json();
    body["pointsman"]["request_id"] = json!("-");
    let message = "the gateway key is missing or wrong: send a valid one as `Authorization: Bearer …`";
    let expected = json!({
        "error": { "message": message, "type": "invalid_request_error", "param": null, "code": "invalid_api_key" },
        "pointsman": { "request_id": "-", "terminal": "rejected", "reason": "wrong_key" },
    });
    assert_eq!(body, expected);
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let names: BTreeSet<&str> = answer.headers.keys().map(http::HeaderName::as_str).collect();
    let expected = ["content-length", "content-type", "date", "x-request-id", "x-should-retry"];
    assert_eq!(names, BTreeSet::from(expected));
}

#[tokio::test]
async fn a_key_is_known_wherever_clients_put_it() {
    let world = guarded().await;
    let bearer = format!("Bearer {KEY}");
    let lower = format!("bearer {KEY}");
    let places = [
        ("authorization", bearer.as_str()),
        ("authorization", lower.as_str()),
        ("x-api-key", KEY),
        ("api-key", KEY),
        ("x-goog-api-key", KEY),
    ];
    for place in places {
        assert_eq!(world.post_with(&chat("cheap", false), &[place]).await.status, 200, "{place:?}");
    }
    let body = || Bytes::from(chat("cheap", false).to_string());
    let path = format!("/v1/chat/completions?api-version=1&key={KEY}");
    assert_eq!(world.send("POST", &path, body(), &[]).await.status, 200);
    // The same one twice is one.
    let answer = world.send("POST", &path, body(), &[places[0], places[2]]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(calls(&world), 7);
    assert!(world.records().iter().all(|r| r.key.as_deref() == Some("team-a")));
}

/// C089.
#[tokio::test]
async fn two_different_keys_are_400() {
    let world = guarded().await;
    let bearer = format!("Bearer {KEY}");
    for other in [("x-api-key", OTHER), ("api-key", "nonsense"), ("authorization", "Bearer nonsense")] {
        let answer = world.post_with(&chat("cheap", false), &[("authorization", &bearer), other]).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("two different credentials"), "{message}");
        assert!(!message.contains(KEY) && !message.contains(other.1), "{message}");
    }
    assert_eq!(calls(&world), 0);
}

/// C089: a key is hashed and compared, nothing else is done with it.
#[tokio::test]
async fn a_wrong_key_is_401_in_one_shape() {
    let world = guarded().await;
    assert_unknown(&world.post(&chat("cheap", false)).await);
    let long = format!("Bearer {}", "k".repeat(10_000));
    let prefix = format!("Bearer {}", &KEY[..KEY.len() - 1]);
    let longer = format!("Bearer {KEY}x");
    let hashed = format!("Bearer {}", hash(KEY));
    let wrong = [
        "Bearer sk-x' OR '1'='1",
        "Bearer sk-x'; DROP TABLE keys--",
        "Bearer ",
        "Bearer",
        "Basic dGVhbTprZXk=",
        &long,
        &prefix,
        &longer,
        &hashed,
        "Bearer team-a",
    ];
    for value in wrong {
        assert_unknown(&world.post_with(&chat("cheap", false), &[("authorization", value)]).await);
    }
    for name in ["x-api-key", "api-key", "x-goog-api-key"] {
        assert_unknown(&world.post_with(&chat("cheap", false), &[(name, "nonsense")]).await);
    }
    assert_eq!(calls(&world), 0);
}

/// C089: bytes that no key has.
#[tokio::test]
async fn a_key_of_strange_bytes_is_refused() {
    let world = guarded().await;
    for (bytes, status) in [(&b"\xff\xfe\xc3"[..], "401"), (&b"nul\0nul"[..], "400")] {
        let mut raw = world.connect().await;
        let text = http1_to(&world.host(), &chat("cheap", false), &[("connection", "close")]);
        let (line, rest) = text.split_once("\r\n").unwrap();
        let key = [b"\r\nauthorization: Bearer ", bytes, b"\r\n"].concat();
        let whole = [line.as_bytes(), &key, rest.as_bytes()].concat();
        raw.stream.write_all(&whole).await.unwrap();
        let answer = raw.rest().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert_eq!(calls(&world), 0);
}

/// C090: nothing but health is answered to who has no key; not even what there is.
#[tokio::test]
async fn every_path_wants_a_key_except_health() {
    let world = guarded().await;
    let mut paths: Vec<String> =
        ["/", "/metrics", "/admin/v1/targets", "/v1", "/v1/responses", "/nonsense", "/healthz/"]
            .map(str::to_owned)
            .into();
    for prefix in ["", "/v1", "/openai/v1", "/anthropic/v1"] {
        let generating = ["/chat/completions", "/messages", "/messages/count_tokens"];
        for path in generating.iter().chain(&["/models", "/models/cheap", "/embeddings", "/files"]) {
            paths.push(format!("{prefix}{path}"));
        }
    }
    for path in &paths {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            let wrong = [("authorization", "Bearer garbage")];
            let answer = world.send(method, path, Bytes::from("{}"), &wrong).await;
            assert_eq!(answer.status, 401, "{method} {path}: {}", answer.text());
            let answer = world.send(method, path, Bytes::from("{}"), &[]).await;
            assert_eq!(answer.status, 401, "{method} {path}: {}", answer.text());
        }
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.get(path).await.status, 200);
    }
    assert_eq!(calls(&world), 0);
}

/// C086: of a client without a key not one byte of a body is wanted.
#[tokio::test]
async fn a_key_is_asked_for_before_the_body() {
    let world = guarded().await;
    for framing in ["content-length: 10000000000", "transfer-encoding: chunked"] {
        let mut raw = world.connect().await;
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\n", world.host());
        raw.send(&format!("{head}expect: 100-continue\r\n{framing}\r\n\r\n")).await;
        let text = raw.until("invalid_api_key").await;
        assert!(text.starts_with("HTTP/1.1 401 "), "{text}");
    }
    assert_eq!(world.held().body_bytes, 0);
}

#[tokio::test]
async fn what_is_not_here_is_404_and_what_is_used_wrongly_405() {
    let world = gateway("", &[""], "").await;
    for (method, path, status) in [
        ("POST", "/v1/batches", 404),
        ("GET", "/metrics", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/chat/completions", 405),
    ] {
        let answer = world.send(method, path, Bytes::new(), &[]).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    }
}

/// C081: one resolver, asked once; whatever name leads to a model, the key must be granted that model.
#[tokio::test]
async fn a_key_gets_its_own_models_and_no_others() {
    let world = guarded().await;
    let b = [("x-api-key", OTHER)];
    let status = async |model: &str| world.post_with(&chat(model, false), &b).await.status.as_u16();
    assert_eq!(status("cheap").await, 200);
    assert_eq!(status("openai/cheap").await, 200, "its provider's name before it changes nothing");
    assert_eq!(calls(&world), 2);
    for model in ["expensive", "openai/expensive", "agent"] {
        let answer = world.post_with(&chat(model, false), &b).await;
        assert_eq!(answer.status, 403, "{model}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "model_not_allowed");
    }
    for model in ["EXPENSIVE", "expensive ", " cheap", "cheap*", "openai/", "azure/cheap", "cheapz"] {
        assert_eq!(status(model).await, 404, "{model:?}");
    }
    let body = Bytes::from(chat("cheap", false).to_string());
    for query in ["model=expensive", "model=agent&x=1"] {
        let answer = world.send("POST", &format!("/v1/chat/completions?{query}"), body.clone(), &b).await;
        assert_eq!(answer.header("x-pointsman-model"), Some("cheap"), "the query says nothing");
    }
    let twice = r#"{"model":"cheap","messages":[],"model":"expensive"}"#;
    assert_eq!(world.send("POST", "/v1/chat/completions", Bytes::from(twice), &b).await.status, 400);
    let folded = r#"{"model":"cheap","messages":[],"Model":"expensive"}"#;
    assert_eq!(world.send("POST", "/v1/chat/completions", Bytes::from(folded), &b).await.status, 400);
    assert_eq!(world.sim(1).calls(), 0, "nothing ever came to the expensive one");
}

/// C081: also for what a body names as further models.
#[tokio::test]
async fn a_bodys_further_models_must_be_granted_too() {
    let world = guarded().await;
    world.sim(0).set(Script::openai_overloaded());
    let mut body = chat("cheap", false);
    for name in ["expensive", "openai/expensive", "agent"] {
        body["models"] = json!(["cheap", name]);
        let answer = world.post_with(&body, &[("x-api-key", OTHER)]).await;
        assert_eq!(answer.status, 403, "{name}: {}", answer.text());
    }
    assert_eq!(calls(&world), 0);
    body["models"] = json!(["expensive"]);
    let answer = world.post_with(&body, &[("x-api-key", KEY)]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-pointsman-model"), Some("expensive"));
    assert_eq!(answer.header("x-pointsman-substituted"), Some("true"));
}

/// C081: a wildcard target widens nothing.
#[tokio::test]
async fn a_wildcard_target_is_granted_by_its_providers_name_only() {
    let rest = format!(
        "keys:\n  all: {{ hash: \"{}\", models: [\"openai/*\"] }}\n  one: {{ hash: \"{}\", models: [openai/cheap] }}\n",
        hash(KEY),
        hash(OTHER)
    );
    let world = gateway("", &["model: \"*\""], &rest).await;
    let status = async |model: &str, key: &str| {
        world.post_with(&chat(model, false), &[("x-api-key", key)]).await.status.as_u16()
    };
    assert_eq!(status("openai/anything", KEY).await, 200);
    assert_eq!(status("anything", KEY).await, 200);
    assert_eq!(status("openai/cheap", OTHER).await, 200);
    assert_eq!(status("cheap", OTHER).await, 200);
    for model in ["openai/expensive", "expensive", "openai/cheapz", "openai/CHEAP", "cheap "] {
        assert_eq!(status(model, OTHER).await, 403, "{model:?}");
    }
}

/// A key sees what it may use, and its list tells nothing of the rest.
#[tokio::test]
async fn models_are_listed_per_key() {
    let world = guarded().await;
    let list = async |key: &str| {
        let answer = world.send("GET", "/v1/models", Bytes::new(), &[("x-api-key", key)]).await;
        assert_eq!(answer.status, 200);
        answer.json()["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["id"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(list(KEY).await, BTreeSet::from(["agent", "cheap", "expensive"].map(str::to_owned)));
    assert_eq!(list(OTHER).await, BTreeSet::from(["cheap".to_owned()]));
    let one = async |path: &str, key: &str| {
        world.send("GET", path, Bytes::new(), &[("x-api-key", key)]).await.status.as_u16()
    };
    for prefix in ["/v1", "/openai/v1", ""] {
        assert_eq!(one(&format!("{prefix}/models/cheap"), OTHER).await, 200);
        assert_eq!(one(&format!("{prefix}/models/expensive"), OTHER).await, 404, "as if there were none");
        assert_eq!(one(&format!("{prefix}/models/expensive"), KEY).await, 200);
    }
    assert_eq!(calls(&world), 0);
}

/// A web page must not reach a gateway on loopback: neither by a rebound name nor by a foreign origin.
#[tokio::test]
async fn foreign_hosts_and_origins_are_403() {
    let world = gateway(", hosts: [gateway.example.com]", &[""], "").await;
    let port = world.gateway.data_addr().port();
    let ask = async |host: &str, origin: &str| {
        let mut raw = world.connect().await;
        let origin = [("connection", "close"), ("origin", origin)];
        let headers = if origin[1].1.is_empty() { &origin[..1] } else { &origin[..] };
        raw.send(&http1_to(host, &chat("gpt-4o", false), headers)).await;
        raw.rest().await[9..12].to_owned()
    };
    for host in [
        "localhost",
        "127.0.0.1",
        &format!("localhost:{port}"),
        "[::1]",
        "gateway.example.com",
        "GATEWAY.example.com:443",
    ] {
        assert_eq!(ask(host, "").await, "200", "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "gateway.example.com.evil.example",
        "",
    ] {
        assert_eq!(ask(host, "").await, "403", "{host}");
    }
    assert_eq!(ask("localhost", "https://gateway.example.com").await, "200");
    assert_eq!(ask("localhost", &format!("http://localhost:{port}")).await, "200");
    for origin in
        ["https://evil.example", "null", "http://localhost.evil.example", "https://evil.example/localhost"]
    {
        assert_eq!(ask("localhost", origin).await, "403", "{origin}");
    }
    assert_eq!(calls(&world), 8);
}

/// Two gateways that take each other for a provider: the first notices its own request when it comes back.
#[tokio::test]
async fn a_request_does_not_go_round_in_circles() {
    // A port that is free at this moment.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = |listen: &str, next: std::net::SocketAddr| {
        let yaml = format!(
            "server: {{ listen: \"{listen}\" }}\nadmin: {{ listen: 127.0.0.1:0 }}\ntargets:\n  next: {{ provider: openai-compatible, base_url: \"http://{next}/v1\", model: m }}\ndefaults: {{ budget: {{ max_attempts: 1 }} }}\n"
        );
        world_of(Vec::new(), &yaml)
    };
    let second = to("127.0.0.1:0", free);
    let first = to(&free.to_string(), second.gateway.data_addr());
    for stream in [false, true] {
        let answer = first.post(&chat("m", stream)).await;
        assert_eq!(answer.status, 503, "{}", answer.text());
    }
    assert_eq!(first.records().len(), 2, "what came back was refused at the door");
    let statuses: Vec<_> = second.records().iter().map(|r| r.attempts[0].status).collect();
    assert_eq!(statuses, [Some(508), Some(508)]);
    drop(second);
    first.everything_is_back().await;
}

/// C096: liveness and readiness are the gateway's own.
#[tokio::test]
async fn health_checks_call_no_provider() {
    let world = gateway("", &["", "", ""], "").await;
    for _ in 0..20 {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(world.get(path).await.status, 200);
        }
    }
    for sim in &world.sims {
        assert_eq!((sim.calls(), sim.accepted_connections()), (0, 0));
    }
    for sim in &world.sims {
        sim.kill().await.unwrap();
    }
    assert_eq!(
        world.get("/readyz").await.status,
        200,
        "an outage of providers is no reason to restart the gateway"
    );
}
