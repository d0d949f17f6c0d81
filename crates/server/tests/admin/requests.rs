//! Past requests, and why each step of them was taken.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::support::{World, world};

async fn listed(world: &World, query: &str) -> Vec<Value> {
    let answer = world.get(&format!("/admin/v1/requests{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["requests"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_trace_of_a_past_request_says_which_rule_decided_each_step() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    world.sims[0].enqueue([Script::server_error(500)]);
    let answer = world.ask("gpt-4o").await;
    let id = answer.header("x-request-id");
    let record = world.get(&format!("/admin/v1/requests/{id}")).await.json();
    assert_eq!(record["id"], id);
    assert_eq!(record["terminal"], "success");
    let attempts: Vec<[&str; 3]> = record["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| ["target", "action", "outcome"].map(|k| a[k].as_str().unwrap()))
        .collect();
    assert_eq!(attempts, [["a", "primary", "failed"], ["b", "failover", "succeeded"]]);
    let trace = record["trace"].as_array().unwrap();
    let rules: Vec<&str> = trace.iter().map(|t| t["rule"].as_str().unwrap()).collect();
    assert!(rules.starts_with(&["plan", "failed"]), "{rules:?}");
    assert!(rules.contains(&"7_failover") && rules.contains(&"commit"), "{rules:?}");
    let failover = trace.iter().find(|t| t["rule"] == "7_failover").unwrap();
    assert_eq!(failover["words"], "failover on b: the next healthy equivalent of the same model");
}

#[tokio::test]
async fn requests_come_newest_first_without_their_traces_and_no_more_than_asked_for() {
    let world = world(&[("a", "gpt-4o")], "").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.ask("gpt-4o").await.header("x-request-id").to_owned());
    }
    ids.reverse();
    let all = listed(&world, "").await;
    assert_eq!(all.iter().map(|r| r["id"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    assert_eq!(all[0]["trace"], Value::Null);
    assert_eq!(all[0]["attempts"][0]["target"], "a");
    let two = world.get("/admin/v1/requests?limit=2").await.json();
    assert_eq!(two["requests"].as_array().unwrap().len(), 2);
    assert_eq!(two["more"], true);
    assert_eq!(world.get("/admin/v1/requests?limit=3").await.json()["more"], false);
}

#[tokio::test]
async fn requests_are_found_by_target_name_end_and_key() {
    // SHA-256 of "test".
    let hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let rest = format!("keys:\n  team: {{ hash: \"{hash}\" }}\n");
    let (sims, lines) = crate::support::providers(&[("a", "gpt-4o"), ("c", "claude")]).await;
    let head = crate::support::HEAD.replace("127.0.0.1:0 }\nadmin", "127.0.0.1:0, auth: keys }\nadmin");
    let world = crate::support::world_of(sims, &format!("{head}{lines}{rest}"));
    for model in ["gpt-4o", "claude"] {
        let body = crate::support::chat(model).to_string();
        let headers = [("content-type", "application/json"), ("authorization", "Bearer test")];
        let to = world.gateway.data_addr();
        let answer = crate::support::send(to, "POST", "/v1/chat/completions", body.into(), &headers).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let by = async |query: &str| -> Vec<String> {
        listed(&world, query).await.iter().map(|r| r["requested"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(by("?target=a").await, ["gpt-4o"]);
    assert_eq!(by("?requested=claude").await, ["claude"]);
    assert_eq!(by("?terminal=success&key=team").await, ["claude", "gpt-4o"]);
    assert!(by("?terminal=exhausted").await.is_empty());
    assert!(by("?key=nobody").await.is_empty());
}

#[tokio::test]
async fn a_query_that_is_not_understood_is_refused_and_says_what_is() {
    let world = world(&[("a", "gpt-4o")], "").await;
    for (query, says) in [
        ("?tarjet=a", "tarjet"),
        ("?limit=0", "1 to 1000"),
        ("?limit=1001", "1 to 1000"),
        ("?limit=many", "limit"),
        ("?terminal=fine", "reconciliation_required"),
        ("?target=a&target=b", "target"),
    ] {
        let answer = world.get(&format!("/admin/v1/requests{query}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{query}");
        assert!(answer.text().contains(says), "{query}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_request_that_is_not_kept_is_404() {
    let world = world(&[("a", "gpt-4o")], "").await;
    let answer = world.get("/admin/v1/requests/req_nobody").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    assert_eq!(world.get("/admin/v1/requests").await.json(), json!({ "requests": [], "more": false }));
}
