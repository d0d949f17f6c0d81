//! Events with names, as the streams of Messages and Responses have them.

use serde_json::Value;

use crate::raw::Seen;

/// One event: its name and its data.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// The complete events of a stream (WHATWG HTML, server-sent events; LF, CRLF and CR).
pub(crate) fn events(seen: &Seen) -> Vec<Event> {
    let text = String::from_utf8_lossy(&seen.body).replace("\r\n", "\n").replace('\r', "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
    let field = |block: &str, name: &str| -> Vec<String> {
        let values = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.map(|value| value.strip_prefix(' ').unwrap_or(value).to_owned()).collect()
    };
    let blocks: Vec<&str> = text.split("\n\n").collect();
    let (_incomplete, whole) = blocks.split_last().unwrap();
    whole
        .iter()
        .map(|block| (field(block, "event").pop(), field(block, "data")))
        .filter(|(_, data)| !data.is_empty())
        .map(|(name, data)| Event { name, data: data.join("\n") })
        .collect()
}

pub(crate) fn names(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.name.clone().unwrap()).collect()
}

pub(crate) fn datas(events: &[Event]) -> Vec<Value> {
    events.iter().map(|event| serde_json::from_str(&event.data).unwrap()).collect()
}
