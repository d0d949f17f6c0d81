//! What may serve: targets, the models they serve, and the routes that lead to them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::policy::{
    Budget, HealthPolicy, OnLoss, OnMismatch, Profile, RetryPolicy, Strategy, StreamPolicy,
    SubstitutionPolicy, TimeOverrides,
};

/// A target's place in its [`Catalog`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetIndex(pub usize);

/// What a model costs, in millionths of a US dollar per million tokens (so 1.0 USD per million is 1,000,000).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Per million input tokens.
    pub input: u64,
    /// Per million output tokens.
    pub output: u64,
    /// Per million input tokens that were read from the provider's cache; unknown is as much as others.
    pub cache_read: Option<u64>,
    /// Per million input tokens that were written to it, for as long as it keeps them by default; as above.
    pub cache_write: Option<u64>,
    /// Per million input and output tokens of batches.
    pub batch: Option<(u64, u64)>,
}

impl Price {
    /// A price of which no more is known.
    #[must_use]
    pub const fn of(input: u64, output: u64) -> Self {
        Self { input, output, cache_read: None, cache_write: None, batch: None }
    }
}

/// How much structure a model can promise for its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StructuredOutput {
    /// None.
    No,
    /// A JSON object of any shape.
    JsonObject,
    /// A given JSON Schema.
    JsonSchema,
}

/// What is known of a model. `None` is unknown: it fails a route's `requires` and passes otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Prompt and output together, in tokens.
    pub context_window: Option<u64>,
    /// Output, in tokens.
    pub max_output: Option<u64>,
    /// Input modalities: `text`, `image`, `audio`, `file`.
    pub modalities: Option<BTreeSet<String>>,
    /// Function tools.
    pub tools: Option<bool>,
    /// Several tool calls in one turn.
    pub parallel_tool_calls: Option<bool>,
    /// Structured output.
    pub structured_output: Option<StructuredOutput>,
    /// Whether it thinks before it speaks.
    pub reasoning: Option<bool>,
    /// Whether a conversation may end with an assistant message to be continued.
    pub prefill: Option<bool>,
    /// Whether its provider keeps the beginning of prompts, and reads it again for less.
    pub prompt_caching: Option<bool>,
    /// What it costs; unknown is never zero.
    pub price: Option<Price>,
}

impl Model {
    /// What is known here, and of the rest what is known there.
    #[must_use]
    pub fn over(self, there: &Self) -> Self {
        Self {
            context_window: self.context_window.or(there.context_window),
            max_output: self.max_output.or(there.max_output),
            modalities: self.modalities.or_else(|| there.modalities.clone()),
            tools: self.tools.or(there.tools),
            parallel_tool_calls: self.parallel_tool_calls.or(there.parallel_tool_calls),
            structured_output: self.structured_output.or(there.structured_output),
            reasoning: self.reasoning.or(there.reasoning),
            prefill: self.prefill.or(there.prefill),
            prompt_caching: self.prompt_caching.or(there.prompt_caching),
            price: self.price.or(there.price),
        }
    }
}

/// A target's own admission limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetLimits {
    /// Requests per minute.
    pub rpm: Option<u32>,
    /// Tokens per minute.
    pub tpm: Option<u64>,
    /// Requests in flight.
    pub concurrency: Option<u32>,
}

/// What the operator states about data handling at a target. `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataTerms {
    /// Zero retention.
    pub zero_retention: Option<bool>,
    /// Used for training.
    pub training: Option<bool>,
}

/// One place that serves one model: provider + endpoint + account + upstream model.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its id in the configuration; health survives a reload under the same id.
    pub name: String,
    /// The provider's name in the configuration (`openai`, `azure`, …): wildcard names and preferences use it.
    pub provider: String,
    /// The logical model; `None` is a wildcard, which serves any model of its provider.
    pub model: Option<String>,
    /// What the provider calls the model, where that is not its logical name.
    pub upstream_model: Option<String>,
    /// What is known of the model as this target serves it; `None` where [`Catalog::models`] says it by name.
    pub known: Option<Model>,
    /// The failure domain `scheme://host:port`.
    pub endpoint: String,
    /// The failure domain of the credential. Targets with the same credential at the same endpoint share it. Never the
    /// credential itself.
    pub account: String,
    /// Changes whenever `base_url`, `upstream_model` or the account does: its domains then start afresh.
    pub identity: String,
    /// Region, as the operator names it.
    pub region: Option<String>,
    /// Data handling.
    pub data: DataTerms,
    /// Free labels.
    pub tags: BTreeSet<String>,
    /// Lower first.
    pub priority: u32,
    /// Share among its equivalents for `weighted`.
    pub weight: u32,
    /// Its own admission limits.
    pub limits: TargetLimits,
    /// Its own time limits.
    pub times: TimeOverrides,
    /// Needs a credential that the caller brings.
    pub caller_key: bool,
    /// The APIs that it has beside that of its dialects (`embeddings`, …); `None` where nothing is known, and then none
    /// is missed.
    pub serves: Option<Vec<&'static str>>,
    /// The wire formats that it speaks; empty where nothing is known, and then none is excluded.
    pub dialects: Vec<String>,
    /// Its stream carries everything that a plain answer does, so that plain answers may be gathered from it.
    pub stream_carries_everything: bool,
}

/// What a route requires of whichever target serves it. `None` and empty require nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contract {
    /// Input modalities.
    pub modalities: BTreeSet<String>,
    /// Function tools.
    pub tools: bool,
    /// Several tool calls in one turn.
    pub parallel_tool_calls: bool,
    /// Structured output.
    pub structured_output: Option<StructuredOutput>,
    /// Smallest context window, in tokens.
    pub context_window_min: Option<u64>,
    /// Smallest maximum output, in tokens.
    pub max_output_tokens_min: Option<u64>,
}

/// What governs requests: a route's own settings, or the defaults for plain models.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Governance {
    /// The profile that the budget started from.
    pub profile: Profile,
    /// Time, attempts, money.
    pub budget: Budget,
    /// Order inside a tier.
    pub strategy: Strategy,
    /// Same-target retries.
    pub retry: RetryPolicy,
    /// Other models.
    pub substitution: SubstitutionPolicy,
    /// Release of streams.
    pub stream: StreamPolicy,
    /// Reaction of health.
    pub health: HealthPolicy,
    /// What whichever target serves must keep.
    pub requires: Contract,
    /// The provider answered with another model than asked.
    pub on_model_mismatch: OnMismatch,
    /// The request loses something on its way into another dialect.
    pub on_loss: OnLoss,
}

/// A versioned name that clients put in `model`.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// Its version, reported as `name@version`.
    pub version: u32,
    /// The first is the contract's own; the rest are substitutions, in order.
    pub models: Vec<String>,
    /// Its settings.
    pub governance: Governance,
}

/// Everything that may serve: one immutable snapshot of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// All targets; a [`TargetIndex`] points into it.
    pub targets: Vec<Target>,
    /// What is known of models, by logical name; of those that wildcards serve by `provider/model`.
    pub models: BTreeMap<String, Model>,
    /// Names of models that mean one of a provider's: `gpt-4o` is `openai/gpt-4o`, if a wildcard serves it.
    pub aliases: BTreeMap<String, String>,
    /// All routes, by name.
    pub routes: BTreeMap<String, Route>,
    /// For plain models, and where a route says nothing.
    pub defaults: Governance,
}

impl Catalog {
    /// The target at this place.
    pub fn target(&self, index: TargetIndex) -> Option<&Target> {
        self.targets.get(index.0)
    }

    /// The target of this name.
    pub fn find(&self, name: &str) -> Option<TargetIndex> {
        self.targets.iter().position(|t| t.name == name).map(TargetIndex)
    }

    /// What is known of a logical model as this target serves it.
    pub fn facts<'c>(&'c self, target: &'c Target, model: &str) -> Option<&'c Model> {
        target.known.as_ref().or_else(|| self.models.get(model))
    }

    /// Whether any target serves this logical model.
    pub fn serves(&self, model: &str) -> bool {
        self.targets.iter().any(|t| t.model.as_deref() == Some(model))
    }

    /// All names that a client may ask for: routes, then models, each once. Wildcards are `provider/*`.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.routes.keys().cloned().collect();
        let mut seen: BTreeSet<String> = names.iter().cloned().collect();
        for t in &self.targets {
            let name = t.model.clone().unwrap_or_else(|| alloc::format!("{}/*", t.provider));
            if seen.insert(name.clone()) {
                names.push(name);
            }
        }
        names
    }
}
