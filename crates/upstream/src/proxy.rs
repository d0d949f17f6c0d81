//! Which origins are reached through a proxy, by the environment variables that curl and most tools read.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::origin::Origin;

/// Rules that say which origins are reached through which proxy.
///
/// Loopback, link-local and private addresses, and `localhost`, are reached directly: a self-hosted model server is
/// rarely behind the proxy that leads to the internet. [`ProxyConfig::also_for`] names those that are. A host name that
/// resolves to such an address is not looked up here: list it in `NO_PROXY`.
#[derive(Clone, Default)]
pub struct ProxyConfig {
    matcher: Option<Arc<Matcher>>,
    named: Arc<[String]>,
}

/// A proxy that serves one origin.
#[derive(Clone)]
pub(crate) struct Proxy {
    intercept: Intercept,
}

/// Version of the SOCKS protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socks {
    V4,
    V5,
}

impl ProxyConfig {
    /// No proxy for anything.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, each in upper or lower case. `HTTP_PROXY` in upper
    /// case is ignored if `REQUEST_METHOD` is set, since a CGI client could then forge it.
    #[must_use]
    pub fn from_env() -> Self {
        let under_cgi = std::env::var_os("REQUEST_METHOD").is_some();
        Self::from_vars(|name| match name {
            "HTTP_PROXY" if under_cgi => None,
            _ => std::env::var(name).ok(),
        })
    }

    /// Like [`ProxyConfig::from_env`], from any source of variables.
    #[must_use]
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Self {
        let either = |upper: &str| {
            let lower = upper.to_ascii_lowercase();
            let found = var(upper).filter(|value| !value.is_empty()).or_else(|| var(&lower));
            found.unwrap_or_default().trim().to_owned()
        };
        let (all, http, https) = (either("ALL_PROXY"), either("HTTP_PROXY"), either("HTTPS_PROXY"));
        if all.is_empty() && http.is_empty() && https.is_empty() {
            return Self::none();
        }
        let rules = || Matcher::builder().all(all.as_str()).http(http.as_str()).https(https.as_str());
        warn_of_unusable(&rules().build(), [("http", &http, &all), ("https", &https, &all)]);
        let matcher = rules().no(either("NO_PROXY")).build();
        Self { matcher: Some(Arc::new(matcher)), named: Arc::default() }
    }

    /// Sends these hosts (names or addresses, without port) through the proxy although they are local.
    #[must_use]
    pub fn also_for(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.named = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        self
    }

    pub(crate) fn proxy_for(&self, origin: &Origin) -> Option<Proxy> {
        let matcher = self.matcher.as_ref()?;
        let named = self.named.iter().any(|name| name == origin.host());
        if !named && is_local(origin) {
            return None;
        }
        let uri = origin.to_string().parse::<Uri>().ok()?;
        matcher.intercept(&uri).map(|intercept| Proxy { intercept })
    }
}

impl fmt::Debug for ProxyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Proxy URLs hold credentials.
        f.debug_struct("ProxyConfig").field("set", &self.matcher.is_some()).finish_non_exhaustive()
    }
}

impl Proxy {
    pub(crate) fn uri(&self) -> &Uri {
        self.intercept.uri()
    }

    pub(crate) fn host(&self) -> &str {
        self.uri().host().unwrap_or_default().trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        let default = match self.uri().scheme_str() {
            Some("https") => 443,
            Some("http") => 80,
            _ => 1080,
        };
        self.uri().port_u16().unwrap_or(default)
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.uri().scheme_str() == Some("https")
    }

    pub(crate) fn socks(&self) -> Option<Socks> {
        match self.uri().scheme_str() {
            Some("socks4" | "socks4a") => Some(Socks::V4),
            Some("socks5" | "socks5h") => Some(Socks::V5),
            _ => None,
        }
    }

    /// Whether the name of the origin is looked up here (`socks4`, `socks5`) and not by the proxy (`socks4a`, `socks5h`).
    pub(crate) fn resolves_here(&self) -> bool {
        matches!(self.uri().scheme_str(), Some("socks4" | "socks5"))
    }

    pub(crate) fn basic_auth(&self) -> Option<&HeaderValue> {
        self.intercept.basic_auth()
    }

    pub(crate) fn raw_auth(&self) -> Option<(&str, &str)> {
        self.intercept.raw_auth()
    }
}

/// A proxy URL that cannot be used is ignored, as by other tools, but not in silence. Its text may hold a password.
fn warn_of_unusable(rules: &Matcher, set: [(&str, &String, &String); 2]) {
    for (scheme, own, for_all) in set {
        let wanted = !own.is_empty() || !for_all.is_empty();
        let found = Uri::try_from(format!("{scheme}://proxied.invalid")).map(|uri| rules.intercept(&uri));
        if wanted && matches!(found, Ok(None)) {
            tracing::warn!(
                scheme,
                "the proxy set in the environment is not a usable URL: connecting directly"
            );
        }
    }
}

fn is_local(origin: &Origin) -> bool {
    match origin.ip() {
        Some(ip) => is_local_address(ip),
        None => origin.host() == "localhost" || origin.host().ends_with(".localhost"),
    }
}

fn is_local_address(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_unspecified()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(vars: &[(&str, &str)]) -> ProxyConfig {
        let find =
            |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        ProxyConfig::from_vars(find)
    }

    fn proxied(rules: &ProxyConfig, url: &str) -> Option<String> {
        let (origin, _) = Origin::parse(url).unwrap();
        rules.proxy_for(&origin).map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
    }

    #[track_caller]
    fn check(rules: &ProxyConfig, url: &str, expected: Option<&str>) {
        assert_eq!(proxied(rules, url).as_deref(), expected, "{url}");
    }

    #[test]
    fn loopback_link_local_and_private_addresses_are_never_proxied() {
        // RFC 1918, RFC 3927, RFC 4193, RFC 4291.
        let rules = rules(&[("ALL_PROXY", "http://proxy.test:3128")]);
        for local in [
            "http://127.0.0.1:11434",
            "http://127.8.9.1",
            "http://localhost:8000",
            "http://gpu.localhost",
            "http://[::1]:8000",
            "http://[::ffff:127.0.0.1]",
            "http://10.1.2.3",
            "http://172.16.0.1",
            "http://172.31.255.254",
            "https://192.168.1.1",
            "http://169.254.169.254",
            "http://[fd00::1]",
            "http://[fe80::1]",
        ] {
            check(&rules, local, None);
        }
        for public in ["http://172.32.0.1", "https://8.8.8.8", "http://[2001:db8::1]", "https://api.test"] {
            check(&rules, public, Some("proxy.test:3128"));
        }
    }

    #[test]
    fn a_local_host_that_is_named_is_proxied() {
        let rules = rules(&[("HTTP_PROXY", "http://proxy.test")]);
        let rules = rules.also_for(["10.1.2.3".to_owned(), "LocalHost".to_owned()]);
        check(&rules, "http://10.1.2.3:8000", Some("proxy.test:80"));
        check(&rules, "http://localhost:8000", Some("proxy.test:80"));
        check(&rules, "http://10.1.2.4:8000", None);
    }

    #[test]
    fn no_proxy_names_hosts_with_their_subdomains_and_networks() {
        let all = ("all_proxy", "proxy.test:3128");
        let some = rules(&[all, ("no_proxy", "api.test, 203.0.113.0/24")]);
        check(&some, "https://api.test", None);
        check(&some, "https://eu.api.test", None);
        check(&some, "https://notapi.test", Some("proxy.test:3128"));
        check(&some, "http://203.0.113.9", None);
        check(&rules(&[all, ("NO_PROXY", "*")]), "https://api.test", None);
    }

    #[test]
    fn each_scheme_has_its_variable_before_the_one_for_all_and_either_case_is_read() {
        let rules = rules(&[
            ("http_proxy", "http://plain.test:1"),
            ("HTTPS_PROXY", "https://secure.test"),
            ("ALL_PROXY", "socks5://all.test"),
        ]);
        check(&rules, "http://api.test", Some("plain.test:1"));
        check(&rules, "https://api.test", Some("secure.test:443"));
        let rules = self::rules(&[("HTTP_PROXY", ""), ("ALL_PROXY", "socks5://all.test")]);
        check(&rules, "http://api.test", Some("all.test:1080"));
        check(&self::rules(&[]), "https://api.test", None);
    }
}
