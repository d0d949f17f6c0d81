//! From a scenario to what the core takes: a catalog and the policies of the process.

use pointsman_core::policy::{Budget, OnPolicy, ProcessPolicy, Profile, RetryOrder, Strategy};
use pointsman_core::target::{Catalog, Governance, Model, Route, Target, TargetLimits};

use super::{PolicySpec, Scenario, TargetSpec};
use crate::random::seconds;

/// The name of the one route.
pub const ROUTE: &str = "route";

impl Scenario {
    /// The configuration that every replica runs with.
    pub fn catalog(&self) -> Catalog {
        let mut catalog = Catalog { defaults: self.policy.governance(), ..Catalog::default() };
        for model in &self.models {
            let known = Model { tools: model.tools, context_window: model.window, ..Model::default() };
            catalog.models.insert(model.name.clone(), known);
        }
        catalog.targets = self.targets.iter().map(TargetSpec::target).collect();
        let models = self.models.iter().map(|m| m.name.clone()).collect();
        let route = Route { name: ROUTE.into(), version: 1, models, governance: self.policy.governance() };
        catalog.routes.insert(ROUTE.into(), route);
        catalog
    }

    /// The policies of every replica.
    pub fn process_policy(&self) -> ProcessPolicy {
        let mut policy = ProcessPolicy::default();
        policy.queue.max = self.policy.queue;
        policy.queue.max_wait = seconds(self.policy.queue_wait);
        policy.retry_budget.ratio = self.policy.retry_ratio;
        policy.retry_budget.floor_per_second = self.policy.retry_floor;
        policy
    }
}

impl PolicySpec {
    fn governance(&self) -> Governance {
        let profile = match self.profile.as_str() {
            "interactive" => Profile::Interactive,
            "agent" => Profile::Agent,
            "batch" => Profile::Batch,
            _ => Profile::Standard,
        };
        let mut made = Governance { profile, budget: Budget::of(profile), ..Governance::default() };
        made.budget.deadline = self.deadline.map_or(made.budget.deadline, seconds);
        made.budget.max_attempts = self.max_attempts.unwrap_or(made.budget.max_attempts);
        made.strategy = Strategy::named(&self.strategy).unwrap_or_default();
        if self.retry_first {
            made.retry.order = RetryOrder::RetryFirst;
        }
        made.substitution.allowed = self.substitution;
        made.substitution.wait = seconds(self.substitution_wait);
        if self.policy_fallback {
            made.substitution.on_policy = OnPolicy::Fallback;
        }
        made.health.breaker.failures = self.failures;
        made.health.breaker.open_for = seconds(self.open_for);
        made.health.breaker.probes = self.probes;
        if !self.slow {
            made.health.breaker.slow = None;
        }
        made
    }
}

impl TargetSpec {
    /// The name of its endpoint.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone().unwrap_or_else(|| format!("https://{}.example:443", self.name))
    }

    /// The name of its account.
    pub fn account(&self) -> String {
        self.account.clone().unwrap_or_else(|| format!("account-{}", self.name))
    }

    fn target(&self) -> Target {
        Target {
            name: self.name.clone(),
            provider: format!("provider-{}", self.name),
            model: Some(self.model.clone()),
            upstream_model: None,
            endpoint: self.endpoint(),
            account: self.account(),
            identity: format!("identity-{}", self.name),
            region: Some(self.region.clone()),
            data: Default::default(),
            tags: Default::default(),
            priority: self.priority,
            weight: self.weight,
            limits: TargetLimits { rpm: self.rpm, tpm: None, concurrency: self.concurrency },
            times: Default::default(),
            caller_key: false,
            dialects: Vec::new(),
            serves: None,
            stream_carries_everything: true,
            known: None,
        }
    }
}
