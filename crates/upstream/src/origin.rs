//! Where a provider is: scheme, host and port.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use http::HeaderValue;
use http::uri::{Authority, Uri};
use thiserror::Error;

/// Scheme, host and port of a provider; what connections are pooled by.
#[derive(Clone, Debug)]
pub struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
    authority: Authority,
    host_header: HeaderValue,
}

/// How the bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

/// Why a `base_url` names no origin. The text never repeats credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OriginError {
    /// Not a URL at all.
    #[error("the base URL cannot be read as a URL: write it as https://host[:port][/path]")]
    Malformed,
    /// Neither `http` nor `https`.
    #[error("the base URL must start with http:// or https://")]
    Scheme,
    /// No host.
    #[error("the base URL names no host: write it as https://host[:port][/path]")]
    Host,
    /// `user:password@host`: credentials have their own place in the configuration.
    #[error(
        "the base URL must not contain a user name or password: set the credential of the target instead"
    )]
    Credentials,
    /// A query or fragment, to which no path could be appended.
    #[error("the base URL must not contain a query (`?`) or a fragment (`#`)")]
    QueryOrFragment,
    /// Port 0 or not a number.
    #[error("the port of the base URL must be between 1 and 65535")]
    Port,
}

impl Origin {
    /// Splits a base URL into its origin and its path prefix (`""` or `/v1`, without trailing slash).
    ///
    /// # Errors
    /// [`OriginError`] says what part of the URL cannot be used.
    pub fn parse(base_url: &str) -> Result<(Self, String), OriginError> {
        if base_url.contains(['?', '#']) {
            return Err(OriginError::QueryOrFragment);
        }
        let uri: Uri = base_url.trim().parse().map_err(|_| OriginError::Malformed)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(OriginError::Scheme),
        };
        let authority = uri.authority().ok_or(OriginError::Host)?;
        if authority.as_str().contains('@') {
            return Err(OriginError::Credentials);
        }
        let port = port_of(authority, scheme)?;
        let origin = Self::new(scheme, authority.host(), port)?;
        Ok((origin, uri.path().trim_end_matches('/').to_owned()))
    }

    fn new(scheme: Scheme, host: &str, port: u16) -> Result<Self, OriginError> {
        let host = host.to_ascii_lowercase();
        if host.trim_matches(['[', ']']).is_empty() {
            return Err(OriginError::Host);
        }
        let shown = if port == scheme.default_port() { host.clone() } else { format!("{host}:{port}") };
        let authority = Authority::try_from(shown.as_str()).map_err(|_| OriginError::Host)?;
        let host_header = HeaderValue::try_from(shown).map_err(|_| OriginError::Host)?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self { scheme, host, port, authority, host_header })
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Host name in lower case, or an IP address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port, explicit or the scheme's own.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.scheme == Scheme::Https
    }

    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// What stands in the `host` header, and in `:authority`.
    pub fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }
}

// The other fields follow from these three.
impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        (self.scheme, self.port, &self.host) == (other.scheme, other.port, &other.host)
    }
}

impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.scheme, self.port, &self.host).hash(state);
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.as_str();
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

fn port_of(authority: &Authority, scheme: Scheme) -> Result<u16, OriginError> {
    match authority.port() {
        Some(port) if port.as_u16() == 0 => Err(OriginError::Port),
        Some(port) => Ok(port.as_u16()),
        // `http` keeps a colon that is followed by no valid number as part of the authority.
        None if authority.as_str().len() > authority.host().len() => Err(OriginError::Port),
        None => Ok(scheme.default_port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_splits_into_origin_and_prefix_without_trailing_slash() {
        let (origin, prefix) = Origin::parse("https://API.example.com/v1/").unwrap();
        assert_eq!(origin.to_string(), "https://api.example.com:443");
        assert_eq!(origin.host_header(), "api.example.com");
        assert_eq!(prefix, "/v1");
        let (origin, prefix) = Origin::parse("http://[::1]:8080").unwrap();
        assert_eq!(origin.to_string(), "http://[::1]:8080");
        assert_eq!(origin.host_header(), "[::1]:8080");
        assert_eq!(origin.host(), "::1");
        assert_eq!(prefix, "");
    }

    #[test]
    fn the_port_of_the_scheme_and_the_same_port_written_out_are_one_origin() {
        let (implicit, _) = Origin::parse("http://example.com").unwrap();
        let (explicit, _) = Origin::parse("http://example.com:80/v1").unwrap();
        assert_eq!(implicit, explicit);
    }

    #[test]
    fn urls_that_name_no_usable_origin_are_refused_by_reason() {
        assert_eq!(Origin::parse("ftp://example.com").unwrap_err(), OriginError::Scheme);
        assert_eq!(Origin::parse("example.com").unwrap_err(), OriginError::Scheme);
        assert_eq!(Origin::parse("https://u:secret@example.com").unwrap_err(), OriginError::Credentials);
        assert_eq!(Origin::parse("https://example.com?x=1").unwrap_err(), OriginError::QueryOrFragment);
        assert_eq!(Origin::parse("https://example.com:0").unwrap_err(), OriginError::Port);
        assert_eq!(Origin::parse("https://").unwrap_err(), OriginError::Malformed);
        assert!(Origin::parse("https://example.com:99999").is_err());
    }
}
