//! Where a credential of AWS may be: in the environment, in a profile, at a container's endpoint, at the instance's (AWS SDKs
//! and Tools Reference Guide, "Standardized credential providers").

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pointsman_config::{AwsSource, Vars};
use pointsman_upstream::{Client, ClientConfig, HttpVersion, Origin, Request, SendLimits};
use secrecy::SecretString;
use serde::Deserialize;

use super::profile::{Profile, text_of};
use super::{AwsKey, NoCredential};

/// Amazon EC2 User Guide, "Use the Instance Metadata Service".
const INSTANCE: &str = "http://169.254.169.254";
/// Amazon ECS Developer Guide, "Task IAM role".
const CONTAINER: &str = "http://169.254.170.2";
/// Hosts at which a container may be asked in the clear: this machine's, those of ECS and of EKS Pod Identity.
const IN_THE_CLEAR: [&str; 6] =
    ["localhost", "127.0.0.1", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
/// A place that is not there must not be waited for.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// An answer may be so large, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

type Found = Result<Option<AwsKey>, NoCredential>;

/// Where to look, in this order.
pub(crate) struct Places {
    /// Only this profile.
    profile: Option<String>,
    /// The credential is written in the configuration: there is nothing to look for.
    is_static: bool,
    vars: Arc<dyn Vars + Send + Sync>,
}

/// What a container's endpoint and the instance's answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl Places {
    pub(super) fn new(source: &AwsSource, vars: Arc<dyn Vars + Send + Sync>) -> Self {
        let profile = if let AwsSource::Profile(name) = source { Some(name.clone()) } else { None };
        Self { profile, is_static: matches!(source, AwsSource::Static { .. }), vars }
    }

    /// Whether another fetch may find another credential.
    pub(super) fn can_change(&self) -> bool {
        !self.is_static
    }

    /// Looks for a credential.
    pub(super) async fn fetch(&self) -> Result<AwsKey, NoCredential> {
        if let Some(name) = &self.profile {
            return self.named(name);
        }
        if let Some(key) = self.environment() {
            return Ok(key);
        }
        match self.var("AWS_PROFILE") {
            Some(name) => return self.named(&name),
            None => {
                if let Some(key) = self.in_files("default").key() {
                    return Ok(key);
                }
            }
        }
        if let Some(key) = self.container().await? {
            return Ok(key);
        }
        if let Some(key) = self.instance().await? {
            return Ok(key);
        }
        let places = "the environment, a profile, a container's endpoint or the instance's";
        Err(NoCredential(format!(
            "there is no AWS credential in {places}; write one, or `api_key`, at the target"
        )))
    }

    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn environment(&self) -> Option<AwsKey> {
        Some(AwsKey {
            access_key_id: self.var("AWS_ACCESS_KEY_ID")?,
            secret: SecretString::from(self.var("AWS_SECRET_ACCESS_KEY")?),
            token: self.var("AWS_SESSION_TOKEN").map(SecretString::from),
            expires_s: None,
        })
    }

    fn named(&self, name: &str) -> Result<AwsKey, NoCredential> {
        let profile = self.in_files(name);
        let what = match profile.found {
            true => "has no access key; roles, SSO and processes are not read",
            false => "is in none of AWS's files",
        };
        profile.key().ok_or_else(|| NoCredential(format!("the AWS profile '{name}' {what}")))
    }

    /// The credentials' file comes before the configuration's.
    fn in_files(&self, name: &str) -> Profile {
        let home = self.var("HOME").map(PathBuf::from).unwrap_or_default();
        let file = |variable: &str, usual: &str| {
            self.var(variable).map_or_else(|| home.join(".aws").join(usual), PathBuf::from)
        };
        let read = |path: PathBuf| Profile::read(&text_of(&path).unwrap_or_default(), name);
        let first = read(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
        let second = read(file("AWS_CONFIG_FILE", "config"));
        let found = first.found || second.found;
        if first.has_key() { first } else { Profile { found, ..second } }
    }

    async fn container(&self) -> Found {
        let url = match (
            self.var("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            self.var("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ) {
            (Some(path), _) => format!("{CONTAINER}{path}"),
            (None, Some(url)) => url,
            (None, None) => return Ok(None),
        };
        let failed = |why: &str| NoCredential(format!("the container's AWS credentials: {why}"));
        let (origin, path) = Origin::parse(&url).map_err(|_| failed("their address is no URL"))?;
        // Whoever sets the address must not get the token of another host.
        if url.starts_with("http:") && !IN_THE_CLEAR.contains(&bracketed(origin.host()).as_str()) {
            return Err(failed("their address is neither https nor of this machine"));
        }
        let mut headers = HeaderMap::new();
        let token = match self.var("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(path) => {
                Some(text_of(Path::new(&path)).ok_or_else(|| failed("their token cannot be read"))?)
            }
            None => self.var("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        };
        if let Some(token) = token {
            let value = HeaderValue::try_from(token.trim()).map_err(|_| failed("their token is none"))?;
            headers.insert(http::header::AUTHORIZATION, value);
        }
        let client = client()?;
        let answer = ask(&client, origin, Method::GET, path, headers).await.map_err(|why| failed(&why))?;
        read(&answer).map(Some).ok_or_else(|| failed("their endpoint's answer is none"))
    }

    /// The instance's endpoint, version 2: first a token, then the role's name, then its credential. Where nothing answers at
    /// all this is no instance.
    async fn instance(&self) -> Found {
        if self.var("AWS_EC2_METADATA_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let base = self.var("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| INSTANCE.to_owned());
        let failed = |why: &str| NoCredential(format!("the instance's AWS credentials: {why}"));
        let (origin, _) = Origin::parse(&base).map_err(|_| failed("their address is no URL"))?;
        let client = client()?;
        let mut headers = HeaderMap::new();
        headers.insert(TOKEN_TTL, HeaderValue::from_static("21600"));
        let path = "/latest/api/token".to_owned();
        let Ok(token) = ask(&client, origin.clone(), Method::PUT, path, headers).await else {
            return Ok(None);
        };
        let token = HeaderValue::from_bytes(token.trim_ascii()).map_err(|_| failed("their token is none"))?;
        let get = async |path: String| {
            let headers = HeaderMap::from_iter([(METADATA_TOKEN, token.clone())]);
            ask(&client, origin.clone(), Method::GET, path, headers).await.map_err(|why| failed(&why))
        };
        let role = get(ROLES.to_owned()).await?;
        let role = std::str::from_utf8(&role).unwrap_or_default().lines().next().unwrap_or_default().trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
        if role.is_empty() || !role.chars().all(plain) {
            return Err(failed("the instance has no role"));
        }
        let answer = get(format!("{ROLES}{role}")).await?;
        read(&answer).map(Some).ok_or_else(|| failed("their endpoint's answer is none"))
    }
}

const TOKEN_TTL: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
const METADATA_TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

/// These places are on this machine or beside it: no proxy leads there.
fn client() -> Result<Client, NoCredential> {
    Client::new(ClientConfig::default()).map_err(|why| NoCredential(format!("AWS credentials: {why}")))
}

/// The body of an answer that is a success; else what went wrong, in words.
async fn ask(
    client: &Client,
    origin: Origin,
    method: Method,
    path: String,
    headers: HeaderMap,
) -> Result<Bytes, String> {
    let request = Request {
        origin: Arc::new(origin),
        method,
        path_and_query: if path.is_empty() { "/".to_owned() } else { path },
        headers,
        body: Bytes::new(),
        http: HttpVersion::Http1,
        replay_on_stale: true,
    };
    let limits = SendLimits { connect: CONNECT_WITHIN, headers: Some(ANSWER_WITHIN), write: ANSWER_WITHIN };
    let response = client.send(request, &limits).await.map_err(|error| error.to_string())?;
    if !response.status.is_success() {
        return Err(format!("their endpoint answered with status {}", response.status.as_u16()));
    }
    let mut body = response.body;
    let mut bytes = BytesMut::new();
    let whole = async {
        while let Some(chunk) = body.chunk().await {
            bytes.extend_from_slice(&chunk.map_err(|error| error.to_string())?);
            if bytes.len() > MAX_ANSWER {
                return Err("their endpoint's answer is too large".to_owned());
            }
        }
        Ok(())
    };
    let whole = tokio::time::timeout(ANSWER_WITHIN, whole).await;
    whole.map_err(|_| "their endpoint did not answer in time".to_owned())??;
    Ok(bytes.freeze())
}

fn read(answer: &[u8]) -> Option<AwsKey> {
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    let expires_s = match answer.expiration {
        Some(time) => Some(time.parse::<jiff::Timestamp>().ok()?.as_second()),
        None => None,
    };
    Some(AwsKey {
        access_key_id: answer.access_key_id,
        secret: SecretString::from(answer.secret_access_key),
        token: answer.token.filter(|token| !token.is_empty()).map(SecretString::from),
        expires_s,
    })
}
