//! Where environment variables come from: the process, or a map in tests.

use std::collections::BTreeMap;

/// A source of variables.
pub trait Vars {
    /// The value of this variable, if it is set.
    fn get(&self, name: &str) -> Option<String>;
}

/// The environment of this process. A value that is not Unicode counts as not set.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnv;

impl Vars for ProcessEnv {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

impl Vars for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        Self::get(self, name).cloned()
    }
}
