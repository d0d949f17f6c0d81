//! The built-in catalog: what is known of the models that people use, from `catalog/models.json`, each entry with its source
//! and date. The file's own `models` always win.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pointsman_core::target::{Catalog, Model, Target};

mod read;
#[cfg(test)]
mod tests;

/// A model in the built-in catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Whose it is: `openai`.
    pub provider: String,
    /// What that provider calls it: `gpt-4o`.
    pub model: String,
    /// Other names of the very same there, such as those with a date.
    pub also: Vec<String>,
    /// What is known of it.
    pub facts: Model,
    /// The day on which its provider means to take it away, as it writes it.
    pub retires: Option<String>,
    /// The page that says so.
    pub source: String,
    /// The day on which it was read there.
    pub date: String,
}

impl Entry {
    /// Its name in the catalog: `openai/gpt-4o`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.model).chain(&self.also)
    }
}

// The text is part of the build; that it can be read is tested, and nothing of it would be worth a panic.
static ENTRIES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| read::entries(include_str!("../../../catalog/models.json")).unwrap_or_default());

/// By provider, then by each of its names for a model.
static BY_NAME: LazyLock<BTreeMap<(&str, &str), &Entry>> = LazyLock::new(|| {
    let named =
        |entry: &'static Entry| entry.names().map(move |n| ((entry.provider.as_str(), n.as_str()), entry));
    ENTRIES.iter().flat_map(named).collect()
});

/// Who makes models; others serve theirs.
const MAKERS: [&str; 7] = ["openai", "anthropic", "gemini", "xai", "deepseek", "mistral", "cohere"];

/// Who serves the makers' own models, at prices of its own.
const RESELLERS: [&str; 4] = ["azure", "openrouter", "bedrock", "vertex"];

/// By a name that its maker gives a model: `gpt-4o` is `openai/gpt-4o`.
static WHOLE: LazyLock<BTreeMap<&str, String>> = LazyLock::new(|| {
    let of_makers = ENTRIES.iter().filter(|entry| MAKERS.contains(&entry.provider.as_str()));
    let whole =
        |entry: &'static Entry| entry.names().map(|n| (n.as_str(), format!("{}/{n}", entry.provider)));
    of_makers.flat_map(whole).collect()
});

/// `openai/gpt-4o` for `gpt-4o`.
pub(crate) fn whole_name(name: &str) -> Option<&'static str> {
    WHOLE.get(name).map(String::as_str)
}

/// All entries, by name.
pub fn entries() -> &'static [Entry] {
    &ENTRIES
}

/// What is known of a model at a provider, by that provider's name of it.
pub fn known(provider: &str, model: &str) -> Option<Model> {
    if let Some(entry) = BY_NAME.get(&(provider, model)) {
        return Some(entry.facts.clone());
    }
    let resold = RESELLERS.contains(&provider).then(|| made(bare(provider, model))).flatten()?;
    Some(Model { price: None, ..resold.facts.clone() })
}

/// The maker's own entry of this name.
fn made(model: &str) -> Option<&'static Entry> {
    MAKERS.iter().find_map(|maker| BY_NAME.get(&(*maker, model)).copied())
}

/// The maker's name in a reseller's: `openai/gpt-4o` at OpenRouter, `eu.anthropic.claude-opus-5-5-v1:0` at Bedrock,
/// `claude-opus-5-5@20260922` at Vertex AI.
fn bare<'m>(reseller: &str, model: &'m str) -> &'m str {
    match reseller {
        "bedrock" => {
            let named = model.split_once("anthropic.").map_or(model, |(_, named)| named);
            let named = named.split(':').next().unwrap_or(named);
            named.strip_suffix("-v1").unwrap_or(named)
        }
        "vertex" => model.split('@').next().unwrap_or(model),
        "openrouter" => model.split_once('/').map_or(model, |(_, named)| named),
        _ => model,
    }
}

/// Fills in what the configuration leaves open: what is known of each target's model, of the models that wildcards serve,
/// and which names mean one of those.
pub(crate) fn complete(catalog: &mut Catalog) {
    let said = std::mem::take(&mut catalog.models);
    catalog.models.clone_from(&said);
    for target in &mut catalog.targets {
        let Some(logical) = target.model.clone() else { continue };
        let there = known_of(target, &logical);
        if let Some(there) = &there {
            let named = catalog.models.remove(&logical).unwrap_or_default();
            catalog.models.insert(logical.clone(), named.over(there));
        }
        target.known = match (said.get(&logical), there) {
            (Some(said), Some(there)) => Some(said.clone().over(&there)),
            (said, there) => said.cloned().or(there),
        };
    }
    let wild: Vec<String> =
        catalog.targets.iter().filter(|t| t.model.is_none()).map(|t| t.provider.clone()).collect();
    for provider in wild {
        for (model, there) in all_of(&provider) {
            let name = format!("{provider}/{model}");
            let named = said.get(&name).cloned().unwrap_or_default();
            let named = match said.get(&model).filter(|_| whole_name(&model) == Some(name.as_str())) {
                Some(short) => named.over(short),
                None => named,
            };
            catalog.models.insert(name, named.over(&there));
        }
    }
    let aliases = WHOLE.iter().map(|(name, whole)| ((*name).to_owned(), whole.clone()));
    catalog.aliases = aliases.collect();
}

/// Azure's deployments have names of the operator's choice; there the logical name is the model's.
fn known_of(target: &Target, logical: &str) -> Option<Model> {
    let upstream = target.upstream_model.as_deref().unwrap_or(logical);
    let named = known(&target.provider, upstream);
    if target.provider == "azure" { named.or_else(|| known(&target.provider, logical)) } else { named }
}

/// Every name that a provider is known to serve, with what is known of it there.
fn all_of(provider: &str) -> Vec<(String, Model)> {
    let own = ENTRIES.iter().filter(|entry| entry.provider == provider);
    let own = own.flat_map(|entry| entry.names().map(|name| (name.clone(), entry.facts.clone())));
    let resold = ENTRIES.iter().filter(|entry| MAKERS.contains(&entry.provider.as_str()));
    let resold = resold.flat_map(Entry::names).filter(|_| RESELLERS.contains(&provider));
    let resold = resold.filter_map(|name| Some((name.clone(), known(provider, name)?)));
    own.chain(resold).collect()
}
