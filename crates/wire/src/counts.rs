//! The counts of a usage object, found in one pass and without a tree of it: each answer has one, and with some providers
//! so has each event of a stream.

use crate::json::{Scan, Scanner, text};

#[cfg(test)]
mod tests;

/// Tells `found` of each count: the name of the object inside `usage` that holds it (empty for `usage` itself), its own
/// name and its value. What lies deeper, or is no count, is passed over; of a name that comes twice the last one is told
/// last. `None` if `usage` is no JSON object.
pub(crate) fn each_count(usage: &str, mut found: impl FnMut(&str, &str, u64)) -> Option<()> {
    let each = |scanner: &mut Scanner<'_>, name: &str| {
        if scanner.peek()? != b'{' {
            return one(scanner, |count| found("", name, count));
        }
        members(scanner, |scanner, inner| one(scanner, |count| found(name, inner, count)))
    };
    members(&mut Scanner::new(usage.as_bytes(), usize::MAX), each).ok()
}

fn members<'a>(
    scanner: &mut Scanner<'a>,
    mut each: impl FnMut(&mut Scanner<'a>, &str) -> Scan<()>,
) -> Scan<()> {
    scanner.open_object()?;
    let mut first = true;
    while let Some(key) = scanner.next_key(&mut first)? {
        let name = text(scanner.slice(&key)).unwrap_or_default();
        each(scanner, &name)?;
    }
    Ok(())
}

fn one(scanner: &mut Scanner<'_>, found: impl FnOnce(u64)) -> Scan<()> {
    let value = scanner.skip_value()?;
    if let Some(count) = count(scanner.slice(&value)) {
        found(count);
    }
    Ok(())
}

/// A count; some servers write it as `12.0`.
fn count(json: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(json).ok().filter(|text| !text.starts_with('"'))?;
    text.parse().ok().or_else(|| {
        let number = text.parse::<f64>().ok()?;
        (0.0..1e15).contains(&number).then_some(number as u64)
    })
}
