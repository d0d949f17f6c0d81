//! Rules, counts, keys, limits, and a provider that dies and comes back.

use std::io::ErrorKind;
use std::time::Duration;

use pointsman_provider_sim::{Schedule, Script, Sim, SimConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::raw::{End, LIMIT, chat, exchange, exchange_on, exchange_until, request};
use crate::sim;

fn whole() -> Vec<u8> {
    chat(json!({"model": "m"}))
}

async fn status(sim: &Sim, model: &str) -> u16 {
    exchange(sim.addr(), &chat(json!({"model": model}))).await.status
}

#[tokio::test]
async fn queued_scripts_go_before_a_model_s_rule_and_that_before_the_default() {
    let sim = sim(Script::status(500)).await;
    sim.set_for_model("good", Script::healthy());
    sim.enqueue([Script::status(501), Script::status(502)]);
    assert_eq!(status(&sim, "good").await, 501);
    assert_eq!(status(&sim, "m").await, 502);
    assert_eq!(status(&sim, "good").await, 200);
    assert_eq!(status(&sim, "m").await, 500);
    sim.set(Script::status(503));
    assert_eq!(status(&sim, "good").await, 503, "a new script is for all requests");
    assert_eq!((sim.calls(), sim.calls_for_model("good")), (5, 3));
}

#[tokio::test]
async fn a_queued_reset_on_accept_takes_one_connection() {
    let sim = sim(Script::healthy()).await;
    sim.enqueue([Script::reset_on_accept()]);
    assert_eq!(exchange(sim.addr(), &whole()).await.end, End::Reset);
    assert_eq!((status(&sim, "m").await, sim.calls()), (200, 1));
}

#[tokio::test]
async fn a_schedule_holds_from_now_and_flaps() {
    let sim = sim(Script::healthy()).await;
    let hour = Duration::from_secs(3600);
    sim.set_schedule(Schedule::repeating([(hour, Script::status(500)), (hour, Script::healthy())]));
    assert_eq!(status(&sim, "m").await, 500);
    sim.set_schedule(Schedule::once([(Duration::ZERO, Script::status(500)), (hour, Script::status(502))]));
    assert_eq!(status(&sim, "m").await, 502);
}

#[tokio::test]
async fn what_was_received_can_be_read_back() {
    let sim = sim(Script::healthy()).await;
    let body = r#"{"model":"m","stream":true,"messages":[]}"#;
    let path = "/openai/deployments/d/chat/completions?api-version=1";
    exchange(sim.addr(), &request("POST", path, body)).await;
    let azure = exchange(sim.addr(), &request("POST", path, r#"{"messages":[]}"#)).await;
    assert_eq!(azure.json()["model"], "d");
    let received = sim.received();
    assert_eq!((received[0].method.as_str(), received[0].path.as_str()), ("POST", path));
    assert_eq!((&received[0].body[..], received[0].header("Host")), (body.as_bytes(), Some("sim")));
    assert_eq!((received[0].model.as_deref(), received[0].stream), (Some("m"), true));
    assert_eq!((received[1].model.as_deref(), received[1].stream), (Some("d"), false));
    assert_ne!(received[0].connection, received[1].connection);
    assert!(received[0].at <= received[1].at);
    sim.reset_counters();
    assert_eq!((sim.calls(), sim.received().len()), (0, 0));
}

#[tokio::test]
async fn only_the_last_thousand_requests_are_remembered() {
    let sim = sim(Script::status(500)).await;
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    for number in 0..1_003 {
        exchange_on(&mut stream, &chat(json!({"model": number.to_string()}))).await;
    }
    let received = sim.received();
    assert_eq!((received.len(), received[0].model.as_deref()), (1_000, Some("3")));
    assert_eq!(sim.calls(), 1_003);
}

#[tokio::test]
async fn keys_models_and_paths_are_checked_as_a_provider_does() {
    let config = SimConfig {
        models: vec!["gpt-4o".to_owned(), "gpt-4o-mini".to_owned()],
        api_key: Some("sk-right".to_owned()),
        ..SimConfig::named("sim-a")
    };
    let sim = Sim::start(config).await.unwrap();
    let with = |header: &str, method: &str, path: &str, body: &str| {
        format!("{method} {path} HTTP/1.1\r\n{header}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .into_bytes()
    };
    let chat = "/some/prefix/v1/chat/completions";
    let body = r#"{"model":"gpt-4o"}"#;
    for (header, path, body, status, code) in [
        ("authorization: Bearer sk-right", chat, body, 200, json!(null)),
        ("api-key: sk-right", chat, body, 200, json!(null)),
        ("authorization: Bearer sk-wrong", chat, body, 401, json!("invalid_api_key")),
        ("x-none: 1", chat, body, 401, json!("invalid_api_key")),
        ("api-key: sk-right", chat, r#"{"model":"other"}"#, 404, json!("model_not_found")),
        ("api-key: sk-right", chat, "{", 400, json!(null)),
        ("api-key: sk-right", chat, "{}", 400, json!(null)),
        ("api-key: sk-right", "/v1/fine_tuning/jobs", body, 404, json!(null)),
    ] {
        let seen = exchange(sim.addr(), &with(header, "POST", path, body)).await;
        assert_eq!((seen.status, &seen.json()["error"]["code"]), (status, &code), "{header} {path} {body}");
    }
    let models = exchange(sim.addr(), &with("api-key: sk-right", "GET", "/v1/models", "")).await.json();
    let ids: Vec<_> =
        models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((models["object"].as_str(), ids), (Some("list"), vec!["gpt-4o", "gpt-4o-mini"]));
}

#[tokio::test]
async fn a_request_can_name_its_own_script() {
    let sim = sim(Script::healthy()).await;
    let with = |script: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nx-sim-script: {script}\r\ncontent-length: 13\r\n\r\n{{\"model\":\"m\"}}"
        )
    };
    assert_eq!(exchange(sim.addr(), with("status:503").as_bytes()).await.status, 503);
    let json = exchange(sim.addr(), with(r#"{"reply":{"status":418}}"#).as_bytes()).await;
    assert_eq!((json.status, json.body.len()), (418, 0));
    let unknown = exchange(sim.addr(), with("nonsense").as_bytes()).await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.text().contains("no script is called 'nonsense'"));
}

#[tokio::test]
async fn a_killed_provider_refuses_and_a_revived_one_answers_on_the_same_port() {
    let sim = sim(Script::healthy()).await;
    let mut held = TcpStream::connect(sim.addr()).await.unwrap();
    assert_eq!(exchange_on(&mut held, &whole()).await.status, 200);
    sim.kill().await.unwrap();
    assert_eq!(held.read(&mut [0]).await.unwrap_or(0), 0, "open connections are closed");
    for _ in 0..3 {
        assert_eq!(TcpStream::connect(sim.addr()).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
    for _ in 0..3 {
        sim.revive().await.unwrap();
        assert_eq!(status(&sim, "m").await, 200);
        sim.kill().await.unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_port_of_a_killed_provider_is_not_given_to_anyone_else() {
    let sim = sim(Script::healthy()).await;
    sim.kill().await.unwrap();
    let other = TcpSocket::new_v4().unwrap();
    assert_eq!(other.bind(sim.addr()).unwrap_err().kind(), ErrorKind::AddrInUse);
}

#[tokio::test]
async fn without_accepting_open_connections_go_on() {
    let sim = sim(Script::healthy()).await;
    let mut held = TcpStream::connect(sim.addr()).await.unwrap();
    assert_eq!(exchange_on(&mut held, &whole()).await.status, 200);
    sim.stop_accepting().await;
    assert_eq!(TcpStream::connect(sim.addr()).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(exchange_on(&mut held, &whole()).await.status, 200);
    sim.revive().await.unwrap();
    sim.close_connections();
    assert_eq!(held.read(&mut [0]).await.unwrap_or(0), 0);
    assert_eq!(status(&sim, "m").await, 200, "closing connections does not close the listener");
}

#[tokio::test]
async fn dropping_a_simulator_closes_its_connections_and_its_port() {
    let sim = sim(Script::silence()).await;
    let addr = sim.addr();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(&whole()).await.unwrap();
    sim.wait_until(|sim| sim.active_requests() == 1).await.unwrap();
    drop(sim);
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
    // The accept loop ends as soon as its task runs; each attempt lets it run.
    while TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_over_the_limits_are_refused_and_the_refusal_can_be_read() {
    let sim = sim(Script::healthy()).await;
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nx-long: {}\r\n\r\n", "a".repeat(70_000));
    assert_eq!(exchange(sim.addr(), head.as_bytes()).await.status, 431);
    let length = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n";
    assert_eq!(exchange(sim.addr(), length).await.status, 413);
    let chunk = b"POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n4000001\r\n";
    assert_eq!(exchange(sim.addr(), chunk).await.status, 413);
    let with_body_under_way = [&length[..], &vec![b'a'; 8_000_000][..]].concat();
    assert_eq!(exchange(sim.addr(), &with_body_under_way).await.status, 413);
    assert_eq!(exchange(sim.addr(), b"nonsense\r\n\r\n").await.status, 400);
    assert_eq!(sim.calls(), 0);
}

#[tokio::test]
async fn chunked_bodies_expectations_and_pieces_of_requests_are_read() {
    let sim = sim(Script::healthy()).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = format!("{head}5\r\n{{\"mod\r\n8;x=y\r\nel\":\"m\"}}\r\n0\r\ntrailer: 1\r\n\r\n");
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    for byte in chunked.as_bytes() {
        stream.write_all(&[*byte]).await.unwrap();
    }
    assert_eq!(exchange_until(&mut stream, b"", |_| false).await.status, 200);
    assert_eq!(&sim.received()[0].body[..], br#"{"model":"m"}"#);

    let expecting =
        "POST /v1/chat/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 13\r\n\r\n";
    stream.write_all(expecting.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    timeout(LIMIT, stream.read_exact(&mut go_on)).await.unwrap().unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(exchange_on(&mut stream, br#"{"model":"m"}"#).await.status, 200);
}

#[tokio::test]
async fn connection_close_is_honoured_and_pipelined_requests_are_answered_in_order() {
    let sim = sim(Script::healthy()).await;
    let closing = b"POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}";
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    stream.write_all(&[&whole()[..], &whole()[..], &closing[..]].concat()).await.unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).await.unwrap();
    let ids: Vec<_> = (1..=3).map(|call| all.find(&format!("chatcmpl-sim-{call}")).unwrap()).collect();
    assert!(ids.is_sorted());
}

#[tokio::test]
async fn many_clients_at_once_are_all_answered_and_counted() {
    let sim = sim(Script::healthy().delay_headers(Duration::from_millis(20))).await;
    let addr = sim.addr();
    let clients = (0..200).map(|_| tokio::spawn(async move { exchange(addr, &whole()).await.status }));
    for client in clients.collect::<Vec<_>>() {
        assert_eq!(client.await.unwrap(), 200);
    }
    assert_eq!((sim.calls(), sim.aborted(), sim.active_requests()), (200, 0, 0));
    sim.wait_until(|sim| sim.open_connections() == 0).await.unwrap();
}
