//! Durations, shares, sizes and money as they are written. Errors say how to write it instead.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// No limit of this program makes sense beyond ten years.
const LONGEST_MS: f64 = 10.0 * 365.0 * 86_400_000.0;

/// `250ms`, `5s`, `1.5m`, `9m30s`, `30d`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err("a duration cannot be negative".to_owned());
    }
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!(
            "a duration needs a unit: write `{text}s` for seconds or `{text}ms` for milliseconds"
        ));
    }
    let mut rest = text;
    let mut millis = 0.0;
    let mut finer_than = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest).ok_or_else(not_a_span)?;
        let word_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (word, tail) = after.split_at_checked(word_end).ok_or_else(not_a_span)?;
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == word).ok_or_else(not_a_span)?;
        if *unit >= finer_than {
            return Err(not_a_span());
        }
        finer_than = *unit;
        millis += number * *unit as f64;
        rest = tail;
    }
    match millis {
        _ if text.is_empty() => Err(not_a_span()),
        ms if ms > LONGEST_MS => Err("a duration of more than ten years".to_owned()),
        ms => Ok(Duration::from_micros((ms * 1000.0).round() as u64)),
    }
}

/// A duration as it would be written: in the coarsest unit that loses nothing.
pub(crate) fn written(span: Duration) -> String {
    let millis = span.as_millis();
    let exact = UNITS
        .iter()
        .rev()
        .find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)) && millis >= u128::from(*unit));
    match exact {
        Some((word, unit)) => format!("{}{word}", millis / u128::from(*unit)),
        None => "0s".to_owned(),
    }
}

fn not_a_span() -> String {
    "not a duration: write `250ms`, `5s`, `10m`, `2h` or `30d`".to_owned()
}

/// `5%` or `0.05`, as 0.0 to 1.0.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let error = || "not a share: write `5%` or `0.05`".to_owned();
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let value = decimal(number).ok_or_else(error)? / scale;
    match value {
        v if (0.0..=1.0).contains(&v) => Ok(v),
        _ if scale == 1.0 => Err(format!("a share lies between 0 and 1; write `{number}%` for a percentage")),
        _ => Err("a share lies between 0% and 100%".to_owned()),
    }
}

/// `64MiB`, `64KiB`, `1GiB`, `10MB`, or a number of bytes.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let error = || "not a size: write `64KiB`, `64MiB`, `1GiB` or a number of bytes".to_owned();
    let (number, unit) = leading_number(text).ok_or_else(error)?;
    let scale: f64 = match unit.trim_start() {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(error()),
    };
    match number * scale {
        bytes if bytes < 1.0 => Err("a size must be more than 0".to_owned()),
        bytes if bytes > 1e15 => Err("a size of more than a petabyte".to_owned()),
        bytes => usize::try_from(bytes.round() as u64).map_err(|_| error()),
    }
}

/// US dollars, as millionths.
pub(crate) fn micro_usd(text: &str) -> Result<u64, String> {
    match decimal(text) {
        Some(usd) if usd <= 1e9 => Ok((usd * 1e6).round() as u64),
        Some(_) => Err("more than a billion USD".to_owned()),
        None => Err("not an amount: write a number of USD such as `0.27`".to_owned()),
    }
}

/// A plain decimal number, not negative.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    leading_number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    let starts_and_ends_with_digit =
        number.starts_with(|c: char| c.is_ascii_digit()) && !number.ends_with('.');
    let value: f64 = number.parse().ok().filter(|v: &f64| v.is_finite())?;
    starts_and_ends_with_digit.then_some((value, rest))
}

#[cfg(test)]
mod tests;
