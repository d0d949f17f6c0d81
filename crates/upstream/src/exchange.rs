//! One try of one request on one connection, up to the response headers.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::{
    TransportError, TransportErrorKind, TransportPhase, exchange_kind, lost_connection, unprocessed,
};
use crate::lease::{H1Lease, H2Lease, Lease};
use crate::meter::Meter;
use crate::request::{Prepared, RequestForm, SendLimits};
use crate::upload::{Progress, Upload};

/// A failed try, and whether the transport itself may try again.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: TransportError,
    pub(crate) again: Again,
}

/// Whether a failed try may be repeated without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// No.
    No,
    /// The provider cannot have processed it: repeat on a newer connection.
    Unprocessed,
    /// A reused connection was lost before the first byte of an answer: repeat if the request is replay-safe.
    Stale,
}

impl From<TransportError> for Failed {
    fn from(error: TransportError) -> Self {
        Self { error, again: Again::No }
    }
}

type Sent = Result<http::Response<Incoming>, TrySendError<http::Request<Upload>>>;

/// Sends `prepared` on `lease` and waits for the head of the answer.
pub(crate) async fn exchange(
    lease: &mut Lease,
    prepared: &Prepared,
    limits: &SendLimits,
) -> Result<http::Response<Incoming>, Failed> {
    match lease {
        Lease::H1(lease) => pin!(on_http1(lease, prepared, limits)).await,
        Lease::H2(lease) => pin!(on_http2(lease, prepared, limits)).await,
    }
}

async fn on_http1(
    lease: &mut H1Lease,
    prepared: &Prepared,
    limits: &SendLimits,
) -> Result<http::Response<Incoming>, Failed> {
    let reused = lease.reused();
    let (body, progress) = Upload::whole(prepared.body.clone());
    let request = prepared.build(lease.form(), body, lease.proxy_credential())?;
    let outgoing = Outgoing::new(lease.meter(), progress, false);
    let read_before = outgoing.meter.read();
    let response = pin!(lease.try_send(request));
    match race(response, &outgoing, limits).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(refused)) => {
            let unsent = refused.message().is_some() || outgoing.nothing_left();
            let kind = exchange_kind(refused.error());
            let error = TransportError::new(phase(unsent), kind).on_reused(reused);
            let silent = outgoing.meter.read() == read_before;
            // A new connection that is lost at once is the provider's failure; a reused one may just have been stale.
            let again = match (reused, unsent) {
                (true, true) => Again::Unprocessed,
                (true, false) if silent && is_loss(kind) => Again::Stale,
                _ => Again::No,
            };
            Err(Failed { error, again })
        }
        Err(kind) => {
            if reused && outgoing.meter.read() == read_before {
                lease.doubt_those_idle_since_before(outgoing.started);
            }
            let phase = phase(kind != TransportErrorKind::HeadersTimeout && outgoing.nothing_left());
            Err(TransportError::new(phase, kind).on_reused(reused).into())
        }
    }
}

async fn on_http2(
    lease: &mut H2Lease,
    prepared: &Prepared,
    limits: &SendLimits,
) -> Result<http::Response<Incoming>, Failed> {
    let reused = lease.reused();
    let (body, progress) = Upload::framed(prepared.body.clone());
    let request = prepared.build(RequestForm::Http2, body, None)?;
    let outgoing = Outgoing::new(lease.meter(), progress, true);
    let response = pin!(lease.try_send(request));
    match race(response, &outgoing, limits).await {
        Ok(Ok(response)) => {
            lease.answered();
            Ok(response)
        }
        Ok(Err(refused)) => Err(http2_failure(lease, &refused, reused)),
        Err(kind) => {
            // The connection may be dead without a sign (a middlebox dropped it): no new stream may meet the same.
            lease.evict();
            Err(TransportError::new(TransportPhase::Sent, kind).on_reused(reused).into())
        }
    }
}

fn http2_failure(lease: &H2Lease, refused: &TrySendError<http::Request<Upload>>, reused: bool) -> Failed {
    let error = refused.error();
    let kind = exchange_kind(error);
    if unprocessed(error) {
        if lost_connection(error) {
            lease.evict();
        }
        let error = TransportError::not_sent(kind).on_reused(reused);
        return Failed { error, again: Again::Unprocessed };
    }
    let unsent = refused.message().is_some();
    let lost = lost_connection(error);
    if lost || unsent {
        lease.evict();
    }
    let again = match (reused, unsent) {
        (_, true) => Again::Unprocessed,
        (true, false) if lost && is_loss(kind) => Again::Stale,
        _ => Again::No,
    };
    let told = lost && lease.tell_of_loss();
    let error = TransportError::new(phase(unsent), kind).on_reused(reused).already_told(told);
    Failed { error, again }
}

fn is_loss(kind: TransportErrorKind) -> bool {
    matches!(kind, TransportErrorKind::Reset | TransportErrorKind::Closed)
}

fn phase(unsent: bool) -> TransportPhase {
    if unsent { TransportPhase::NotSent } else { TransportPhase::Sent }
}

/// Waits for the response under the write limit while the request goes out, then under the headers limit.
async fn race(
    mut response: Pin<&mut impl Future<Output = Sent>>,
    outgoing: &Outgoing,
    limits: &SendLimits,
) -> Result<Sent, TransportErrorKind> {
    tokio::select! {
        biased;
        sent = &mut response => return Ok(sent),
        () = outgoing.sent() => {}
        () = outgoing.stalled(limits.write) => return Err(TransportErrorKind::WriteStall),
    }
    tokio::select! {
        biased;
        sent = &mut response => Ok(sent),
        () = elapsed(limits.headers) => Err(TransportErrorKind::HeadersTimeout),
        () = outgoing.socket_stalled(limits.write) => Err(TransportErrorKind::WriteStall),
    }
}

async fn elapsed(limit: Option<Duration>) {
    match limit {
        Some(limit) => sleep(limit).await,
        None => pending().await,
    }
}

/// The request on its way out.
struct Outgoing {
    meter: Arc<Meter>,
    progress: Arc<Progress>,
    written_before: u64,
    started: Instant,
    shared_socket: bool,
}

impl Outgoing {
    fn new(meter: Arc<Meter>, progress: Arc<Progress>, shared_socket: bool) -> Self {
        let written_before = meter.written();
        Self { meter, progress, written_before, started: Instant::now(), shared_socket }
    }

    /// Nothing was written to the socket since the request was handed over.
    fn nothing_left(&self) -> bool {
        !self.shared_socket && self.meter.written() == self.written_before
    }

    /// The whole request was taken: by the socket (HTTP/1.1), or by the flow-control windows (HTTP/2).
    async fn sent(&self) {
        self.progress.taken().await;
        if self.shared_socket {
            return;
        }
        while self.meter.flushed() <= self.written_before {
            self.meter.changed().await;
        }
    }

    /// Returns once nothing was taken for `limit`.
    async fn stalled(&self, limit: Duration) {
        let mut last = self.last_progress();
        loop {
            sleep_until(last + limit).await;
            let latest = self.last_progress();
            if latest <= last {
                return;
            }
            last = latest;
        }
    }

    /// Returns once a shared socket took nothing for `limit` although there is something to write: the last frames of
    /// this request may still be queued behind it.
    async fn socket_stalled(&self, limit: Duration) {
        if !self.shared_socket {
            return pending().await;
        }
        let mut mark = Instant::now();
        loop {
            sleep_until(mark + limit).await;
            let wrote = self.meter.last_write();
            if self.meter.blocked() && wrote <= mark {
                return;
            }
            mark = if wrote > mark { wrote } else { Instant::now() };
        }
    }

    fn last_progress(&self) -> Instant {
        let socket = if self.shared_socket { self.started } else { self.meter.last_write() };
        socket.max(self.progress.last_taken()).max(self.started)
    }
}
