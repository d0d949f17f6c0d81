//! Requests in another dialect (`tests/golden/translate/requests/*.json`): what is sent, what is lost, what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pointsman_wire::dialect::Dialect;
use pointsman_wire::passthrough::MaxTokensName;
use pointsman_wire::translate::{Destination, Refused, request};
use serde_json::Value;

fn cases() -> BTreeMap<String, Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/translate/requests");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let case = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), case)
    };
    files.map(read).collect()
}

/// `from` and `to`; where `to` is left out, the other one of Chat Completions and Messages.
fn dialects(case: &Value) -> (Dialect, Dialect) {
    let named = |name: &Value| Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
    let from = named(&case["from"]).unwrap();
    let other = if from == Dialect::Chat { Dialect::Messages } else { Dialect::Chat };
    (from, named(&case["to"]).unwrap_or(other))
}

fn destination(case: &Value) -> Destination<'_> {
    let given = &case["destination"];
    let flag = |name: &str| given[name].as_bool().unwrap_or(false);
    Destination {
        model: given["model"].as_str().unwrap_or("claude-sonnet-4-5"),
        stream: flag("stream"),
        include_usage: flag("include_usage"),
        max_output: given["max_output"].as_u64(),
        reasons: flag("reasons"),
        max_tokens_name: (given["max_tokens_name"] == "max_tokens").then_some(MaxTokensName::MaxTokens),
        origin: given["origin"].as_str().unwrap_or("0451"),
        custom_tools: flag("custom_tools"),
    }
}

/// `$ID` and `$NAME` stand for any one word that the dialect takes, the same wherever they stand.
fn fits(expected: &Value, sent: &Value, words: &mut BTreeMap<String, String>) -> bool {
    match (expected, sent) {
        (Value::String(word), Value::String(sent)) if word.starts_with('$') => {
            let plain = sent.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            plain && sent.len() <= 64 && words.entry(word.clone()).or_insert_with(|| sent.clone()) == sent
        }
        // Arguments are JSON in a text: their spacing is the writer's.
        (Value::String(one), Value::String(other)) if one.starts_with('{') && other.starts_with('{') => {
            let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
            parse(one) == parse(other)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| fits(a, b, words))
        }
        (Value::Object(one), Value::Object(other)) => {
            let present =
                |map: &serde_json::Map<String, Value>| map.values().filter(|v| !v.is_null()).count();
            present(one) == present(other)
                && one
                    .iter()
                    .filter(|(_, v)| !v.is_null())
                    .all(|(key, a)| other.get(key).is_some_and(|b| fits(a, b, words)))
        }
        (one, other) => one == other,
    }
}

#[test]
fn a_request_in_another_dialect_says_the_same_or_says_what_it_lost() {
    let mut wrong = Vec::new();
    for (name, case) in cases() {
        let (from, to) = dialects(&case);
        let body = case["body"].to_string();
        let told = match request(body.as_bytes(), from, to, &destination(&case)) {
            Ok(written) => {
                let sent: Value = serde_json::from_slice(&written.body).unwrap();
                let mut losses: Vec<String> = written
                    .losses
                    .as_slice()
                    .iter()
                    .map(|l| format!("{} {}", l.pointer, l.kind.name()))
                    .collect();
                losses.sort_unstable();
                let expected: Vec<&str> =
                    case["losses"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                if fits(&case["sent"], &sent, &mut BTreeMap::new()) && losses == expected {
                    continue;
                }
                format!("sent {sent}\nlost {losses:?}")
            }
            Err(Refused::Unreadable(at)) if case["refused"] == at.pointer => continue,
            Err(Refused::Untranslatable(at)) if case["refused"] == at.pointer => continue,
            Err(refused) => format!("refused: {refused}"),
        };
        wrong.push(format!(
            "{name}: {told}\nexpected {} {} {}",
            case["sent"], case["losses"], case["refused"]
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_same_request_is_written_the_same_each_time() {
    for (name, case) in cases() {
        let (from, to) = dialects(&case);
        let body = case["body"].to_string();
        let write = || request(body.as_bytes(), from, to, &destination(&case)).map(|w| w.body);
        assert_eq!(write(), write(), "{name}");
    }
}
