//! File descriptors: each request in flight takes two, one towards its client and one towards its provider.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many as the system grants: many begin a process with 1,024 and leave the rest to whoever asks. Says so where
/// that is too few for `max_in_flight` requests.
pub(crate) fn raise(max_in_flight: usize) {
    let before = getrlimit(Resource::Nofile);
    let most = Rlimit { current: before.maximum, ..before };
    let raised = before.current == before.maximum || setrlimit(Resource::Nofile, most).is_ok();
    let granted = if raised { before.maximum } else { before.current };
    let needed = u64::try_from(max_in_flight).unwrap_or(u64::MAX).saturating_mul(2);
    if let Some(granted) = granted.filter(|granted| *granted < needed) {
        tracing::warn!(
            granted,
            needed,
            "too few file descriptors for server.max_in_flight: raise the limit (ulimit -n) or lower the key"
        );
    }
}
