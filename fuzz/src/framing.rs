//! Server-sent events.

use bytes::{Bytes, BytesMut};
use pointsman_wire::sse::{SseDecoder, SseError, SseEvent, write_comment, write_event};

/// Room for a field's name beside its value.
const SLACK: usize = 16;

/// The first byte chooses the limit and how the stream, which is the rest, is cut.
///
/// # Panics
/// If the outcome depends on the chunks, differs from the specification's, is not bounded, or if what is written
/// is not read back.
pub fn check(input: &[u8]) {
    let Some((choice, stream)) = input.split_first() else { return };
    let large = stream.len() + SLACK;
    let whole = decode(stream, large, [stream.len()]);
    assert_eq!(whole.1, Ok(()), "nothing exceeds a limit that is larger than the stream");
    assert_eq!(whole.0, reference(stream), "the events are those of the specification");
    for limit in [large, usize::from(*choice & 0x3f)] {
        let unsplit = decode(stream, limit, [stream.len()]);
        assert!(unsplit.0.iter().all(|event| event.data.len() <= limit), "no event is larger than its limit");
        assert_eq!(unsplit, decode(stream, limit, [1]), "bytes one by one change nothing");
        let sizes = [usize::from(*choice >> 4) + 1, 1, usize::from(*choice & 0xf) + 1];
        assert_eq!(unsplit, decode(stream, limit, sizes), "chunks change nothing");
        assert!(whole.0.starts_with(&unsplit.0), "a smaller limit only cuts off");
    }
    whole.0.iter().for_each(reads_back);
    writes_any_data(stream);
}

type Decoded = (Vec<SseEvent>, Result<(), SseError>);

fn decode<const N: usize>(stream: &[u8], limit: usize, sizes: [usize; N]) -> Decoded {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    let mut rest = stream;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at((*size).clamp(1, rest.len()));
        decoder.push(Bytes::copy_from_slice(chunk));
        rest = after;
        if let Err(error) = drain(&mut decoder, &mut events) {
            assert_eq!(decoder.next_event(), Err(error), "a decoder that has failed stays so");
            return (events, Err(error));
        }
    }
    loop {
        match decoder.finish() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, Ok(())),
            Err(error) => return (events, Err(error)),
        }
    }
}

fn drain(decoder: &mut SseDecoder, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
    while let Some(event) = decoder.next_event()? {
        events.push(event);
    }
    Ok(())
}

/// WHATWG HTML, "9.2.6 Interpreting an event stream", word for word over the whole stream, but for what the decoder
/// promises to do otherwise: an unfinished last event counts, and events without data do not.
fn reference(stream: &[u8]) -> Vec<SseEvent> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut events = Vec::new();
    let (mut name, mut data) = (Vec::new(), Vec::new());
    for line in normalised(stream).split(|byte| *byte == b'\n').chain([&b""[..]]) {
        if line.is_empty() {
            data.pop();
            let (name, data) = (std::mem::take(&mut name), std::mem::take(&mut data));
            if !data.is_empty() {
                let event = Some(name).filter(|name| !name.is_empty()).map(Bytes::from);
                events.push(SseEvent { event, data: Bytes::from(data) });
            }
            continue;
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let field = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => name = value.to_vec(),
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            _ => {}
        }
    }
    events
}

/// Every line end as LF.
fn normalised(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'\r' => out.push(b'\n'),
            b'\n' if at > 0 && text[at - 1] == b'\r' => {}
            other => out.push(*other),
        }
    }
    out
}

fn reads_back(event: &SseEvent) {
    let mut out = BytesMut::new();
    write_event(&mut out, event.event.as_deref(), &event.data);
    let (events, ended) = decode(&out, out.len(), [out.len()]);
    assert_eq!((events.as_slice(), ended), (std::slice::from_ref(event), Ok(())));
}

fn writes_any_data(text: &[u8]) {
    let mut out = BytesMut::new();
    write_event(&mut out, Some(text), text);
    let (events, _) = decode(&out, out.len(), [out.len()]);
    let data: Vec<_> = events.iter().map(|event| event.data.to_vec()).collect();
    let expected = Some(normalised(text)).filter(|text| !text.is_empty());
    assert_eq!(data, Vec::from_iter(expected), "any data comes back, with its line ends as LF");

    let mut out = BytesMut::new();
    write_comment(&mut out, &String::from_utf8_lossy(text));
    assert_eq!(decode(&out, out.len(), [out.len()]).0, [], "a comment is no event");
}
