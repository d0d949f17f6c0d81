//! The control endpoint under `/_sim/`.

use pointsman_provider_sim::{Script, Sim};
use serde_json::{Value, json};

use crate::raw::{chat, exchange, request};
use crate::sim;

async fn control(sim: &Sim, method: &str, path: &str, body: &str) -> (u16, Value) {
    let seen = exchange(sim.addr(), &request(method, path, body)).await;
    (seen.status, seen.json())
}

async fn status(sim: &Sim, model: &str) -> u16 {
    exchange(sim.addr(), &chat(json!({"model": model}))).await.status
}

#[tokio::test]
async fn scripts_are_set_by_json_or_short_name_for_all_or_one_model() {
    let sim = sim(Script::healthy()).await;
    assert_eq!(control(&sim, "PUT", "/_sim/script", r#"{"reply":{"status":503}}"#).await.0, 200);
    assert_eq!(status(&sim, "m").await, 503);
    control(&sim, "PUT", "/_sim/script", "status:502").await;
    assert_eq!(status(&sim, "m").await, 502);
    control(&sim, "PUT", "/_sim/script?model=z%2Fglm", r#""healthy""#).await;
    assert_eq!((status(&sim, "z/glm").await, status(&sim, "m").await), (200, 502));
    control(&sim, "POST", "/_sim/enqueue", r#"["status:418", {"reply":{"status":419}}]"#).await;
    assert_eq!((status(&sim, "m").await, status(&sim, "m").await, status(&sim, "m").await), (418, 419, 502));
    let schedule =
        r#"{"phases":[{"for_ms":3600000,"script":"status:500"},{"for_ms":1,"script":{}}],"repeat":true}"#;
    assert_eq!(control(&sim, "PUT", "/_sim/schedule", schedule).await.0, 200);
    assert_eq!(status(&sim, "m").await, 500);
    control(&sim, "POST", "/_sim/reset", "").await;
    assert_eq!((status(&sim, "m").await, sim.calls()), (200, 1));
}

#[tokio::test]
async fn the_state_shows_counts_and_rules_and_control_requests_are_not_calls() {
    let sim = sim(Script::status(500)).await;
    status(&sim, "m").await;
    let (_, state) = control(&sim, "GET", "/_sim/state", "").await;
    assert_eq!(
        (&state["name"], &state["calls"], &state["calls_by_model"]["m"]),
        (&json!("sim-a"), &json!(1), &json!(1))
    );
    assert_eq!((&state["active_requests"], &state["aborted"]), (&json!(0), &json!(0)));
    assert_eq!(state["script"]["reply"]["status"], 500);
    let shown: Script = serde_json::from_value(state["script"].clone()).unwrap();
    assert_eq!(shown, Script::status(500));
    assert_eq!(sim.calls(), 1);
}

#[tokio::test]
async fn what_was_received_is_shown_with_credentials_cut_to_their_end() {
    let sim = sim(Script::healthy()).await;
    let body = r#"{"model":"m"}"#;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer sk-secret-1234\r\nx-a: b\r\n";
    exchange(sim.addr(), format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
    let (_, received) = control(&sim, "GET", "/_sim/received", "").await;
    assert_eq!(received.as_array().unwrap().len(), 1);
    assert_eq!(received[0]["headers"][0], json!(["authorization", "***1234"]));
    assert_eq!(received[0]["headers"][1], json!(["x-a", "b"]));
    assert_eq!((&received[0]["body"], &received[0]["model"]), (&json!({"model": "m"}), &json!("m")));
}

#[tokio::test]
async fn mistakes_are_told_and_change_nothing() {
    let sim = sim(Script::healthy()).await;
    for (method, path, body, expected, hint) in [
        ("PUT", "/_sim/script", "nonsense", 400, "no script is called 'nonsense'"),
        ("PUT", "/_sim/script", "cut:many", 400, "cut:N"),
        ("PUT", "/_sim/script", r#"{"repl":{}}"#, 400, "unknown field `repl`"),
        ("PUT", "/_sim/script", "{", 400, "not valid JSON"),
        ("PUT", "/_sim/script", "reset-on-accept", 400, "enqueue it"),
        ("PUT", "/_sim/script?model=%zz", "status:500", 400, "percent-encoded"),
        ("POST", "/_sim/enqueue", r#"["status:500","nonsense"]"#, 400, "nonsense"),
        ("PUT", "/_sim/schedule", r#"{"phases":[{"script":"status:500"}]}"#, 400, "for_ms"),
        ("GET", "/_sim/nothing", "", 404, "GET /_sim/state"),
    ] {
        let (status, answer) = control(&sim, method, path, body).await;
        assert_eq!(status, expected, "{path} {body}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(hint), "{message}");
    }
    assert_eq!(status(&sim, "m").await, 200);
    let (_, scripts) = control(&sim, "GET", "/_sim/scripts", "").await;
    assert!(scripts.as_array().unwrap().iter().any(|script| script["name"] == "cut:N"));
}
