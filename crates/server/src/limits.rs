//! Limits of the whole process: requests in flight, and the memory that their bodies take. What was taken comes back
//! when its guard is dropped, on every exit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pointsman_config::ServerConfig;

/// What is taken and what may be.
#[derive(Debug)]
pub struct Admission {
    in_flight: Counter,
    body_bytes: Counter,
}

#[derive(Debug)]
struct Counter {
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl Counter {
    fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most: AtomicUsize::new(most) }
    }

    fn take(&self, amount: usize) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let add = |taken: usize| taken.checked_add(amount).filter(|sum| *sum <= most);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add).is_ok()
    }

    fn give_back(&self, amount: usize) {
        self.taken.fetch_sub(amount, Ordering::AcqRel);
    }
}

impl Admission {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self { in_flight: Counter::new(config.max_in_flight), body_bytes: Counter::new(config.body_memory) }
    }

    pub(crate) fn set_limits(&self, config: &ServerConfig) {
        self.in_flight.most.store(config.max_in_flight, Ordering::Relaxed);
        self.body_bytes.most.store(config.body_memory, Ordering::Relaxed);
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.taken.load(Ordering::Relaxed)
    }

    /// Bytes of memory that bodies and held-back answers take.
    pub fn body_bytes(&self) -> usize {
        self.body_bytes.taken.load(Ordering::Relaxed)
    }

    /// Takes a place in flight, if there is one.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<InFlight> {
        self.in_flight.take(1).then(|| InFlight(Arc::clone(self)))
    }

    /// An empty claim on memory, to be grown.
    pub(crate) fn claim(self: &Arc<Self>) -> Claim {
        Claim { admission: Arc::clone(self), bytes: 0 }
    }
}

/// A place in flight.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Admission>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.give_back(1);
    }
}

/// A claim on memory.
#[derive(Debug)]
pub(crate) struct Claim {
    admission: Arc<Admission>,
    bytes: usize,
}

impl Claim {
    /// Grows the claim to `bytes` in all, if there is room; it never shrinks by this.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && !self.admission.body_bytes.take(more) {
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Claim {
    /// Gives back what is beyond so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.shrink_by(self.bytes.saturating_sub(bytes));
    }

    /// Gives a part of it back.
    pub(crate) fn shrink_by(&mut self, bytes: usize) {
        let less = bytes.min(self.bytes);
        self.bytes -= less;
        self.admission.body_bytes.give_back(less);
    }

    /// Whether it could be grown to so many bytes now; nothing is taken.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let memory = &self.admission.body_bytes;
        let free = memory.most.load(Ordering::Relaxed).saturating_sub(memory.taken.load(Ordering::Relaxed));
        bytes.saturating_sub(self.bytes) <= free
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.admission.body_bytes.give_back(self.bytes);
    }
}
