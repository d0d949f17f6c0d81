//! Requests that wait for a recovery: bounded per model, first come first served.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::fleet::LaneIndex;
use crate::policy::QueuePolicy;
use crate::time::{Duration, Instant};

/// A waiter that is due and does not come is waited for no longer than this: nobody can wedge the queue.
const TURN_LASTS: Duration = Duration::from_secs(1);

/// What a waiter waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// When it looks again.
    pub until: Instant,
    /// Room may come at any moment, so it is due at any moment.
    pub keen: bool,
    /// The lanes that it would take.
    pub lanes: Vec<LaneIndex>,
}

impl Claim {
    /// Whether it is due: what it waits for may be there, and it comes soon.
    fn is_due(&self, now: Instant) -> bool {
        (self.keen || self.until <= now) && now.since(self.until) < TURN_LASTS
    }
}

#[derive(Clone, Debug)]
struct Waiter {
    request: u64,
    claim: Claim,
}

/// Waiting requests per logical model, in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<String, Vec<Waiter>>,
}

impl Queue {
    /// Takes a place with this claim (or keeps the one that it has), if there is one. It must be given back by
    /// [`Queue::leave`].
    pub fn wait(&mut self, model: &str, request: u64, claim: Claim, policy: &QueuePolicy) -> bool {
        if let Some(waiters) = self.waiting.get_mut(model) {
            if let Some(known) = waiters.iter_mut().find(|w| w.request == request) {
                known.claim = claim;
                return true;
            }
            if waiters.len() >= policy.max as usize {
                return false;
            }
            waiters.push(Waiter { request, claim });
            return true;
        }
        if policy.max == 0 {
            return false;
        }
        self.waiting.insert(model.into(), Vec::from([Waiter { request, claim }]));
        true
    }

    /// Whether [`Queue::wait`] would give or leave this request a place.
    pub fn has_place(&self, model: &str, request: u64, policy: &QueuePolicy) -> bool {
        let waiters = self.waiting.get(model).map_or(&[][..], Vec::as_slice);
        waiters.len() < policy.max as usize || waiters.iter().any(|w| w.request == request)
    }

    /// Gives a place back.
    pub fn leave(&mut self, model: &str, request: u64) {
        let Some(waiters) = self.waiting.get_mut(model) else { return };
        waiters.retain(|w| w.request != request);
        if waiters.is_empty() {
            self.waiting.remove(model);
        }
    }

    /// Those of the `wanted` lanes that waiters who came earlier are due to take: what room there is on them is theirs.
    pub fn claimed(
        &self,
        model: &str,
        request: u64,
        wanted: &BTreeSet<LaneIndex>,
        now: Instant,
    ) -> BTreeSet<LaneIndex> {
        let mut claimed = BTreeSet::new();
        let Some(waiters) = self.waiting.get(model) else { return claimed };
        for waiter in waiters.iter().take_while(|w| w.request != request) {
            // The first in line mostly wants all of them: a full queue must not be gone through by each who waits in it.
            if claimed.len() == wanted.len() {
                break;
            }
            if waiter.claim.is_due(now) {
                claimed.extend(waiter.claim.lanes.iter().copied().filter(|lane| wanted.contains(lane)));
            }
        }
        claimed
    }

    /// How many of those who wait for this model came before this request.
    pub fn ahead_of(&self, model: &str, request: u64) -> usize {
        let waiters = self.waiting.get(model);
        waiters.map_or(0, |all| all.iter().take_while(|w| w.request != request).count())
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
