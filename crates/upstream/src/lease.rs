//! A connection and the right to one request on it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::HeaderValue;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::DropGuard;

use crate::connect::{Http1Parts, Http2Parts};
use crate::meter::{Meter, Stamp};
use crate::pool::{Key, Pool};
use crate::request::RequestForm;
use crate::socket::{Probe, SocketState};
use crate::upload::Upload;

/// How long a connection whose answer is read may take to finish sending its request before it is given up.
const SETTLE_FOR: Duration = Duration::from_secs(1);

/// A connection on which nothing came for so long may be dead without a sign when a stream on it is given up.
const SILENT_FOR: Duration = Duration::from_secs(1);

type TrySent = Result<http::Response<Incoming>, TrySendError<http::Request<Upload>>>;

/// One request's connection.
pub(crate) enum Lease {
    /// HTTP/1.1: dropping it without [`H1Lease::release`] closes the connection.
    H1(H1Lease),
    /// HTTP/2: dropping it gives the stream back.
    H2(H2Lease),
}

impl Lease {
    pub(crate) fn reused(&self) -> bool {
        match self {
            Self::H1(lease) => lease.reused(),
            Self::H2(lease) => lease.reused(),
        }
    }

    /// What a repetition's connection must be newer than.
    pub(crate) fn id(&self) -> u64 {
        match self {
            // A repetition on HTTP/1.1 always opens a connection: all idle ones may be as stale.
            Self::H1(_) => 0,
            Self::H2(lease) => lease.shared.id,
        }
    }
}

/// Counts a request as in flight for as long as it lives.
#[derive(Debug)]
pub(crate) struct Exchange(Arc<AtomicUsize>);

impl Exchange {
    pub(crate) fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where a connection goes back to.
pub(crate) struct Home {
    pub(crate) pool: Weak<Pool>,
    pub(crate) key: Key,
}

impl Home {
    fn put_back(&self, single: Single) {
        if let Some(pool) = self.pool.upgrade() {
            pool.put_back(&self.key, single);
        }
    }
}

/// An HTTP/1.1 connection. Its socket closes when this is dropped.
pub(crate) struct Single {
    sender: http1::SendRequest<Upload>,
    meter: Arc<Meter>,
    probe: Probe,
    form: RequestForm,
    proxy_credential: Option<HeaderValue>,
    /// An answer was read to its end on it.
    served: bool,
    _driver: Driver,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Single {
    pub(crate) fn new(parts: Http1Parts) -> Self {
        let Http1Parts { sender, driver, meter, probe, form, proxy_credential } = parts;
        Self { sender, meter, probe, form, proxy_credential, served: false, _driver: Driver(driver) }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Ready, and the socket is silent: whatever an idle HTTP/1.1 connection has to say is its end.
    pub(crate) fn is_reusable(&self) -> bool {
        self.is_ready() && self.probe.state() == SocketState::Quiet
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

/// An HTTP/1.1 connection in use.
pub(crate) struct H1Lease {
    single: Single,
    home: Home,
    _exchange: Exchange,
}

impl H1Lease {
    pub(crate) fn new(single: Single, home: Home, exchange: Exchange) -> Self {
        Self { single, home, _exchange: exchange }
    }

    pub(crate) fn reused(&self) -> bool {
        self.single.served
    }

    pub(crate) fn form(&self) -> RequestForm {
        self.single.form
    }

    pub(crate) fn proxy_credential(&self) -> Option<&HeaderValue> {
        self.single.proxy_credential.as_ref()
    }

    pub(crate) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.single.meter)
    }

    pub(crate) fn try_send(
        &mut self,
        request: http::Request<Upload>,
    ) -> impl Future<Output = TrySent> + use<> {
        self.single.sender.try_send_request(request)
    }

    /// Nothing came on this connection, which was kept, since `moment`: those that have been idle since before it may have
    /// vanished as well (a middlebox forgot them), and no other request shall wait to find out.
    pub(crate) fn doubt_those_idle_since_before(&self, moment: Instant) {
        if let Some(pool) = self.home.pool.upgrade() {
            pool.forget_idle_since_before(&self.home.key, moment);
        }
    }

    /// Gives the connection back after an answer that was read to its end.
    pub(crate) fn release(self) {
        let Self { mut single, home, .. } = self;
        single.served = true;
        if single.is_ready() {
            home.put_back(single);
        } else if !single.is_closed()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                if let Ok(Ok(())) = timeout(SETTLE_FOR, single.sender.ready()).await {
                    home.put_back(single);
                }
            });
        }
    }
}

/// An HTTP/2 connection. Its socket closes when this is dropped: the pool and every lease hold a share.
pub(crate) struct Shared {
    id: u64,
    sender: http2::SendRequest<Upload>,
    meter: Arc<Meter>,
    probe: Probe,
    streams: AtomicUsize,
    peer_streams: Arc<AtomicUsize>,
    /// A response came on it, so that its loss may be staleness.
    answered: AtomicBool,
    evicted: AtomicBool,
    /// A request has told of its loss.
    loss_told: AtomicBool,
    idle_since: Stamp,
    _stop: DropGuard,
}

impl Shared {
    /// A new connection with its first stream already taken.
    pub(crate) fn with_a_stream(id: u64, parts: Http2Parts) -> Self {
        let Http2Parts { sender, stop, meter, probe, peer_streams } = parts;
        Self {
            id,
            peer_streams,
            sender,
            meter,
            probe,
            streams: AtomicUsize::new(1),
            answered: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            loss_told: AtomicBool::new(false),
            idle_since: Stamp::now(),
            _stop: stop,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// How many streams the peer allows now.
    pub(crate) fn peer_streams(&self) -> usize {
        self.peer_streams.load(Ordering::Acquire)
    }

    /// Takes a stream if the peer and `cap` allow one more. Called under the pool's lock only.
    pub(crate) fn take_stream(&self, cap: usize) -> bool {
        // Only an idle connection can have ended without its driver having had a reason to look.
        if self.is_idle() && self.probe.state() == SocketState::Ended {
            return false;
        }
        let room = self.streams.load(Ordering::Acquire) < self.peer_streams().min(cap.max(1));
        if room {
            self.streams.fetch_add(1, Ordering::AcqRel);
        }
        room
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.evicted.load(Ordering::Acquire) && !self.sender.is_closed()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.streams.load(Ordering::Acquire) == 0
    }

    pub(crate) fn idle_for(&self, limit: Duration) -> bool {
        self.is_idle() && self.idle_since.last().elapsed() >= limit
    }
}

/// One stream of an HTTP/2 connection.
pub(crate) struct H2Lease {
    shared: Arc<Shared>,
    reused: bool,
    home: Home,
    _exchange: Exchange,
}

impl H2Lease {
    /// `shared` has the stream already counted.
    pub(crate) fn new(shared: Arc<Shared>, home: Home, exchange: Exchange) -> Self {
        let reused = shared.answered.load(Ordering::Acquire);
        Self { shared, reused, home, _exchange: exchange }
    }

    pub(crate) fn reused(&self) -> bool {
        self.reused
    }

    pub(crate) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.shared.meter)
    }

    pub(crate) fn try_send(&self, request: http::Request<Upload>) -> impl Future<Output = TrySent> + use<> {
        self.shared.sender.clone().try_send_request(request)
    }

    /// A response head came.
    pub(crate) fn answered(&self) {
        self.shared.answered.store(true, Ordering::Release);
    }

    /// Its connection is lost. Answers whether another of its requests has told so before.
    pub(crate) fn tell_of_loss(&self) -> bool {
        self.shared.loss_told.swap(true, Ordering::AcqRel)
    }

    /// Nothing at all has come on the connection for a while.
    pub(crate) fn is_silent(&self) -> bool {
        self.shared.meter.last_read().elapsed() >= SILENT_FOR
    }

    /// Gives the connection no new streams. It closes with its last one.
    pub(crate) fn evict(&self) {
        self.shared.evicted.store(true, Ordering::Release);
    }
}

impl Drop for H2Lease {
    fn drop(&mut self) {
        self.shared.idle_since.touch();
        self.shared.streams.fetch_sub(1, Ordering::AcqRel);
        if let Some(pool) = self.home.pool.upgrade() {
            pool.stream_ended(&self.home.key, &self.shared);
        }
    }
}
