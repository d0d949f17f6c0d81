//! Reading the configuration again: by a call, and because a watched file changed. (SIGHUP concerns the whole process
//! and has a test binary of its own.)

use std::collections::BTreeMap;
use std::time::Duration;

use pointsman_provider_sim::{Script, Sim};
use pointsman_server::{Clock, start};
use serde_json::json;

use crate::support::{HEAD, World, chat, from_a_file, providers, strategy, target_line, world_of};

/// Two providers, of which the file names the first one only.
async fn with_a_second_one_at_hand() -> (World, String, String) {
    let (sims, _) = providers(&[("a", "gpt-4o"), ("b", "gpt-4o")]).await;
    let [a, b] = [("a", &sims[0]), ("b", &sims[1])].map(|(name, sim)| target_line(name, "gpt-4o", sim));
    let [only_a, only_b] = [a, b].map(|line| format!("{HEAD}targets:\n{line}"));
    (world_of(sims, &only_a), only_a, only_b)
}

async fn who_answers(world: &World) -> String {
    let answer = world.ask("gpt-4o").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-pointsman-target").to_owned()
}

const RELOADED: &str = "pointsman_config_reloads_total{outcome=\"success\"}";

#[tokio::test]
async fn a_reload_swaps_the_targets() {
    let (world, _, only_b) = with_a_second_one_at_hand().await;
    assert_eq!(who_answers(&world).await, "a");
    world.set_file(&only_b);
    let answer = world.post("/admin/v1/reload").await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "reloaded": true, "warnings": [] })));
    assert_eq!(who_answers(&world).await, "b");
    assert_eq!(world.metric(RELOADED).await, Some(1.0));
    assert_eq!(world.get("/admin/v1/targets/a").await.status, 404);
    let gone = "pointsman_domain_state{domain=\"target\",name=\"a\"}";
    assert_eq!(world.metric(gone).await, None, "a target that is gone is not shown as it was last");
}

#[tokio::test]
async fn a_bad_file_is_refused_with_all_that_is_wrong_and_the_old_one_stays() {
    let (world, _, only_b) = with_a_second_one_at_hand().await;
    world.set_file(&format!("{only_b}queu: {{}}\nroutes:\n  r: {{ models: [gpt-5] }}\n"));
    let answer = world.post("/admin/v1/reload").await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_configuration"));
    let problems = answer.json()["problems"].as_array().unwrap().clone();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].as_str().unwrap().starts_with("test.yaml:5:1: "), "{problems:?}");
    assert_eq!(who_answers(&world).await, "a");
    assert_eq!(world.metric("pointsman_config_reloads_total{outcome=\"failure\"}").await, Some(1.0));
    let change = world.get("/admin/v1/audit").await.json()["changes"][0].clone();
    assert_eq!((change["action"].as_str(), change["done"].as_bool()), (Some("reload"), Some(false)));
}

#[tokio::test]
async fn what_listeners_were_built_from_needs_a_restart_and_all_of_it_is_named() {
    let (world, only_a, _) = with_a_second_one_at_hand().await;
    let moved =
        only_a.replace("server: { listen: 127.0.0.1:0 }", "server: { listen: 127.0.0.1:9, runtime: shared }");
    world.set_file(&moved);
    let answer = world.post("/admin/v1/reload").await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "restart_needed"));
    for key in ["`server.listen`", "`server.runtime`"] {
        assert!(answer.text().contains(key), "{}", answer.text());
    }
}

#[tokio::test]
async fn without_a_file_there_is_nothing_to_reload() {
    let (sims, lines) = providers(&[("a", "gpt-4o")]).await;
    let vars = BTreeMap::<String, String>::new();
    let loaded = pointsman_config::parse(&format!("{HEAD}{lines}"), "test.yaml", &vars).unwrap();
    let mut world = world_of(sims, &format!("{HEAD}{lines}"));
    world.gateway = start(loaded.config, Clock::default(), None).unwrap();
    let answer = world.post("/admin/v1/reload").await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "nothing_to_reload"));
}

#[tokio::test]
async fn requests_in_flight_keep_the_configuration_that_they_began_with() {
    let (world, _, only_b) = with_a_second_one_at_hand().await;
    world.sims[0].set(Script::pause_after(2, Duration::from_secs(1)));
    let mut body = chat("gpt-4o");
    body["stream"] = true.into();
    let to = world.gateway.data_addr();
    let headers = [("content-type", "application/json")];
    let streaming = tokio::spawn(async move {
        crate::support::send(to, "POST", "/v1/chat/completions", body.to_string().into(), &headers).await
    });
    world.sims[0].wait_until(|sim| sim.active_requests() == 1).await.unwrap();
    world.set_file(&only_b);
    assert_eq!(world.post("/admin/v1/reload").await.status, 200);
    assert_eq!(who_answers(&world).await, "b");
    let answer = streaming.await.unwrap();
    assert_eq!(answer.header("x-pointsman-target"), "a");
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
}

/// C080, in one process: a key that was taken away or cut down is refused from the reload on, also on a connection that it
/// was let in by, while the stream that it has begun comes to its end.
#[tokio::test]
async fn a_key_that_is_taken_away_is_refused_at_once() {
    let (sims, lines) = providers(&[("a", "gpt-4o"), ("b", "other")]).await;
    let keys = |models: &str, name: &str| {
        format!("keys: {{ {name}: {{ hash: \"sha256:{HASH_OF_PASSWORD}\"{models} }} }}\n")
    };
    let file = |keys: &str| format!("{HEAD}{keys}{lines}");
    let world = world_of(sims, &file(&keys("", "team")));
    let mut open = tokio::net::TcpStream::connect(world.gateway.data_addr()).await.unwrap();
    assert_eq!(status_on(&mut open, &world, "gpt-4o").await, "200");
    world.sims[0].set(Script::pause_after(2, Duration::from_secs(1)));
    let (to, mut body) = (world.gateway.data_addr(), chat("gpt-4o"));
    body["stream"] = true.into();
    let streaming = tokio::spawn(async move {
        let headers = [("content-type", "application/json"), ("x-api-key", "password")];
        crate::support::send(to, "POST", "/v1/chat/completions", body.to_string().into(), &headers).await
    });
    world.sims[0].wait_until(|sim| sim.active_requests() == 1).await.unwrap();
    for (keys, expected) in [(keys(", models: [other]", "team"), "403"), (no_such_key(), "401")] {
        world.set_file(&file(&keys));
        assert_eq!(world.post("/admin/v1/reload").await.status, 200);
        assert_eq!(status_on(&mut open, &world, "gpt-4o").await, expected);
    }
    let answer = streaming.await.unwrap();
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    assert_eq!(world.sims[0].calls(), 2);
}

/// SHA-256 of `password`.
const HASH_OF_PASSWORD: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";

fn no_such_key() -> String {
    format!("keys: {{ other: {{ hash: \"sha256:{}\" }} }}\n", "0".repeat(64))
}

/// The status of a request by the key `password` on a connection that stays open.
async fn status_on(open: &mut tokio::net::TcpStream, world: &World, model: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (host, body) = (world.gateway.data_addr(), chat(model).to_string());
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nx-api-key: password\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    open.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        let parts = text.split_once("\r\n\r\n");
        let whole = parts.is_some_and(|(head, body)| {
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            length.is_some_and(|length| body.len() >= length.trim().parse::<usize>().unwrap())
        });
        if whole {
            return text["http/1.1 ".len()..][..3].to_owned();
        }
        assert!(open.read_buf(&mut seen).await.unwrap() > 0, "the connection was closed: {text}");
    }
}

#[tokio::test]
async fn health_survives_a_reload_and_so_does_a_kill() {
    let (sims, lines) = providers(&[("a", "gpt-4o"), ("b", "gpt-4o"), ("k", "gpt-4o")]).await;
    let world = world_of(sims, &format!("{HEAD}{lines}"));
    world.sims[0].set(Script::server_error(500));
    for _ in 0..3 {
        assert_eq!(who_answers(&world).await, "b");
    }
    world.post("/admin/v1/targets/k/kill").await;
    world.set_file(&format!("{HEAD}{lines}defaults: {{ strategy: least-busy }}\n"));
    assert_eq!(world.post("/admin/v1/reload").await.status, 200);
    assert_eq!(world.target("a").await["state"], "open");
    assert_eq!(world.target("k").await["state"], "killed");
    assert_eq!(who_answers(&world).await, "b");
    assert_eq!(world.sims[0].calls(), 3);
}

#[tokio::test]
async fn a_new_admin_key_holds_from_the_reload_on() {
    let (mut world, only_a, _) = with_a_second_one_at_hand().await;
    let keyed =
        only_a.replace("admin: { listen: 127.0.0.1:0 }", "admin: { listen: 127.0.0.1:0, key: fresh }");
    world.set_file(&keyed);
    assert_eq!(world.post("/admin/v1/reload").await.status, 200);
    assert_eq!(world.get("/admin/v1/targets").await.status, 401);
    world.admin_key = Some("fresh");
    assert_eq!(world.get("/admin/v1/targets").await.status, 200);
}

#[tokio::test]
async fn a_target_that_moves_starts_afresh() {
    let (sims, lines) = providers(&[("a", "gpt-4o"), ("b", "gpt-4o")]).await;
    let world = world_of(sims, &format!("{HEAD}{lines}"));
    world.sims[0].set(Script::server_error(500));
    for _ in 0..3 {
        assert_eq!(who_answers(&world).await, "b");
    }
    assert_eq!(world.target("a").await["state"], "open");
    let elsewhere = Sim::start(pointsman_provider_sim::SimConfig::named("elsewhere")).await.unwrap();
    let moved = lines.replace(&world.sims[0].base_url(), &elsewhere.base_url());
    world.set_file(&format!("{HEAD}{moved}"));
    assert_eq!(world.post("/admin/v1/reload").await.status, 200);
    assert_eq!(world.target("a").await["state"], "closed");
    assert_eq!(who_answers(&world).await, "a");
    assert_eq!(elsewhere.calls(), 1);
}

#[tokio::test]
async fn a_watched_file_is_read_again_when_its_content_changes() {
    let (world, path, _folder) = from_a_file("watch: true\n").await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(strategy(&world).await, "priority");
    std::fs::write(&path, format!("{text}defaults: {{ strategy: sticky }}\n")).unwrap();
    world.until(async || strategy(&world).await == "sticky").await;
    std::fs::write(&path, "not a configuration").unwrap();
    let failures = "pointsman_config_reloads_total{outcome=\"failure\"}";
    world.until(async || world.metric(failures).await == Some(1.0)).await;
    assert_eq!(strategy(&world).await, "sticky");
    let changes = world.get("/admin/v1/audit").await.json()["changes"].clone();
    assert_eq!((changes[0]["who"].as_str(), changes[0]["done"].as_bool()), (Some("watch"), Some(false)));
    assert_eq!((changes[1]["who"].as_str(), changes[1]["done"].as_bool()), (Some("watch"), Some(true)));
}
