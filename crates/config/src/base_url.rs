//! `base_url`: a trailing slash, a doubled version or a whole endpoint URL is understood or refused, never turned into a
//! wrong path.

use std::net::Ipv6Addr;

use crate::provider::{BaseForm, Provider};

/// A normalised place on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Without a trailing slash.
    pub(crate) base_url: String,
    /// `scheme://host:port`, the port always written.
    pub(crate) endpoint: String,
    pub(crate) host: String,
    /// Set for Azure's classic URLs.
    pub(crate) azure: Option<AzurePath>,
    /// What was understood differently from what was written.
    pub(crate) notes: Vec<String>,
}

/// What a classic Azure URL named itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AzurePath {
    pub(crate) deployment: Option<String>,
    pub(crate) api_version: Option<String>,
}

/// Understands a `base_url` for this provider. No error or note repeats credentials or a query.
pub(crate) fn read(text: &str, provider: &Provider) -> Result<Place, String> {
    let url = Url::split(text)?;
    let mut notes = Vec::new();
    let mut segments = segments(&url.path)?;
    let call = strip_call(&mut segments, provider, &mut notes);
    strip_endpoint(&mut segments, provider, &mut notes)?;
    strip_doubled_version(&mut segments, &mut notes);
    let azure = match provider.form {
        BaseForm::Azure => azure_path(&mut segments, url.query.as_deref())?,
        _ if url.query.is_some() && !call => return Err("must not have a query (`?…`)".to_owned()),
        _ => None,
    };
    match provider.form {
        BaseForm::WithVersion if segments.is_empty() => add_version(&mut segments, provider, &mut notes),
        BaseForm::WithoutVersion => strip_version(&mut segments, provider, &mut notes),
        BaseForm::WithVersion | BaseForm::Azure | BaseForm::Unversioned => {}
    }
    let path: String = segments.iter().map(|s| format!("/{s}")).collect();
    let base_url = format!("{}{path}", url.origin(false));
    let notes = notes.into_iter().map(|note| format!("{note}; `{base_url}` is used")).collect();
    Ok(Place { endpoint: url.origin(true), host: url.host, base_url, azure, notes })
}

/// The default address of a provider whose row has one.
pub(crate) fn default_of(provider: &Provider) -> Result<Place, String> {
    match provider.base_url {
        Some(base_url) => read(base_url, provider),
        None => Err(format!("provider `{}` needs `base_url`", provider.name)),
    }
}

struct Url {
    scheme: &'static str,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
}

impl Url {
    fn split(text: &str) -> Result<Self, String> {
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("must not hold spaces or control characters".to_owned());
        }
        let (scheme, rest) =
            text.split_once("://").ok_or("needs a scheme: write `https://…` or `http://…`")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => "https",
            "http" => "http",
            _ => return Err("must start with `https://` or `http://`".to_owned()),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at_checked(end).ok_or("is not a URL")?;
        if authority.contains('@') {
            return Err("must not hold credentials; they belong in `api_key`".to_owned());
        }
        if rest.contains('#') {
            return Err("must not have a fragment (`#…`)".to_owned());
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        let (host, port) = host_and_port(authority)?;
        Ok(Self { scheme, host, port, path: path.to_owned(), query })
    }

    fn origin(&self, with_port: bool) -> String {
        let standard = if self.scheme == "https" { 443 } else { 80 };
        let port = self.port.unwrap_or(standard);
        match with_port || port != standard {
            true => format!("{}://{}:{port}", self.scheme, self.host),
            false => format!("{}://{}", self.scheme, self.host),
        }
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, port)) => {
            let address: Ipv6Addr =
                address.parse().map_err(|_| "has no valid IPv6 address in its brackets")?;
            (format!("[{address}]"), port)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at_checked(end).ok_or("is not a URL")?;
            (name(host)?, port)
        }
    };
    let port = match port {
        "" | ":" => None,
        port => {
            let number = port.strip_prefix(':').and_then(|p| p.parse::<u16>().ok()).filter(|p| *p > 0);
            Some(number.ok_or("has a port that is not a number from 1 to 65535")?)
        }
    };
    Ok((host, port))
}

fn name(host: &str) -> Result<String, String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match host {
        "" => Err("has no host".to_owned()),
        host if host.chars().all(valid) && !host.starts_with(['.', '-']) => Ok(host.to_ascii_lowercase()),
        _ => Err("has a host that is neither a name nor an address".to_owned()),
    }
}

fn segments(path: &str) -> Result<Vec<String>, String> {
    let inner = path.trim_matches('/');
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let legal =
        |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"' | '<' | '>' | '{' | '}' | '|' | '^' | '`');
    inner
        .split('/')
        .map(|segment| match segment {
            "" => Err("has an empty segment (`//`) in its path".to_owned()),
            "." | ".." => Err("has `.` or `..` in its path".to_owned()),
            s if s.chars().all(legal) => Ok(s.to_owned()),
            _ => Err("has a character in its path that a URL cannot carry".to_owned()),
        })
        .collect()
}

/// Endpoints that people paste whole, those of a dialect with its name.
const ENDPOINTS: &[(&[&str], Option<&str>)] = &[
    (&["chat", "completions"], Some("chat")),
    (&["messages"], Some("messages")),
    (&["messages", "count_tokens"], Some("messages")),
    (&["completions"], None),
    (&["responses"], Some("responses")),
    (&["embeddings"], None),
    (&["models"], None),
];

fn strip_endpoint(
    segments: &mut Vec<String>,
    provider: &Provider,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let ends_with = |end: &[&str]| {
        segments.len() >= end.len() && segments.iter().rev().zip(end.iter().rev()).all(|(a, b)| a == b)
    };
    if let Some((end, dialect)) = ENDPOINTS.iter().find(|(end, _)| ends_with(end)) {
        if let Some(dialect) = dialect.filter(|dialect| !provider.dialects.contains(dialect)) {
            let speaks = provider.speaks();
            return Err(format!("names the endpoint of another dialect (`{dialect}`); {speaks}"));
        }
        segments.truncate(segments.len() - end.len());
        notes.push(format!("names a whole endpoint (`/{}`)", end.join("/")));
    }
    Ok(())
}

/// A whole endpoint of Gemini ends in a model and what is asked of it, and a stream's has a query. One of Bedrock has the model
/// before its last part.
fn strip_call(segments: &mut Vec<String>, provider: &Provider, notes: &mut Vec<String>) -> bool {
    let calls = |segment: &String| {
        [":generateContent", ":streamGenerateContent"].iter().any(|end| segment.ends_with(end))
    };
    let whole = provider.dialects.contains(&"gemini") && segments.last().is_some_and(calls);
    if let [.., model, _, call] = segments.as_slice()
        && provider.is_aws()
        && model == "model"
        && ["converse", "converse-stream", "invoke", "invoke-with-response-stream"].contains(&call.as_str())
    {
        segments.truncate(segments.len().saturating_sub(3));
        notes.push("names a whole endpoint".to_owned());
    }
    if whole {
        segments.truncate(segments.len().saturating_sub(2));
        notes.push("names a whole endpoint".to_owned());
    }
    whole
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn strip_doubled_version(segments: &mut Vec<String>, notes: &mut Vec<String>) {
    while let [.., before, last] = segments.as_slice() {
        if before != last || !is_version(last) {
            return;
        }
        notes.push(format!("has its version twice (`/{last}/{last}`)"));
        segments.pop();
    }
}

/// Only these are known to come back with the path that follows.
fn strip_version(segments: &mut Vec<String>, provider: &Provider, notes: &mut Vec<String>) {
    let known = if provider.dialects.contains(&"gemini") { "v1beta" } else { "v1" };
    if segments.last().is_some_and(|s| s == known) {
        segments.pop();
        // Of a whole endpoint more was said already.
        if notes.is_empty() {
            notes.push(format!("has the version `/{known}`, which is added anyway"));
        }
    }
}

fn add_version(segments: &mut Vec<String>, provider: &Provider, notes: &mut Vec<String>) {
    let Some(base_url) = provider.base_url else {
        notes.push("has no version such as `/v1`".to_owned());
        return;
    };
    let path = base_url.splitn(4, '/').nth(3).unwrap_or_default();
    segments.extend(path.split('/').filter(|s| !s.is_empty()).map(str::to_owned));
    notes.push(format!("has no version; `/{path}` was added"));
}

/// Takes what follows `…/openai` off a classic URL. `None` for Azure's v1 URLs, which are OpenAI's own form.
fn azure_path(segments: &mut Vec<String>, query: Option<&str>) -> Result<Option<AzurePath>, String> {
    let mut found = AzurePath { deployment: None, api_version: api_version(query)? };
    let tail = match segments.iter().position(|s| s == "openai") {
        Some(at) => segments.split_off(at),
        None => return Ok(Some(found)),
    };
    let words: Vec<&str> = tail.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["openai"] => {}
        ["openai", "deployments", deployment] => found.deployment = Some((*deployment).to_owned()),
        ["openai", "v1"] if found.api_version.is_some() => {
            return Err("must not have `api-version` with `/openai/v1`".to_owned());
        }
        ["openai", "v1"] => {
            segments.extend(tail);
            return Ok(None);
        }
        _ => return Err("must end with the host, `/openai/v1`, or `/openai/deployments/NAME`".to_owned()),
    }
    Ok(Some(found))
}

fn api_version(query: Option<&str>) -> Result<Option<String>, String> {
    match query.and_then(|q| q.strip_prefix("api-version=")) {
        Some(version) if !version.is_empty() && !version.contains('&') => Ok(Some(version.to_owned())),
        _ if query.is_some() => Err("must not have a query (`?…`) other than `api-version`".to_owned()),
        _ => Ok(None),
    }
}
