//! One immutable snapshot of the configuration, ready to serve: requests in flight keep the one that they began with.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use pointsman_config::{Config, Credential, HttpPreference, Key};
use pointsman_core::fleet::{Bindings, Fleet};
use pointsman_core::target::TargetIndex;
use pointsman_upstream::{HttpVersion, Origin};
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::provider::{self, Provider, UrlRule};
use secrecy::ExposeSecret;

use crate::aws::AwsAuth;

/// See the module.
#[derive(Debug)]
pub struct Snapshot {
    /// The configuration as it was resolved.
    pub config: Config,
    pub(crate) bindings: Bindings,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) keys: HashMap<[u8; 32], Arc<Key>>,
}

/// How to reach one target.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) origin: Arc<Origin>,
    pub(crate) path: Path,
    pub(crate) provider: &'static Provider,
    pub(crate) auth: Auth,
    /// What the provider wants in every call that the client does not say itself.
    pub(crate) required_headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) http: HttpVersion,
    pub(crate) ca_file: Option<PathBuf>,
}

/// The path of a call, which at Azure names the deployment and at Google the model.
#[derive(Debug)]
pub(crate) enum Path {
    /// One for each dialect that the provider speaks, and for each other endpoint that it has.
    Fixed(Vec<(Dialect, String)>, Vec<(Endpoint, String)>),
    Azure {
        base_url: String,
        api_version: String,
    },
    OfModel {
        base_url: String,
    },
}

/// The credential of a target, made ready as a header.
#[derive(Debug)]
pub(crate) enum Auth {
    None,
    Caller,
    Header(HeaderName, HeaderValue),
    /// Requests are signed.
    Aws(Arc<AwsAuth>),
}

/// Why a configuration that is valid in itself cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The base URL is none.
    #[error("target '{target}': {reason}")]
    Target {
        /// Which target.
        target: String,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl Snapshot {
    /// Makes a snapshot; domains of targets that stayed the same keep their health.
    ///
    /// # Errors
    /// [`SnapshotError`] if a target's address or credential cannot be used in HTTP.
    pub fn build(mut config: Config, fleet: &mut Fleet) -> Result<Self, SnapshotError> {
        for target in &mut config.catalog.targets {
            let dialects = &target.dialects;
            let spoken = |endpoint: &Endpoint| match endpoint.dialect() {
                Some(dialect) => dialects.is_empty() || dialects.iter().any(|own| own == dialect.name()),
                None => true,
            };
            target.serves = provider::provider(&target.provider).map(|provider| {
                let all = Endpoint::OTHERS.into_iter().filter(|e| provider.has(*e)).filter(spoken);
                all.filter_map(Endpoint::name).collect()
            });
        }
        let targets = config.catalog.targets.iter().zip(&config.upstreams);
        let upstreams = targets
            .map(|(target, upstream)| {
                let model = target.upstream_model.as_deref().or(target.model.as_deref()).unwrap_or_default();
                Upstream::build(upstream, model)
                    .map_err(|reason| SnapshotError::Target { target: target.name.clone(), reason })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let keys = config.keys.iter().map(|key| (key.hash, Arc::new(key.clone()))).collect();
        let bindings = fleet.bind(&config.catalog);
        fleet.policy = config.process.clone();
        Ok(Self { config, bindings, upstreams, keys })
    }

    pub(crate) fn upstream(&self, index: TargetIndex) -> Option<&Upstream> {
        self.upstreams.get(index.0)
    }

    pub(crate) fn target_name(&self, index: TargetIndex) -> &str {
        self.config.catalog.target(index).map_or("", |t| t.name.as_str())
    }
}

impl Upstream {
    fn build(from: &pointsman_config::Upstream, model: &str) -> Result<Self, String> {
        let provider = provider::provider(&from.provider)
            .ok_or_else(|| format!("nothing is known of a provider '{}'", from.provider))?;
        let (origin, _) = Origin::parse(&from.base_url).map_err(|e| e.to_string())?;
        let path = match &from.azure {
            Some(azure) => {
                Path::Azure { base_url: from.base_url.clone(), api_version: azure.api_version.clone() }
            }
            None if matches!(provider.url, UrlRule::Gemini { .. } | UrlRule::Bedrock) => {
                for dialect in provider.dialects {
                    path_of(provider, *dialect, &from.base_url, model, None)?;
                }
                Path::OfModel { base_url: from.base_url.clone() }
            }
            None => {
                let spoken = Dialect::ALL.into_iter().filter(|d| provider.speaks(*d));
                let paths = spoken.map(|d| Ok((d, path_of(provider, d, &from.base_url, model, None)?)));
                let paths = paths.collect::<Result<_, String>>()?;
                let others = Endpoint::OTHERS.into_iter().filter(|e| provider.has(*e));
                let others = others.map(|e| Ok((e, path_to(provider, e, &from.base_url, model, None)?)));
                Path::Fixed(paths, others.collect::<Result<_, String>>()?)
            }
        };
        let auth = match &from.credential {
            Credential::None => Auth::None,
            Credential::Caller => Auth::Caller,
            Credential::Aws(aws) => {
                let service = provider.signs_for.ok_or("its requests are not signed: write `api_key`")?;
                Auth::Aws(Arc::new(AwsAuth::new(aws.region.clone(), service, &aws.source)))
            }
            Credential::Secret(secret) => {
                let (name, value) = credential_header(provider, secret.expose_secret())
                    .ok_or("its api_key holds characters that an HTTP header cannot carry")?;
                Auth::Header(name, value)
            }
        };
        let http = match from.http {
            HttpPreference::Auto => HttpVersion::Auto,
            HttpPreference::One => HttpVersion::Http1,
            HttpPreference::Two => HttpVersion::Http2,
        };
        let required = provider.required_headers.iter().copied();
        let required_headers = required
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let ca_file = from.ca_file.clone();
        Ok(Self { origin: Arc::new(origin), path, provider, auth, required_headers, http, ca_file })
    }

    /// Whether the account is the caller's own.
    pub(crate) fn is_callers(&self) -> bool {
        matches!(self.auth, Auth::Caller)
    }

    /// The path and query of a call to this endpoint, if it is a conversation in this dialect, for this upstream model.
    pub(crate) fn path(&self, endpoint: Endpoint, dialect: Dialect, upstream_model: &str) -> Option<String> {
        match (&self.path, endpoint) {
            (Path::Fixed(paths, _), Endpoint::Generation) => {
                paths.iter().find(|(d, _)| *d == dialect).map(|(_, path)| path.clone())
            }
            (Path::Fixed(_, others), _) => {
                others.iter().find(|(e, _)| *e == endpoint).map(|(_, path)| path.clone())
            }
            (Path::Azure { base_url, api_version }, Endpoint::Generation) => {
                path_of(self.provider, dialect, base_url, upstream_model, Some(api_version)).ok()
            }
            (Path::Azure { base_url, api_version }, _) => {
                path_to(self.provider, endpoint, base_url, upstream_model, Some(api_version)).ok()
            }
            (Path::OfModel { base_url }, Endpoint::Generation) => {
                path_of(self.provider, dialect, base_url, upstream_model, None).ok()
            }
            (Path::OfModel { base_url }, _) => {
                path_to(self.provider, endpoint, base_url, upstream_model, None).ok()
            }
        }
    }
}

/// The header that carries a credential at this provider, marked so that it is never printed or indexed.
pub(crate) fn credential_header(provider: &Provider, secret: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_static(provider.auth.header());
    let mut value = HeaderValue::try_from(format!("{}{secret}", provider.auth.prefix())).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

fn path_of(
    provider: &Provider,
    dialect: Dialect,
    base_url: &str,
    upstream_model: &str,
    api_version: Option<&str>,
) -> Result<String, String> {
    let url =
        provider.url(dialect, Some(base_url), upstream_model, api_version).map_err(|e| e.to_string())?;
    path_in(url, base_url)
}

fn path_to(
    provider: &Provider,
    endpoint: Endpoint,
    base_url: &str,
    upstream_model: &str,
    api_version: Option<&str>,
) -> Result<String, String> {
    let url = provider.endpoint_url(endpoint, Some(base_url), upstream_model, api_version);
    path_in(url.map_err(|e| e.to_string())?, base_url)
}

fn path_in(url: String, base_url: &str) -> Result<String, String> {
    let uri = http::Uri::try_from(url).map_err(|_| format!("'{base_url}' is not a usable URL"))?;
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    Ok(path.to_owned())
}
