//! Who changed what, and when: one log line each, and the last of them in memory.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// So many changes are kept.
pub(crate) const KEPT: usize = 1_000;

/// Who is behind a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Who {
    /// Whoever holds the admin key.
    AdminKey,
    /// Whoever can reach the admin plane, which asks for no key.
    Loopback,
    /// SIGHUP.
    Signal,
    /// The file's content changed under `watch: true`.
    Watch,
}

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::AdminKey => "admin_key",
            Self::Loopback => "loopback",
            Self::Signal => "signal",
            Self::Watch => "watch",
        }
    }
}

/// One change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Change {
    /// In milliseconds of Unix time.
    pub(crate) at_unix_ms: i64,
    pub(crate) who: Who,
    /// The address that it came from.
    pub(crate) from: Option<IpAddr>,
    /// What was done: `kill`, `fallback_off`, `reload`, ….
    pub(crate) action: &'static str,
    /// To what, as `target/openai-us`.
    pub(crate) object: String,
    /// Whether it took effect.
    pub(crate) done: bool,
}

/// The last changes.
#[derive(Debug, Default)]
pub(crate) struct Audit(Mutex<VecDeque<Change>>);

impl Audit {
    /// Logs and keeps a change; the oldest goes when there are too many.
    pub(crate) fn note(&self, change: Change) {
        tracing::info!(
            audit = true,
            who = change.who.name(),
            from = change.from.map(tracing::field::display),
            action = change.action,
            object = change.object,
            done = change.done,
            "changed by an operator"
        );
        // A panic while it was held can only have left a change out.
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() >= KEPT {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// All that are kept, the newest first.
    pub(crate) fn newest_first(&self) -> Vec<Change> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_change_goes_when_a_thousand_are_kept() {
        let audit = Audit::default();
        for number in 0..=KEPT {
            audit.note(Change {
                at_unix_ms: 0,
                who: Who::Loopback,
                from: None,
                action: "kill",
                object: format!("target/{number}"),
                done: true,
            });
        }
        let kept = audit.newest_first();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept.first().map(|c| c.object.as_str()), Some("target/1000"));
        assert_eq!(kept.last().map(|c| c.object.as_str()), Some("target/1"));
    }
}
