//! What a running simulator shares between its connections: rules, counts, what was received.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::Voice;
use crate::request::Received;
use crate::script::{Connection, Schedule, Script};
use crate::sim::SimConfig;

/// Requests that are remembered.
const MAX_RECEIVED: usize = 1_000;
/// Bytes of bodies that are remembered; the newest request is always kept whole.
const MAX_RECEIVED_BYTES: usize = 128 * 1024 * 1024;
/// Scripts that wait in the queue; more are dropped.
const MAX_QUEUE: usize = 100_000;
/// Model names with their own count; clients choose the names.
const MAX_MODELS: usize = 1_000;

pub(crate) struct State {
    pub(crate) config: SimConfig,
    rules: Mutex<Rules>,
    log: Mutex<Log>,
    calls: AtomicU64,
    aborted: AtomicU64,
    accepted: AtomicU64,
    open: AtomicUsize,
    active: AtomicUsize,
    changed: watch::Sender<()>,
    /// Cancelling it closes the connections that were accepted under it.
    connections: Mutex<CancellationToken>,
}

struct Rules {
    queue: VecDeque<Script>,
    by_model: HashMap<String, Script>,
    schedule: Option<(Instant, Schedule)>,
    default: Script,
}

/// The rules as they hold at one moment.
pub(crate) struct RulesNow {
    /// What a request gets that no other rule is for.
    pub(crate) general: Script,
    pub(crate) queued: usize,
    pub(crate) by_model: HashMap<String, Script>,
}

#[derive(Default)]
struct Log {
    received: VecDeque<Received>,
    bytes: usize,
    by_model: HashMap<String, u64>,
}

/// A lock whose holder panicked still guards plain data that is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(crate) fn new(config: SimConfig) -> Self {
        let default = config.default.clone();
        let rules = Rules { queue: VecDeque::new(), by_model: HashMap::new(), schedule: None, default };
        Self {
            config,
            rules: Mutex::new(rules),
            log: Mutex::default(),
            calls: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            changed: watch::Sender::new(()),
            connections: Mutex::default(),
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn notify(&self) {
        self.changed.send_replace(());
    }

    /// What a connection that is accepted now is closed by.
    pub(crate) fn connection_token(&self) -> CancellationToken {
        lock(&self.connections).clone()
    }

    pub(crate) fn close_connections(&self) {
        std::mem::take(&mut *lock(&self.connections)).cancel();
    }

    // Rules

    pub(crate) fn set(&self, script: Script) {
        let rules =
            Rules { queue: VecDeque::new(), by_model: HashMap::new(), schedule: None, default: script };
        *lock(&self.rules) = rules;
    }

    pub(crate) fn set_for_model(&self, model: &str, script: Script) {
        let mut rules = lock(&self.rules);
        if rules.by_model.len() < MAX_MODELS || rules.by_model.contains_key(model) {
            rules.by_model.insert(model.to_owned(), script);
        }
    }

    pub(crate) fn enqueue(&self, scripts: impl IntoIterator<Item = Script>) {
        let mut rules = lock(&self.rules);
        let room = MAX_QUEUE.saturating_sub(rules.queue.len());
        rules.queue.extend(scripts.into_iter().take(room));
    }

    pub(crate) fn set_schedule(&self, schedule: Schedule) {
        lock(&self.rules).schedule = Some((Instant::now(), schedule));
    }

    /// The script for a request of this model: from the queue, else for the model, else by schedule, else the default.
    pub(crate) fn choose(&self, model: &str) -> Script {
        let mut rules = lock(&self.rules);
        if let Some(script) = rules.queue.pop_front() {
            return script;
        }
        rules.by_model.get(model).unwrap_or_else(|| rules.general()).clone()
    }

    /// Whether a connection is to be reset at once. A queued script is used up by it; a general one holds only if no
    /// model has its own, because the model is not known yet.
    pub(crate) fn resets_connection(&self) -> bool {
        let mut rules = lock(&self.rules);
        let queued = rules.queue.front().map(|script| script.connection == Connection::ResetOnAccept);
        if queued == Some(true) {
            rules.queue.pop_front();
        }
        queued.unwrap_or_else(|| {
            rules.by_model.is_empty() && rules.general().connection == Connection::ResetOnAccept
        })
    }

    pub(crate) fn rules_now(&self) -> RulesNow {
        let rules = lock(&self.rules);
        let (general, queued) = (rules.general().clone(), rules.queue.len());
        RulesNow { general, queued, by_model: rules.by_model.clone() }
    }

    // Counts

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn calls_for_model(&self, model: &str) -> u64 {
        lock(&self.log).by_model.get(model).copied().unwrap_or(0)
    }

    pub(crate) fn calls_by_model(&self) -> HashMap<String, u64> {
        lock(&self.log).by_model.clone()
    }

    pub(crate) fn aborted(&self) -> u64 {
        self.aborted.load(Ordering::SeqCst)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub(crate) fn active_requests(&self) -> usize {
        self.active.load(Ordering::SeqCst)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        lock(&self.log).received.iter().cloned().collect()
    }

    pub(crate) fn reset_counters(&self) {
        self.calls.store(0, Ordering::SeqCst);
        self.aborted.store(0, Ordering::SeqCst);
        self.accepted.store(0, Ordering::SeqCst);
        *lock(&self.log) = Log::default();
        self.notify();
    }

    pub(crate) fn remember(&self, received: Received) {
        lock(&self.log).remember(received);
        self.notify();
    }

    /// Counts a call; the voice that answers it carries its number.
    pub(crate) fn count_call(&self, model: &str) -> Voice {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut log = lock(&self.log);
        if log.by_model.len() < MAX_MODELS || log.by_model.contains_key(model) {
            *log.by_model.entry(model.to_owned()).or_default() += 1;
        }
        drop(log);
        self.notify();
        Voice { call, ..self.voice() }
    }

    /// The voice of the last call.
    pub(crate) fn voice(&self) -> Voice {
        Voice { name: self.config.name.clone(), seed: self.config.seed, call: self.calls() }
    }

    pub(crate) fn count_aborted(&self) {
        self.aborted.fetch_add(1, Ordering::SeqCst);
        self.notify();
    }

    /// Number of a new connection, counted from 1.
    pub(crate) fn number_connection(&self) -> u64 {
        self.accepted.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl Rules {
    fn general(&self) -> &Script {
        let scheduled = self.schedule.as_ref().and_then(|(since, schedule)| schedule.at(since.elapsed()));
        scheduled.unwrap_or(&self.default)
    }
}

impl Log {
    fn remember(&mut self, received: Received) {
        self.bytes += received.body.len();
        self.received.push_back(received);
        while self.received.len() > MAX_RECEIVED
            || (self.bytes > MAX_RECEIVED_BYTES && self.received.len() > 1)
        {
            let Some(oldest) = self.received.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.body.len());
        }
    }
}

/// Which gauge an [`InUse`] holds up.
#[derive(Clone, Copy)]
pub(crate) enum Gauge {
    Connections,
    Requests,
}

/// Counts one connection or request as open until dropped.
pub(crate) struct InUse {
    state: Arc<State>,
    gauge: Gauge,
}

impl InUse {
    pub(crate) fn new(state: &Arc<State>, gauge: Gauge) -> Self {
        state.gauge(gauge).fetch_add(1, Ordering::SeqCst);
        state.notify();
        Self { state: Arc::clone(state), gauge }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.state.gauge(self.gauge).fetch_sub(1, Ordering::SeqCst);
        self.state.notify();
    }
}

impl State {
    fn gauge(&self, gauge: Gauge) -> &AtomicUsize {
        match gauge {
            Gauge::Connections => &self.open,
            Gauge::Requests => &self.active,
        }
    }
}

#[cfg(test)]
mod tests;
