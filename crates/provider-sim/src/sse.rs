//! Spelling of events as a script wants it: server-sent events (WHATWG HTML, section 9.2), and what other carriers have.

use bytes::Bytes;

use crate::bedrock::frame;
use crate::script::{BrokenEvent, LineEnd, Wire};
use crate::speech::{Carrier, Event};

/// The comment that OpenRouter sends while a model is busy; clients must ignore any comment.
const COMMENT: &str = ": OPENROUTER PROCESSING";

impl LineEnd {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::Crlf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// One event as its carrier has it; the comment before it if wanted.
pub(crate) fn event(wire: &Wire, event: &Event) -> Vec<u8> {
    let json = event.json.as_str();
    match event.carrier {
        Carrier::Sse => {}
        Carrier::Bare => return json.as_bytes().to_vec(),
        Carrier::Frame(kind) => {
            return frame::message(kind, event.name.unwrap_or_default(), json.as_bytes());
        }
    }
    let mut out = String::with_capacity(json.len() + 16);
    if wire.comments {
        out.push_str(COMMENT);
        blank_line(wire, &mut out);
    }
    name_line(wire, event.name, &mut out);
    // An end marker is no JSON and stays on its line.
    if wire.multi_line_data && json.starts_with('{') {
        let pretty = serde_json::from_str::<serde_json::Value>(json)
            .and_then(|value| serde_json::to_string_pretty(&value))
            .unwrap_or_else(|_| json.to_owned());
        for line in pretty.lines() {
            data_line(wire, line, &mut out);
        }
    } else {
        data_line(wire, json, &mut out);
    }
    out.push_str(wire.line_end.text());
    out.into_bytes()
}

/// A heartbeat: a comment and an empty line.
pub(crate) fn heartbeat(wire: &Wire) -> Bytes {
    let mut out = String::from(": keep-alive");
    blank_line(wire, &mut out);
    out.into()
}

/// What stands in place of an event.
pub(crate) fn broken_event(wire: &Wire, broken: BrokenEvent, whole: &Event) -> Vec<u8> {
    let wire = Wire { multi_line_data: false, ..wire.clone() };
    let with = |json: &str| event(&wire, &Event { json: json.to_owned(), ..whole.clone() });
    match (broken, whole.carrier) {
        (BrokenEvent::Checksum, Carrier::Frame(_)) => {
            let mut bytes = with(&whole.json);
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            bytes
        }
        (BrokenEvent::TruncatedJson | BrokenEvent::Checksum, _) => {
            let json = whole.json.as_str();
            let half = json.char_indices().nth(json.chars().count() / 2).map_or(0, |(at, _)| at);
            with(json.get(..half).unwrap_or_default())
        }
        (BrokenEvent::InvalidUtf8, Carrier::Frame(kind)) => {
            frame::message(kind, whole.name.unwrap_or_default(), &not_utf8(whole.json.as_bytes()))
        }
        (BrokenEvent::InvalidUtf8, _) => not_utf8(&with(&whole.json)),
        (BrokenEvent::Empty, Carrier::Bare) => with(",,"),
        (BrokenEvent::Empty, _) => with(""),
    }
}

/// The same with bytes that are not UTF-8 where its text begins, or else somewhere within.
fn not_utf8(bytes: &[u8]) -> Vec<u8> {
    const TEXTS: [&str; 4] = ["\"delta\":\"", "\"text\":\"", "\"content\":\"", "\"partial_json\":\""];
    let text =
        |key: &&str| memchr::memmem::find(bytes, key.as_bytes()).map(|at| at.saturating_add(key.len()));
    let at = TEXTS.iter().find_map(text).unwrap_or(bytes.len() / 2);
    let (before, after) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
    [before, b"\xff\xfe", after].concat()
}

fn name_line(wire: &Wire, name: Option<&str>, out: &mut String) {
    if let Some(name) = name {
        out.push_str(if wire.no_space_after_colon { "event:" } else { "event: " });
        out.push_str(name);
        out.push_str(wire.line_end.text());
    }
}

fn data_line(wire: &Wire, text: &str, out: &mut String) {
    out.push_str(if wire.no_space_after_colon { "data:" } else { "data: " });
    out.push_str(text);
    out.push_str(wire.line_end.text());
}

fn blank_line(wire: &Wire, out: &mut String) {
    out.push_str(wire.line_end.text());
    out.push_str(wire.line_end.text());
}
