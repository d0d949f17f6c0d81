use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::parse;

/// Every key with the path that leads to it; names that an operator would choose are `x`.
fn paths(section: &'static Section, path: &str, found: &mut Vec<(String, &'static Key)>) {
    for key in section.keys {
        let own = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        match key.kind {
            Kind::Section(inner, _) => paths(inner, &own, found),
            Kind::Named(inner) => paths(inner, &format!("{own}.x"), found),
            _ => {}
        }
        found.push((own, key));
    }
}

fn all() -> Vec<(String, &'static Key)> {
    let mut found = Vec::new();
    paths(&FILE, "", &mut found);
    found
}

/// A file with only this path, written in braces; the target is named rightly so that its other keys are reached.
fn file_with(path: &str, value: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    let open: String = parts.iter().map(|part| format!("{{ {part}: ")).collect();
    format!("{open}{value}{}", " }".repeat(parts.len()))
}

#[test]
fn every_key_is_read_and_none_is_only_let_pass() {
    let vars: BTreeMap<String, String> = BTreeMap::new();
    for (path, _) in all() {
        // No key takes a list of lists.
        let problems = parse(&file_with(&path, "[[wrong]]"), "f", &vars).unwrap_err();
        let blamed = problems.0.iter().any(|p| p.message.starts_with(&format!("`{path}`: must be")));
        assert!(blamed, "{path} is not read: {problems}");
    }
}

#[test]
fn a_key_and_a_refused_key_are_never_the_same() {
    for section in FILE.all() {
        let names: BTreeSet<&str> = section.keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), section.keys.len(), "{}", section.name);
        assert!(section.not_built.iter().all(|name| !names.contains(name)), "{}", section.name);
        assert!(section.required.iter().all(|name| names.contains(name)), "{}", section.name);
    }
}

#[test]
fn the_file_that_shows_every_key_does() {
    let text = include_str!("../../tests/good/every-key.yaml");
    for (path, key) in all() {
        let written = format!("{}:", key.name);
        assert!(text.contains(&written), "{path} is missing");
    }
}

#[test]
fn words_are_those_that_the_decision_core_and_the_provider_rows_know() {
    use pointsman_core::policy::Strategy;
    assert_eq!(STRATEGIES, Strategy::NAMES.map(|(name, _)| name));
    let rows: Vec<&str> = crate::provider::PROVIDERS.iter().map(|row| row.name).collect();
    assert_eq!(PROVIDERS, rows);
    let spoken: BTreeSet<&str> =
        crate::provider::PROVIDERS.iter().flat_map(|row| row.dialects).copied().collect();
    assert_eq!(spoken, DIALECTS.iter().copied().collect());
}

#[test]
fn every_key_of_the_budget_table_is_a_key_of_budget() {
    let table = [
        "deadline",
        "stream",
        "max_attempts",
        "max_rejections",
        "max_same_target_attempts",
        "reserve_attempts",
        "reserve_for_fallback",
        "min_attempt",
        "max_cost",
        "connect",
        "headers",
        "first_token",
        "response",
        "idle",
        "write",
    ];
    let names: Vec<&str> = BUDGET.keys.iter().map(|key| key.name).collect();
    assert_eq!(names, table);
}
