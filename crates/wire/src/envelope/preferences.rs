//! Routing preferences in the body, by OpenRouter's convention (its documentation, "Provider routing" and
//! "Model routing"): the fields `models` and `provider`.
//!
//! They are read strictly. A preference that is mistyped or unknown could be one about privacy or price, so it
//! is refused and never ignored.

use serde::Deserialize;
use serde_json::Value;

use super::EnvelopeError;

/// How many models or names a list may hold.
const MAX_NAMES: usize = 64;

/// How large `models` or `provider` may be, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Documented by OpenRouter, without effect in this gateway; listed in [`Preferences::without_effect`].
const WITHOUT_EFFECT: &[&str] = &[
    "enforce_distillable_text",
    "experimental",
    "preferred_max_latency",
    "preferred_min_throughput",
    "max_price.image",
    "max_price.request",
];

/// What a client prefers. Absent fields say nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preferences {
    /// `models`: substitutes in their order, besides `model`.
    pub models: Vec<String>,
    /// `provider.order`: these first.
    pub order: Vec<String>,
    /// `provider.only`: none but these.
    pub only: Vec<String>,
    /// `provider.ignore`: not these.
    pub ignore: Vec<String>,
    /// `provider.allow_fallbacks`.
    pub allow_fallbacks: Option<bool>,
    /// `provider.require_parameters`: only a target that knows each field of the request.
    pub require_parameters: Option<bool>,
    /// `provider.data_collection`.
    pub data_collection: Option<DataCollection>,
    /// `provider.zdr`: zero data retention.
    pub zdr: Option<bool>,
    /// `provider.sort`.
    pub sort: Option<Sort>,
    /// `provider.max_price`.
    pub max_price: Option<MaxPrice>,
    /// `provider.quantizations`.
    pub quantizations: Vec<String>,
    /// Documented fields that were given and have no effect here: to be disclosed, not hidden.
    pub without_effect: Vec<&'static str>,
}

/// Whether a provider may store what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataCollection {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// What to order targets by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// Cheapest first.
    Price,
    /// Most tokens per second first.
    Throughput,
    /// Soonest first token first.
    Latency,
}

/// The most that a target may cost, in USD per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MaxPrice {
    /// Input.
    pub prompt: Option<f64>,
    /// Output.
    pub completion: Option<f64>,
}

/// Reads the value of `models`.
pub(super) fn read_models(json: &[u8], into: &mut Preferences) -> Result<(), EnvelopeError> {
    into.models = names("models", &parse("models", json)?)?;
    Ok(())
}

/// Reads the value of `provider`.
pub(super) fn read_provider(json: &[u8], into: &mut Preferences) -> Result<(), EnvelopeError> {
    let Value::Object(fields) = parse("provider", json)? else {
        return Err(wrong("provider", "an object is expected"));
    };
    refuse_duplicates(json)?;
    for (key, value) in &fields {
        let path = format!("provider.{key}");
        if value.is_null() {
            continue;
        }
        match key.as_str() {
            "order" => into.order = names(&path, value)?,
            "only" => into.only = names(&path, value)?,
            "ignore" => into.ignore = names(&path, value)?,
            "quantizations" => into.quantizations = names(&path, value)?,
            "allow_fallbacks" => into.allow_fallbacks = Some(boolean(&path, value)?),
            "require_parameters" => into.require_parameters = Some(boolean(&path, value)?),
            "zdr" => into.zdr = Some(boolean(&path, value)?),
            "data_collection" => {
                into.data_collection = Some(word(&path, value, "'allow' or 'deny' is expected")?)
            }
            "sort" => into.sort = Some(word(&path, value, "'price', 'throughput' or 'latency' is expected")?),
            "max_price" => into.max_price = Some(max_price(value, &mut into.without_effect)?),
            other => into.without_effect.push(known(&path, other)?),
        }
    }
    Ok(())
}

fn max_price(value: &Value, without_effect: &mut Vec<&'static str>) -> Result<MaxPrice, EnvelopeError> {
    let Some(fields) = value.as_object() else {
        return Err(wrong("provider.max_price", "an object is expected"));
    };
    let mut price = MaxPrice::default();
    for (key, value) in fields {
        let path = format!("provider.max_price.{key}");
        match key.as_str() {
            "prompt" => price.prompt = Some(usd(&path, value)?),
            "completion" => price.completion = Some(usd(&path, value)?),
            other => without_effect.push(known(&path, &format!("max_price.{other}"))?),
        }
    }
    Ok(price)
}

/// A price as a number, or as a number in a string.
fn usd(path: &str, value: &Value) -> Result<f64, EnvelopeError> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number
        .filter(|usd: &f64| usd.is_finite() && *usd >= 0.0)
        .ok_or_else(|| wrong(path, "a price in USD per million tokens is expected"))
}

fn known(path: &str, name: &str) -> Result<&'static str, EnvelopeError> {
    WITHOUT_EFFECT
        .iter()
        .find(|known| **known == name)
        .copied()
        .ok_or_else(|| wrong(path, "no such preference exists"))
}

fn names(path: &str, value: &Value) -> Result<Vec<String>, EnvelopeError> {
    let expected = || wrong(path, "a list of at most 64 non-empty strings is expected");
    let list = value.as_array().filter(|list| list.len() <= MAX_NAMES).ok_or_else(expected)?;
    list.iter()
        .map(|name| name.as_str().filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(expected))
        .collect()
}

fn boolean(path: &str, value: &Value) -> Result<bool, EnvelopeError> {
    value.as_bool().ok_or_else(|| wrong(path, "true or false is expected"))
}

fn word<'v, T: Deserialize<'v>>(path: &str, value: &'v Value, expected: &str) -> Result<T, EnvelopeError> {
    T::deserialize(value).map_err(|_| wrong(path, expected))
}

fn parse(path: &str, json: &[u8]) -> Result<Value, EnvelopeError> {
    if json.len() > MAX_BYTES {
        return Err(wrong(path, "it is larger than 64 KiB"));
    }
    serde_json::from_slice(json).map_err(|_| wrong(path, "it holds a string or number that cannot be read"))
}

/// A value tree keeps the last of two equal keys; here both would be somebody's truth.
fn refuse_duplicates(json: &[u8]) -> Result<(), EnvelopeError> {
    let mut scanner = crate::json::Scanner::new(json, usize::MAX);
    let mut seen: Vec<String> = Vec::new();
    let mut first = true;
    let broken = |_| wrong("provider", "an object is expected");
    scanner.open_object().map_err(broken)?;
    while let Some(key) = scanner.next_key(&mut first).map_err(broken)? {
        let key = crate::json::text(scanner.slice(&key)).unwrap_or_default().into_owned();
        if seen.contains(&key) {
            return Err(wrong(&format!("provider.{key}"), "it is given more than once"));
        }
        if seen.len() >= MAX_NAMES {
            return Err(wrong("provider", "it has too many fields"));
        }
        seen.push(key);
        scanner.skip_value().map_err(broken)?;
    }
    Ok(())
}

/// A field's path comes from the client: it is cut so that an error stays one sentence.
fn wrong(path: &str, problem: &str) -> EnvelopeError {
    EnvelopeError::Preference { field: path.chars().take(80).collect(), problem: problem.to_owned() }
}
