//! Requests that wait for a recovery: bounded per model, first come first served.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::policy::QueuePolicy;
use crate::time::{Duration, Instant};

/// A waiter that is due and does not come is waited for no longer than this: nobody can wedge the queue.
const TURN_LASTS: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Waiter {
    request: u64,
    until: Instant,
}

/// Waiting requests per logical model, in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<String, Vec<Waiter>>,
}

impl Queue {
    /// Takes a place until then (or keeps the one that it has), if there is one. It must be given back by
    /// [`Queue::leave`].
    pub fn wait(&mut self, model: &str, request: u64, until: Instant, policy: &QueuePolicy) -> bool {
        if let Some(waiters) = self.waiting.get_mut(model) {
            if let Some(known) = waiters.iter_mut().find(|w| w.request == request) {
                known.until = until;
                return true;
            }
            if waiters.len() >= policy.max as usize {
                return false;
            }
            waiters.push(Waiter { request, until });
            return true;
        }
        if policy.max == 0 {
            return false;
        }
        self.waiting.insert(model.into(), Vec::from([Waiter { request, until }]));
        true
    }

    /// Gives a place back.
    pub fn leave(&mut self, model: &str, request: u64) {
        let Some(waiters) = self.waiting.get_mut(model) else { return };
        waiters.retain(|w| w.request != request);
        if waiters.is_empty() {
            self.waiting.remove(model);
        }
    }

    /// Whether nobody who came earlier is due now: only then may this request take what room there is.
    pub fn is_turn(&self, model: &str, request: u64, now: Instant) -> bool {
        let Some(waiters) = self.waiting.get(model) else { return true };
        let earlier = waiters.iter().take_while(|w| w.request != request);
        !earlier.into_iter().any(|w| w.until <= now && now.since(w.until) < TURN_LASTS)
    }

    /// How many wait for this model.
    pub fn waiting(&self, model: &str) -> usize {
        self.waiting.get(model).map_or(0, Vec::len)
    }

    /// All models that are waited for.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.waiting.iter().map(|(m, waiters)| (m.as_str(), waiters.len()))
    }
}
