//! Providers as rows of data: where they are, how they take a credential, how they differ.

mod rows;
#[cfg(test)]
mod tests;

use crate::classify::Table;
use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::passthrough::MaxTokensName;
use crate::{bedrock, gemini};
use rows::PROVIDERS;

/// How the URL of a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlRule {
    /// `{base}/chat/completions` or `{base}/messages`, the model in the body.
    ModelInBody {
        /// The public base URL, if the provider has one.
        base: Option<&'static str>,
        /// The path that a base URL gets which has none of its own.
        path: &'static str,
    },
    /// Azure OpenAI: with an API version `{base}/openai/deployments/{deployment}/chat/completions?api-version=…`,
    /// without one the v1 endpoint `{base}/openai/v1/chat/completions`, the deployment's name in the body.
    Azure,
    /// Anthropic: its SDKs take a base URL without the version, so that `/v1` comes after any path of the base
    /// that does not end in it.
    Anthropic {
        /// The public base URL.
        base: &'static str,
    },
    /// Google's Gemini API: `{base}/v1beta/models/{model}:generateContent`. Its SDKs take a base URL without the version.
    Gemini {
        /// The public base URL.
        base: &'static str,
    },
    /// Amazon Bedrock: `{base}/model/{model}/converse`. Each region has a base of its own.
    Bedrock,
}

/// How a credential is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthScheme {
    /// `authorization: Bearer …`
    Bearer,
    /// A header of its own that holds just the key.
    ApiKeyHeader {
        /// The header's name, lower-case.
        name: &'static str,
    },
}

impl AuthScheme {
    /// The header's name, lower-case.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            Self::Bearer => "authorization",
            Self::ApiKeyHeader { name } => name,
        }
    }

    /// What stands before the key in the header's value.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer ",
            Self::ApiKeyHeader { .. } => "",
        }
    }
}

/// One provider.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Where a call goes.
    pub url: UrlRule,
    /// How the credential is sent.
    pub auth: AuthScheme,
    /// It understands `stream_options.include_usage`, so that the gateway may ask for usage by it.
    pub stream_usage: bool,
    /// Its stream carries all that a plain answer does, so that a plain answer may be gathered from it.
    pub stream_carries_everything: bool,
    /// The name under which it takes the limit on output tokens; `None` if it takes what clients send.
    pub max_tokens_name: Option<MaxTokensName>,
    /// It understands the body's routing preferences (`provider`, `models`) itself.
    pub takes_preferences: bool,
    /// What its failures mean.
    pub table: Table,
    /// The dialects that it speaks.
    pub dialects: &'static [Dialect],
    /// The endpoints that it has beside conversations; `None` where nothing is known.
    pub endpoints: Option<&'static [Endpoint]>,
    /// It has tools that take any text, in dialects that have such.
    pub custom_tools: bool,
    /// Headers that it requires, with what they are if the client sent none. Lower-case.
    pub required_headers: &'static [(&'static str, &'static str)],
    /// The AWS service for which requests are signed where the target has no key; `None` for everybody else.
    pub signs_for: Option<&'static str>,
}

/// Why no URL can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No base URL is given and the provider has no public one.
    #[error("the provider '{provider}' needs a base URL")]
    NoBase {
        /// The provider's name.
        provider: &'static str,
    },
    /// The provider has no endpoint for the dialect.
    #[error("the provider '{provider}' does not speak the {dialect} dialect")]
    Dialect {
        /// The provider's name.
        provider: &'static str,
        /// The dialect's name.
        dialect: &'static str,
    },
    /// The provider does not have the endpoint.
    #[error("the provider '{provider}' has no endpoint for {endpoint}")]
    Endpoint {
        /// The provider's name.
        provider: &'static str,
        /// The endpoint's name.
        endpoint: &'static str,
    },
}

/// The provider of this name.
#[must_use]
pub fn provider(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// All providers.
#[must_use]
pub fn providers() -> &'static [Provider] {
    PROVIDERS
}

impl Provider {
    /// Whether it speaks this dialect.
    #[must_use]
    pub fn speaks(&self, dialect: Dialect) -> bool {
        self.dialects.contains(&dialect)
    }

    /// Whether it has this endpoint, as far as is known; conversations it has in the dialects that it speaks.
    #[must_use]
    pub fn has(&self, endpoint: Endpoint) -> bool {
        if endpoint == Endpoint::Generation {
            return true;
        }
        endpoint.dialect().is_none_or(|dialect| self.speaks(dialect))
            && self.endpoints.is_none_or(|has| has.contains(&endpoint))
    }

    /// The public base URL, if the provider has one.
    #[must_use]
    pub fn default_base(&self) -> Option<&'static str> {
        match self.url {
            UrlRule::ModelInBody { base, .. } => base,
            UrlRule::Azure | UrlRule::Bedrock => None,
            UrlRule::Anthropic { base } | UrlRule::Gemini { base } => Some(base),
        }
    }

    /// The URL of a call in this dialect.
    ///
    /// `base_url` is what an SDK would take; without a path it gets the provider's own (`/v1`). `upstream_model`
    /// is the deployment's name at Azure, and a model, an inference profile or the ARN of one at Bedrock. `api_version` matters to Azure alone.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn url(
        &self,
        dialect: Dialect,
        base_url: Option<&str>,
        upstream_model: &str,
        api_version: Option<&str>,
    ) -> Result<String, UrlError> {
        if !self.speaks(dialect) {
            return Err(UrlError::Dialect { provider: self.name, dialect: dialect.name() });
        }
        let Some(end) = dialect.path() else {
            let base =
                base_url.or_else(|| self.default_base()).ok_or(UrlError::NoBase { provider: self.name })?;
            let base = base.trim_end_matches('/');
            return Ok(match dialect {
                Dialect::Bedrock => format!("{base}/model/{}{}", encode(upstream_model), bedrock::WHOLE),
                _ => gemini_url(base, upstream_model),
            });
        };
        self.url_to(end, base_url, upstream_model, api_version)
    }

    /// The URL of a call to another endpoint than a conversation's; see [`Provider::url`].
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn endpoint_url(
        &self,
        endpoint: Endpoint,
        base_url: Option<&str>,
        upstream_model: &str,
        api_version: Option<&str>,
    ) -> Result<String, UrlError> {
        if endpoint == Endpoint::GeminiCount && self.has(endpoint) {
            let asked = self.url(Dialect::Gemini, base_url, upstream_model, api_version)?;
            let model = asked.strip_suffix(gemini::WHOLE).unwrap_or(&asked);
            return Ok(format!("{model}{}", gemini::COUNTED));
        }
        let path = endpoint.path().filter(|_| self.has(endpoint));
        let endpoint = endpoint.name().unwrap_or("conversations");
        let path = path.ok_or(UrlError::Endpoint { provider: self.name, endpoint })?;
        self.url_to(path, base_url, upstream_model, api_version)
    }

    fn url_to(
        &self,
        end: &str,
        base_url: Option<&str>,
        upstream_model: &str,
        api_version: Option<&str>,
    ) -> Result<String, UrlError> {
        let base =
            base_url.or_else(|| self.default_base()).ok_or(UrlError::NoBase { provider: self.name })?;
        let base = without_endpoint(base.trim_end_matches('/'));
        Ok(match (base, self.url) {
            // The whole URL of an endpoint was given.
            (Base::Endpoint(root), _) => format!("{root}{end}"),
            (Base::Root(root), UrlRule::ModelInBody { path, .. }) if has_no_path(root) => {
                format!("{root}{path}{end}")
            }
            (Base::Root(root), UrlRule::ModelInBody { .. }) => format!("{root}{end}"),
            (Base::Root(root), UrlRule::Azure) => azure_url(root, end, upstream_model, api_version),
            (Base::Root(root), UrlRule::Anthropic { .. }) => {
                format!("{}/v1{end}", root.strip_suffix("/v1").unwrap_or(root))
            }
            (Base::Root(root), UrlRule::Gemini { .. } | UrlRule::Bedrock) => format!("{root}{end}"),
        })
    }

    /// The URL of a Chat Completions call; see [`Provider::url`].
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn chat_url(
        &self,
        base_url: Option<&str>,
        upstream_model: &str,
        api_version: Option<&str>,
    ) -> Result<String, UrlError> {
        self.url(Dialect::Chat, base_url, upstream_model, api_version)
    }
}

/// What a configured base URL is.
#[derive(Clone, Copy)]
enum Base<'a> {
    /// A root to which the rest is added.
    Root(&'a str),
    /// The URL of one dialect's endpoint, without its last part.
    Endpoint(&'a str),
}

fn without_endpoint(base: &str) -> Base<'_> {
    let root = Dialect::ALL.iter().find_map(|dialect| base.strip_suffix(dialect.path()?));
    root.map_or(Base::Root(base), Base::Endpoint)
}

/// The base may have the version, or be the whole URL of an endpoint. A model may be a tuned one, with a collection of its own
/// (Gemini API reference, "generateContent").
fn gemini_url(base: &str, model: &str) -> String {
    let split = |version: &&'static str| {
        let whole = base.find(&format!("{version}/models"));
        let at = whole.or_else(|| Some(base.strip_suffix(version)?.len()))?;
        Some((base.get(..at)?, *version))
    };
    let (root, version) = ["/v1beta", "/v1"].iter().find_map(split).unwrap_or((base, "/v1beta"));
    let (collection, name) = match model.split_once('/') {
        Some(("tunedModels", name)) => ("tunedModels", name),
        Some(("models", name)) => ("models", name),
        _ => ("models", model),
    };
    format!("{root}{version}/{collection}/{}{}", encode(name), gemini::WHOLE)
}

fn azure_url(base: &str, end: &str, deployment: &str, api_version: Option<&str>) -> String {
    let root = base.strip_suffix("/openai/v1").or_else(|| base.strip_suffix("/openai")).unwrap_or(base);
    match api_version {
        // Responses has the deployment's name in the body (Azure OpenAI reference, "Responses API").
        Some(version) if Some(end) == Dialect::Responses.path() && !base.ends_with("/openai/v1") => {
            format!("{root}/openai{end}?api-version={}", encode(version))
        }
        Some(version) if !base.ends_with("/openai/v1") => {
            let (deployment, version) = (encode(deployment), encode(version));
            format!("{root}/openai/deployments/{deployment}{end}?api-version={version}")
        }
        _ => format!("{root}/openai/v1{end}"),
    }
}

fn has_no_path(base: &str) -> bool {
    base.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'))
}

/// Percent-encodes one path segment or query value (RFC 3986, unreserved characters stay).
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
