//! Tunnels through proxies: HTTP CONNECT (RFC 9110, section 9.3.6), SOCKS 4 and 5 (RFC 1928).

use std::future::Ready;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use tower_service::Service;

use crate::error::{TransportError, TransportErrorKind};
use crate::origin::Origin;
use crate::proxy::{Proxy, Socks};
use crate::socket::Duplex;

/// Opens a tunnel to `origin` on `stream`, which leads to `proxy`. `resolved` are the addresses of the origin, if the
/// proxy wants one instead of a name.
pub(crate) async fn open(
    proxy: &Proxy,
    origin: &Origin,
    resolved: Option<&[SocketAddr]>,
    stream: Box<dyn Duplex>,
) -> Result<Box<dyn Duplex>, TransportError> {
    let stream = Given(Some(TokioIo::new(stream)));
    let at = proxy.uri().clone();
    let to = destination(proxy, origin, resolved)?;
    let opened = match proxy.socks() {
        None => {
            let mut tunnel = Tunnel::new(at, stream);
            if let Some(credential) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credential.clone());
            }
            tunnel.call(to).await.map_err(|_| refused())
        }
        Some(Socks::V4) => SocksV4::new(at, stream).local_dns(false).call(to).await.map_err(|_| refused()),
        Some(Socks::V5) => {
            let mut socks = SocksV5::new(at, stream).local_dns(false);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            socks.call(to).await.map_err(|_| refused())
        }
    };
    opened.map(TokioIo::into_inner)
}

fn destination(
    proxy: &Proxy,
    origin: &Origin,
    resolved: Option<&[SocketAddr]>,
) -> Result<Uri, TransportError> {
    let Some(addresses) = resolved else {
        return origin.to_string().parse().map_err(|_| refused());
    };
    // SOCKS 4 knows IPv4 only.
    let usable = |address: &&SocketAddr| proxy.socks() != Some(Socks::V4) || address.is_ipv4();
    let address = addresses.iter().find(usable);
    let address = address.ok_or_else(|| TransportError::not_sent(TransportErrorKind::Dns))?;
    format!("{}://{address}", origin.scheme().as_str()).parse().map_err(|_| refused())
}

fn refused() -> TransportError {
    TransportError::not_sent(TransportErrorKind::Handshake)
}

/// hyper-util's tunnels want a connector; this one hands out the stream that is already there.
struct Given(Option<TokioIo<Box<dyn Duplex>>>);

impl Service<Uri> for Given {
    type Response = TokioIo<Box<dyn Duplex>>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _proxy: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}
