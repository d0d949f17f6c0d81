//! `catalog`: what is known of models, and LiteLLM's price file taken over.

use std::path::Path;

use serde_json::{Value, json};

use crate::process::{err, file, folder, out, run, run_with};

fn said(arguments: &[&str]) -> String {
    let done = run(folder().path(), arguments);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    out(&done)
}

#[test]
fn the_catalog_is_a_table_with_a_line_for_each_model() {
    let listed = said(&["catalog"]);
    assert_eq!(listed, said(&["catalog", "list"]));
    let head = listed.lines().next().unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["model", "window", "output", "in", "$/M", "out", "$/M", "can"]
    );
    let line = listed.lines().find(|line| line.starts_with("openai/gpt-4o ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..5], ["128000", "16384", "2.5", "10"]);
    assert!(words.contains(&"tools") && words.contains(&"json_schema"), "{line}");
    assert!(listed.lines().count() > 60);
}

#[test]
fn a_price_that_is_not_known_is_a_dash() {
    let listed = said(&["catalog", "command-a-plus"]);
    let words: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[..5], ["cohere/command-a-plus-05-2026", "128000", "64000", "-", "-"]);
}

#[test]
fn a_search_finds_names_with_all_of_its_words_and_other_names_too() {
    let names = |search: &str| -> Vec<String> {
        let words: Vec<&str> = search.split(' ').collect();
        let listed = said(&[&["catalog", "list"], &words[..]].concat());
        assert_eq!(listed, said(&[&["catalog"], &words[..]].concat()));
        let rows = listed.lines().skip(1).filter(|line| !line.starts_with(' '));
        rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!(names("CLAUDE sonnet 4-5"), ["anthropic/claude-sonnet-4-5"]);
    assert_eq!(names("gpt-4o-2024-11-20"), ["openai/gpt-4o"]);
    assert_eq!(names("openai/gpt-4o"), ["openai/gpt-4o", "openai/gpt-4o-mini"]);
    let one = said(&["catalog", "claude-sonnet-4-5"]);
    assert!(one.contains("  source         https://") && one.contains("claude-sonnet-4-5-20250929"), "{one}");
}

#[test]
fn what_is_not_in_the_catalog_is_said_and_is_no_success() {
    let done = run(folder().path(), &["catalog", "no-such-model"]);
    assert_eq!((done.status.code(), out(&done).as_str()), (Some(1), ""));
    assert_eq!(err(&done), "the catalog has no model whose name contains `no-such-model`\n");
    assert_eq!(said(&["catalog", "no-such-model", "--json"]), "[]\n");
}

#[test]
fn as_data_each_model_has_its_facts_source_and_date() {
    let listed: Value = serde_json::from_str(&said(&["catalog", "list", "--json"])).unwrap();
    for entry in listed.as_array().unwrap() {
        assert!(entry["source"].as_str().unwrap().starts_with("https://"), "{entry}");
        assert_eq!(entry["date"].as_str().map(str::len), Some("2026-11-30".len()), "{entry}");
        assert_ne!(entry["price"]["input"], json!(0), "unknown is never zero: {entry}");
    }
    let gpt = listed.as_array().unwrap().iter().find(|entry| entry["name"] == "openai/gpt-4o").unwrap();
    assert_eq!(
        gpt["price"],
        json!({ "input": 2.5, "output": 10.0, "cache_read": 1.25, "batch": { "input": 1.25, "output": 5.0 } })
    );
    assert_eq!((&gpt["context_window"], &gpt["provider"]), (&json!(128_000), &json!("openai")));
}

/// LiteLLM's file, cut down: its description of itself, two models, and what is none.
const PRICES: &str = r#"{
  "sample_spec": { "mode": "one of: chat, embedding", "max_input_tokens": "max input tokens" },
  "house-model": { "mode": "chat", "litellm_provider": "openai", "max_input_tokens": 32000, "max_output_tokens": 4000,
    "input_cost_per_token": 2.5e-07, "output_cost_per_token": 1e-06, "supports_function_calling": true },
  "nvidia_nim/meta/llama-x": { "mode": "chat", "max_input_tokens": 8192, "input_cost_per_token": 0.0, "output_cost_per_token": 0.0 },
  "painter": { "mode": "image_generation", "input_cost_per_pixel": 1e-08 },
  "odd": { "mode": "chat", "max_input_tokens": "many", "max_output_tokens": 10 }
}"#;

fn import(folder: &Path, arguments: &[&str]) -> (String, String) {
    file(folder, "prices.json", PRICES);
    let done = run(folder, &[&["catalog", "import", "prices.json"], arguments].concat());
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    (out(&done), err(&done))
}

#[test]
fn litellms_prices_become_models_of_a_configuration_that_is_valid() {
    let folder = folder();
    let (yaml, report) = import(folder.path(), &[]);
    let expected = "models:
  \"house-model\": { context_window: 32000, max_output: 4000, tools: true, price: { input: 0.25, output: 1 } }
  \"nvidia/meta/llama-x\": { context_window: 8192 }
  \"odd\": { max_output: 10 }
";
    assert_eq!(yaml, expected);
    let expected = "\"odd\": `max_input_tokens` is no number of tokens; it is left out
1 left out: of the mode \"image_generation\"
3 models read
";
    assert_eq!(report, expected);
    let targets = "targets:
  a: { provider: openai-compatible, base_url: \"http://127.0.0.1:9/v1\", model: house-model }
  b: { provider: openai-compatible, base_url: \"http://127.0.0.1:9/v1\", model: odd }
  c: { provider: nvidia, model: \"*\", api_key: k }
";
    file(folder.path(), "pointsman.yaml", &format!("{yaml}{targets}"));
    let done = run(folder.path(), &["check", "pointsman.yaml"]);
    assert_eq!((done.status.code(), err(&done).as_str()), (Some(0), ""));
}

#[test]
fn only_what_is_searched_for_is_imported() {
    let (yaml, report) = import(folder().path(), &["HOUSE"]);
    assert_eq!(yaml.lines().count(), 2);
    assert_eq!(report, "1 model read\n");
}

#[test]
fn a_file_that_is_none_of_litellms_is_a_matter_of_usage() {
    let folder = folder();
    file(folder.path(), "list.json", "[1, 2]");
    for name in ["list.json", "missing.json"] {
        let done = run(folder.path(), &["catalog", "import", name]);
        assert_eq!((done.status.code(), out(&done).as_str()), (Some(2), ""));
        assert!(err(&done).starts_with(&format!("{name}: ")), "{}", err(&done));
    }
    file(folder.path(), "empty.json", "{}");
    let done = run(folder.path(), &["catalog", "import", "empty.json"]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(err(&done), "0 models read\nempty.json: no model in it could be read\n");
}

#[test]
fn a_prompt_that_is_too_long_for_a_known_model_goes_to_the_one_that_it_fits_without_a_word_of_configuration()
{
    let folder = folder();
    let config = "targets:
  small: { provider: openai, model: gpt-4o, api_key: k }
  large: { provider: anthropic, model: claude-opus-5-5, api_key: k }
routes:
  long: { models: [gpt-4o, claude-opus-5-5] }
";
    file(folder.path(), "pointsman.yaml", config);
    // A million characters are far more than 128,000 tokens, and fewer than a million.
    let content = "word ".repeat(200_000);
    let request = json!({ "model": "long", "messages": [{ "role": "user", "content": content }] });
    let arguments = ["explain", "--config", "pointsman.yaml", "--json"];
    let done = run_with(folder.path(), &arguments, &request.to_string());
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let explained: Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(explained["first"]["target"], "large");
    assert!(out(&done).contains("its window 128000"), "{}", out(&done));
}
