//! What an operator does, and what the data plane makes of it.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::support::{World, world};

const ROUTE: &str =
    "routes:\n  helper: { version: 3, models: [gpt-4o, claude], substitution: { allowed: true } }\n";

async fn two() -> World {
    world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await
}

async fn done(world: &World, path: &str) -> Value {
    let answer = world.post(path).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

async fn who_answers(world: &World, model: &str) -> String {
    let answer = world.ask(model).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-pointsman-target").to_owned()
}

#[tokio::test]
async fn a_killed_target_gets_no_call_until_it_is_revived() {
    let world = two().await;
    assert_eq!(who_answers(&world, "gpt-4o").await, "a");
    let killed = done(&world, "/admin/v1/targets/a/kill").await;
    assert_eq!(killed["id"], "a");
    assert_eq!(killed["killed"], true);
    assert_eq!(killed["state"], "killed");
    assert_eq!(world.metric("pointsman_domain_state{domain=\"target\",name=\"a\"}").await, Some(6.0));
    assert_eq!(who_answers(&world, "gpt-4o").await, "b");
    assert_eq!(world.sims[0].calls(), 1);
    let revived = done(&world, "/admin/v1/targets/a/revive").await;
    assert_eq!(revived["killed"], false);
    assert_eq!(revived["state"], "closed");
    assert_eq!(who_answers(&world, "gpt-4o").await, "a");
}

#[tokio::test]
async fn a_model_whose_only_target_is_killed_is_out_of_service_even_as_a_last_resort() {
    let world = world(&[("a", "gpt-4o")], "").await;
    done(&world, "/admin/v1/targets/a/kill").await;
    assert_eq!(world.ask("gpt-4o").await.status, 503);
    assert_eq!(world.sims[0].calls(), 0);
}

#[tokio::test]
async fn an_isolated_target_comes_back_only_by_an_operator() {
    let world = two().await;
    let isolated = done(&world, "/admin/v1/targets/a/isolate").await;
    assert_eq!(isolated["state"], "isolated");
    assert_eq!(who_answers(&world, "gpt-4o").await, "b");
    world.clock.advance(std::time::Duration::from_secs(3_600));
    assert_eq!(who_answers(&world, "gpt-4o").await, "b", "no probe is sent to it");
    assert_eq!(world.domain("a", "target").await["reason"], "isolated by an operator");
    let reset = done(&world, "/admin/v1/targets/a/reset").await;
    assert_eq!(reset["state"], "closed");
    assert_eq!(who_answers(&world, "gpt-4o").await, "a");
}

#[tokio::test]
async fn a_reset_closes_an_open_breaker_and_leaves_a_kill() {
    let world = two().await;
    world.sims[0].set(Script::server_error(500));
    for _ in 0..3 {
        who_answers(&world, "gpt-4o").await;
    }
    assert_eq!(world.target("a").await["state"], "open");
    assert_eq!(done(&world, "/admin/v1/targets/a/reset").await["state"], "closed");
    done(&world, "/admin/v1/targets/a/kill").await;
    assert_eq!(done(&world, "/admin/v1/targets/a/reset").await["killed"], true);
}

#[tokio::test]
async fn the_fallback_of_a_route_can_be_switched_off_and_on() {
    let world = world(&[("a", "gpt-4o"), ("c", "claude")], ROUTE).await;
    done(&world, "/admin/v1/targets/a/kill").await;
    let substituted = world.ask("helper").await;
    assert_eq!(substituted.header("x-pointsman-target"), "c");
    assert_eq!(substituted.header("x-pointsman-substituted"), "true");

    let off = done(&world, "/admin/v1/routes/helper/fallback/off").await;
    assert_eq!(off["fallback"], json!({ "configured": true, "switched_off": true, "allowed": false }));
    assert_eq!(world.ask("helper").await.status, 503);
    assert_eq!(world.sims[1].calls(), 1);
    let explained = world.explain(&crate::support::chat("helper")).await;
    assert_eq!(explained["fallback"], json!({ "allowed": false, "switched_off": true }));

    assert_eq!(world.post("/admin/v1/reload").await.status, 200);
    assert_eq!(world.ask("helper").await.status, 503, "the switch survives a reload");
    let routes = world.get("/admin/v1/routes").await.json();
    assert_eq!(routes["routes"][0]["fallback"]["switched_off"], true);

    done(&world, "/admin/v1/routes/helper/fallback/on").await;
    assert_eq!(world.ask("helper").await.header("x-pointsman-target"), "c");
}

#[tokio::test]
async fn unknown_names_are_404_with_those_that_are_close() {
    let world = world(&[("openai-us", "gpt-4o"), ("c", "claude")], ROUTE).await;
    for (path, close) in [
        ("/admin/v1/targets/openai-su/kill", "openai-us"),
        ("/admin/v1/targets/openai-us/kil", "kill"),
        ("/admin/v1/routes/helpr/fallback/off", "helper"),
    ] {
        let answer = world.post(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.code(), "not_found");
        assert!(answer.text().contains(close), "{path}: {}", answer.text());
    }
    assert_eq!(world.post("/admin/v1/routes/helper/fallback/maybe").await.status, 404);
    assert_eq!(world.get("/admin/v1/targets/nobody").await.status, 404);
    assert_eq!(world.get("/admin/v1/audit").await.json()["changes"], json!([]));
}

#[tokio::test]
async fn every_change_is_kept_with_who_what_and_when() {
    let world = world(&[("audited", "gpt-4o"), ("c", "claude")], ROUTE).await;
    done(&world, "/admin/v1/targets/audited/kill").await;
    done(&world, "/admin/v1/routes/helper/fallback/off").await;
    done(&world, "/admin/v1/reload").await;
    let changes = world.get("/admin/v1/audit").await.json()["changes"].clone();
    let told: Vec<(&str, &str)> = changes
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["action"].as_str().unwrap(), c["object"].as_str().unwrap()))
        .collect();
    let expected =
        [("reload", "configuration"), ("fallback_off", "route/helper"), ("kill", "target/audited")];
    assert_eq!(told, expected, "the newest first");
    assert_eq!(changes[0]["who"], "loopback");
    assert_eq!(changes[0]["from"], "127.0.0.1");
    assert_eq!(changes[0]["done"], true);
    assert!(changes[0]["at_unix_ms"].as_i64().unwrap() > 1_700_000_000_000);
    let log = crate::support::logged();
    let line = log.lines().find(|l| l.contains("target/audited")).expect("an audit line");
    assert!(line.contains("audit=true") && line.contains("kill") && line.contains("loopback"), "{line}");
}

#[tokio::test]
async fn a_change_takes_no_body_but_an_empty_object() {
    let world = two().await;
    assert_eq!(world.post_body("/admin/v1/targets/a/kill", &json!({})).await.status, 200);
    let surprise = world.post_body("/admin/v1/targets/a/revive", &json!({ "for": "5m" })).await;
    assert_eq!(surprise.status, 400);
    assert_eq!(surprise.code(), "invalid_request");
    assert_eq!(world.target("a").await["killed"], true);
}
