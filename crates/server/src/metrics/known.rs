//! Series that were looked up before. To find a series by its labels costs a text for each of them; what a request adds to
//! is found by one key instead, once for all the series that belong together.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Series by the names that choose them: as bounded as those are.
#[derive(Debug)]
pub(super) struct Known<T>(RwLock<HashMap<Vec<u8>, Arc<T>>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> Known<T> {
    /// The series of these names; they are looked up by `find` when they are asked for first.
    pub(super) fn get(&self, names: &[&str], find: impl FnOnce() -> T) -> Arc<T> {
        let mut key = Vec::with_capacity(128);
        for name in names {
            // With its length, so that no two lists of names come to the same key.
            key.extend_from_slice(&name.len().to_le_bytes());
            key.extend_from_slice(name.as_bytes());
        }
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(known);
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(key).or_insert_with(|| Arc::new(find())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_names_lead_to_the_same_series() {
        let known = Known::default();
        let first = known.get(&["a", "b"], || 1);
        assert_eq!((*first, *known.get(&["a", "b"], || 2), *known.get(&["ab"], || 3)), (1, 1, 3));
    }
}
