//! The trait of a ledger.

use std::sync::Arc;

use crate::RequestEntry;

/// Which records to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only requests on which this target made an attempt.
    pub target: Option<String>,
    /// Only requests for this route or model, as the client named it.
    pub requested: Option<String>,
    /// Only requests that ended like this.
    pub terminal: Option<String>,
    /// Only requests of this key.
    pub key: Option<String>,
    /// At most so many, the newest first.
    pub limit: usize,
}

impl Filter {
    /// Whether a record is wanted.
    pub fn wants(&self, entry: &RequestEntry) -> bool {
        let by = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|w| w == has);
        by(&self.requested, &entry.requested)
            && by(&self.terminal, entry.terminal)
            && self.key.as_ref().is_none_or(|k| Some(k) == entry.key.as_ref())
            && self.target.as_ref().is_none_or(|t| entry.attempts.iter().any(|a| a.target == *t))
    }
}

/// Where requests and their attempts are recorded. Appending never blocks and never fails a request.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Records a request that has ended.
    fn append(&self, entry: RequestEntry);

    /// The record of this request, if it is still kept.
    fn get(&self, id: &str) -> Option<Arc<RequestEntry>>;

    /// The newest records that the filter wants.
    fn list(&self, filter: &Filter) -> Vec<Arc<RequestEntry>>;
}
