//! Frames of AWS's event stream.

use bytes::Bytes;
use pointsman_wire::bedrock::frames::{FrameDecoder, FrameError};
use pointsman_wire::dialect::Dialect;
use pointsman_wire::sse::SseEvent;

/// One frame may be so large, in bytes.
const LIMIT: usize = 4096;

/// The first byte says in which pieces the rest arrives. The rest is frames; and, since no fuzzer guesses a checksum, frames
/// without their checksums too; and a stream whose events are written down as server-sent ones.
///
/// # Panics
/// If what is decoded depends on the pieces, or is larger than its frame may be.
pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let piece = usize::from(*first) + 1;
    for stream in [rest.to_vec(), sealed(rest)] {
        let whole = decoded(&stream, usize::MAX);
        assert_eq!(decoded(&stream, piece), whole, "in pieces of {piece}");
        for event in &whole.0 {
            // A sentence takes up to six bytes for one as JSON.
            assert!(event.data.len() <= 8 * LIMIT && !event.data.is_empty());
        }
    }
    crate::stream::check(Dialect::Bedrock, rest);
}

fn decoded(stream: &[u8], piece: usize) -> (Vec<SseEvent>, Option<FrameError>) {
    let mut decoder = FrameDecoder::new(LIMIT);
    let mut events = Vec::new();
    for chunk in stream.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
    }
    (events, None)
}

/// The input as frames with good checksums: a byte each for the lengths of headers and payload, and then both.
fn sealed(mut input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [headers, payload, rest @ ..] = input {
        let (headers, rest) = rest.split_at(usize::from(*headers).min(rest.len()));
        let (payload, rest) = rest.split_at(usize::from(*payload).min(rest.len()));
        let mut frame = Vec::new();
        for length in [16 + headers.len() + payload.len(), headers.len()] {
            frame.extend_from_slice(&(length as u32).to_be_bytes());
        }
        frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
        frame.extend_from_slice(headers);
        frame.extend_from_slice(payload);
        frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
        out.extend_from_slice(&frame);
        input = rest;
    }
    out
}
