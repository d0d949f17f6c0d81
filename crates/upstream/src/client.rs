//! The client: what the rest of the gateway calls.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::HeaderValue;
use thiserror::Error;

use crate::body::Body;
use crate::connect::Connector;
use crate::error::TransportError;
use crate::exchange::{Again, exchange};
use crate::pool::{Key, Pool, PoolLimits};
use crate::proxy::ProxyConfig;
use crate::request::{Prepared, Request, Response, SendLimits, Timing};
use crate::resolve::Resolver;
use crate::tls::Tls;

/// How often one request is repeated because its provider declared that it did not process it. A provider that
/// refuses each stream is overloaded, and the caller must hear of it.
const MAX_UNPROCESSED: u32 = 3;

/// What a [`Client`] is made from.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Certificates in PEM form to trust besides the system's own.
    pub ca_file: Option<PathBuf>,
    /// Which origins are reached through a proxy.
    pub proxy: ProxyConfig,
    /// Idle HTTP/1.1 connections kept per origin; the oldest goes first.
    pub max_idle_per_origin: usize,
    /// A connection that served nothing for this long is closed.
    pub idle_timeout: Duration,
    /// Streams on one HTTP/2 connection before another is opened (fewer if the peer says so). All streams of a
    /// connection die with it, so this is also how many one lost connection can hurt.
    pub h2_streams_per_connection: usize,
    /// `user-agent` of requests that bring none.
    pub user_agent: String,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            ca_file: None,
            proxy: ProxyConfig::none(),
            max_idle_per_origin: 128,
            idle_timeout: Duration::from_secs(60),
            h2_streams_per_connection: 32,
            user_agent: concat!("pointsman/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Why a client cannot be made.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The extra CA file cannot be used.
    #[error("the CA file {} cannot be used ({reason}): give a file of certificates in PEM form", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] rustls::Error),
    /// The user agent is no header value.
    #[error("the user agent contains characters that a header cannot hold")]
    UserAgent,
}

/// What a client holds at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Open sockets, those still shaking hands included.
    pub open: usize,
    /// Connections that serve nothing and are kept for the next request.
    pub idle: usize,
    /// Connections that serve a request, shake hands or are closing: `open - idle`.
    pub in_use: usize,
    /// Requests from the choice of a connection to the end (or drop) of their response body.
    pub requests: usize,
}

/// A pooled HTTP client. Clones share one pool.
///
/// A client spawns its connections on the runtime that calls it: give each runtime its own
/// ([`Client::with_own_pool`]), since a connection dies with the runtime that drives it.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    user_agent: HeaderValue,
}

impl Client {
    /// Loads certificates and makes an empty pool. Blocks briefly on files.
    ///
    /// # Errors
    /// [`ClientError`] if the CA file or the user agent cannot be used.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        Self::with_addresses(config, HashMap::new())
    }

    /// Like [`Client::new`], but the host names in `addresses` are not looked up in DNS (as with curl's `--resolve`).
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with_addresses(
        config: ClientConfig,
        addresses: HashMap<String, Vec<IpAddr>>,
    ) -> Result<Self, ClientError> {
        let user_agent = HeaderValue::try_from(config.user_agent).map_err(|_| ClientError::UserAgent)?;
        let limits = PoolLimits {
            max_idle_per_origin: config.max_idle_per_origin,
            idle_timeout: config.idle_timeout,
            h2_streams: config.h2_streams_per_connection.max(1),
        };
        let connector = Connector {
            tls: Tls::new(config.ca_file.as_deref())?,
            proxy: config.proxy,
            resolver: Resolver::new(addresses),
            open: Arc::new(AtomicUsize::new(0)),
            h2_streams: limits.h2_streams,
        };
        Ok(Self { pool: Pool::new(connector, limits), user_agent })
    }

    /// A client with the same settings, certificates and TLS sessions, and a pool of its own, for another runtime.
    #[must_use]
    pub fn with_own_pool(&self) -> Self {
        let connector = self.pool.connector().with_own_count();
        Self { pool: Pool::new(connector, self.pool.limits()), user_agent: self.user_agent.clone() }
    }

    /// Sends one request and waits for the head of its answer, whatever its status.
    ///
    /// Dropping the future closes the HTTP/1.1 connection at once, or resets the HTTP/2 stream.
    ///
    /// # Errors
    /// [`TransportError`] if no whole response head came.
    pub async fn send(&self, request: Request, limits: &SendLimits) -> Result<Response, TransportError> {
        let limits = &limits.bounded();
        let key = Key::new(Arc::clone(&request.origin), request.http);
        let mut may_replay = request.replay_on_stale;
        let prepared = Prepared::new(request, &self.user_agent)?;
        let mut unprocessed_left = MAX_UNPROCESSED;
        let mut newer_than = None;
        loop {
            let out = self.pool.check_out(&key, newer_than, limits.connect).await?;
            let mut lease = out.lease;
            // Pinned where it is made: it is large, and moved whole otherwise.
            let exchanged = {
                let exchange = pin!(exchange(&mut lease, &prepared, limits));
                exchange.await
            };
            let failed = match exchanged {
                Ok(response) => {
                    let stale_replaced = newer_than.is_some();
                    let timing = Timing { reused: lease.reused(), connect: out.connect, stale_replaced };
                    let (head, incoming) = response.into_parts();
                    let body = Body::new(incoming, lease);
                    return Ok(Response { status: head.status, headers: head.headers, body, timing });
                }
                Err(failed) => failed,
            };
            let allowed = match failed.again {
                Again::No => false,
                Again::Stale => std::mem::take(&mut may_replay),
                Again::Unprocessed => {
                    let left = unprocessed_left;
                    unprocessed_left = left.saturating_sub(1);
                    left > 0
                }
            };
            if !allowed {
                return Err(failed.error);
            }
            newer_than = Some(lease.id());
        }
    }

    /// What is open, idle and in use now.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let (open, idle, requests) = self.pool.counts();
        let idle = idle.min(open);
        PoolStats { open, idle, in_use: open - idle, requests }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
