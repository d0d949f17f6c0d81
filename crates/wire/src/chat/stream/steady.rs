//! What strict clients need of an answer and some servers do not give: one name from the first chunk to the last, and tool
//! calls as the reason of its end. Nothing else of an answer is ever written anew.

#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use crate::json::{self, Scanner, Span, is_falsy};

/// How deep a chunk may nest; deeper ones are left as they are.
const MAX_DEPTH: usize = 128;
/// A name is kept for as long as its stream lasts: a longer one is left alone, in bytes.
const LONGEST: usize = 256;

const STOP: &str = "\"stop\"";
const TOOL_CALLS: &str = "\"tool_calls\"";

/// The members of a chunk that name its stream, each as the JSON of the first value that says something.
#[derive(Debug, Default)]
pub(in crate::chat) struct Name {
    id: Option<Box<str>>,
    created: Option<Box<str>>,
    model: Option<Box<str>>,
}

impl Name {
    /// Takes what a chunk says of it; answers whether that is something else than was said before.
    pub(in crate::chat) fn take(
        &mut self,
        id: Option<&RawValue>,
        created: Option<&RawValue>,
        model: Option<&RawValue>,
    ) -> bool {
        let mut differs = false;
        for (known, said) in [(&mut self.id, id), (&mut self.created, created), (&mut self.model, model)] {
            let Some(said) = said.map(RawValue::get) else { continue };
            match known {
                Some(known) => differs |= **known != *said,
                None if is_falsy(said) || said.len() > LONGEST || !is_word(said) => {}
                None => *known = Some(said.into()),
            }
        }
        differs
    }

    fn of(&self, key: &str) -> Option<&str> {
        match key {
            "id" => self.id.as_deref(),
            "created" => self.created.as_deref(),
            "model" => self.model.as_deref(),
            _ => None,
        }
    }
}

/// A number or a string that every reader can read: half of a surrogate pair, or a number beyond all numbers, must not
/// reach further chunks.
fn is_word(json: &str) -> bool {
    if json.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return json.parse::<f64>().is_ok_and(f64::is_finite);
    }
    json::text(json.as_bytes()).is_some()
}

/// Which choices called a tool, by their place in the list and their `index`.
type Called<'a> = &'a dyn Fn(usize, u64) -> bool;

/// The same chunk or answer under this name, and with `tool_calls` in place of `stop` where a tool was called. `None` if
/// there is nothing to change.
pub(in crate::chat) fn rewritten(data: &[u8], name: &Name, called: Called<'_>) -> Option<Bytes> {
    let mut scanner = Scanner::new(data, MAX_DEPTH);
    let mut edits: Vec<(Span, &str)> = Vec::new();
    let mut first = true;
    scanner.open_object().ok()?;
    while let Some(key) = scanner.next_key(&mut first).ok()? {
        let key = json::text(scanner.slice(&key))?;
        if key == "choices" && scanner.peek().ok()? == b'[' {
            ends(&mut scanner, called, &mut edits)?;
            continue;
        }
        let value = scanner.skip_value().ok()?;
        if let Some(known) = name.of(&key).filter(|known| known.as_bytes() != scanner.slice(&value)) {
            edits.push((value, known));
        }
    }
    spliced(data, &edits)
}

/// Finds the ends to change in the list of choices that the scanner stands before.
fn ends(scanner: &mut Scanner<'_>, called: Called<'_>, edits: &mut Vec<(Span, &str)>) -> Option<()> {
    let (mut place, mut first) = (0, true);
    scanner.open_array().ok()?;
    while scanner.next_element(&mut first).ok()? {
        if scanner.peek().ok()? == b'{' {
            let (index, stop) = end(scanner)?;
            if let Some(stop) = stop.filter(|_| called(place, index)) {
                edits.push((stop, TOOL_CALLS));
            }
        } else {
            scanner.skip_value().ok()?;
        }
        place += 1;
    }
    Some(())
}

/// The index of a choice, and where it says `stop`.
fn end(scanner: &mut Scanner<'_>) -> Option<(u64, Option<Span>)> {
    let (mut index, mut stop, mut first) = (0, None, true);
    scanner.open_object().ok()?;
    while let Some(key) = scanner.next_key(&mut first).ok()? {
        let key = json::text(scanner.slice(&key))?;
        let value = scanner.skip_value().ok()?;
        match key.as_ref() {
            "index" => index = std::str::from_utf8(scanner.slice(&value)).ok()?.parse().unwrap_or(0),
            "finish_reason" if scanner.slice(&value) == STOP.as_bytes() => stop = Some(value),
            _ => {}
        }
    }
    Some((index, stop))
}

/// The text with these parts, in their order, replaced.
fn spliced(data: &[u8], edits: &[(Span, &str)]) -> Option<Bytes> {
    if edits.is_empty() {
        return None;
    }
    let more: usize = edits.iter().map(|(_, new)| new.len()).sum();
    let mut out = BytesMut::with_capacity(data.len() + more);
    let mut from = 0;
    for (span, new) in edits {
        out.put_slice(data.get(from..span.start)?);
        out.put_slice(new.as_bytes());
        from = span.end;
    }
    out.put_slice(data.get(from..)?);
    Some(out.freeze())
}
