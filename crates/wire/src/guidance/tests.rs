use std::time::Duration;

use serde_json::json;

use super::{Resets, rate_headroom, retry_after, retry_after_of_error};
use crate::error::UpstreamError;

/// 2026-10-21 07:27:00 UTC: one minute before the date that RFC 9110 style examples use here.
const NOW: i64 = 1_792_567_620_000;

const fn ms(count: u64) -> Option<Duration> {
    Some(Duration::from_millis(count))
}

fn by_header(name: &str, value: &str) -> Option<Duration> {
    retry_after(&[(name, value)], None, NOW)
}

fn by_text(message: &str) -> Option<Duration> {
    retry_after(&[], Some(message), NOW)
}

#[test]
fn retry_after_in_seconds_fractions_dates_and_milliseconds() {
    assert_eq!(by_header("retry-after", "2"), ms(2_000));
    assert_eq!(by_header("retry-after", " 1.5 "), ms(1_500));
    assert_eq!(by_header("retry-after", "0"), ms(0));
    assert_eq!(by_header("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), ms(60_000));
    assert_eq!(by_header("retry-after-ms", "1500"), ms(1_500));
    assert_eq!(by_header("retry-after", "604800"), ms(604_800_000), "not capped here");
}

#[test]
fn garbage_negatives_and_the_past_say_nothing() {
    for value in
        ["-1", "abc", "", "NaN", "inf", "1e3", "--", "Wed, 21 Oct 2020 07:28:00 GMT", "99999999999999999999"]
    {
        assert_eq!(by_header("retry-after", value), None, "{value:?}");
        assert_eq!(by_header("retry-after-ms", value), None, "{value:?}");
        assert_eq!(by_header("x-ratelimit-reset-tokens", value), None, "{value:?}");
    }
}

#[test]
fn the_more_precise_source_comes_first() {
    let headers = [("retry-after-ms", "1500"), ("retry-after", "2"), ("x-ratelimit-reset-tokens", "6m0s")];
    assert_eq!(retry_after(&headers, Some("try again in 9s"), NOW), ms(1_500));
    assert_eq!(retry_after(&[headers[1], headers[2]], Some("try again in 9s"), NOW), ms(2_000));
    assert_eq!(retry_after(&[headers[2]], Some("try again in 9s"), NOW), ms(360_000));
    assert_eq!(retry_after(&[("retry-after-ms", "x"), headers[1]], None, NOW), ms(2_000));
}

#[test]
fn resets_as_go_durations_seconds_moments_and_dates() {
    for (value, expected) in [
        ("6m0s", ms(360_000)),
        ("20ms", ms(20)),
        ("1h", ms(3_600_000)),
        ("1h2m3.5s", ms(3_723_500)),
        ("2m59.56s", ms(179_560)),
        ("12", ms(12_000)),
        ("1792567680", ms(60_000)),
        ("1792567680000", ms(60_000)),
        ("2026-10-21T07:28:00Z", ms(60_000)),
        ("2026-10-21T09:28:00.250+02:00", ms(60_250)),
        ("6m0x", None),
        // RFC 3339, section 5.6: the offset is a time of day.
        ("2026-10-21T07:28:00+24:00", None),
        ("2026-10-21T07:28:00+00:60", None),
        ("2026-10-21T-1:28:00Z", None),
        ("2026-10-21T-9223372036854775808:00:00Z", None),
        ("2026-10-21T07:28:00-999999999999999999:00", None),
    ] {
        assert_eq!(by_header("x-ratelimit-reset-requests", value), expected, "{value}");
    }
    assert_eq!(by_header("anthropic-ratelimit-tokens-reset", "2026-10-21T07:27:10Z"), ms(10_000));
}

#[test]
fn the_limit_that_is_used_up_decides_over_the_one_that_is_not() {
    let headers = [
        ("x-ratelimit-reset-requests", "1h0m0s"),
        ("x-ratelimit-remaining-requests", "99"),
        ("x-ratelimit-reset-tokens", "7s"),
        ("x-ratelimit-remaining-tokens", "0"),
    ];
    assert_eq!(retry_after(&headers, None, NOW), ms(7_000));
    let both = [headers[0], ("x-ratelimit-remaining-requests", "0"), headers[2], headers[3]];
    assert_eq!(retry_after(&both, None, NOW), ms(3_600_000));
    assert_eq!(retry_after(&[headers[0], headers[2]], None, NOW), ms(7_000), "neither says so: the soonest");
}

#[test]
fn messages_of_openai_azure_and_google() {
    for (message, expected) in [
        (
            "Rate limit reached for gpt-4o: Limit 30000, Used 29000, Requested 2000. Please try again in 1.5s. Visit x",
            ms(1_500),
        ),
        ("Please try again in 6m0s.", ms(360_000)),
        ("Please try again in 20ms.", ms(20)),
        (
            "have exceeded token rate limit of your current pricing tier. Please retry after 7 seconds. Please go here",
            ms(7_000),
        ),
        ("Please retry after 86400 seconds.", ms(86_400_000)),
        ("Rate limit is exceeded. Try again in 2 seconds.", ms(2_000)),
        ("Please retry in 31.2s", ms(31_200)),
        ("try again in 2 minutes", ms(120_000)),
        ("try again in 1 second", ms(1_000)),
        ("try again in a while", None),
        ("Overloaded", None),
    ] {
        assert_eq!(by_text(message), expected, "{message}");
    }
}

#[test]
fn google_retry_info_stands_before_the_reset_headers() {
    let body = json!({"error": {"code": 429, "message": "quota", "details": [
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31s"}]}});
    let error = UpstreamError::parse(body.to_string().as_bytes());
    let headers = [("x-ratelimit-reset-requests", "5s")];
    assert_eq!(retry_after_of_error(&headers, error.as_ref(), Resets::Count, NOW), ms(31_000));
    assert_eq!(retry_after_of_error(&headers, None, Resets::Count, NOW), ms(5_000));
    assert_eq!(retry_after_of_error(&headers, None, Resets::Ignore, NOW), None);
}

#[test]
fn openrouter_copies_the_providers_headers_into_the_body() {
    let body = json!({"error": {"code": 429, "message": "Rate limit exceeded",
        "metadata": {"headers": {"X-RateLimit-Limit": "20", "X-RateLimit-Reset": "1792567680000"}}}});
    let error = UpstreamError::parse(body.to_string().as_bytes());
    assert_eq!(retry_after_of_error(&[], error.as_ref(), Resets::Count, NOW), ms(60_000));
}

#[test]
fn headroom_is_the_least_of_what_is_left() {
    let headers = [
        ("x-ratelimit-limit-requests", "1000"),
        ("x-ratelimit-remaining-requests", "900"),
        ("x-ratelimit-limit-tokens", "80000"),
        ("x-ratelimit-remaining-tokens", "20000"),
    ];
    assert_eq!(rate_headroom(&headers), Some(0.25));
    assert_eq!(rate_headroom(&[headers[0], headers[1]]), Some(0.9));
    assert_eq!(
        rate_headroom(&[headers[0], headers[1], headers[2], ("x-ratelimit-remaining-tokens", "-1")]),
        Some(0.9)
    );
    assert_eq!(
        rate_headroom(&[("x-ratelimit-limit-requests", "0"), ("x-ratelimit-remaining-requests", "0")]),
        None
    );
    assert_eq!(rate_headroom(&[("x-ratelimit-remaining-requests", "5")]), None);
    assert_eq!(rate_headroom(&[]), None);
}

#[test]
fn anthropics_headers_tell_room_and_reset_of_each_kind_of_token() {
    let headers = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2026-10-21T07:27:01Z"),
        ("anthropic-ratelimit-input-tokens-limit", "50000"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-10-21T07:28:00Z"),
    ];
    assert_eq!(rate_headroom(&headers), Some(0.0));
    assert_eq!(rate_headroom(&[headers[0], headers[1]]), Some(0.98));
    // The tokens are used up, the requests are not: it is the later reset that counts.
    assert_eq!(retry_after(&headers, None, NOW), ms(60_000));
    assert_eq!(
        retry_after_of_error(&headers, None, Resets::Ignore, NOW),
        None,
        "they come with every answer and mean nothing then"
    );
}
