//! The pages of `docs/dialects/`: what becomes of each part of a request in the other dialects, made from runs of the
//! translation on `tests/golden/translate/probes/*.json`.
//!
//! `POINTSMAN_PAGES=write cargo nextest run -p pointsman-wire --test pages` writes them; without it they are compared.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use pointsman_wire::dialect::Dialect;
use pointsman_wire::translate::{Destination, Refused, request};
use serde_json::{Map, Value};

/// A dialect, its name in words, and the model whose kind of target a page speaks of.
const DIALECTS: [(Dialect, &str, &str); 5] = [
    (Dialect::Chat, "Chat Completions", "gpt-5.6"),
    (Dialect::Messages, "Messages", "claude-sonnet-4-5"),
    (Dialect::Responses, "Responses", "gpt-5.6"),
    (Dialect::Gemini, "Gemini", "gemini-3-pro"),
    (Dialect::Bedrock, "Bedrock", "anthropic.claude-sonnet-4-5"),
];

struct Probe {
    what: String,
    body: Value,
}

fn from_root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The plain request, and one for each thing that may be added to it.
fn probes(dialect: Dialect) -> (Value, Vec<Probe>) {
    let file = format!("crates/wire/tests/golden/translate/probes/{}.json", dialect.name());
    let file: Value = serde_json::from_slice(&fs::read(from_root(&file)).unwrap()).unwrap();
    let with = |set: &Map<String, Value>| {
        let mut body = file["base"].clone();
        body.as_object_mut().unwrap().extend(set.clone());
        body
    };
    let probes = file["probes"].as_array().unwrap().iter().map(|probe| Probe {
        what: probe["what"].as_str().unwrap().to_owned(),
        body: with(probe["set"].as_object().unwrap()),
    });
    (file["base"].clone(), probes.collect())
}

fn written(body: &Value, from: Dialect, to: Dialect, model: &str) -> Result<(Value, Vec<String>), String> {
    let destination = Destination {
        model,
        stream: false,
        include_usage: false,
        max_output: Some(64_000),
        reasons: true,
        max_tokens_name: None,
        origin: "0451",
        custom_tools: to == Dialect::Responses,
    };
    match request(body.to_string().as_bytes(), from, to, &destination) {
        Ok(written) => {
            let losses = written.losses.as_slice().iter();
            let losses = losses.map(|loss| format!("`{}` {}: {}", loss.pointer, loss.kind.name(), loss.note));
            Ok((serde_json::from_slice(&written.body).unwrap(), losses.collect()))
        }
        Err(Refused::Unreadable(at)) => panic!("{at}: {body}"),
        Err(Refused::Untranslatable(at)) => Err(at.note.to_string()),
    }
}

/// The places at which `after` says something that `before` does not.
fn said(before: &Value, after: &Value, at: &str, places: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in after {
                said(before.get(name).unwrap_or(&Value::Null), value, &format!("{at}/{name}"), places);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, value) in after.iter().enumerate() {
                said(before.get(index).unwrap_or(&Value::Null), value, &format!("{at}/{index}"), places);
            }
        }
        (before, after) if before != after => places.push(format!("`{at}`")),
        _ => {}
    }
}

fn cell(base: &Value, probe: &Probe, from: Dialect, to: Dialect, model: &str) -> String {
    let (plain, _) = written(base, from, to, model).unwrap();
    match written(&probe.body, from, to, model) {
        Err(note) => format!("refused: {note}"),
        Ok((sent, losses)) => {
            let mut places = Vec::new();
            said(&plain, &sent, "", &mut places);
            let told = if places.is_empty() && losses.is_empty() {
                "nothing to say: it is so anyway".to_owned()
            } else {
                places.join(", ")
            };
            [vec![told], losses].concat().into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("; ")
        }
    }
}

fn page(from: Dialect, name: &str) -> String {
    let (base, probes) = probes(from);
    let others = DIALECTS.into_iter().filter(|(dialect, ..)| *dialect != from);
    let mut page = format!(
        "# What becomes of {name}\n\n\
         Each row adds one thing to a plain request of {name}; each column is what a target of another dialect is asked \
         then: the places that say it, what is dropped or changed (and told in `x-pointsman-loss`), or why such a target is \
         passed over. Made from runs of the translation: a test compares this page with what it does. \
         [Dialects](../dialects.md) says the same in words.\n\n| |"
    );
    for (_, name, model) in others.clone() {
        write!(page, " {name} (`{model}`) |").unwrap();
    }
    page += "\n| --- | --- | --- | --- | --- |\n";
    for probe in probes {
        write!(page, "| {} |", probe.what).unwrap();
        for (to, _, model) in others.clone() {
            write!(page, " {} |", cell(&base, &probe, from, to, model).replace('|', "\\|")).unwrap();
        }
        page += "\n";
    }
    page
}

#[test]
fn the_pages_of_the_dialects_say_what_the_translation_does() {
    let write = std::env::var("POINTSMAN_PAGES").is_ok_and(|word| word == "write");
    // No client speaks Bedrock.
    for (dialect, name, _) in DIALECTS.into_iter().filter(|(dialect, ..)| *dialect != Dialect::Bedrock) {
        let file = from_root(&format!("docs/dialects/{}.md", dialect.name()));
        let told = page(dialect, name);
        if write {
            fs::write(&file, &told).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        let differing = kept.lines().zip(told.lines()).find(|(kept, told)| kept != told);
        assert!(kept == told, "{} is not what the translation does: {differing:?}", file.display());
    }
}
