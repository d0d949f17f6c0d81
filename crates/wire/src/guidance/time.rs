//! The spellings of moments and durations in headers and messages.

use std::time::Duration;

/// No guidance is longer than this; a larger number is garbage. In seconds, about three years.
const LONGEST: f64 = 1e8;

/// A finite decimal number that is not negative. (`f64` would also take "inf" and "nan".)
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

/// A duration as Go prints it: `6m0s`, `20ms`, `1h0m0.5s`.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let (wait, rest) = compound(text.trim())?;
    rest.is_empty().then_some(wait)
}

/// A duration at the start of a sentence's rest: `7 seconds.`, `1.5s`, `6m0s`, `2 minutes`; seconds without unit.
pub(super) fn spoken_duration(text: &str) -> Option<Duration> {
    let text = text.trim_start();
    if let Some((wait, rest)) = compound(text)
        && !rest.starts_with(|next: char| next.is_alphabetic())
    {
        return Some(wait);
    }
    let (count, rest) = leading_number(text)?;
    let word = rest.trim_start();
    let word =
        word.get(..word.find(|next: char| !next.is_alphabetic()).unwrap_or(word.len())).unwrap_or_default();
    let unit = match word {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => 1.0,
    };
    seconds(count * unit)
}

/// Numbers with Go's units, one or several, and what follows them.
fn compound(text: &str) -> Option<(Duration, &str)> {
    let mut rest = text;
    let mut total = 0.0;
    let mut parts = 0;
    while let Some((count, after)) = leading_number(rest) {
        let (unit, after) = leading_unit(after)?;
        total += count * unit;
        parts += 1;
        rest = after;
    }
    if parts == 0 {
        return None;
    }
    Some((seconds(total)?, rest))
}

fn leading_number(text: &str) -> Option<(f64, &str)> {
    let mut end = text.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(text.len());
    // The full stop of a sentence is no decimal point.
    if text.get(..end)?.ends_with('.') {
        end -= 1;
    }
    let (digits, rest) = text.split_at_checked(end)?;
    Some((number(digits)?, rest))
}

fn leading_unit(text: &str) -> Option<(f64, &str)> {
    const UNITS: &[(&str, f64)] = &[
        ("ms", 1e-3),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ns", 1e-9),
        ("h", 3600.0),
        ("m", 60.0),
        ("s", 1.0),
        ("d", 86400.0),
    ];
    UNITS.iter().find_map(|(name, seconds)| text.strip_prefix(name).map(|rest| (*seconds, rest)))
}

/// A duration, unless it is beyond all reason.
pub(super) fn seconds(count: f64) -> Option<Duration> {
    (count <= LONGEST).then(|| Duration::try_from_secs_f64(count).ok()).flatten()
}

/// An RFC 3339 date and time as Unix time in milliseconds.
pub(super) fn instant(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let year: i64 = parts.next()?.parse().ok()?;
    let month: i64 = parts.next()?.parse().ok()?;
    let day: i64 = parts.next()?.parse().ok()?;
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, offset_minutes) = split_offset(time)?;
    let mut parts = clock.splitn(3, ':');
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let second = number(parts.next()?)?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || second >= 61.0 {
        return None;
    }
    let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    Some(minutes * 60_000 + (second * 1000.0) as i64)
}

fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = time.rfind(['+', '-'])?;
    let (clock, offset) = time.split_at_checked(at)?;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let in_a_day = (0..24).contains(&hours) && (0..60).contains(&minutes);
    in_a_day.then(|| (clock, sign * (hours * 60 + minutes)))
}

/// Days from 1970-01-01 in the Gregorian calendar, with the year taken to begin in March so that the leap day
/// is its last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
