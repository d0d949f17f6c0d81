//! `serve` and `sim` as running processes.

use std::path::Path;

use crate::process::{CHAT, Call, PATIENCE, Serving, call, chat, file, folder};

/// A simulated provider and its address.
fn sim(folder: &Path, script: &str) -> (Serving, String) {
    let mut sim = Serving::start(folder, &["sim", "--name", "solo", "--script", script]);
    let address = sim.address("base URL");
    (sim, address)
}

/// A gateway in front of one provider, and the address of its data plane.
fn gateway(folder: &Path, provider: &str, drain: &str) -> (Serving, String) {
    let text = format!(
        "server: {{ listen: \"127.0.0.1:0\", drain: {drain} }}\nadmin: {{ listen: \"127.0.0.1:0\" }}\n\
         targets:\n  one: {{ provider: openai-compatible, base_url: \"http://{provider}/v1\", model: m }}\n"
    );
    file(folder, "pointsman.yaml", &text);
    // Found in the working folder: no `--config`.
    let mut gateway = Serving::start(folder, &["serve"]);
    let address = gateway.address("data plane");
    (gateway, address)
}

#[test]
fn a_request_is_served_and_sigterm_ends_it_well() {
    let folder = folder();
    let (_sim, provider) = sim(folder.path(), "answer:Good morning");
    let (gateway, address) = gateway(folder.path(), &provider, "{ delay: 0s, timeout: 10s }");
    let (status, answer) = call(&address, "POST", CHAT, &chat("m", false));
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("Good morning"), "{answer}");
    assert!(answer.contains("x-pointsman-target: one"), "{answer}");
    gateway.terminate();
    assert_eq!(gateway.code(), Some(0));
}

#[test]
fn a_stream_under_way_finishes_after_sigterm() {
    let folder = folder();
    let (_sim, provider) = sim(folder.path(), "tokens:12+slow-tokens:50ms");
    let (gateway, address) = gateway(folder.path(), &provider, "{ delay: 0s, timeout: 20s }");
    let mut stream = Call::send(&address, "POST", CHAT, &chat("m", true));
    stream.until("data: ");
    gateway.terminate();
    let rest = stream.rest();
    assert_eq!(rest.matches("data: [DONE]").count(), 1, "{rest}");
    assert_eq!(gateway.code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = folder();
    let (_sim, provider) = sim(folder.path(), "tokens:9+stall:3");
    let (gateway, address) = gateway(folder.path(), &provider, "{ delay: 1m, timeout: 10m }");
    let mut stream = Call::send(&address, "POST", CHAT, &chat("m", true));
    stream.until("data: ");
    gateway.terminate();
    // It serves on while it says that it is leaving; once it does, the first signal has been taken.
    let asked = std::time::Instant::now();
    while call(&address, "GET", "/readyz", "").0 != 503 {
        assert!(asked.elapsed() < PATIENCE, "it does not say that it is leaving");
    }
    gateway.terminate();
    assert_eq!(gateway.code(), Some(1));
}

#[test]
fn sighup_reads_the_file_again() {
    let folder = folder();
    let (gateway, address) = gateway(folder.path(), "127.0.0.1:9", "{ delay: 0s, timeout: 1s }");
    let models = || call(&address, "GET", "/v1/models", "").1;
    assert!(!models().contains("newcomer"));
    let path = folder.path().join("pointsman.yaml");
    let before = std::fs::read_to_string(&path).unwrap();
    let added =
        "  two: { provider: openai-compatible, base_url: \"http://127.0.0.1:9/v1\", model: newcomer }\n";
    std::fs::write(&path, before + added).unwrap();
    gateway.signal("-HUP");
    let asked = std::time::Instant::now();
    while !models().contains("newcomer") {
        assert!(asked.elapsed() < PATIENCE, "the new model is not served");
    }
}

#[test]
fn a_simulated_provider_is_steered_by_hand() {
    let folder = folder();
    let arguments = ["sim", "--name", "ruth", "--model", "m", "--api-key", "sk-test-0123456789"];
    let mut sim = Serving::start(folder.path(), &arguments);
    let address = sim.address("base URL");
    let (status, _) = call(&address, "POST", CHAT, &chat("m", false));
    assert_eq!(status, 401, "it asks for its key");
    let (status, _) = call(&address, "PUT", "/_sim/script", "status:503");
    assert_eq!(status, 200);
    let (_, state) = call(&address, "GET", "/_sim/state", "");
    assert!(state.contains(r#""name":"ruth""#) && state.contains("503"), "{state}");
    sim.terminate();
    assert_eq!(sim.code(), Some(0));
}
