//! AWS Signature Version 4 (AWS IAM User Guide, "Create a signed AWS API request").
//!
//! The headers that say what is asked for and by whom are signed: a proxy on the way may add others. The body is hashed where
//! it lies.

use aws_lc_rs::{digest, hmac};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;

use super::{AwsKey, NoCredential};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// What of a request is signed.
#[derive(Clone, Copy)]
pub(crate) struct Signable<'r> {
    /// As the `host` header has it.
    pub(crate) host: &'r str,
    /// As it is sent, without a query.
    pub(crate) path: &'r str,
    pub(crate) body: &'r [u8],
}

/// Adds `x-amz-date`, `x-amz-security-token` and `authorization`. `scope`: region and service.
pub(super) fn sign(
    request: &Signable<'_>,
    scope: (&str, &str),
    key: &AwsKey,
    now_s: i64,
    headers: &mut HeaderMap,
) -> Result<(), NoCredential> {
    let unusable = || NoCredential("the AWS credential holds what no header can carry".to_owned());
    let time = jiff::Timestamp::from_second(now_s).unwrap_or_default().strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = time.get(..8).unwrap_or_default();
    headers.insert(DATE, HeaderValue::try_from(&time).map_err(|_| unusable())?);
    if let Some(token) = &key.token {
        let mut token = HeaderValue::try_from(token.expose_secret()).map_err(|_| unusable())?;
        token.set_sensitive(true);
        headers.insert(TOKEN, token);
    }
    let mut signed: Vec<(&str, &str)> = [CONTENT_TYPE, DATE, TOKEN]
        .iter()
        .filter_map(|name| Some((name, headers.get(name)?.to_str().ok()?.trim())))
        .map(|(name, value)| (of_static(name), value))
        .chain([("host", request.host)])
        .collect();
    signed.sort_unstable();
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let hash = hex(digest::digest(&digest::SHA256, request.body).as_ref());
    let canonical = format!("POST\n{}\n\n{lines}\n{names}\n{hash}", canonical_path(request.path));
    let (region, service) = scope;
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{hashed}");
    let secret = format!("AWS4{}", key.secret.expose_secret());
    let mut signature = secret.into_bytes();
    for step in [day, region, service, "aws4_request", &to_sign] {
        let step_key = hmac::Key::new(hmac::HMAC_SHA256, &signature);
        signature = hmac::sign(&step_key, step.as_bytes()).as_ref().to_vec();
    }
    let value = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={}",
        key.access_key_id,
        hex(&signature)
    );
    let mut value = HeaderValue::try_from(value).map_err(|_| unusable())?;
    value.set_sensitive(true);
    headers.insert(AUTHORIZATION, value);
    Ok(())
}

fn of_static(name: &HeaderName) -> &'static str {
    [CONTENT_TYPE.as_str(), "x-amz-date", "x-amz-security-token"]
        .into_iter()
        .find(|known| *known == name.as_str())
        .unwrap_or_default()
}

/// Each segment of the path is encoded once more than it is sent: all services but S3 ask for it ("Create a canonical
/// request").
fn canonical_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 16);
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
