//! Whose model it is, by its name: Converse is one for all, and what it carries along for a model is not.

use crate::messages::models::{Family, family};

/// The maker of a model, where that matters. The name may be that of a model, of an inference profile of a region
/// (`eu.anthropic.…`) or an ARN; of an application's own profile nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    Anthropic(Family),
    /// Nova.
    Amazon,
    OpenAi,
    Other,
}

impl Maker {
    pub(super) fn of(model: &str) -> Self {
        if model.contains("anthropic.") || model.contains("claude") {
            Self::Anthropic(family(model))
        } else if model.contains("amazon.nova") {
            Self::Amazon
        } else if model.contains("openai.") {
            Self::OpenAi
        } else {
            Self::Other
        }
    }

    pub(super) fn claude(self) -> Option<Family> {
        if let Self::Anthropic(family) = self { Some(family) } else { None }
    }

    /// Amazon Bedrock User Guide, "Prompt caching": models of Anthropic and Nova.
    pub(super) fn takes_cache_points(self) -> bool {
        matches!(self, Self::Anthropic(_) | Self::Amazon)
    }

    /// The same: an hour is for Claude alone.
    pub(super) fn caches_long(self) -> bool {
        matches!(self, Self::Anthropic(_))
    }
}
