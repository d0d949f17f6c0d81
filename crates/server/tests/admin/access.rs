//! Who is let in, and what nobody is told.

use bytes::Bytes;
use serde_json::Value;

use crate::support::{World, chat, providers, send, world, world_of};

const KEY: &str = "an-admin-key-that-nobody-else-has";
const JSON: (&str, &str) = ("content-type", "application/json");

async fn with_key() -> World {
    let (sims, lines) = providers(&[("a", "gpt-4o")]).await;
    let head = format!("server: {{ listen: 127.0.0.1:0 }}\nadmin: {{ listen: 127.0.0.1:0, key: {KEY} }}\n");
    let mut world = world_of(sims, &format!("{head}{lines}"));
    world.admin_key = Some(KEY);
    world
}

async fn get_with(world: &World, path: &str, headers: &[(&str, &str)]) -> crate::support::Answer {
    send(world.gateway.admin_addr(), "GET", path, Bytes::new(), headers).await
}

/// C090, C095: whatever is asked for and whatever is shown in place of the key.
#[tokio::test]
async fn without_the_admin_key_nothing_but_the_health_checks_answers() {
    let world = with_key().await;
    let bearer = format!("Bearer {KEY}");
    for path in ["/", "/metrics", "/admin/v1/targets", "/admin/v1/openapi.json", "/no/such/path"] {
        for headers in [
            vec![],
            vec![("authorization", "Bearer wrong")],
            vec![("authorization", KEY)],
            vec![("authorization", "Basic an-admin-key-that-nobody-else-has")],
            vec![("authorization", &bearer), ("authorization", "Bearer other")],
            vec![("x-api-key", KEY)],
        ] {
            let refused = get_with(&world, path, &headers).await;
            assert_eq!((refused.status, refused.code().as_str()), (401, "invalid_admin_key"), "{path}");
            assert_eq!(refused.header("www-authenticate"), "Bearer");
        }
    }
    assert_eq!(world.get("/admin/v1/targets").await.status, 200);
    assert_eq!(get_with(&world, "/healthz", &[]).await.status, 200);
    assert_eq!(get_with(&world, "/readyz", &[]).await.status, 200);
}

/// C095.
#[tokio::test]
async fn no_key_stands_in_any_answer_or_log_line() {
    let world = with_key().await;
    world.ask("gpt-4o").await;
    let killed = world.post("/admin/v1/targets/a/kill").await;
    let audited = world.get("/admin/v1/audit").await;
    assert_eq!(audited.json()["changes"][0]["who"], "admin_key");
    let mut answers = vec![killed, audited];
    let index = world.get("/").await.json();
    for endpoint in index["endpoints"].as_array().unwrap().iter().filter(|e| e["method"] == "GET") {
        let path = endpoint["path"].as_str().unwrap().replace("{id}", "a");
        answers.push(world.get(&path).await);
    }
    answers.push(world.post_body("/admin/v1/explain", &chat("gpt-4o")).await);
    answers.push(world.post("/admin/v1/reload").await);
    answers.push(get_with(&world, "/", &[("authorization", "Bearer sk-secret-of-a")]).await);
    for secret in [KEY, "sk-secret-of-a"] {
        assert!(answers.iter().all(|a| !a.text().contains(secret)));
        assert!(!crate::support::logged().contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let world = world(&[("a", "gpt-4o")], "").await;
    let addr = world.gateway.admin_addr();
    for headers in [
        vec![("host", "rebound.example")],
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
    ] {
        for path in ["/admin/v1/targets", "/metrics", "/healthz"] {
            let refused = get_with(&world, path, &headers).await;
            assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{path} {headers:?}");
        }
        let mut headers = headers.clone();
        headers.push(JSON);
        let killed = send(addr, "POST", "/admin/v1/targets/a/kill", Bytes::new(), &headers).await;
        assert_eq!(killed.status, 403);
    }
    assert_eq!(world.target("a").await["killed"], false);
    let local = format!("localhost:{}", addr.port());
    assert_eq!(get_with(&world, "/admin/v1/targets", &[("host", &local)]).await.status, 200);
}

#[tokio::test]
async fn a_change_needs_the_content_type_that_a_web_page_cannot_send_unasked() {
    let world = world(&[("a", "gpt-4o")], "").await;
    for headers in [
        vec![],
        vec![("content-type", "text/plain")],
        vec![("content-type", "application/x-www-form-urlencoded")],
        vec![("content-type", "text/plain; application/json")],
    ] {
        let refused = world.admin("POST", "/admin/v1/targets/a/kill", Bytes::new(), &headers).await;
        assert_eq!((refused.status, refused.code().as_str()), (415, "unsupported_media_type"));
    }
    assert_eq!(world.target("a").await["killed"], false);
    let charset = [("content-type", "application/json; charset=utf-8")];
    let done = world.admin("POST", "/admin/v1/targets/a/kill", Bytes::new(), &charset).await;
    assert_eq!(done.status, 200);
}

#[tokio::test]
async fn wrong_paths_methods_and_sizes_are_refused_in_json() {
    let world = world(&[("a", "gpt-4o")], "").await;
    let missing = world.get("/admin/v2/targets").await;
    assert_eq!((missing.status, missing.code().as_str()), (404, "not_found"));
    let method = world.get("/admin/v1/reload").await;
    assert_eq!((method.status, method.code().as_str()), (405, "method_not_allowed"));
    assert_eq!(method.header("allow"), "POST");
    for unreadable in ["/admin/v1/targets/%FF", "/admin/v1/requests?target=%FF&target=a"] {
        let refused = world.get(unreadable).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_request"), "{unreadable}");
    }
    let big = Bytes::from(vec![b' '; 64 * 1024 + 1]);
    let large = world.admin("POST", "/admin/v1/targets/a/kill", big.clone(), &[JSON]).await;
    assert_eq!((large.status, large.code().as_str()), (413, "too_large"));
    let fits = big.slice(1..);
    assert_eq!(world.admin("POST", "/admin/v1/targets/a/kill", fits, &[JSON]).await.status, 200);
}

#[tokio::test]
async fn every_endpoint_of_the_index_and_the_openapi_document_is_there() {
    let world = world(&[("a", "gpt-4o")], "routes:\n  r: { models: [gpt-4o] }\n").await;
    let id = world.ask("gpt-4o").await.header("x-request-id").to_owned();
    let document = world.get("/admin/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let index = world.get("/").await.json();
    let endpoints = index["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), document["paths"].as_object().unwrap().len());
    for endpoint in endpoints {
        let (method, path) = (endpoint["method"].as_str().unwrap(), endpoint["path"].as_str().unwrap());
        assert_ne!(document["paths"][path][method.to_lowercase()], Value::Null, "{path}");
        let real =
            if path.contains("requests") { path.replace("{id}", &id) } else { path.replace("{id}", "a") };
        let real = real.replace("{action}", "reset").replace("{route}", "r").replace("{switch}", "on");
        let body = if path.ends_with("explain") { chat("gpt-4o").to_string() } else { String::new() };
        let headers = if method == "POST" { vec![JSON] } else { vec![] };
        let answer = world.admin(method, &real, body.into(), &headers).await;
        assert_eq!(answer.status, 200, "{method} {real}: {}", answer.text());
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn readiness_ends_when_the_drain_begins_and_liveness_does_not() {
    let (sims, lines) = providers(&[("a", "gpt-4o")]).await;
    let head = "server: { listen: 127.0.0.1:0, drain: { delay: 1s, timeout: 1s } }\nadmin: { listen: 127.0.0.1:0 }\n";
    let World { gateway, sims: _sims, .. } = world_of(sims, &format!("{head}{lines}"));
    let addr = gateway.admin_addr();
    let check = async |path| send(addr, "GET", path, Bytes::new(), &[]).await.status;
    assert_eq!(check("/readyz").await, 200);
    let app = gateway.app().clone();
    let leaving = tokio::spawn(gateway.shut_down());
    while !app.is_draining() {
        tokio::task::yield_now().await;
    }
    assert_eq!(check("/readyz").await, 503);
    assert_eq!(check("/healthz").await, 200);
    leaving.await.unwrap();
}
