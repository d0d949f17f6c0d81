//! `explain`: offline with a file, and as a running gateway sees it.

use std::path::Path;

use crate::process::{Serving, call, chat, err, file, folder, out, run, run_with};

const CONFIG: &str = "\
server: { listen: \"127.0.0.1:0\" }
admin: { listen: \"127.0.0.1:0\" }
targets:
  first: { provider: openai-compatible, base_url: \"http://127.0.0.1:9/v1\", model: large }
  second: { provider: openai-compatible, base_url: \"http://127.0.0.1:9/v1\", model: large, priority: 2 }
  other: { provider: openai-compatible, base_url: \"http://127.0.0.1:9/v1\", model: small }
routes:
  support: { models: [large, small], version: 7 }
";

fn prepared(folder: &Path) {
    file(folder, "gateway.yaml", CONFIG);
    file(folder, "request.json", &chat("support", false));
}

/// The places of these words in a text, in their order.
fn in_order(text: &str, words: &[&str]) -> bool {
    let mut rest = text;
    words.iter().all(|word| {
        let found = rest.find(word).and_then(|at| rest.get(at + word.len()..));
        found.map(|after| rest = after).is_some()
    })
}

#[test]
fn offline_it_names_the_candidates_in_their_order_in_words() {
    let folder = folder();
    prepared(folder.path());
    let done = run(folder.path(), &["explain", "request.json", "--config", "gateway.yaml"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let said = out(&done);
    assert!(in_order(&said, &["support@7", "first", "second", "other"]), "{said}");
}

#[test]
fn as_data_it_says_what_the_first_decision_would_be() {
    let folder = folder();
    prepared(folder.path());
    let arguments = ["explain", "--config", "gateway.yaml", "--route", "small", "--json"];
    let done = run_with(folder.path(), &arguments, &chat("support", true));
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let explained: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(explained["requested"], "small");
    assert_eq!(explained["first"]["target"], "other");
    assert_eq!(explained["first"]["action"], "primary");
}

#[test]
fn an_unknown_name_and_a_body_that_is_no_request_fail() {
    let folder = folder();
    prepared(folder.path());
    let done =
        run(folder.path(), &["explain", "request.json", "--config", "gateway.yaml", "--route", "suport"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).contains("404") && err(&done).contains("support"), "{}", err(&done));
    let done = run_with(folder.path(), &["explain", "--config", "gateway.yaml"], "Hello");
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).contains("400"), "{}", err(&done));
}

/// A target that speaks both dialects serves either as it is; one of a single dialect is translated for.
#[test]
fn a_request_of_messages_is_explained_as_one() {
    let folder = folder();
    let config = "\
targets:
  claude: { provider: anthropic, model: claude-opus-5-5, api_key: sk-ant }
  own: { provider: vllm, base_url: \"http://127.0.0.1:9/v1\", model: qwen }
";
    file(folder.path(), "gateway.yaml", config);
    let explained = |model: &str, more: &[&str]| -> serde_json::Value {
        let arguments = [&["explain", "--config", "gateway.yaml", "--json"], more].concat();
        let done = run_with(folder.path(), &arguments, &chat(model, false));
        assert_eq!(done.status.code(), Some(0), "{}", err(&done));
        serde_json::from_str(&out(&done)).unwrap()
    };
    assert_eq!(explained("claude-opus-5-5", &["--messages"])["first"]["target"], "claude");
    let translated = explained("claude-opus-5-5", &[])["targets"][0].clone();
    assert_eq!(translated["in"], true);
    assert!(translated["why"].as_str().unwrap().ends_with("translated into messages"), "{translated}");
    for flags in [&["--messages"][..], &[]] {
        assert_eq!(explained("qwen", flags)["first"]["target"], "own");
    }
}

#[test]
fn a_running_gateway_explains_with_what_it_knows() {
    let folder = folder();
    prepared(folder.path());
    let mut gateway = Serving::start(folder.path(), &["serve", "--config", "gateway.yaml"]);
    let admin = gateway.address("admin plane");
    let (status, answer) = call(&admin, "POST", "/admin/v1/targets/first/kill", "");
    assert_eq!(status, 200, "{answer}");
    let url = format!("http://{admin}");
    let done = run(folder.path(), &["explain", "request.json", "--admin", &url, "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let explained: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(explained["first"]["target"], "second");
    let words = out(&run(folder.path(), &["explain", "request.json", "--admin", &url]));
    assert!(in_order(&words, &["second", "other", "first"]), "{words}");
}

#[test]
fn a_gateway_that_was_named_and_is_not_there_is_an_error() {
    let folder = folder();
    prepared(folder.path());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let done = run(folder.path(), &["explain", "request.json", "--admin", &format!("http://{free}")]);
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).starts_with(&format!("nothing answers at {free}: ")), "{}", err(&done));
}
