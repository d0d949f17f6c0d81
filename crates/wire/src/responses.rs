//! The `responses` dialect: OpenAI Responses, and the servers that speak it too.

mod answer;
mod events;
mod gather;
mod item;
mod object;
mod reply;
mod request;
mod seal;
mod stream;
#[cfg(test)]
mod tests;
mod thoughts;
mod usage;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::Value;

use crate::dialect::StreamFrame;
use crate::error::ErrorView;
use crate::sse::write_event;
use object::{Items, Object, Status};

pub use answer::check_response;
pub(crate) use events::{EventReader, EventWriter};
pub use gather::Gather;
pub use object::Echo;
pub(crate) use reply::{decode as decode_answer, encode as encode_answer};
pub(crate) use request::{decode as decode_request, encode as encode_request};
pub use stream::StreamDecoder;
pub(crate) use thoughts::without_foreign;

#[derive(Serialize)]
struct Failed<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    response: Object<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointsman: Option<&'a Value>,
}

/// A stream's end with an error: `response.failed` with the whole response, and before it `response.created` where the client
/// was told of none, since SDKs take no other first event. Nothing may follow it. Codex and the SDKs overlook `error` events.
pub(crate) fn failed(
    view: &ErrorView<'_>,
    pointsman: Option<&Value>,
    frame: Option<&StreamFrame>,
    request_id: Option<&str>,
) -> Bytes {
    let unknown = StreamFrame::default();
    let frame = frame.unwrap_or(&unknown);
    let id =
        if frame.id.is_empty() { object::response_id(request_id.unwrap_or("0")) } else { frame.id.clone() };
    let echo = Echo::default();
    let object = |status, error, output| Object {
        id: &id,
        created_s: frame.created_s,
        model: &frame.model,
        status,
        error,
        output,
        usage: None,
        echo: &echo,
    };
    let mut out = BytesMut::new();
    let mut sequence_number = frame.sequence;
    let mut send = |kind: &'static str, response: Object<'_>, pointsman| {
        // Texts and numbers are always JSON.
        if let Ok(json) = serde_json::to_vec(&Failed { kind, sequence_number, response, pointsman }) {
            write_event(&mut out, Some(kind.as_bytes()), &json);
            sequence_number += 1;
        }
    };
    if frame.id.is_empty() {
        send("response.created", object(Status::InProgress, None, Items::Of(&[])), None);
    }
    let output = frame.output.as_deref().map_or(Items::Of(&[]), Items::Raw);
    send("response.failed", object(Status::Failed, Some(*view), output), pointsman);
    out.freeze()
}
