//! The ledger in memory: the last records, bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Filter, Ledger, RequestEntry};

/// Keeps the newest records; the oldest goes when it is full.
#[derive(Debug)]
pub struct MemoryLedger {
    kept: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    order: VecDeque<Arc<RequestEntry>>,
    by_id: HashMap<String, Arc<RequestEntry>>,
}

impl MemoryLedger {
    /// A ledger that keeps so many requests.
    pub fn new(kept: usize) -> Self {
        Self { kept: kept.max(1), entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // A panic while it was held can only have left a record out.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for MemoryLedger {
    fn append(&self, entry: RequestEntry) {
        let entry = Arc::new(entry);
        let mut entries = self.entries();
        while entries.order.len() >= self.kept {
            let Some(oldest) = entries.order.pop_front() else { break };
            entries.by_id.remove(&oldest.id);
        }
        entries.by_id.insert(entry.id.clone(), Arc::clone(&entry));
        entries.order.push_back(entry);
    }

    fn get(&self, id: &str) -> Option<Arc<RequestEntry>> {
        self.entries().by_id.get(id).cloned()
    }

    fn list(&self, filter: &Filter) -> Vec<Arc<RequestEntry>> {
        let entries = self.entries();
        let wanted = entries.order.iter().rev().filter(|e| filter.wants(e));
        wanted.take(filter.limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, requested: &str) -> RequestEntry {
        RequestEntry { id: id.into(), requested: requested.into(), ..RequestEntry::default() }
    }

    #[test]
    fn the_oldest_record_goes_when_the_ledger_is_full() {
        let ledger = MemoryLedger::new(2);
        for id in ["a", "b", "c"] {
            ledger.append(entry(id, "m"));
        }
        assert!(ledger.get("a").is_none());
        assert!(ledger.get("c").is_some());
        let listed: Vec<String> =
            ledger.list(&Filter { limit: 10, ..Filter::default() }).iter().map(|e| e.id.clone()).collect();
        assert_eq!(listed, ["c", "b"]);
    }

    #[test]
    fn a_filter_wants_only_what_it_names() {
        let ledger = MemoryLedger::new(10);
        ledger.append(entry("a", "gpt-4o"));
        ledger.append(entry("b", "other"));
        let filter = Filter { requested: Some("other".into()), limit: 10, ..Filter::default() };
        assert_eq!(ledger.list(&filter).len(), 1);
    }
}
