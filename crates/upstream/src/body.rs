//! The body of a response, read chunk by chunk as the provider sends it.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::error::{TransportError, TransportPhase, exchange_kind, lost_connection};
use crate::lease::Lease;

/// The body of a response.
///
/// Nothing is buffered beyond one read: while nobody calls [`Body::chunk`], the provider is held up by flow control.
/// Dropping it before its end closes the HTTP/1.1 connection, or resets the HTTP/2 stream.
pub struct Body {
    // Field order is drop order: an HTTP/2 stream is reset before its connection may go.
    incoming: Option<Incoming>,
    lease: Option<Lease>,
    reused: bool,
}

impl Body {
    pub(crate) fn new(incoming: Incoming, lease: Lease) -> Self {
        let reused = lease.reused();
        let mut body = Self { incoming: Some(incoming), lease: Some(lease), reused };
        body.release_at_end();
        body
    }

    /// The next piece as it came, `None` at the clean end. After an error or the end it stays `None`.
    ///
    /// Cancel-safe: dropping the future loses no bytes.
    ///
    /// # Errors
    /// [`TransportError`] of phase [`Headers`](TransportPhase::Headers) if the body breaks, which includes one that
    /// ends before its `content-length` or without its last chunk.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, TransportError>> {
        loop {
            let frame = self.incoming.as_mut()?.frame().await;
            match frame {
                Some(Ok(frame)) => {
                    self.release_at_end();
                    match frame.into_data() {
                        Ok(data) if !data.is_empty() => return Some(Ok(data)),
                        // Trailers and empty frames.
                        _ => {}
                    }
                }
                Some(Err(error)) => {
                    self.incoming = None;
                    let told = match self.lease.take() {
                        Some(Lease::H2(lease)) => lost_connection(&error) && lease.tell_of_loss(),
                        _ => false,
                    };
                    let error = TransportError::new(TransportPhase::Headers, exchange_kind(&error));
                    return Some(Err(error.on_reused(self.reused).already_told(told)));
                }
                None => {
                    self.release();
                    return None;
                }
            }
        }
    }

    /// Reads on to the end so that the connection can be used again, for at most `limit` of time and `max_bytes`;
    /// beyond either the connection closes as if the body was dropped. For a reader that has all it needs, such as
    /// one that saw the last event of a stream.
    pub async fn drain(mut self, limit: Duration, max_bytes: usize) {
        let reading = async {
            let mut seen = 0usize;
            while let Some(Ok(data)) = self.chunk().await {
                seen = seen.saturating_add(data.len());
                if seen > max_bytes {
                    return;
                }
            }
        };
        if timeout(limit, pin!(reading)).await.is_err() {
            tracing::debug!("a response body did not end in time to keep its connection");
        }
    }

    fn release_at_end(&mut self) {
        if self.incoming.as_ref().is_some_and(http_body::Body::is_end_stream) {
            self.release();
        }
    }

    fn release(&mut self) {
        self.incoming = None;
        if let Some(Lease::H1(lease)) = self.lease.take() {
            lease.release();
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // Whoever gives up a stream after a long silence may have waited for a peer that vanished: no new stream may
        // meet the same. If it was only slow, that costs a handshake.
        if let (Some(_), Some(Lease::H2(lease))) = (&self.incoming, &self.lease)
            && lease.is_silent()
        {
            lease.evict();
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("ended", &self.incoming.is_none()).finish_non_exhaustive()
    }
}
