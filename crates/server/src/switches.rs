//! What operators switched off for the whole process. Configuration does not know of it: it survives a reload.

use std::collections::BTreeSet;

use arc_swap::ArcSwap;
use pointsman_core::request::Resolved;

/// Routes whose fallback policy is switched off, by name. Only routes that exist are put in, so it stays small.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    fallback_off: ArcSwap<BTreeSet<String>>,
}

impl Switches {
    /// Switches a route's fallback off or on again. Answers whether that changed anything.
    pub(crate) fn set_fallback(&self, route: &str, on: bool) -> bool {
        let before = self.fallback_off.rcu(|off| {
            let mut off = BTreeSet::clone(off);
            if on {
                off.remove(route);
            } else {
                off.insert(route.to_owned());
            }
            off
        });
        before.contains(route) == on
    }

    /// Whether a route's fallback is switched off.
    pub(crate) fn is_fallback_off(&self, route: &str) -> bool {
        self.fallback_off.load().contains(route)
    }

    /// Takes away what is switched off.
    pub(crate) fn apply(&self, resolved: &mut Resolved) {
        if resolved.route.as_ref().is_some_and(|(route, _)| self.is_fallback_off(route)) {
            resolved.governance.substitution.allowed = false;
        }
    }
}
