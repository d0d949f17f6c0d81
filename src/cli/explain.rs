//! `pointsman explain`.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use http::{HeaderMap, HeaderValue, Method};
use pointsman_config::{AdminConfig, Config};
use pointsman_server::{App, Clock};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::{find, runtime};
use crate::client::{self, Answer, CallError};
use crate::failure::Failure;
use crate::output;

/// The largest request that is read, in bytes: what the gateway takes by default.
const MAX_REQUEST: u64 = 64 << 20;

/// The header by which the gateway knows a request of Messages where no path says so.
const OF_MESSAGES: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A request in JSON; `-` reads standard input
    #[arg(value_name = "FILE", default_value = "-")]
    request: PathBuf,
    /// Ask for this route or model in place of the request's `model`
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// The admin plane of a running gateway [default: that of the configuration, else http://127.0.0.1:4001]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    admin: Option<String>,
    /// Explain with this configuration and every target healthy, without asking a running gateway
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The name of the gateway key that the request would come with [default: none]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// The request is one of Anthropic Messages, not of Chat Completions
    #[arg(long)]
    messages: bool,
    /// The request is for this endpoint (`embeddings`, `images/generations`), not a conversation
    #[arg(long, value_name = "NAME", conflicts_with = "messages")]
    endpoint: Option<String>,
    /// Print the data in place of words
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Asks the running gateway, or plans as a gateway that has just started would.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let request = self.read()?;
        let explained = runtime()?.block_on(self.explained(&request))?;
        match self.json {
            true => output::line(&format!("{explained:#}"))?,
            false => output::print(&words(&explained)?)?,
        }
        Ok(())
    }

    /// The request's bytes. Whether they are a request is for the gateway to say.
    fn read(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let from_stdin = self.request == Path::new("-");
        let read = match from_stdin {
            true => std::io::stdin().lock().take(MAX_REQUEST).read_to_end(&mut bytes),
            false => std::fs::File::open(&self.request)
                .and_then(|file| file.take(MAX_REQUEST).read_to_end(&mut bytes)),
        };
        let name = if from_stdin { "standard input".into() } else { self.request.display().to_string() };
        read.map_err(|e| Failure::Usage(format!("{name}: cannot be read: {e}")))?;
        Ok(bytes)
    }

    async fn explained(&self, request: &[u8]) -> Result<Value, Failure> {
        if let Some(admin) = &self.admin {
            let key = std::env::var("POINTSMAN_ADMIN_KEY").ok();
            let answer = self.post(admin, key.as_deref(), request).await;
            return well(&answer.map_err(|e| Failure::Failed(e.to_string()))?);
        }
        if self.config.is_none()
            && let Some(answer) = self.ask_running(request).await?
        {
            return well(&answer);
        }
        self.offline(find::configuration(self.config.as_deref())?.loaded.config, request)
    }

    /// Asks the gateway that runs with the configuration found here, if one does.
    async fn ask_running(&self, request: &[u8]) -> Result<Option<Answer>, Failure> {
        let admin =
            find::configuration(None).map_or_else(|_| AdminConfig::default(), |f| f.loaded.config.admin);
        let key = admin.key.as_ref().map(ExposeSecret::expose_secret);
        let at = match admin.listen.ip().is_unspecified() {
            true => SocketAddr::from((Ipv4Addr::LOCALHOST, admin.listen.port())),
            false => admin.listen,
        };
        match self.post(&format!("http://{at}"), key, request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(CallError::Unreachable(..)) => Ok(None),
            Err(error) => Err(Failure::Failed(error.to_string())),
        }
    }

    /// Plans with this configuration and every target as new, in this process: nothing listens and nothing is sent.
    fn offline(&self, config: Config, request: &[u8]) -> Result<Value, Failure> {
        let app = App::new(config, Clock::default(), None).map_err(|e| Failure::Usage(e.to_string()))?;
        let (route, key) = (self.route.as_deref(), self.key.as_deref());
        let mut headers = HeaderMap::new();
        if self.messages {
            headers.insert(OF_MESSAGES.0, HeaderValue::from_static(OF_MESSAGES.1));
        }
        let explained = app.explain(request, self.endpoint.as_deref(), route, key, &headers);
        let explained = explained
            .map_err(|e| Failure::Failed(format!("the gateway would answer {}: {}", e.status, e.message)))?;
        serde_json::to_value(&explained).map_err(|e| Failure::Failed(e.to_string()))
    }

    async fn post(&self, admin: &str, key: Option<&str>, request: &[u8]) -> Result<Answer, CallError> {
        let asked = [("endpoint", &self.endpoint), ("route", &self.route), ("key", &self.key)];
        let pairs: Vec<String> = asked
            .iter()
            .filter_map(|(name, value)| value.as_ref().map(|v| format!("{name}={}", escaped(v))))
            .collect();
        let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
        let url = format!("{}/admin/v1/explain{query}", admin.trim_end_matches('/'));
        let bearer = key.map(|key| format!("Bearer {key}"));
        let authorization = bearer.iter().map(|value| ("authorization", value.as_str()));
        let headers: Vec<_> = authorization.chain(self.messages.then_some(OF_MESSAGES)).collect();
        client::call(Method::POST, &url, &headers, Some(request)).await
    }
}

/// A value for a query: what is not plain is percent-encoded (RFC 3986, 2.1).
fn escaped(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn well(answer: &Answer) -> Result<Value, Failure> {
    let explained = answer.json();
    if answer.status.is_success() {
        return Ok(explained);
    }
    let message = explained.pointer("/error/message").and_then(Value::as_str);
    let message = message.unwrap_or("it did not say why");
    Err(Failure::Failed(format!("the gateway answered {}: {message}", answer.status.as_u16())))
}

/// The explanation for people, as the gateway words it.
fn words(explained: &Value) -> Result<String, Failure> {
    let lines = explained.get("words").and_then(Value::as_array);
    let lines =
        lines.ok_or_else(|| Failure::Failed("the gateway answered without an explanation".to_owned()))?;
    Ok(lines.iter().filter_map(Value::as_str).map(|line| format!("{line}\n")).collect())
}
