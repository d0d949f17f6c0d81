//! Whom a failure is put down to, and what the client is told of it.

use std::time::Duration;

use pointsman_server::Running;
use pointsman_store::{AttemptEntry, Filter};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use crate::harness::{
    GPT, assert_untouched, connect, gateway, json_answer, plain, provider, request, says, talk, until,
};

#[tokio::test]
async fn a_lack_of_our_own_memory_is_not_put_down_to_the_target() {
    let url = says(plain(&"x".repeat(300 * 1024))).await;
    let server = ", max_body: 64KiB, body_memory: 128KiB";
    let gateway = gateway(&url, server, GPT, "");
    let answer = talk(&gateway, &request(&gateway, false, "")).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_untouched(&gateway);
    assert_eq!(gateway.app().admission.body_bytes(), 0);
}

const CALLERS: &str = ", model: gpt-4o, api_key: caller";
const KEY: &str = "x-pointsman-provider-key-openai: sk-the-callers-own\r\n";

#[tokio::test]
async fn what_a_callers_own_account_may_not_do_takes_nothing_from_others() {
    for (status, code) in [(401, "invalid_api_key"), (404, "model_not_found"), (429, "rate_limit_exceeded")] {
        let error = format!(r#"{{"error":{{"message":"no","type":"x","param":null,"code":"{code}"}}}}"#);
        let gateway = gateway(&says(json_answer(status, &error)).await, "", CALLERS, "");
        for _ in 0..3 {
            let answer = talk(&gateway, &request(&gateway, false, KEY)).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            assert!(answer.contains("x-should-retry: false"), "{answer}");
            assert!(answer.contains(code), "{answer}");
        }
        assert_untouched(&gateway);
    }
}

#[tokio::test]
async fn an_error_inside_an_answer_of_a_callers_own_account_takes_nothing_from_others() {
    let error =
        r#"{"error":{"message":"no","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let gateway = gateway(&says(json_answer(200, error)).await, "", CALLERS, "");
    let answer = talk(&gateway, &request(&gateway, false, KEY)).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_untouched(&gateway);
}

#[tokio::test]
async fn a_call_that_was_under_way_when_its_client_left_is_not_written_down_as_failed() {
    for stream in [true, false] {
        let (arrived, mut arrivals) = tokio::sync::mpsc::channel(1);
        let url = provider(move |stream| {
            let arrived = arrived.clone();
            async move {
                // The whole request is here: from now on it may be executed and billed.
                arrived.send(()).await.unwrap();
                sleep(Duration::from_secs(20)).await;
                drop(stream);
            }
        })
        .await;
        let gateway = gateway(&url, "", GPT, "");
        let mut client = connect(&gateway).await;
        client.write_all(request(&gateway, stream, "").as_bytes()).await.unwrap();
        arrivals.recv().await.unwrap();
        drop(client);
        let attempt = only_attempt(&gateway).await;
        assert_eq!((attempt.phase, attempt.outcome), ("sent", "unknown"), "{attempt:?}");
        assert_eq!(attempt.failure, Some("cancelled"));
    }
}

#[tokio::test]
async fn a_call_that_never_got_a_connection_was_not_sent_whatever_limit_ends_it() {
    // Connections wait in a queue of one that nobody accepts from, so that connecting hangs.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _filling: Vec<_> = (0..4).map(|_| tokio::spawn(tokio::net::TcpStream::connect(address))).collect();
    sleep(Duration::from_millis(200)).await;
    let gateway = gateway(&format!("http://{address}/v1"), "", GPT, "");
    let headers = "x-pointsman-side-effects: possible\r\nx-pointsman-deadline-ms: 1200\r\n";
    let answer = talk(&gateway, &request(&gateway, false, headers)).await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    let attempt = only_attempt(&gateway).await;
    assert_eq!((attempt.phase, attempt.outcome), ("not_sent", "failed"), "{attempt:?}");
}

async fn only_attempt(gateway: &Running) -> AttemptEntry {
    let filter = Filter { limit: 10, ..Filter::default() };
    let ledger = &gateway.app().ledger;
    until("the request is in the ledger", || !ledger.list(&filter).is_empty()).await;
    let entries = ledger.list(&filter);
    assert_eq!((entries.len(), entries[0].attempts.len()), (1, 1));
    entries[0].attempts[0].clone()
}
