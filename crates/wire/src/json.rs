//! A forward scanner over JSON text (RFC 8259): says where values lie, builds nothing.
//!
//! It checks the grammar completely and never calls itself on what the text nests, so that neither a deep nor a
//! large text costs more than one pass.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

mod arguments;
mod members;
#[cfg(test)]
mod tests;

pub(crate) use arguments::{arguments, wrapped};
pub(crate) use members::{Members, list, span_of};

/// A place in the text, from the first byte to just after the last.
pub(crate) type Span = Range<usize>;

/// Why the text is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanError {
    /// Not JSON, at this byte.
    Syntax { offset: usize },
    /// More arrays and objects inside each other than allowed.
    TooDeep,
}

pub(crate) type Scan<T> = Result<T, ScanError>;

#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    max_depth: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8], max_depth: usize) -> Self {
        Self { text, at: 0, depth: 0, max_depth }
    }

    /// The offset of the next byte to read.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The first byte of the next value, after white space.
    pub(crate) fn peek(&mut self) -> Scan<u8> {
        self.skip_space();
        self.text.get(self.at).copied().ok_or_else(|| self.here())
    }

    /// Enters an object.
    pub(crate) fn open_object(&mut self) -> Scan<()> {
        self.open(b'{')
    }

    /// Enters an array.
    pub(crate) fn open_array(&mut self) -> Scan<()> {
        self.open(b'[')
    }

    /// The next key of the open object with its colon read, or `None` when the object has been left.
    /// `first` starts as `true` for each object and is kept by the caller.
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Scan<Option<Span>> {
        if !self.next_member(first, b'}')? {
            return Ok(None);
        }
        self.skip_space();
        let key = self.string()?;
        self.skip_space();
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// Whether the open array has another element; `false` when the array has been left.
    pub(crate) fn next_element(&mut self, first: &mut bool) -> Scan<bool> {
        self.next_member(first, b']')
    }

    /// Passes over one whole value.
    pub(crate) fn skip_value(&mut self) -> Scan<Span> {
        self.skip_space();
        let start = self.at;
        // `true` for an object; one entry per open level, at most `max_depth`.
        let mut open: Vec<bool> = Vec::new();
        let mut fresh = false;
        loop {
            if let Some(&object) = open.last() {
                let more = if object {
                    self.next_key(&mut fresh)?.is_some()
                } else {
                    self.next_element(&mut fresh)?
                };
                if !more {
                    open.pop();
                    fresh = false;
                    if open.is_empty() {
                        return Ok(start..self.at);
                    }
                    continue;
                }
            }
            match self.peek()? {
                b'{' => {
                    self.open_object()?;
                    open.push(true);
                    fresh = true;
                }
                b'[' => {
                    self.open_array()?;
                    open.push(false);
                    fresh = true;
                }
                _ => {
                    self.scalar()?;
                    fresh = false;
                    if open.is_empty() {
                        return Ok(start..self.at);
                    }
                }
            }
        }
    }

    /// Checks that only white space is left.
    pub(crate) fn end(&mut self) -> Scan<()> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.here()) }
    }

    /// The bytes of a span that this scanner gave out.
    pub(crate) fn slice(&self, span: &Span) -> &'a [u8] {
        self.text.get(span.clone()).unwrap_or_default()
    }

    fn next_member(&mut self, first: &mut bool, close: u8) -> Scan<bool> {
        self.skip_space();
        let byte = self.text.get(self.at).copied();
        if byte == Some(close) {
            self.at += 1;
            self.depth = self.depth.saturating_sub(1);
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn open(&mut self, byte: u8) -> Scan<()> {
        self.skip_space();
        self.expect(byte)?;
        self.depth += 1;
        if self.depth > self.max_depth { Err(ScanError::TooDeep) } else { Ok(()) }
    }

    fn scalar(&mut self) -> Scan<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    /// A string with its quotes.
    fn string(&mut self) -> Scan<Span> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(stop) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(ScanError::Syntax { offset: self.text.len() });
            };
            let plain = rest.get(..stop).unwrap_or_default();
            // A minimum instead of a search: it runs over megabytes of base64 at vector speed.
            if plain.iter().fold(0xFF, |least, byte| least.min(*byte)) < 0x20 {
                let offset = plain.iter().position(|byte| *byte < 0x20).unwrap_or(0);
                return Err(ScanError::Syntax { offset: self.at + offset });
            }
            self.at += stop;
            if self.text.get(self.at) == Some(&b'"') {
                self.at += 1;
                return Ok(start..self.at);
            }
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Scan<()> {
        self.at += 1;
        match self.text.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                let digits = self.text.get(self.at + 1..self.at + 5).unwrap_or_default();
                if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(self.here());
                }
                self.at += 5;
                Ok(())
            }
            _ => Err(self.here()),
        }
    }

    fn number(&mut self) -> Scan<()> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Scan<()> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.here());
        }
        self.at += count;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Scan<()> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.here())
    }

    fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.text.get(self.at) == Some(&byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.here())
    }

    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn here(&self) -> ScanError {
        ScanError::Syntax { offset: self.at }
    }
}

/// The text of a JSON string; `None` for another value or a broken escape (a lone surrogate).
pub(crate) fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<String>(json).ok().map(Cow::Owned)
}

/// The text of a JSON string, half surrogate pairs as U+FFFD: a provider that cuts a pair in two has said the rest all the
/// same. `None` for another value.
pub(crate) fn lossy_text(json: &[u8]) -> Option<Cow<'_, str>> {
    if let Some(text) = text(json) {
        return Some(text);
    }
    let inner = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut mended = Vec::with_capacity(json.len());
    let mut at = 0;
    mended.push(b'"');
    while let Some(byte) = inner.get(at) {
        let unit = |at: usize| {
            let escape = inner.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
            u16::from_str_radix(std::str::from_utf8(escape.get(2..)?).ok()?, 16).ok()
        };
        let length = match (*byte, unit(at)) {
            (b'\\', Some(0xD800..=0xDBFF))
                if unit(at + 6).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) =>
            {
                12
            }
            (b'\\', Some(0xD800..=0xDFFF)) => {
                mended.extend_from_slice("\u{FFFD}".as_bytes());
                at += 6;
                continue;
            }
            (b'\\', _) => 2,
            _ => 1,
        };
        mended.extend_from_slice(inner.get(at..at + length).unwrap_or_default());
        at += length;
    }
    mended.push(b'"');
    serde_json::from_slice::<String>(&mended).ok().map(Cow::Owned)
}

/// The same object without keys that come twice; the last one holds, as it does for SDKs. `None` if it has none
/// or is no object. For the rare text that a strict reader refuses.
pub(crate) fn without_duplicates(json: &[u8]) -> Option<Vec<u8>> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(json).ok()?;
    serde_json::to_vec(&object).ok().filter(|text| text.len() < json.len())
}

/// Whether a JSON value says nothing: `null`, `false`, `0`, or an empty string, array or object.
pub(crate) fn is_falsy(json: &str) -> bool {
    let json = json.trim();
    match json.as_bytes() {
        [b'{', inner @ .., b'}'] | [b'[', inner @ .., b']'] => inner.trim_ascii().is_empty(),
        _ => matches!(json, "" | "null" | "false" | "0" | "\"\""),
    }
}

/// `generation_config` as `generationConfig`; a name without `_` stays as it is.
pub(crate) fn camel(name: &str) -> Cow<'_, str> {
    if !name.contains('_') {
        return Cow::Borrowed(name);
    }
    let mut spelt = String::with_capacity(name.len());
    let mut raise = false;
    for c in name.chars() {
        match c {
            '_' => raise = true,
            c if std::mem::take(&mut raise) => spelt.push(c.to_ascii_uppercase()),
            c => spelt.push(c),
        }
    }
    Cow::Owned(spelt)
}

/// The text of a value, unless it is empty or none.
pub(crate) fn word(raw: &RawValue) -> Option<String> {
    text(raw.get().as_bytes()).filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// The same where half a pair of surrogates is no reason to lose a text.
pub(crate) fn lossy_word(raw: &RawValue) -> Option<String> {
    lossy_text(raw.get().as_bytes()).filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// The bytes of a value that a reader would see, as they stand in the JSON without quotes; none where it says nothing.
pub(crate) fn visible(value: Option<&RawValue>) -> u64 {
    let Some(json) = value.map(RawValue::get).filter(|json| !is_falsy(json)) else { return 0 };
    let quotes = if json.starts_with('"') { 2 } else { 0 };
    (json.len() as u64).saturating_sub(quotes).max(1)
}
