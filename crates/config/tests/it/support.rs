//! What the tests share: variables, and short ways to load a text.

use std::collections::BTreeMap;

use pointsman_config::{Config, Loaded, parse};

/// These variables and nothing else.
pub(crate) fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The variables that the good files use.
pub(crate) fn usual() -> BTreeMap<String, String> {
    vars(&[
        ("OPENAI_API_KEY", "sk-openai-1234"),
        ("AZURE_OPENAI_KEY", "azure-1234"),
        ("DEEPSEEK_API_KEY", "sk-deepseek-1234"),
        ("POINTSMAN_ADMIN_KEY", "operator-1234"),
        ("CA_FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")),
    ])
}

/// The configuration of a text that must be right, warnings included.
pub(crate) fn config(text: &str) -> Config {
    let Loaded { config, warnings } = parse(text, "f.yaml", &usual()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    config
}

/// What is wrong with a text, one problem a line.
pub(crate) fn errors(text: &str) -> Vec<String> {
    match parse(text, "f.yaml", &usual()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

/// What is doubtful about a text that is right.
pub(crate) fn warnings(text: &str) -> Vec<String> {
    parse(text, "f.yaml", &usual()).unwrap().warnings.iter().map(ToString::to_string).collect()
}
