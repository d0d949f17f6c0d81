//! A provider has a row in the configuration and one on the wire: both know the same name, the same dialects, and
//! together they make the URL of the provider's documentation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use pointsman_config::Config;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::provider::{provider, providers};

fn config(name: &str, more: &str) -> Config {
    let text = format!("targets: {{ t: {{ provider: {name}, model: m, api_key: k{more} }} }}\n");
    let vars: BTreeMap<String, String> = BTreeMap::new();
    pointsman_config::parse(&text, "f", &vars).unwrap_or_else(|problems| panic!("{problems}")).config
}

/// Where a target of this provider is called in this dialect.
fn url(name: &str, more: &str, dialect: Dialect) -> String {
    let upstream = config(name, more).upstreams.remove(0);
    provider(name).unwrap().url(dialect, Some(&upstream.base_url), "m", None).unwrap()
}

#[test]
fn both_know_the_same_providers() {
    let schema = pointsman_config::schema();
    let words = &schema["$defs"]["a-target"]["properties"]["provider"]["anyOf"][0]["enum"];
    let configured: BTreeSet<&str> = words.as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let spoken: BTreeSet<&str> = providers().iter().map(|row| row.name).collect();
    assert_eq!(configured, spoken);
}

#[test]
fn a_target_speaks_the_dialects_that_its_provider_has_on_the_wire() {
    for row in providers() {
        let target = config(row.name, ", base_url: \"http://h/x\"").catalog.targets.remove(0);
        let spoken: Vec<&str> = row.dialects.iter().map(|dialect| dialect.name()).collect();
        assert_eq!(target.dialects, spoken, "{}", row.name);
        assert_eq!(target.stream_carries_everything, row.stream_carries_everything, "{}", row.name);
    }
}

#[test]
fn every_way_of_writing_anthropics_address_leads_to_its_endpoint() {
    let endpoint = "https://api.anthropic.com/v1/messages";
    assert_eq!(url("anthropic", "", Dialect::Messages), endpoint);
    for path in ["", "/", "/v1", "/v1/", "/v1/v1", "/v1/messages", "/v1/messages/count_tokens"] {
        let more = format!(", base_url: \"https://api.anthropic.com{path}\"");
        assert_eq!(url("anthropic", &more, Dialect::Messages), endpoint, "{path}");
    }
    let behind = ", base_url: \"http://127.0.0.1:9/anthropic/v1\"";
    assert_eq!(url("anthropic", behind, Dialect::Messages), "http://127.0.0.1:9/anthropic/v1/messages");
}

#[test]
fn every_way_of_writing_googles_address_leads_to_its_endpoint() {
    let endpoint = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent";
    assert_eq!(url("gemini", "", Dialect::Gemini), endpoint);
    for path in [
        "",
        "/",
        "/v1beta",
        "/v1beta/models/x:generateContent",
        "/v1beta/models/x:streamGenerateContent?alt=sse",
    ] {
        let more = format!(", base_url: \"https://generativelanguage.googleapis.com{path}\"");
        assert_eq!(url("gemini", &more, Dialect::Gemini), endpoint, "{path}");
    }
}

#[test]
fn every_way_of_writing_bedrocks_address_leads_to_its_endpoint() {
    let endpoint = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse";
    assert_eq!(url("bedrock", ", region: us-east-1", Dialect::Bedrock), endpoint);
    for path in ["", "/", "/model/x%3A0/converse", "/model/x/converse-stream"] {
        let more = format!(", base_url: \"https://bedrock-runtime.us-east-1.amazonaws.com{path}\"");
        assert_eq!(url("bedrock", &more, Dialect::Bedrock), endpoint, "{path}");
    }
}

#[test]
fn a_server_of_ones_own_has_both_endpoints_below_one_base() {
    for name in ["vllm", "llama-cpp", "sglang", "ollama"] {
        for path in ["", "/v1", "/v1/messages", "/v1/chat/completions"] {
            let more = format!(", base_url: \"http://host:9{path}\"");
            assert_eq!(url(name, &more, Dialect::Messages), "http://host:9/v1/messages", "{name} {path}");
            assert_eq!(url(name, &more, Dialect::Chat), "http://host:9/v1/chat/completions", "{name} {path}");
        }
    }
}

#[test]
fn the_table_of_providers_has_a_line_for_each_with_its_address() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/providers.md")).unwrap();
    let lines: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| Some((line.strip_prefix("| `")?.split_once('`')?.0, line))).collect();
    for row in providers() {
        let line = lines.get(row.name).unwrap_or_else(|| panic!("no line for {}", row.name));
        let without_an_address = ["azure", "openai-compatible", "bedrock"].contains(&row.name);
        let (more, address) = match without_an_address {
            true => (", base_url: \"http://h/x\"", "`"),
            false => ("", config(row.name, "").upstreams.remove(0).base_url.leak() as &str),
        };
        assert!(line.contains(address), "{line} lacks {address}");
        for dialect in config(row.name, more).catalog.targets.remove(0).dialects {
            assert!(line.contains(&format!("`{dialect}`")), "{line} lacks {dialect}");
        }
    }
    assert_eq!(lines.len(), providers().len() + 1, "a line for each, and the head");
}

#[test]
fn a_target_at_a_service_that_ended_is_warned_of_unless_it_is_elsewhere() {
    let warnings = |more: &str| {
        let text = format!("targets: {{ t: {{ provider: github-models, model: m, api_key: k{more} }} }}\n");
        let vars: BTreeMap<String, String> = BTreeMap::new();
        let warnings = pointsman_config::parse(&text, "f", &vars).unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let ended =
        "f:1:27: `targets.t`: github-models was retired by GitHub on 2026-07-30; every call will fail";
    assert_eq!(warnings(""), [ended]);
    assert_eq!(warnings(", base_url: \"https://models.example/inference\"").len(), 0);
}
