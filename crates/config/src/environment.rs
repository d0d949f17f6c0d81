//! No file at all: targets from the environment, as wildcard targets.

use std::fmt;
use std::net::SocketAddr;

use pointsman_core::policy::ProcessPolicy;
use pointsman_core::target::Catalog;
use secrecy::SecretString;

use crate::Loaded;
use crate::aws;
use crate::base_url::{self, Place};
use crate::catalog;
use crate::config::{AdminConfig, Auth, Azure, Config, Credential, ServerConfig, Source, Telemetry};
use crate::problem::{Mark, Problem, Problems, Report};
use crate::provider::{PROVIDERS, Provider};
use crate::secret;
use crate::sections;
use crate::target::{AZURE_API_VERSION, Essentials, Reached};
use crate::variables::Vars;

/// Credentials that lie about in many shells for other reasons: what is to use them must be written in a file.
const OF_OTHER_USE: &[&str] = &["GITHUB_TOKEN", "HF_TOKEN"];

/// What problems of the environment are filed under.
const ENVIRONMENT: &str = "environment";

/// The environment alone gives nothing that could be served.
///
/// Displays what is wrong with variables that are set, one a line; if that alone is not the cause, then in three lines
/// how to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTargets {
    problems: Vec<Problem>,
    /// Nothing that is set is wrong; there is only nothing that could be served.
    is_bare: bool,
}

impl NoTargets {
    /// What is wrong with variables that are set, or why they are left out; empty if none that names a provider is.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for NoTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if !self.is_bare {
            return Ok(());
        }
        if !self.problems.is_empty() {
            f.write_str("\n")?;
        }
        f.write_str(concat!(
            "No provider is configured: no file was named, there is no pointsman.yaml here, and no usable key of a provider is set.\n",
            "Set one, such as OPENAI_API_KEY=… or OLLAMA_HOST=127.0.0.1:11434, or write pointsman.yaml (`pointsman schema` says what goes into it).\n",
            "To look around without any key, run `pointsman demo`.",
        ))
    }
}

impl std::error::Error for NoTargets {}

/// Targets from the environment alone, as wildcard targets such as `openai/*`.
///
/// A provider is there if its key is set (`OPENAI_API_KEY`, `MISTRAL_API_KEY`, `GROQ_API_KEY`, `XAI_API_KEY` and so on:
/// the table of providers), or its address (`OPENAI_BASE_URL`, `OLLAMA_HOST`), or for Azure `AZURE_OPENAI_ENDPOINT` with
/// `AZURE_OPENAI_API_KEY`; `AZURE_OPENAI_DEPLOYMENT` makes a classic target that serves that one deployment; and for Bedrock
/// `AWS_BEARER_TOKEN_BEDROCK` with `AWS_REGION`.
/// `POINTSMAN_LISTEN` and `POINTSMAN_ADMIN_LISTEN` move the listeners; off loopback the first needs `POINTSMAN_AUTH=none`
/// and the second `POINTSMAN_ADMIN_KEY`.
///
/// # Errors
/// [`NoTargets`] if no variable names a provider, or one that is set cannot be used.
pub fn from_environment(vars: &dyn Vars) -> Result<Loaded, NoTargets> {
    let mut environment = Environment { vars, report: Report::new(ENVIRONMENT) };
    let server = environment.server();
    let admin = environment.admin();
    let reached = environment.targets(server.listen);
    let has_targets = !reached.is_empty();
    let (targets, upstreams) = reached.into_iter().map(|r| (r.target, r.upstream)).unzip();
    let mut catalog = Catalog { targets, ..Catalog::default() };
    catalog::complete(&mut catalog);
    let config = Config {
        server,
        admin,
        catalog,
        upstreams,
        process: ProcessPolicy::default(),
        keys: Vec::new(),
        telemetry: Telemetry::default(),
        watch: false,
        source: Source::Environment,
    };
    let left_out = environment.report.warnings().to_vec();
    let finished = environment.report.finish(has_targets.then_some(config));
    finished.map(|(config, warnings)| Loaded { config, warnings }).map_err(|Problems(errors)| {
        match errors.is_empty() {
            true => NoTargets { problems: left_out, is_bare: true },
            false => NoTargets { problems: errors, is_bare: false },
        }
    })
}

struct Environment<'v> {
    vars: &'v dyn Vars,
    report: Report,
}

impl Environment<'_> {
    /// A variable that is set and not blank.
    fn get(&self, name: &str) -> Option<String> {
        self.vars.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn error(&mut self, message: impl Into<String>) {
        self.report.error(Mark::default(), message);
    }

    fn warn(&mut self, message: impl Into<String>) {
        self.report.warn(Mark::default(), message);
    }

    fn address(&mut self, variable: &str, default: SocketAddr) -> SocketAddr {
        match self.get(variable).map(|text| sections::address(&text)) {
            Some(Ok(address)) => address,
            Some(Err(why)) => {
                self.error(format!("`{variable}`: {why}"));
                default
            }
            None => default,
        }
    }

    fn server(&mut self) -> ServerConfig {
        let base = ServerConfig::default();
        let listen = self.address("POINTSMAN_LISTEN", base.listen);
        let written_out = self.get("POINTSMAN_AUTH").as_deref() == Some("none");
        if !listen.ip().is_loopback() && !written_out {
            let mend = "use a file with `keys`, or set `POINTSMAN_AUTH=none` to ask nobody for a key";
            self.error(format!("`POINTSMAN_LISTEN` {listen} is reachable from outside: {mend}"));
        }
        ServerConfig { listen, auth: Auth::None, ..base }
    }

    fn admin(&mut self) -> AdminConfig {
        let listen = self.address("POINTSMAN_ADMIN_LISTEN", AdminConfig::default().listen);
        let key = self.secret("POINTSMAN_ADMIN_KEY");
        if !listen.ip().is_loopback() && key.is_none() {
            self.error(format!(
                "`POINTSMAN_ADMIN_LISTEN` {listen} is reachable from outside and needs `POINTSMAN_ADMIN_KEY`"
            ));
        }
        AdminConfig { listen, key }
    }

    fn secret(&mut self, variable: &str) -> Option<SecretString> {
        let text = self.get(variable)?;
        match secret::check(&text) {
            Ok(()) => Some(SecretString::from(text)),
            Err(why) => {
                self.error(format!("`{variable}`: {why}"));
                None
            }
        }
    }

    fn targets(&mut self, listen: SocketAddr) -> Vec<Reached> {
        let essentials: Vec<Essentials> =
            PROVIDERS.iter().filter_map(|provider| self.target(provider)).collect();
        // A shell in which clients run has this variable set to the gateway.
        let own = format!("http://{listen}");
        if essentials.iter().any(|e| e.provider.name == "openai" && e.place.endpoint == own) {
            let mend = "unset it for the gateway, it is for its clients";
            self.error(format!("`OPENAI_BASE_URL` points at this gateway itself; {mend}"));
        }
        essentials.into_iter().map(Essentials::reach).collect()
    }

    fn target(&mut self, provider: &'static Provider) -> Option<Essentials> {
        match provider.name {
            "azure" => self.azure(provider),
            "openai" => self.openai(provider),
            "ollama" => self.ollama(provider),
            "bedrock" => self.bedrock(provider),
            _ => {
                let variable = provider.key_variable.filter(|variable| !OF_OTHER_USE.contains(variable))?;
                let credential = self.secret(variable)?;
                self.wildcard(provider, base_url::default_of(provider), Credential::Secret(credential), "")
            }
        }
    }

    fn openai(&mut self, provider: &'static Provider) -> Option<Essentials> {
        let key = self.secret("OPENAI_API_KEY");
        let place = match self.get("OPENAI_BASE_URL") {
            Some(url) => base_url::read(&url, provider),
            None if key.is_none() => return None,
            None => base_url::default_of(provider),
        };
        let credential = key.map_or(Credential::None, Credential::Secret);
        self.wildcard(provider, place, credential, "OPENAI_BASE_URL")
    }

    /// `OLLAMA_HOST` is what the Ollama server itself listens on: a host, a port or both, with or without a scheme.
    fn ollama(&mut self, provider: &'static Provider) -> Option<Essentials> {
        let host = self.get("OLLAMA_HOST")?;
        let (scheme, rest) = host.split_once("://").unwrap_or(("http", &host));
        let rest = rest.replacen("0.0.0.0", "127.0.0.1", 1);
        let rest = if rest.starts_with(':') { format!("127.0.0.1{rest}") } else { rest };
        let has_port =
            rest.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if has_port || scheme == "https" || rest.contains('/') { "" } else { ":11434" };
        let url = format!("{scheme}://{}{port}/v1", rest.trim_end_matches('/'));
        self.wildcard(provider, base_url::read(&url, provider), Credential::None, "OLLAMA_HOST")
    }

    /// A key of Bedrock's own, with the region as AWS's SDKs are told it. What else AWS signs with lies about in many shells for
    /// other reasons.
    fn bedrock(&mut self, provider: &'static Provider) -> Option<Essentials> {
        let key = self.secret("AWS_BEARER_TOKEN_BEDROCK")?;
        let Some(region) = self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION")) else {
            self.warn("`AWS_BEARER_TOKEN_BEDROCK` needs `AWS_REGION`; Bedrock is left out");
            return None;
        };
        self.wildcard(provider, aws::place_in(&region, provider), Credential::Secret(key), "AWS_REGION")
    }

    fn azure(&mut self, provider: &'static Provider) -> Option<Essentials> {
        let endpoint = self.get("AZURE_OPENAI_ENDPOINT");
        // The SDKs' own name, and the one that Azure's older examples use.
        let key = self.secret("AZURE_OPENAI_API_KEY").or_else(|| self.secret("AZURE_OPENAI_KEY"));
        let (Some(endpoint), Some(key)) = (&endpoint, key.clone()) else {
            if endpoint.is_some() || key.is_some() {
                self.warn(
                    "`AZURE_OPENAI_ENDPOINT` and `AZURE_OPENAI_API_KEY` belong together; Azure is left out",
                );
            }
            return None;
        };
        let place = match base_url::read(endpoint, provider) {
            Ok(place) => place,
            Err(why) => {
                self.error(format!("`AZURE_OPENAI_ENDPOINT` {why}"));
                return None;
            }
        };
        let Some(path) = place.azure.clone() else {
            return self.wildcard(provider, Ok(place), Credential::Secret(key), "AZURE_OPENAI_ENDPOINT");
        };
        let Some(deployment) = self.get("AZURE_OPENAI_DEPLOYMENT").or(path.deployment) else {
            // The v1 form takes the deployment from the request, so that one target serves them all.
            let v1 = base_url::read(&format!("{}/openai/v1", place.base_url), provider);
            return self.wildcard(provider, v1, Credential::Secret(key), "AZURE_OPENAI_ENDPOINT");
        };
        let api_version = self.get("AZURE_OPENAI_API_VERSION").or_else(|| self.get("OPENAI_API_VERSION"));
        let api_version = api_version.or(path.api_version).unwrap_or_else(|| AZURE_API_VERSION.to_owned());
        Some(Essentials {
            name: provider.name.to_owned(),
            provider,
            model: Some(deployment.clone()),
            upstream_model: None,
            place,
            azure: Some(Azure { deployment, api_version }),
            credential: Credential::Secret(key),
        })
    }

    fn wildcard(
        &mut self,
        provider: &'static Provider,
        place: Result<Place, String>,
        credential: Credential,
        variable: &str,
    ) -> Option<Essentials> {
        match place {
            Ok(place) => {
                for note in &place.notes {
                    self.warn(format!("`{variable}` {note}"));
                }
                let name = provider.name.to_owned();
                Some(Essentials {
                    name,
                    provider,
                    model: None,
                    upstream_model: None,
                    place,
                    azure: None,
                    credential,
                })
            }
            Err(why) => {
                self.error(format!("`{variable}` {why}"));
                None
            }
        }
    }
}
