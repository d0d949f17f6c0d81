//! What the core knows of a request: facts that others read from it, never its content.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::kind::Capability;
use crate::target::{Catalog, Governance, Price, StructuredOutput, TargetIndex};
use crate::time::Duration;

/// What this request itself needs of whichever model answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Function tools.
    pub tools: bool,
    /// Several tool calls in one turn, asked for explicitly.
    pub parallel_tool_calls: bool,
    /// Input modalities besides text: `image`, `audio`, `file`.
    pub modalities: BTreeSet<&'static str>,
    /// Structured output.
    pub structured_output: Option<StructuredOutput>,
    /// The model is asked to reason.
    pub reasoning: bool,
    /// The conversation ends with an assistant message to be continued.
    pub prefill: bool,
    /// Prompt tokens, an estimate.
    pub prompt_tokens: u64,
    /// Output tokens at most, where the request says so.
    pub max_output: Option<u64>,
    /// What different models answer does not mix (vectors): another one answers only where that is written out, see
    /// [`SubstitutionPolicy::written`](crate::policy::SubstitutionPolicy::written).
    pub same_model: bool,
}

impl Needs {
    /// The capability whose failure domain this request exercises: the most demanding one.
    pub fn capability(&self) -> Capability {
        if self.structured_output.is_some() {
            Capability::Structured
        } else if self.tools {
            Capability::Tools
        } else if self.modalities.contains("image") {
            Capability::Vision
        } else {
            Capability::Text
        }
    }
}

/// What the caller wants; it can narrow what key and route allow, never widen it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preferences {
    /// Only targets of these names or providers.
    pub only: Vec<String>,
    /// No targets of these names or providers.
    pub ignore: Vec<String>,
    /// Targets of these names or providers first, in this order.
    pub order: Vec<String>,
    /// `false`: nothing beyond the targets named in `order` (if any), and no other model.
    pub allow_fallbacks: Option<bool>,
    /// Only targets that do not train on the data.
    pub no_training: bool,
    /// Only targets with zero retention.
    pub zero_retention: bool,
    /// Only targets that state what of the request they support.
    pub require_parameters: bool,
    /// Highest price; an unknown price does not pass.
    pub max_price: Option<Price>,
    /// Only targets with all of these tags.
    pub tags: Vec<String>,
    /// Only targets with one of these quantizations. None is known of any target.
    pub quantizations: Vec<String>,
}

/// How far the caller allows this request to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reroute {
    /// To other targets of the same model.
    Failover,
    /// As far as the route allows.
    #[default]
    Fallback,
    /// Nowhere.
    None,
}

/// How the answer is to be produced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A stream upstream, gathered into one answer where the target's stream carries everything; else plain.
    Gathered,
    /// One answer.
    #[default]
    Plain,
    /// A stream for the client.
    Streamed,
    /// A stream that is released only when it is whole.
    Buffered,
}

impl Shape {
    /// Whether the deadline bounds the whole answer, not only the time to commit.
    pub const fn deadline_bounds_whole(self) -> bool {
        !matches!(self, Self::Streamed)
    }
}

/// One logical model that may answer, with the targets that serve it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelChoice {
    /// Its logical name.
    pub model: String,
    /// What a wildcard target's provider calls it; `None` where each target says it.
    pub upstream: Option<String>,
    /// The targets, in the order of the configuration.
    pub targets: Vec<TargetIndex>,
}

/// A request as the core sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// A number unique in this process.
    pub id: u64,
    /// The first is the requested model, the rest are substitutions in order.
    pub models: Vec<ModelChoice>,
    /// What governs it: its route's settings, already narrowed by the caller's preferences.
    pub governance: Governance,
    /// What it needs.
    pub needs: Needs,
    /// What the caller wants.
    pub preferences: Preferences,
    /// Providers for which the caller brought a credential.
    pub caller_keys: BTreeSet<String>,
    /// The caller's own limit on the whole request.
    pub caller_deadline: Option<Duration>,
    /// How far it may move.
    pub reroute: Reroute,
    /// Sending it twice does no harm.
    pub replay_safe: bool,
    /// The wire format that it came in, and that whoever answers must speak.
    pub dialect: &'static str,
    /// The API that it is for (`embeddings`, …), which whoever answers must have; `None` for the dialect's own. Health
    /// is kept apart by it.
    pub endpoint: Option<&'static str>,
    /// The client's SDK says that this is a retry of its own.
    pub sdk_retry: bool,
    /// A hash that keeps a conversation on its target.
    pub affinity: Option<u64>,
    /// How the answer is produced.
    pub shape: Shape,
}

impl Request {
    /// Whether another model may answer, as far as route and caller go.
    pub fn may_substitute(&self) -> bool {
        let policy = &self.governance.substitution;
        policy.allowed
            && (policy.written || !self.needs.same_model)
            && self.reroute == Reroute::Fallback
            && self.preferences.allow_fallbacks != Some(false)
    }

    /// Prompt and output tokens, estimated.
    pub fn estimated_tokens(&self) -> u64 {
        self.needs.prompt_tokens.saturating_add(self.needs.max_output.unwrap_or(0))
    }
}

/// What a requested name leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The route's name and version, where it is a route.
    pub route: Option<(String, u32)>,
    /// The models in order.
    pub models: Vec<ModelChoice>,
    /// What governs it.
    pub governance: Governance,
}

impl Resolved {
    /// The names that a key may be granted for this: the route, or the logical model (for a wildcard also
    /// `provider/*`).
    pub fn grants(&self) -> Vec<String> {
        if let Some((route, _)) = &self.route {
            return [route.clone()].into();
        }
        let Some(choice) = self.models.first() else { return Vec::new() };
        let mut names = Vec::from([choice.model.clone()]);
        if choice.upstream.is_some()
            && let Some((provider, _)) = choice.model.split_once('/')
        {
            names.push(format!("{provider}/*"));
        }
        names
    }
}

/// Leads a requested name to what may serve it: a route, else a model, else `provider/model`, else a wildcard target of
/// that provider, else one of the provider whose model the name is known to be, else the only provider that has wildcard
/// targets. `None` is a 404.
pub fn resolve(catalog: &Catalog, requested: &str) -> Option<Resolved> {
    if let Some(route) = catalog.routes.get(requested) {
        // A model that nothing serves keeps its place: the next one stays a substitution.
        let none = |m: &String| ModelChoice { model: m.clone(), upstream: None, targets: Vec::new() };
        let models =
            route.models.iter().map(|m| resolve_model(catalog, m).unwrap_or_else(|| none(m))).collect();
        let governance = route.governance.clone();
        return Some(Resolved { route: Some((route.name.clone(), route.version)), models, governance });
    }
    let choice = resolve_model(catalog, requested)?;
    Some(Resolved { route: None, models: [choice].into(), governance: catalog.defaults.clone() })
}

/// Leads the name of a model to its targets.
pub fn resolve_model(catalog: &Catalog, name: &str) -> Option<ModelChoice> {
    let named = targets_where(catalog, |t| t.model.as_deref() == Some(name));
    if !named.is_empty() {
        return Some(ModelChoice { model: name.into(), upstream: None, targets: named });
    }
    if let Some((provider, model)) = name.split_once('/') {
        let named = targets_where(catalog, |t| t.provider == provider && t.model.as_deref() == Some(model));
        if !named.is_empty() {
            return Some(ModelChoice { model: model.into(), upstream: None, targets: named });
        }
        if !model.is_empty()
            && let Some(choice) = wildcard(catalog, provider, model)
        {
            return Some(choice);
        }
    }
    if let Some((provider, model)) = catalog.aliases.get(name).and_then(|known| known.split_once('/'))
        && let Some(choice) = wildcard(catalog, provider, model)
    {
        return Some(choice);
    }
    let mut providers = catalog.targets.iter().filter(|t| t.model.is_none()).map(|t| t.provider.as_str());
    let only = providers.next()?;
    if providers.any(|p| p != only) {
        return None;
    }
    wildcard(catalog, only, name)
}

fn wildcard(catalog: &Catalog, provider: &str, model: &str) -> Option<ModelChoice> {
    let targets = targets_where(catalog, |t| t.model.is_none() && t.provider == provider);
    (!targets.is_empty()).then(|| ModelChoice {
        model: format!("{provider}/{model}"),
        upstream: Some(model.into()),
        targets,
    })
}

fn targets_where(catalog: &Catalog, wanted: impl Fn(&crate::target::Target) -> bool) -> Vec<TargetIndex> {
    let places = catalog.targets.iter().enumerate().filter(|(_, t)| wanted(t));
    places.map(|(place, _)| TargetIndex(place)).collect()
}
