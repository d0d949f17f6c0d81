//! Spelling of server-sent events (WHATWG HTML, section 9.2) as a script wants it.

use bytes::Bytes;

use crate::script::{BrokenEvent, LineEnd, Wire};

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

/// One event with this JSON, and the comment before it if wanted.
pub(crate) fn event(wire: &Wire, json: &str) -> Vec<u8> {
    let mut out = String::with_capacity(json.len() + 16);
    if wire.comments {
        out.push_str(COMMENT);
        blank_line(wire, &mut out);
    }
    if wire.multi_line_data {
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

/// The terminator of a Chat Completions stream.
pub(crate) fn done(wire: &Wire) -> Vec<u8> {
    event(&Wire { multi_line_data: false, ..wire.clone() }, "[DONE]")
}

/// A heartbeat: a comment and an empty line.
pub(crate) fn heartbeat(wire: &Wire) -> Bytes {
    let mut out = String::from(": keep-alive");
    blank_line(wire, &mut out);
    out.into()
}

/// What stands in place of the event with this JSON.
pub(crate) fn broken_event(wire: &Wire, broken: BrokenEvent, json: &str) -> Vec<u8> {
    match broken {
        BrokenEvent::TruncatedJson => {
            let half = json.char_indices().nth(json.chars().count() / 2).map_or(0, |(at, _)| at);
            event(&Wire { multi_line_data: false, ..wire.clone() }, json.get(..half).unwrap_or_default())
        }
        BrokenEvent::InvalidUtf8 => {
            let end = wire.line_end.text();
            [b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}", end.as_bytes(), end.as_bytes()]
                .concat()
        }
        BrokenEvent::Empty => event(&Wire { multi_line_data: false, ..wire.clone() }, ""),
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
