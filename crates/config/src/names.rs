//! The names that a configuration makes: what routes may list and keys may be granted.

use std::collections::BTreeSet;

use crate::catalog;
use crate::nearest::nearest;

/// All names, those of targets with errors included: one mistake gives one error.
#[derive(Debug)]
pub(crate) struct Names {
    routes: BTreeSet<String>,
    models: BTreeSet<String>,
    /// `provider/model` for every named model.
    qualified: BTreeSet<String>,
    /// Providers with a wildcard target.
    wildcards: BTreeSet<String>,
    /// What some target serves could not be read, so that no name can be called unknown.
    is_partial: bool,
}

impl Names {
    /// From (provider, model) of every target, `*` for a wildcard and `None` where it cannot be read, and the names of
    /// the routes.
    pub(crate) fn new(claims: &[Option<(String, String)>], routes: Vec<String>) -> Self {
        let (wild, named): (Vec<_>, Vec<_>) = claims.iter().flatten().partition(|(_, model)| model == "*");
        Self {
            is_partial: claims.is_empty() || claims.contains(&None),
            routes: routes.into_iter().collect(),
            models: named.iter().map(|(_, model)| model.clone()).collect(),
            qualified: named.iter().map(|(provider, model)| format!("{provider}/{model}")).collect(),
            wildcards: wild.iter().map(|(provider, _)| provider.clone()).collect(),
        }
    }

    /// Whether a target serves a model under this very name.
    pub(crate) fn is_model(&self, name: &str) -> bool {
        self.models.contains(name)
    }

    /// Whether a route may list this model. A bare name falls to a wildcard only if it is known whose model it is: another
    /// would as likely be a typing mistake.
    pub(crate) fn serves(&self, name: &str) -> bool {
        self.is_partial
            || self.is_model(name)
            || self.qualified.contains(name)
            || self.is_wild(name)
            || catalog::whole_name(name).is_some_and(|whole| self.is_wild(whole))
    }

    /// Whether a key may be granted this: a route, a model, `provider/model` or `provider/*` of a wildcard.
    pub(crate) fn grants(&self, name: &str) -> bool {
        self.is_partial
            || self.routes.contains(name)
            || self.is_model(name)
            || (self.is_wild(name) && !self.qualified.contains(name))
    }

    /// The name under which `models` describes a model that a route lists.
    pub(crate) fn described<'n>(&self, name: &'n str) -> &'n str {
        match name.split_once('/') {
            Some((_, model)) if !self.is_model(name) && self.qualified.contains(name) => model,
            None if !self.is_model(name) => {
                catalog::whole_name(name).filter(|whole| self.is_wild(whole)).unwrap_or(name)
            }
            _ => name,
        }
    }

    fn is_wild(&self, name: &str) -> bool {
        name.split_once('/')
            .is_some_and(|(provider, model)| !model.is_empty() && self.wildcards.contains(provider))
    }

    pub(crate) fn did_you_mean_model(&self, name: &str) -> String {
        let valid = self.models.iter().chain(&self.qualified).map(String::as_str);
        self.suggest(name, nearest(name, valid))
    }

    pub(crate) fn did_you_mean_grant(&self, name: &str) -> String {
        if self.qualified.contains(name)
            && let Some((_, model)) = name.split_once('/')
        {
            return format!("; write `{model}`");
        }
        self.suggest(name, nearest(name, self.routes.iter().chain(&self.models).map(String::as_str)))
    }

    fn suggest(&self, name: &str, near: Vec<String>) -> String {
        match (near.first(), self.wildcards.first()) {
            (Some(near), _) => format!("; did you mean `{near}`?"),
            (None, Some(provider)) if !name.contains('/') => {
                format!("; of a wildcard write `{provider}/{}`", crate::tree::shown(name))
            }
            _ => String::new(),
        }
    }
}
