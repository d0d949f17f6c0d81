//! What Amazon Bedrock needs beside other providers: a region, and a credential that signs.

use crate::base_url::{self, Place};
use crate::config::{AwsCredential, AwsSource, Credential};
use crate::problem::Report;
use crate::provider::Provider;
use crate::reader::Fields;
use crate::secret;

/// The keys of a target that say which credential signs, named as in AWS's own files.
pub(crate) const KEYS: [&str; 4] =
    ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_profile"];

const NEEDS_REGION: &str = "needs `region`, such as `us-east-1`: each has an address of its own";

/// The public address in a region (AWS General Reference, "Amazon Bedrock endpoints and quotas").
pub(crate) fn place_in(region: &str, provider: &Provider) -> Result<Place, String> {
    if !is_region(region) {
        return Err("`region` is none of AWS, such as `us-east-1`; write it, or a `base_url`".to_owned());
    }
    let ending = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    base_url::read(&format!("https://bedrock-runtime.{region}.{ending}"), provider)
}

/// Where a target without `base_url` is.
pub(crate) fn place(fields: &Fields<'_>, provider: &Provider, report: &mut Report) -> Option<Place> {
    let Some(region) = fields.get("region") else {
        report.error(fields.at, format!("`{}` {NEEDS_REGION}", fields.path));
        return None;
    };
    match place_in(&region.text(report)?, provider) {
        Ok(place) => Some(place),
        Err(why) => {
            report.error(region.node.at, format!("`{}`: {why}", fields.path));
            None
        }
    }
}

/// Keys that only Bedrock has, where another provider or a key of its own makes them useless.
pub(crate) fn refuse(fields: &Fields<'_>, why: &str, report: &mut Report) {
    for key in KEYS.into_iter().filter(|key| fields.get(key).is_some()) {
        report.error(fields.mark(key), format!("`{}.{key}`: {why}; remove it", fields.path));
    }
}

/// The credential that signs: the one that is written, else whichever the machine has. `None` if what is written is none
/// (then reported).
pub(crate) fn credential(fields: &Fields<'_>, place: &Place, report: &mut Report) -> Option<Credential> {
    let region = region(fields, place, report);
    let source = source(fields, report);
    Some(Credential::Aws(AwsCredential { region: region?, source: source? }))
}

fn source(fields: &Fields<'_>, report: &mut Report) -> Option<AwsSource> {
    let path = &fields.path;
    let id = fields.get("aws_access_key_id");
    let key = fields.get("aws_secret_access_key");
    let token = fields.get("aws_session_token");
    if let Some(profile) = fields.get("aws_profile") {
        if id.is_some() || key.is_some() || token.is_some() {
            let why = format!("`{path}` has a credential and `aws_profile`; one is enough");
            report.error(profile.node.at, why);
            return None;
        }
        return profile.text(report).map(AwsSource::Profile);
    }
    let (id, key) = match (id, key) {
        (None, None) if token.is_none() => return Some(AwsSource::Chain),
        (Some(id), Some(key)) => (id, key),
        _ => {
            let why = format!("`{path}` needs `aws_access_key_id` and `aws_secret_access_key` together");
            report.error(fields.at, why);
            return None;
        }
    };
    let (id, key) = (secret::read(&id, report), secret::read(&key, report));
    let session_token = match token {
        Some(token) => Some(secret::read(&token, report)?),
        None => None,
    };
    Some(AwsSource::Static { access_key_id: id?, secret_access_key: key?, session_token })
}

/// The region that a signature holds for: that of the address, else the one that is written.
fn region(fields: &Fields<'_>, place: &Place, report: &mut Report) -> Option<String> {
    if let Some(region) = region_of(&place.host) {
        return Some(region.to_owned());
    }
    let Some(field) = fields.get("region") else {
        let why = "needs `region`, such as `us-east-1`: requests are signed for it";
        report.error(fields.at, format!("`{}` {why}", fields.path));
        return None;
    };
    let region = field.text(report)?;
    if is_region(&region) {
        return Some(region);
    }
    field.wrong(report, "must be a region of AWS, such as `us-east-1`: requests are signed for it")
}

/// `bedrock-runtime.us-east-1.amazonaws.com`, also with `-fips`, and behind a VPC's own names.
fn region_of(host: &str) -> Option<&str> {
    let (_, behind) = host.split_once("bedrock-runtime")?;
    behind.trim_start_matches("-fips").strip_prefix('.')?.split('.').next().filter(|region| is_region(region))
}

/// `us-east-1`, `us-gov-west-1`.
fn is_region(text: &str) -> bool {
    let mut parts = text.split('-');
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let number =
        parts.next_back().is_some_and(|last| last.len() == 1 && last.bytes().all(|b| b.is_ascii_digit()));
    let words: Vec<&str> = parts.collect();
    number && (2..=3).contains(&words.len()) && words.into_iter().all(word)
}
