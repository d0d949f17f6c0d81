//! What it says, and the codes that it ends with: 0 well, 1 a check or step failed, 2 usage or configuration.

use std::process::Stdio;

use crate::process::{err, file, folder, out, pointsman, run};

const GOOD: &str = "targets:\n  local: { provider: ollama, model: llama3.2 }\n";
const BAD: &str = "targets:\n  local: { provider: olama, model: llama3.2 }\nrotes: {}\n";

#[test]
fn version_is_that_of_the_package() {
    let done = run(folder().path(), &["--version"]);
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(out(&done), format!("pointsman {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_good_file_is_said_to_be_good() {
    let folder = folder();
    file(folder.path(), "pointsman.yaml", GOOD);
    let done = run(folder.path(), &["check", "pointsman.yaml"]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert!(
        out(&done).starts_with("pointsman.yaml is valid: 1 target, 0 routes, 0 keys\n"),
        "{}",
        out(&done)
    );
}

#[test]
fn every_problem_of_a_bad_file_stands_on_a_line_of_its_own_with_its_place() {
    let folder = folder();
    file(folder.path(), "bad.yaml", BAD);
    let done = run(folder.path(), &["check", "bad.yaml"]);
    assert_eq!(done.status.code(), Some(2));
    assert_eq!(out(&done), "");
    let said = err(&done);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("bad.yaml:2:") && lines[0].contains("`ollama`"), "{said}");
    assert!(lines[1].starts_with("bad.yaml:3:1: ") && lines[1].contains("routes"), "{said}");
}

#[test]
fn a_certificate_file_that_is_not_there_is_found_by_check() {
    let folder = folder();
    let text = "targets:\n  a: { provider: openai-compatible, base_url: \"https://llm.example/v1\", model: m, ca_file: nowhere.pem }\n";
    file(folder.path(), "ca.yaml", text);
    let done = run(folder.path(), &["check", "ca.yaml"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(err(&done).contains("nowhere.pem"), "{}", err(&done));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let done = run(folder().path(), &["check", "missing.yaml"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(err(&done).starts_with("missing.yaml: "), "{}", err(&done));
}

#[test]
fn the_schema_is_json_that_knows_the_sections() {
    let done = run(folder().path(), &["schema"]);
    assert_eq!(done.status.code(), Some(0));
    let schema: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
    for section in ["server", "admin", "targets", "routes", "keys", "defaults"] {
        assert!(schema["properties"].get(section).is_some(), "{section}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let folder = folder();
    let mut command = pointsman(folder.path(), &["schema"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(err(&done), "");
}

#[test]
fn verbs_of_later_releases_say_so() {
    let folder = folder();
    for verb in ["keys", "report", "replay", "verify", "drill", "simulate", "import", "claude", "codex"] {
        let done = run(folder.path(), &[verb, "--whatever"]);
        assert_eq!(done.status.code(), Some(2), "{verb}");
        assert_eq!(err(&done), format!("`pointsman {verb}` is not built yet\n"));
    }
    let done = run(folder.path(), &["serve", "--litellm", "config.yaml"]);
    assert_eq!(done.status.code(), Some(2));
    assert_eq!(err(&done), "`serve --litellm` is not built yet\n");
}

#[test]
fn an_unknown_verb_names_the_nearest() {
    let done = run(folder().path(), &["explian"]);
    assert_eq!(done.status.code(), Some(2));
    assert_eq!(err(&done), "there is no verb `explian`; did you mean `explain`?\n");
}

#[test]
fn a_wrong_flag_is_a_matter_of_usage() {
    assert_eq!(run(folder().path(), &["check"]).status.code(), Some(2));
    assert_eq!(run(folder().path(), &["serve", "--port", "1"]).status.code(), Some(2));
    assert_eq!(run(folder().path(), &["sim", "--script", "nonsense"]).status.code(), Some(2));
}

#[test]
fn without_any_configuration_three_lines_say_how_to_go_on() {
    let done = run(folder().path(), &["serve"]);
    assert_eq!(done.status.code(), Some(2));
    let said = err(&done);
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.contains("OPENAI_API_KEY") && said.contains("pointsman demo"), "{said}");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let folder = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = format!("server: {{ listen: \"{address}\" }}\nadmin: {{ listen: \"127.0.0.1:0\" }}\n{GOOD}");
    file(folder.path(), "taken.yaml", &text);
    let done = run(folder.path(), &["serve", "--config", "taken.yaml"]);
    assert_eq!(done.status.code(), Some(1));
    let last = err(&done).lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with(&format!("the data plane cannot listen on {address}: ")), "{last}");
}

#[test]
fn the_tour_holds_and_is_plain_text_when_piped() {
    let done = run(folder().path(), &["demo", "--once"]);
    let said = out(&done);
    assert_eq!(done.status.code(), Some(0), "{said}{}", err(&done));
    assert!(said.is_ascii(), "neither escapes nor drawn lines in a pipe");
    assert!(!said.contains('\u{1b}'), "no colour in a pipe");
    for step in 1..=7 {
        assert!(said.lines().any(|line| line.starts_with(&format!("{step}  "))), "step {step}: {said}");
    }
    assert_eq!(said.matches("\n   FAILED").count(), 0, "{said}");
}
