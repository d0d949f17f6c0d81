//! Connections kept per origin: idle HTTP/1.1 connections, last in first out, and HTTP/2 connections, each filled up to
//! its limit before another is opened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::connect::{Connector, Http2Parts, Opened};
use crate::error::{TransportError, TransportErrorKind};
use crate::lease::{Exchange, H1Lease, H2Lease, Home, Lease, Shared, Single};
use crate::origin::Origin;
use crate::request::HttpVersion;

/// How long requests wait for a connection that another request is opening, before each opens its own: a wedged
/// handshake must not hold up those who could get through.
const JOIN_FOR: Duration = Duration::from_millis(500);

/// Sizes and times of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    pub(crate) max_idle_per_origin: usize,
    pub(crate) idle_timeout: Duration,
    pub(crate) h2_streams: usize,
}

/// What connections are shared by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    origin: Arc<Origin>,
    version: HttpVersion,
}

impl Key {
    pub(crate) fn new(origin: Arc<Origin>, version: HttpVersion) -> Self {
        let version = match version {
            HttpVersion::Auto if !origin.is_tls() => HttpVersion::Http1,
            version => version,
        };
        Self { origin, version }
    }
}

/// All connections of one client.
pub(crate) struct Pool {
    connector: Connector,
    limits: PoolLimits,
    slots: Mutex<HashMap<Key, Slot>>,
    next_id: AtomicU64,
    exchanges: Arc<AtomicUsize>,
    sweeping: AtomicBool,
}

/// The connections of one key.
#[derive(Default)]
struct Slot {
    idle: Vec<Idle>,
    shared: Vec<Arc<Shared>>,
    opening: Vec<Arc<Opening>>,
    /// ALPN has chosen HTTP/1.1 here, so there is nothing to share.
    http1_only: bool,
    /// Streams that the latest HTTP/2 connection allowed.
    peer_streams: Option<usize>,
}

struct Idle {
    connection: Single,
    since: Instant,
}

/// A connection being opened that others may wait for.
struct Opening {
    started: Instant,
    waiting: AtomicUsize,
    succeeded: AtomicBool,
    finished: CancellationToken,
}

/// A connection to use, and how long it took to open if it is new.
pub(crate) struct CheckedOut {
    pub(crate) lease: Lease,
    pub(crate) connect: Option<Duration>,
}

enum Step {
    Use(Lease),
    Join(Arc<Opening>),
    Open(Option<OpeningGuard>),
}

impl Pool {
    pub(crate) fn new(connector: Connector, limits: PoolLimits) -> Arc<Self> {
        Arc::new(Self {
            connector,
            limits,
            slots: Mutex::new(HashMap::new()),
            next_id: AtomicU64::new(1),
            exchanges: Arc::new(AtomicUsize::new(0)),
            sweeping: AtomicBool::new(false),
        })
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(crate) fn limits(&self) -> PoolLimits {
        self.limits
    }

    /// A connection for one request: an idle or shared one, or a new one within `limit`. With `newer_than`, only
    /// connections younger than that one will do.
    pub(crate) async fn check_out(
        self: &Arc<Self>,
        key: &Key,
        newer_than: Option<u64>,
        limit: Duration,
    ) -> Result<CheckedOut, TransportError> {
        let deadline = Instant::now() + limit;
        let mut may_join = true;
        loop {
            match self.next_step(key, newer_than, may_join) {
                Step::Use(lease) => return Ok(CheckedOut { lease, connect: None }),
                Step::Join(opening) => may_join = opening.wait(limit, deadline).await,
                // Boxed, since it is rare and large beside the rest of a request.
                Step::Open(opening) => return Box::pin(self.open(key, opening, deadline)).await,
            }
        }
    }

    /// Open sockets, idle connections, requests in flight.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let mut slots = self.lock();
        let idle = slots.values_mut().map(Slot::count_idle).sum();
        (self.connector.open.load(Ordering::Acquire), idle, self.exchanges.load(Ordering::Acquire))
    }

    fn next_step(self: &Arc<Self>, key: &Key, newer_than: Option<u64>, may_join: bool) -> Step {
        let mut slots = self.lock();
        let slot = slots.entry(key.clone()).or_default();
        if newer_than.is_none()
            && let Some(single) = slot.take_idle(self.limits.idle_timeout)
        {
            return Step::Use(Lease::H1(self.lease_single(key, single)));
        }
        if let Some(shared) = slot.room(self.limits.h2_streams, newer_than) {
            return Step::Use(Lease::H2(self.lease_shared(key, shared)));
        }
        if key.version == HttpVersion::Http1 || slot.http1_only {
            return Step::Open(None);
        }
        if may_join && let Some(opening) = slot.joinable(self.limits.h2_streams) {
            return Step::Join(opening);
        }
        let opening = Arc::new(Opening {
            started: Instant::now(),
            waiting: AtomicUsize::new(1),
            succeeded: AtomicBool::new(false),
            finished: CancellationToken::new(),
        });
        slot.opening.push(Arc::clone(&opening));
        Step::Open(Some(OpeningGuard { pool: Arc::downgrade(self), key: key.clone(), opening }))
    }

    async fn open(
        self: &Arc<Self>,
        key: &Key,
        opening: Option<OpeningGuard>,
        deadline: Instant,
    ) -> Result<CheckedOut, TransportError> {
        let started = Instant::now();
        let left = deadline.saturating_duration_since(started);
        let connecting = self.connector.connect(&key.origin, key.version, left);
        let ready = timeout_at(deadline, connecting)
            .await
            .map_err(|_| TransportError::not_sent(TransportErrorKind::ConnectTimeout))??;
        let lease = match ready {
            Opened::Http1(parts) => {
                if key.version == HttpVersion::Auto {
                    self.lock().entry(key.clone()).or_default().http1_only = true;
                }
                Lease::H1(self.lease_single(key, Single::new(parts)))
            }
            Opened::Http2(parts) => Lease::H2(self.share(key, parts)),
        };
        if let Some(opening) = opening {
            // Those who waited look again only now that the new connection is there to be found.
            opening.opening.succeeded.store(true, Ordering::Release);
        }
        Ok(CheckedOut { lease, connect: Some(started.elapsed()) })
    }

    fn share(self: &Arc<Self>, key: &Key, parts: Http2Parts) -> H2Lease {
        let id = self.next_id.fetch_add(1, Ordering::AcqRel);
        let shared = Arc::new(Shared::with_a_stream(id, parts));
        let mut slots = self.lock();
        let slot = slots.entry(key.clone()).or_default();
        slot.peer_streams = Some(shared.peer_streams());
        slot.http1_only = false;
        slot.shared.push(Arc::clone(&shared));
        drop(slots);
        self.lease_shared(key, shared)
    }

    fn lease_single(self: &Arc<Self>, key: &Key, single: Single) -> H1Lease {
        H1Lease::new(single, self.home(key), Exchange::begin(&self.exchanges))
    }

    fn lease_shared(self: &Arc<Self>, key: &Key, shared: Arc<Shared>) -> H2Lease {
        H2Lease::new(shared, self.home(key), Exchange::begin(&self.exchanges))
    }

    fn home(self: &Arc<Self>, key: &Key) -> Home {
        Home { pool: Arc::downgrade(self), key: key.clone() }
    }

    /// Keeps an HTTP/1.1 connection whose answer was read to its end.
    pub(crate) fn put_back(self: &Arc<Self>, key: &Key, connection: Single) {
        if self.limits.max_idle_per_origin == 0 || connection.is_closed() {
            return;
        }
        let mut slots = self.lock();
        let slot = slots.entry(key.clone()).or_default();
        if slot.idle.len() >= self.limits.max_idle_per_origin {
            slot.idle.remove(0);
        }
        slot.idle.push(Idle { connection, since: Instant::now() });
        drop(slots);
        self.keep_swept();
    }

    /// Closes the HTTP/1.1 connections that have been idle since before this moment.
    pub(crate) fn forget_idle_since_before(&self, key: &Key, moment: Instant) {
        if let Some(slot) = self.lock().get_mut(key) {
            slot.idle.retain(|idle| idle.since >= moment);
        }
    }

    /// Forgets an HTTP/2 connection that must not be used again, and starts the clock of an idle one.
    pub(crate) fn stream_ended(self: &Arc<Self>, key: &Key, shared: &Arc<Shared>) {
        if !shared.is_usable() {
            if let Some(slot) = self.lock().get_mut(key) {
                slot.shared.retain(|other| !Arc::ptr_eq(other, shared));
            }
        } else if shared.is_idle() {
            self.keep_swept();
        }
    }

    /// Closes what is idle for too long, as long as anything is idle.
    pub(crate) fn keep_swept(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let every = (self.limits.idle_timeout / 2).clamp(Duration::from_millis(50), Duration::from_secs(15));
        let Ok(runtime) = Handle::try_current() else {
            // A response dropped outside its runtime, which is then going away with its connections.
            self.sweeping.store(false, Ordering::Release);
            return;
        };
        let pool = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                sleep(every).await;
                let Some(pool) = pool.upgrade() else { return };
                if pool.sweep() {
                    return;
                }
            }
        });
    }

    /// Returns whether the sweeper may rest.
    fn sweep(&self) -> bool {
        let mut slots = self.lock();
        for slot in slots.values_mut() {
            slot.sweep(self.limits.idle_timeout);
        }
        slots.retain(|_, slot| slot.http1_only || !slot.is_empty());
        let rest = slots.values().all(Slot::is_empty);
        if rest {
            // Under the lock, so that whoever adds a connection next starts a new sweeper.
            self.sweeping.store(false, Ordering::Release);
        }
        rest
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The idle connection used last. Closed and aged ones are dropped on the way.
    fn take_idle(&mut self, idle_timeout: Duration) -> Option<Single> {
        while let Some(idle) = self.idle.pop() {
            if idle.since.elapsed() < idle_timeout && idle.connection.is_reusable() {
                return Some(idle.connection);
            }
        }
        None
    }

    /// The first HTTP/2 connection with room, with a stream taken on it.
    fn room(&mut self, cap: usize, newer_than: Option<u64>) -> Option<Arc<Shared>> {
        self.shared.retain(|shared| shared.is_usable());
        let new_enough = |shared: &&Arc<Shared>| newer_than.is_none_or(|id| shared.id() > id);
        self.shared.iter().filter(new_enough).find(|shared| shared.take_stream(cap)).cloned()
    }

    fn joinable(&self, cap: usize) -> Option<Arc<Opening>> {
        let room = self.peer_streams.unwrap_or(cap).min(cap);
        let open = self.opening.iter().find(|opening| {
            opening.waiting.load(Ordering::Acquire) < room && opening.started.elapsed() < JOIN_FOR
        })?;
        open.waiting.fetch_add(1, Ordering::AcqRel);
        Some(Arc::clone(open))
    }

    fn sweep(&mut self, limit: Duration) {
        self.idle.retain(|idle| !idle.connection.is_closed() && idle.since.elapsed() < limit);
        self.shared.retain(|shared| shared.is_usable() && !shared.idle_for(limit));
    }

    fn is_empty(&self) -> bool {
        self.idle.is_empty() && self.shared.is_empty() && self.opening.is_empty()
    }

    fn count_idle(&mut self) -> usize {
        let single = self.idle.iter().filter(|idle| !idle.connection.is_closed()).count();
        let shared = self.shared.iter().filter(|shared| shared.is_usable() && shared.is_idle()).count();
        single + shared
    }
}

impl Opening {
    /// Waits for the connection. If it took too long or failed, the caller had better open its own than wait again.
    async fn wait(&self, limit: Duration, deadline: Instant) -> bool {
        let until = (self.started + JOIN_FOR.min(limit / 4)).min(deadline);
        timeout_at(until, self.finished.cancelled()).await.is_ok() && self.succeeded.load(Ordering::Acquire)
    }
}

/// Wakes those who wait for a connection when it is there, has failed, or was given up.
struct OpeningGuard {
    pool: Weak<Pool>,
    key: Key,
    opening: Arc<Opening>,
}

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade()
            && let Some(slot) = pool.lock().get_mut(&self.key)
        {
            slot.opening.retain(|opening| !Arc::ptr_eq(opening, &self.opening));
        }
        self.opening.finished.cancel();
    }
}
