//! What a provider says about when to come back, and how much room it has left.
//!
//! Nothing is capped here: how long a wait still counts as a rate limit is the caller's decision.

#[cfg(test)]
mod tests;
mod time;

use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::UpstreamError;
use time::{go_duration, instant, number, seconds};

/// Response headers; they are looked up by lower-case names. Implemented for arrays of pairs, for tests and for
/// events that have no headers.
pub trait Headers {
    /// The first value of this header, if it is text.
    fn get(&self, name: &str) -> Option<&str>;
}

impl<const N: usize> Headers for [(&str, &str); N] {
    fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// How long the provider asks to wait, if it says so in a way that can be understood. For answers about rates:
/// the reset headers come with every other answer too and then mean nothing.
///
/// In this order: `retry-after-ms`, `retry-after` (seconds or an HTTP date, RFC 9110 §10.2.3), the reset headers
/// of rate limits, the text of `message`. Garbage, negative numbers and moments that have passed say nothing.
#[must_use]
pub fn retry_after(headers: &dyn Headers, message: Option<&str>, unix_now_ms: i64) -> Option<Duration> {
    from_retry_headers(headers, unix_now_ms)
        .or_else(|| from_resets(headers, unix_now_ms))
        .or_else(|| message.and_then(from_text))
}

/// The same with what else an error object holds: Google's `RetryInfo` (it stands before the reset headers) and
/// OpenRouter's copy of the provider's headers.
pub(crate) fn retry_after_of_error(
    headers: &dyn Headers,
    error: Option<&UpstreamError>,
    resets: Resets,
    unix_now_ms: i64,
) -> Option<Duration> {
    let extra = error.map(|error| &error.extra);
    from_retry_headers(headers, unix_now_ms)
        .or_else(|| extra.and_then(from_retry_info))
        .or_else(|| if resets == Resets::Count { from_resets(headers, unix_now_ms) } else { None })
        .or_else(|| extra.and_then(|extra| from_copied_headers(extra, unix_now_ms)))
        .or_else(|| error.and_then(|error| from_text(&error.message)))
}

/// Whether the reset headers of rate limits say anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resets {
    /// The answer is about a rate.
    Count,
    /// The answer is about something else.
    Ignore,
}

/// How much room the provider says is left, from 0 (none) to 1 (all): the least of remaining ÷ limit over its
/// `x-ratelimit-*` or `anthropic-ratelimit-*` headers. `None` without such headers; Azure's `-1` says nothing.
#[must_use]
pub fn rate_headroom(headers: &dyn Headers) -> Option<f64> {
    ROOM.iter()
        .filter_map(|(limit, remaining)| {
            let limit = number(headers.get(limit)?)?;
            let remaining = number(headers.get(remaining)?)?;
            (limit > 0.0).then(|| (remaining / limit).min(1.0))
        })
        .min_by(f64::total_cmp)
}

/// The pairs of headers that say how large a limit is, and what remains of it.
const ROOM: &[(&str, &str)] = &[
    ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-limit", "x-ratelimit-remaining"),
    ("anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining"),
    ("anthropic-ratelimit-input-tokens-limit", "anthropic-ratelimit-input-tokens-remaining"),
    ("anthropic-ratelimit-output-tokens-limit", "anthropic-ratelimit-output-tokens-remaining"),
];

fn from_retry_headers(headers: &dyn Headers, now: i64) -> Option<Duration> {
    let millis = headers.get("retry-after-ms").and_then(number).and_then(|ms| seconds(ms / 1000.0));
    millis.or_else(|| {
        let value = headers.get("retry-after")?.trim();
        match number(value) {
            Some(_) => reset_in(value, now),
            None => until_http_date(value, now).or_else(|| go_duration(value)),
        }
    })
}

fn until_http_date(value: &str, now: i64) -> Option<Duration> {
    let moment = httpdate::parse_http_date(value).ok()?;
    let at = moment.duration_since(std::time::UNIX_EPOCH).ok()?;
    until(i64::try_from(at.as_millis()).ok()?, now)
}

/// The pairs of headers that say when a limit is whole again, and what remains of it until then.
const RESETS: &[(&str, &str)] = &[
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-input-tokens-remaining"),
    ("anthropic-ratelimit-output-tokens-reset", "anthropic-ratelimit-output-tokens-remaining"),
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("ratelimit-reset", "ratelimit-remaining"),
    ("ratelimitbysize-reset", "ratelimitbysize-remaining"),
];

/// Of the limits that are used up, the one that resets last; if none says that it is used up, the soonest reset.
fn from_resets(headers: &dyn Headers, now: i64) -> Option<Duration> {
    let mut used_up = None;
    let mut soonest: Option<Duration> = None;
    for (reset, remaining) in RESETS {
        let Some(wait) = headers.get(reset).and_then(|value| reset_in(value, now)) else { continue };
        if headers.get(remaining).and_then(number) == Some(0.0) {
            used_up = used_up.max(Some(wait));
        }
        soonest = Some(soonest.map_or(wait, |least| least.min(wait)));
    }
    used_up.or(soonest)
}

/// A reset as a Go duration, seconds, Unix time in seconds or milliseconds, or RFC 3339.
fn reset_in(value: &str, now: i64) -> Option<Duration> {
    let value = value.trim();
    match number(value) {
        Some(millis) if millis >= 1e12 => until(millis as i64, now),
        Some(unix) if unix >= 1e9 => until((unix * 1000.0) as i64, now),
        Some(count) => seconds(count),
        None => go_duration(value).or_else(|| until(instant(value)?, now)),
    }
}

/// `error.details[]` with a `google.rpc.RetryInfo`.
fn from_retry_info(extra: &Map<String, Value>) -> Option<Duration> {
    let details = extra.get("details")?.as_array()?;
    let info = details.iter().find(|detail| {
        detail.get("@type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("google.rpc.RetryInfo"))
    })?;
    match info.get("retryDelay")? {
        Value::String(text) => go_duration(text),
        delay => seconds(delay.get("seconds")?.as_f64()?),
    }
}

/// OpenRouter: `error.metadata.headers` with the names as the provider spelt them.
fn from_copied_headers(extra: &Map<String, Value>, now: i64) -> Option<Duration> {
    let headers = extra.get("metadata")?.get("headers")?.as_object()?;
    let value = |name: &str| {
        let (_, value) = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        value.as_str().map(str::to_owned).or_else(|| value.as_number().map(ToString::to_string))
    };
    let after = value("retry-after").and_then(|text| number(&text)).and_then(seconds);
    after.or_else(|| value("x-ratelimit-reset").and_then(|text| reset_in(&text, now)))
}

/// `retry after 7 seconds`, `try again in 1.5s`, `try again in 6m0s`, `retry in 31.2s`.
fn from_text(message: &str) -> Option<Duration> {
    let text = message.to_ascii_lowercase();
    ["retry after ", "try again in ", "retry in ", "try again after ", "available again in "]
        .iter()
        .filter_map(|phrase| text.find(phrase).and_then(|at| text.get(at + phrase.len()..)))
        .find_map(time::spoken_duration)
}

fn until(moment_ms: i64, now_ms: i64) -> Option<Duration> {
    let wait = u64::try_from(moment_ms.checked_sub(now_ms)?).ok()?;
    seconds(Duration::from_millis(wait).as_secs_f64())
}
