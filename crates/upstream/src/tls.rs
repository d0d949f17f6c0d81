//! TLS to providers and proxies: rustls with aws-lc-rs, the system's roots, and an extra CA file.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::ClientError;
use crate::error::{TransportError, TransportErrorKind, handshake_kind};
use crate::request::HttpVersion;
use crate::socket::Duplex;

/// One configuration for each set of protocols offered by ALPN (RFC 7301). All share one session cache.
#[derive(Clone)]
pub(crate) struct Tls {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl Tls {
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, ClientError> {
        let roots = roots(ca_file)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(ClientError::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let offering = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(Self {
            any: offering(&[b"h2", b"http/1.1"]),
            http1: offering(&[b"http/1.1"]),
            http2: offering(&[b"h2"]),
        })
    }

    /// Shakes hands with `host`; also tells whether HTTP/2 was agreed on.
    pub(crate) async fn connect(
        &self,
        host: &str,
        version: HttpVersion,
        stream: Box<dyn Duplex>,
    ) -> Result<(TlsStream<Box<dyn Duplex>>, bool), TransportError> {
        let failed = |kind| TransportError::not_sent(kind);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| failed(TransportErrorKind::Tls))?;
        let config = match version {
            HttpVersion::Auto => &self.any,
            HttpVersion::Http1 => &self.http1,
            HttpVersion::Http2 => &self.http2,
        };
        let connecting = TlsConnector::from(Arc::clone(config)).connect(name, stream);
        let tls = connecting.await.map_err(|error| failed(handshake_kind(&error)))?;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((tls, http2))
    }
}

/// The system's roots, or Mozilla's if the system has none (as in a minimal container), and those of `ca_file`.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    let (added, ignored) = roots.add_parsable_certificates(system.certs);
    tracing::debug!(added, ignored, errors = system.errors.len(), "system root certificates loaded");
    if added == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    Ok(roots)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), ClientError> {
    let unreadable = |reason: String| ClientError::CaFile { path: path.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    let mut count = 0usize;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(unreadable("it contains no certificate in PEM form".to_owned()));
    }
    Ok(())
}
