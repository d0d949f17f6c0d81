use serde_json::{Map, Value, json};

use super::schema;
use crate::problem::Report;
use crate::tree::{self, Node, Scalar};

/// The JSON that an editor sees: plain scalars by the core schema of YAML 1.2.
fn json_of(node: &Node) -> Value {
    match &node.value {
        tree::Value::Null | tree::Value::Broken => Value::Null,
        tree::Value::Scalar(scalar) => scalar_of(scalar),
        tree::Value::List(items) => items.iter().map(json_of).collect(),
        tree::Value::Map(entries) => {
            let object: Map<String, Value> =
                entries.iter().map(|e| (e.key.clone(), json_of(&e.value))).collect();
            Value::Object(object)
        }
    }
}

fn scalar_of(scalar: &Scalar) -> Value {
    let text = scalar.text.as_str();
    match text {
        _ if !scalar.plain => json!(text),
        "true" => json!(true),
        "false" => json!(false),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(integer), _) => json!(integer),
            (_, Ok(float)) => json!(float),
            _ => json!(text),
        },
    }
}

fn accepts(text: &str) -> bool {
    let mut report = Report::new("f");
    let root = tree::read(text, &mut report).unwrap();
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let value = json_of(&root);
    let faults: Vec<String> =
        validator.iter_errors(&value).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    println!("{faults:?}");
    faults.is_empty()
}

#[test]
fn it_is_a_valid_schema_of_its_draft() {
    assert!(jsonschema::meta::is_valid(&schema()));
}

#[test]
fn it_accepts_the_good_files() {
    assert!(accepts(include_str!("../../tests/good/minimal.yaml")));
    assert!(accepts(include_str!("../../tests/good/two-providers.yaml")));
    assert!(accepts(include_str!("../../tests/good/every-key.yaml")));
}

#[test]
fn it_accepts_what_the_providers_speak() {
    assert!(accepts(
        "targets: { t: { provider: anthropic, model: m, dialect: messages, api_key: caller } }\n"
    ));
}

#[test]
fn it_accepts_every_way_of_writing_a_value() {
    let target = |entry: &str| format!("targets: {{ t: {{ provider: ollama, model: m, {entry} }} }}\n");
    for entry in [
        "http: 1",
        "http: auto",
        "api_key: caller",
        "limits: { rpm: \"${RPM}\" }",
        "model: \"*\"",
        "region: 1",
        "dialect: messages",
        "dialect: chat",
    ] {
        assert!(accepts(&target(entry).replace("model: m, model", "model")), "{entry}");
    }
    let route = |entry: &str| format!("{}routes: {{ r: {{ models: [m], {entry} }} }}\n", target("weight: 1"));
    for entry in [
        "breaker: { slow: off }",
        "breaker: { slow: { factor: 2.5 } }",
        "breaker: { rate: { share: 5% } }",
        "budget: { deadline: 9m30s, reserve_for_fallback: 25% }",
        "budget: { reserve_for_fallback: 0.25, max_cost: 0 }",
        "budget: { reserve_for_fallback: 8s, deadline: \"${DEADLINE:-30s}\" }",
    ] {
        assert!(accepts(&route(entry)), "{entry}");
    }
}

#[test]
fn it_refuses_what_an_editor_should_underline() {
    let good = "targets: { t: { provider: ollama, model: m } }\n";
    assert!(accepts(good));
    for line in [
        "routs: {}",
        "ledger: {}",
        "watch: yes",
        "server: { expose: most }",
        "server: { keepalive: 15 }",
        "queue: { max: many }",
        "retry_budget: { ratio: 20 }",
        "routes: { r: {} }",
        "routes: { r: { models: [m], profile: background } }",
        "keys: { k: { models: [m] } }",
        "targets: { t: { provider: vertex, model: m } }",
        "targets: { t: { provider: ollama, model: m, dialect: vertex } }",
    ] {
        let text = if line.starts_with("targets") { format!("{line}\n") } else { format!("{good}{line}\n") };
        assert!(!accepts(&text), "{line}");
    }
}
