//! Who is calling: the gateway key, and credentials that the caller brought for providers.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use pointsman_config::{Auth, Key};
use secrecy::SecretString;

use crate::fail::ApiError;
use crate::names;
use crate::snapshot::Snapshot;

/// A longer one is no key of ours, and is not even hashed.
const LONGEST_KEY: usize = 1_024;
/// Begins the names of headers that bring a credential of the caller's own.
pub(crate) const CALLER_KEY_PREFIX: &str = "x-pointsman-provider-key-";

/// Who is calling. There is no default: every error is a refusal.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// `auth: none`.
    Anyone,
    /// The holder of this key.
    Key(Arc<Key>),
}

impl Caller {
    pub(crate) fn key_name(&self) -> Option<&str> {
        match self {
            Self::Anyone => None,
            Self::Key(key) => Some(&key.name),
        }
    }

    /// Whether one of these names (a route or model, and what stands for it) is granted.
    pub(crate) fn may_use(&self, names: &[String]) -> bool {
        match self {
            Self::Anyone => true,
            Self::Key(key) => {
                key.models.as_ref().is_none_or(|granted| names.iter().any(|n| granted.contains(n)))
            }
        }
    }
}

/// Finds out who is calling.
pub(crate) fn authenticate(
    headers: &HeaderMap,
    query: Option<&str>,
    snapshot: &Snapshot,
) -> Result<Caller, Box<ApiError>> {
    if snapshot.config.server.auth == Auth::None {
        return Ok(Caller::Anyone);
    }
    let credential = credential(headers, query)?;
    let Some(credential) = credential.filter(|c| c.len() <= LONGEST_KEY) else {
        return Err(ApiError::wrong_key());
    };
    let hash = digest(&SHA256, credential.as_bytes());
    let known = <[u8; 32]>::try_from(hash.as_ref()).ok().and_then(|h| snapshot.keys.get(&h));
    // The map was asked with a digest, which an attacker cannot steer; the last word is had in constant time.
    match known.filter(|key| verify_slices_are_equal(&key.hash, hash.as_ref()).is_ok()) {
        Some(key) => Ok(Caller::Key(Arc::clone(key))),
        None => Err(ApiError::wrong_key()),
    }
}

/// The one credential of a request; two different ones are refused.
fn credential(headers: &HeaderMap, query: Option<&str>) -> Result<Option<String>, Box<ApiError>> {
    let mut found: Vec<String> = Vec::new();
    for value in headers.get_all(http::header::AUTHORIZATION) {
        let text = value.to_str().map_err(|_| ApiError::wrong_key())?;
        let (scheme, token) = text.split_once(' ').unwrap_or(("", text));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(ApiError::wrong_key());
        }
        found.push(token.trim().to_owned());
    }
    for name in [&names::X_API_KEY, &names::API_KEY, &names::X_GOOG_API_KEY] {
        for value in headers.get_all(name) {
            found.push(value.to_str().map_err(|_| ApiError::wrong_key())?.trim().to_owned());
        }
    }
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    found.extend(pairs.filter(|(name, _)| *name == "key").map(|(_, value)| value.to_owned()));
    found.retain(|c| !c.is_empty());
    found.dedup();
    if found.len() > 1 {
        return Err(ApiError::bad_request(
            "the request carries two different credentials: send the gateway key in one header only",
            None,
        ));
    }
    Ok(found.pop())
}

/// Credentials of the caller's own, by provider.
pub(crate) fn caller_keys(headers: &HeaderMap) -> Result<BTreeMap<String, SecretString>, Box<ApiError>> {
    let mut keys = BTreeMap::new();
    for (name, value) in headers {
        let Some(provider) = name.as_str().strip_prefix(CALLER_KEY_PREFIX) else { continue };
        let secret = value.to_str().ok().filter(|v| !v.is_empty() && v.len() <= LONGEST_KEY);
        let Some(secret) = secret else {
            let message = format!("the header {CALLER_KEY_PREFIX}{provider} holds no usable credential");
            return Err(ApiError::bad_request(&message, None));
        };
        keys.insert(provider.to_owned(), SecretString::from(secret.to_owned()));
    }
    Ok(keys)
}
