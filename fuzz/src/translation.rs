//! Translation: whatever a client or a provider says, it is translated, refused or unreadable, and what comes out is
//! well-formed.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use pointsman_wire::dialect::{Dialect, StreamTap};
use pointsman_wire::grammar::{GeminiGrammar, MessagesGrammar, ResponsesGrammar};
use pointsman_wire::sse::SseDecoder;
use pointsman_wire::translate::{Back, Destination, StreamTranslator, answer, request};
use serde_json::value::RawValue;

/// From this number on one side is Bedrock.
const BEDROCK: usize = 216;

/// Takes the first byte for the direction and for what comes: a request, a plain answer or a stream.
pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let number = usize::from(*first);
    let from = Dialect::CLIENTS[number % 4];
    // No client speaks Bedrock: requests go there, and answers come from there.
    if number >= BEDROCK {
        return match (number - BEDROCK) / 4 % 3 {
            0 => asked(rest, from, Dialect::Bedrock, first & 1 == 1),
            1 => answered(rest, Dialect::Bedrock, from),
            _ => streamed(rest, Dialect::Bedrock, from),
        };
    }
    let to = Dialect::CLIENTS[(number + 1 + number / 4 % 3) % 4];
    match number / 12 % 3 {
        0 => asked(rest, from, to, first & 128 == 128),
        1 => answered(rest, from, to),
        _ => streamed(rest, from, to),
    }
}

fn asked(body: &[u8], from: Dialect, to: Dialect, stream: bool) {
    for model in ["claude-sonnet-4-5", "claude-opus-5-5", "us.amazon.nova-pro-v1:0", "gpt-4o", "gemini-3-pro", "gemini-2.5-flash"] {
        let destination = Destination {
            model,
            stream,
            include_usage: stream,
            max_output: None,
            reasons: stream,
            max_tokens_name: None,
            origin: "0451",
            custom_tools: stream,
        };
        let Ok(written) = request(body, from, to, &destination) else { continue };
        let sent = members(&written.body);
        let says = |name: &str| sent.get(name).map(|value| value.get());
        if matches!(to, Dialect::Gemini | Dialect::Bedrock) {
            assert_eq!((says("model"), says("stream")), (None, None), "the path says both");
        } else {
            assert_eq!(
                says("model"),
                Some(format!("\"{model}\"").as_str()),
                "the request cannot choose the model"
            );
            assert_eq!(says("stream"), Some(stream.to_string().as_str()), "nor whether it streams");
        }
        let again = request(body, from, to, &destination).expect("it was translated before");
        assert_eq!(again.body, written.body, "the same each time");
        if to == Dialect::Bedrock {
            continue;
        }
        // What is sent is a request of its dialect: it can be read again.
        let back = request(&written.body, to, from, &destination);
        assert!(!matches!(back, Err(pointsman_wire::translate::Refused::Unreadable(_))), "{back:?}");
    }
}

/// What is written is one JSON object; of its values only the form is looked at, since a client's own number may be too large
/// for any machine.
fn members(json: &[u8]) -> BTreeMap<String, &RawValue> {
    serde_json::from_slice(json).expect("what is written is a JSON object")
}

fn answered(body: &[u8], from: Dialect, to: Dialect) {
    if let Ok(said) = answer(body, from, to, &Back::default()) {
        members(&said);
    }
}

/// Whatever a provider sends, the stream in the other dialect keeps its grammar.
fn streamed(stream: &[u8], from: Dialect, to: Dialect) {
    let mut decoder = SseDecoder::new(1 << 20);
    decoder.push(Bytes::copy_from_slice(stream));
    let mut translator = StreamTranslator::new(from, to, Back { include_usage: true, ..Back::default() });
    let mut out = BytesMut::new();
    while let Ok(Some(event)) = decoder.next_event() {
        if translator.event(event.event.as_deref(), &event.data, &mut out).is_err() {
            return;
        }
    }
    translator.end(&mut out);
    let mut written = SseDecoder::new(1 << 24);
    written.push(out.freeze());
    let mut tap = StreamTap::new(to);
    let mut grammar = MessagesGrammar::new();
    let mut numbered = ResponsesGrammar::new();
    let mut of_gemini = GeminiGrammar::new();
    let mut events = 0;
    while let Ok(Some(event)) = written.next_event() {
        events += 1;
        tap.event(event.event.as_deref(), &event.data);
        if to == Dialect::Messages {
            grammar.event(event.event.as_deref(), &event.data).expect("the grammar of Messages");
        }
        if to == Dialect::Responses {
            numbered.event(event.event.as_deref(), &event.data).expect("the grammar of Responses");
        }
        if to == Dialect::Gemini {
            of_gemini.event(event.event.as_deref(), &event.data).expect("the grammar of Gemini");
        }
    }
    assert_eq!(tap.malformed(), 0, "each event can be read");
    if events > 0 {
        let ended = if to == Dialect::Gemini { tap.finished() } else { tap.done() };
        assert!(ended, "it comes to its end");
    }
}
