//! Spelling of server-sent events (WHATWG HTML, section 9.2) as a script wants it.

use bytes::Bytes;

use crate::script::{BrokenEvent, LineEnd, Wire};
use crate::speech::Event;

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

/// One event, and the comment before it if wanted.
pub(crate) fn event(wire: &Wire, event: &Event) -> Vec<u8> {
    let json = event.json.as_str();
    if event.bare {
        return json.as_bytes().to_vec();
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
    match broken {
        BrokenEvent::TruncatedJson => {
            let json = whole.json.as_str();
            let half = json.char_indices().nth(json.chars().count() / 2).map_or(0, |(at, _)| at);
            with(json.get(..half).unwrap_or_default())
        }
        BrokenEvent::InvalidUtf8 => {
            // Where its text begins, or else somewhere within.
            const TEXTS: [&str; 4] = ["\"delta\":\"", "\"text\":\"", "\"content\":\"", "\"partial_json\":\""];
            let bytes = with(&whole.json);
            let text = |key: &&str| {
                memchr::memmem::find(&bytes, key.as_bytes()).map(|at| at.saturating_add(key.len()))
            };
            let at = TEXTS.iter().find_map(text).unwrap_or(bytes.len() / 2);
            let (before, after) = bytes.split_at_checked(at).unwrap_or((&bytes, &[]));
            [before, b"\xff\xfe", after].concat()
        }
        BrokenEvent::Empty if whole.bare => with(",,"),
        BrokenEvent::Empty => with(""),
    }
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
