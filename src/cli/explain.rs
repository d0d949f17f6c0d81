//! `pointsman explain`.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use http::Method;
use pointsman_config::{AdminConfig, Config};
use pointsman_server::Clock;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::{find, runtime};
use crate::client::{self, Answer, CallError};
use crate::failure::Failure;
use crate::output;

/// The largest request that is read, in bytes: what the gateway takes by default.
const MAX_REQUEST: u64 = 64 << 20;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A Chat Completions request in JSON; `-` reads standard input
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
    /// Print the data in place of words
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Asks the running gateway, or plans as a gateway that has just started would.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let request = self.read()?;
        let answer = runtime()?.block_on(self.ask(&request))?;
        let explained = answer.json();
        if !answer.status.is_success() {
            return Err(Failure::Failed(refusal(&answer, &explained)));
        }
        match self.json {
            true => output::line(&format!("{explained:#}"))?,
            false => output::print(&words(&explained))?,
        }
        Ok(())
    }

    /// The request, with the route that was asked for.
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
        let mut request: Value = serde_json::from_slice(&bytes)
            .map_err(|e| Failure::Usage(format!("{name}: not a request in JSON: {e}")))?;
        let Some(fields) = request.as_object_mut() else {
            return Err(Failure::Usage(format!("{name}: a request is a JSON object")));
        };
        match &self.route {
            None => Ok(bytes),
            Some(route) => {
                fields.insert("model".to_owned(), json!(route));
                Ok(request.to_string().into_bytes())
            }
        }
    }

    async fn ask(&self, request: &[u8]) -> Result<Answer, Failure> {
        if let Some(admin) = &self.admin {
            let key = std::env::var("POINTSMAN_ADMIN_KEY").ok();
            return post(admin, key.as_deref(), request).await.map_err(|e| Failure::Failed(e.to_string()));
        }
        if self.config.is_none()
            && let Some(answer) = ask_running(request).await?
        {
            return Ok(answer);
        }
        offline(find::configuration(self.config.as_deref())?.loaded.config, request).await
    }
}

/// Asks the gateway that runs with the configuration found here, if one does.
async fn ask_running(request: &[u8]) -> Result<Option<Answer>, Failure> {
    let admin = find::configuration(None).map_or_else(|_| AdminConfig::default(), |f| f.loaded.config.admin);
    let key = admin.key.as_ref().map(ExposeSecret::expose_secret);
    let at = match admin.listen.ip().is_unspecified() {
        true => SocketAddr::from((Ipv4Addr::LOCALHOST, admin.listen.port())),
        false => admin.listen,
    };
    match post(&format!("http://{at}"), key, request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(CallError::Unreachable(..)) => Ok(None),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

/// Plans with this configuration and a fresh fleet: a gateway on a free port that serves nobody else, so that what it
/// says is what a running one says.
async fn offline(mut config: Config, request: &[u8]) -> Result<Answer, Failure> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.server.listen = free;
    config.server.runtime = pointsman_config::Runtime::Shared;
    config.admin = AdminConfig { listen: free, key: None };
    config.watch = false;
    let running =
        pointsman_server::start(config, Clock::default(), None).map_err(|e| Failure::Usage(e.to_string()))?;
    let answer = post(&format!("http://{}", running.admin_addr()), None, request).await;
    drop(running);
    answer.map_err(|e| Failure::Failed(e.to_string()))
}

async fn post(admin: &str, key: Option<&str>, request: &[u8]) -> Result<Answer, CallError> {
    let url = format!("{}/admin/v1/explain", admin.trim_end_matches('/'));
    let bearer = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|value| ("authorization", value.as_str())).collect();
    client::call(Method::POST, &url, &headers, Some(request)).await
}

fn refusal(answer: &Answer, explained: &Value) -> String {
    let message = explained.pointer("/error/message").and_then(Value::as_str);
    let status = answer.status;
    format!("the gateway answered {status}: {}", message.unwrap_or("without saying why"))
}

/// The explanation for people.
fn words(explained: &Value) -> String {
    format!("{explained:#}\n")
}
