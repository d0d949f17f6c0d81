//! The resolved configuration: what the server runs on. No `Option` here means "the default".

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use pointsman_core::policy::ProcessPolicy;
use pointsman_core::target::Catalog;
use secrecy::SecretString;

/// One snapshot of everything that is configured. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data plane.
    pub server: ServerConfig,
    /// The admin plane.
    pub admin: AdminConfig,
    /// Targets, models, routes and defaults, as the decision core takes them.
    pub catalog: Catalog,
    /// How each target is reached; parallel to `catalog.targets` by index.
    pub upstreams: Vec<Upstream>,
    /// Queue, retry budget and throttle of the whole process.
    pub process: ProcessPolicy,
    /// The gateway's own API keys.
    pub keys: Vec<Key>,
    /// Logs.
    pub telemetry: Telemetry,
    /// Reload when the file's content changes.
    pub watch: bool,
    /// Where all of this came from.
    pub source: Source,
}

/// Where a configuration came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Environment variables alone.
    Environment,
}

/// How a target is reached.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The provider row's name: `openai`, `azure`, `vllm`, …
    pub provider: String,
    /// Normalised, without a trailing slash. `{base_url}/chat/completions` is the endpoint; with `azure` it is
    /// `{base_url}/openai/deployments/{deployment}/chat/completions?api-version={api_version}`.
    pub base_url: String,
    /// Azure's classic URLs; `None` for everything else, Azure's v1 URLs included.
    pub azure: Option<Azure>,
    /// What proves who pays.
    pub credential: Credential,
    /// Which HTTP version to speak.
    pub http: HttpPreference,
    /// Further certificate authorities (PEM) that this target's certificate may come from.
    pub ca_file: Option<PathBuf>,
}

/// The parts of a classic Azure OpenAI URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Azure {
    /// The deployment in the path.
    pub deployment: String,
    /// The `api-version` of the query.
    pub api_version: String,
}

/// What an attempt authenticates with.
#[derive(Clone, Debug)]
pub enum Credential {
    /// Nothing: a server that asks for nothing.
    None,
    /// The gateway's own credential at the provider.
    Secret(SecretString),
    /// The caller brings it.
    Caller,
    /// Requests are signed with a credential of AWS.
    Aws(AwsCredential),
}

/// What requests to AWS are signed with.
#[derive(Clone, Debug)]
pub struct AwsCredential {
    /// The region that the signature holds for.
    pub region: String,
    /// Where the credential comes from.
    pub source: AwsSource,
}

/// Where a credential of AWS comes from.
#[derive(Clone, Debug)]
pub enum AwsSource {
    /// Whatever the machine has: environment, profile file, container, instance.
    Chain,
    /// A profile of AWS's own files.
    Profile(String),
    /// Written in the configuration.
    Static {
        /// Its name. No secret, and nothing to be shown either.
        access_key_id: SecretString,
        /// What signs.
        secret_access_key: SecretString,
        /// What goes with a credential that holds for some time.
        session_token: Option<SecretString>,
    },
}

/// Which HTTP version is spoken to a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpPreference {
    /// What TLS negotiates.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    One,
    /// HTTP/2 only; over `http://` with prior knowledge.
    Two,
}

/// The data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Whether clients need one of the gateway's keys.
    pub auth: Auth,
    /// Accepted `Host` values besides loopback names and the listen address.
    pub hosts: Vec<String>,
    /// Requests served at once.
    pub max_in_flight: usize,
    /// Bytes of all buffered bodies together.
    pub body_memory: usize,
    /// Bytes of one request body.
    pub max_body: usize,
    /// Bytes of one request's header section.
    pub max_header: usize,
    /// Heartbeat on streams that have nothing else to say.
    pub keepalive: Duration,
    /// The end of the process.
    pub drain: Drain,
    /// How much response headers tell.
    pub expose: Expose,
    /// How connections are spread over threads.
    pub runtime: Runtime,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4000)),
            auth: Auth::None,
            hosts: Vec::new(),
            max_in_flight: 10_000,
            body_memory: 1 << 30,
            max_body: 64 << 20,
            max_header: 64 << 10,
            keepalive: Duration::from_secs(15),
            drain: Drain::default(),
            expose: Expose::default(),
            runtime: Runtime::default(),
        }
    }
}

/// Whether clients need one of the gateway's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Yes.
    Keys,
    /// No: on loopback, or because it is written out.
    None,
}

/// The end of the process after SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long requests are still accepted while readiness already says no.
    pub delay: Duration,
    /// How long running streams may go on after that.
    pub timeout: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self { delay: Duration::from_secs(5), timeout: Duration::from_secs(600) }
    }
}

/// How much response headers tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expose {
    /// Target, model, route, action, attempts and reason.
    #[default]
    Full,
    /// Request ids, action and substitution only.
    Minimal,
}

/// How connections are spread over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// A single-threaded runtime per core.
    #[default]
    PerCore,
    /// One work-stealing runtime.
    Shared,
}

/// The admin plane.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Where operators connect.
    pub listen: SocketAddr,
    /// What they show; `None` only on loopback.
    pub key: Option<SecretString>,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4001)), key: None }
    }
}

/// One of the gateway's own API keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name in logs and metrics.
    pub name: String,
    /// SHA-256 of the whole key.
    pub hash: [u8; 32],
    /// Routes and models that it may use; `None` is all.
    pub models: Option<BTreeSet<String>>,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// Their format.
    pub log: LogFormat,
    /// Their level: a word such as `info`, or directives such as `info,pointsman_server=debug`.
    pub level: String,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { log: LogFormat::Auto, level: "info".to_owned() }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// For people.
    Text,
    /// For programs.
    Json,
}
