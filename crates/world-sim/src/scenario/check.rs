//! What makes a scenario unusable, said before anything runs.

use pointsman_core::policy::Strategy;

use super::{Arrival, Fault, Scenario};

/// The most of anything that a scenario may have: what is more is a mistake in the file.
const MOST: usize = 1_000;

/// Why a scenario cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scenario `{scenario}`: {what}")]
pub struct Unusable {
    scenario: String,
    what: String,
}

impl Scenario {
    /// Reads a scenario from JSON.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, with its line and column, or with the scenario in it.
    pub fn from_json(text: &str) -> Result<Self, Unusable> {
        let scenario: Self = serde_json::from_str(text)
            .map_err(|error| Unusable { scenario: "?".into(), what: error.to_string() })?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Says what makes it unusable, if anything does.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Unusable> {
        let wrong = self.wrong_size().or_else(|| self.wrong_name()).or_else(|| self.wrong_number());
        wrong.map_or(Ok(()), |what| Err(Unusable { scenario: self.name.clone(), what }))
    }

    fn wrong_size(&self) -> Option<String> {
        let sizes = [
            ("models", self.models.len(), 1),
            ("targets", self.targets.len(), 1),
            ("clients", self.clients.len(), 1),
            ("faults", self.faults.len(), 0),
            ("replicas", self.replicas as usize, 1),
        ];
        let wrong = sizes.iter().find(|(_, size, least)| size < least || *size > MOST);
        wrong.map(|(name, size, least)| format!("`{name}` must be {least} to {MOST}, not {size}"))
    }

    fn wrong_name(&self) -> Option<String> {
        let model = |name: &String| self.models.iter().any(|m| m.name == *name);
        let lost = self.targets.iter().find(|t| !model(&t.model));
        if let Some(target) = lost {
            return Some(format!(
                "target `{}` serves `{}`, which is no model here",
                target.name, target.model
            ));
        }
        let lost = self.clients.iter().filter_map(|c| c.model.as_ref()).find(|m| !model(m));
        if let Some(name) = lost {
            return Some(format!("a client asks for `{name}`, which is no model here"));
        }
        let target = |name: &&String| self.targets.iter().any(|t| t.name == **name);
        if let Some(name) = self.faults.iter().flat_map(|f| &f.targets).find(|n| !target(n)) {
            return Some(format!("a fault strikes `{name}`, which is no target here"));
        }
        let twice = |t: &super::TargetSpec| self.targets.iter().filter(|o| o.name == t.name).count() > 1;
        if let Some(target) = self.targets.iter().find(|t| twice(t)) {
            return Some(format!("target `{}` is there twice", target.name));
        }
        if Strategy::named(&self.policy.strategy).is_none() {
            return Some(format!("there is no strategy `{}`", self.policy.strategy));
        }
        let profiles = ["standard", "interactive", "agent", "batch"];
        (!profiles.contains(&self.policy.profile.as_str()))
            .then(|| format!("there is no profile `{}`", self.policy.profile))
    }

    fn wrong_number(&self) -> Option<String> {
        for fault in &self.faults {
            if !(fault.from >= 0.0 && fault.until >= fault.from && fault.until <= 1e7) {
                return Some(format!("a fault lasts from {} until {}", fault.from, fault.until));
            }
            if fault.flapping.is_some_and(|period| period < 0.01) {
                return Some("a fault flaps faster than every 10 ms".into());
            }
            if let Fault::Status { status } = fault.what
                && !(500..600).contains(&status)
            {
                return Some(format!("`status` must be 500 to 599, not {status}"));
            }
        }
        for client in &self.clients {
            let right = match client.arrival {
                Arrival::Bursts { every, size } => every >= 0.001 && size > 0,
                Arrival::Closed { users, pause } => users > 0 && users as usize <= MOST && pause >= 0.001,
                Arrival::Poisson { per_second } => per_second > 0.0,
            };
            if !right {
                return Some(format!("clients `{}` never arrive, or all at once", client.name));
            }
        }
        None
    }
}
