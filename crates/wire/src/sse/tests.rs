use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::{SseDecoder, SseError, SseEvent, write_comment, write_event};

const LIMIT: usize = 1 << 20;

/// All events of a stream that comes in these pieces, each as (name, data).
fn decode(pieces: &[&[u8]]) -> Vec<(Option<String>, String)> {
    let mut decoder = SseDecoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        while let Some(event) = decoder.next_event().unwrap() {
            events.push(readable(&event));
        }
    }
    while let Some(event) = decoder.finish().unwrap() {
        events.push(readable(&event));
    }
    events
}

fn readable(event: &SseEvent) -> (Option<String>, String) {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    (event.event.as_ref().map(text), text(&event.data))
}

fn data(pieces: &[&[u8]]) -> Vec<String> {
    decode(pieces).into_iter().map(|(_, data)| data).collect()
}

#[test]
fn a_comment_is_no_beginning_of_an_event() {
    for (bytes, begun) in [
        (": keep-al", false),
        (": keep-alive\n\n", false),
        ("data: {", true),
        ("data: {}\n", true),
        ("data: {}\n\n", false),
        ("data: {}\n: keep-al", true),
    ] {
        let mut decoder = SseDecoder::new(LIMIT);
        decoder.push(Bytes::from(bytes));
        while decoder.next_event().unwrap().is_some() {}
        assert_eq!(decoder.in_event(), begun, "{bytes:?}");
    }
}

// The four examples of WHATWG HTML, "9.2.6 Interpreting an event stream".

#[test]
fn several_data_lines_are_joined_by_a_line_feed() {
    assert_eq!(data(&[b"data: YHOO\ndata: +2\ndata: 10\n\n"]), ["YHOO\n+2\n10"]);
}

#[test]
fn comments_and_ids_are_no_events_and_only_one_space_is_taken_off() {
    let stream =
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
    assert_eq!(data(&[stream]), ["first event", "second event", " third event"]);
}

#[test]
fn an_event_with_empty_data_is_dropped_since_sdks_cannot_read_it() {
    // The specification would deliver an empty string, and then a line feed for two empty lines.
    assert_eq!(data(&[b"data\n\ndata: x\n\ndata:\n\n"]), ["x"]);
    assert_eq!(data(&[b"data\ndata\n\n"]), ["\n"]);
}

#[test]
fn a_colon_with_and_without_space_means_the_same() {
    assert_eq!(data(&[b"data:test\n\ndata: test\n\n"]), ["test", "test"]);
}

#[test]
fn every_kind_of_line_end_is_understood() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = "data: a\ndata: b\n\nevent: e\ndata: c\n\n".replace('\n', end);
        let expected = [(None, "a\nb".to_owned()), (Some("e".to_owned()), "c".to_owned())];
        assert_eq!(decode(&[stream.as_bytes()]), expected, "line end {end:?}");
    }
}

#[test]
fn a_bare_cr_ends_a_line_at_once_without_waiting_for_a_line_feed() {
    let mut decoder = SseDecoder::new(LIMIT);
    decoder.push(Bytes::from_static(b"data: now\r\r"));
    assert_eq!(decoder.next_event().unwrap().unwrap().data, "now");
    decoder.push(Bytes::from_static(b"\ndata: then\r\n\r\n"));
    assert_eq!(decoder.next_event().unwrap().unwrap().data, "then");
}

#[test]
fn a_byte_order_mark_at_the_start_is_skipped_even_in_pieces() {
    assert_eq!(data(&[b"\xEF\xBB\xBFdata: a\n\n"]), ["a"]);
    assert_eq!(data(&[b"\xEF", b"\xBB", b"\xBFdata: a\n\n"]), ["a"]);
    // Only at the start: later it belongs to the field's name.
    assert_eq!(data(&[b"data: a\n\n\xEF\xBB\xBFdata: b\n\n"]), ["a"]);
}

#[test]
fn retry_unknown_fields_and_keepalives_are_dropped_and_comments_counted() {
    let mut decoder = SseDecoder::new(LIMIT);
    assert!(!decoder.saw_bytes());
    decoder.push(Bytes::from_static(
        b": OPENROUTER PROCESSING\n\nretry: 3000\n\n:\n\nevent: ping\n\nfoo: bar\ndata: x\n\n",
    ));
    let event = decoder.next_event().unwrap().unwrap();
    assert_eq!((event.event, &event.data[..]), (None, &b"x"[..]));
    assert_eq!(decoder.comments(), 2);
    assert!(decoder.saw_bytes());
}

#[test]
fn the_last_event_counts_without_blank_line_and_without_line_end() {
    assert_eq!(data(&[b"data: a\n\ndata: [DONE]\n"]), ["a", "[DONE]"]);
    assert_eq!(data(&[b"data: a\n\ndata: [DONE]"]), ["a", "[DONE]"]);
    assert_eq!(data(&[b"data: a\r\n\r\ndata: [DO", b"NE]\r"]), ["a", "[DONE]"]);
}

#[test]
fn data_in_one_chunk_is_a_slice_of_that_chunk() {
    let chunk = Bytes::from_static(b"data: {\"a\":1}\n\n");
    let mut decoder = SseDecoder::new(LIMIT);
    decoder.push(chunk.clone());
    let event = decoder.next_event().unwrap().unwrap();
    assert_eq!(event.data.as_ptr(), chunk[6..].as_ptr());
}

#[test]
fn a_character_split_over_chunks_stays_whole() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"北京👍\"}}]}\n\n";
    let pieces: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(data(&pieces), [stream[6..].trim_end()]);
}

#[test]
fn an_event_above_the_limit_is_refused_whether_whole_split_or_joined() {
    let long = vec![b'x'; 101];
    let refused = Err(SseError::EventTooLarge { limit: 100 });
    let line = [b"data: ".as_slice(), &long, b"\n\n"].concat();
    for size in [1, 7, line.len()] {
        let mut decoder = SseDecoder::new(100);
        let mut last = Ok(None);
        for piece in line.chunks(size) {
            decoder.push(Bytes::copy_from_slice(piece));
            last = decoder.next_event();
            if last.is_err() {
                break;
            }
        }
        assert_eq!(last, refused, "in pieces of {size}");
        decoder.push(Bytes::from_static(b"data: small\n\n"));
        assert_eq!(decoder.next_event(), refused, "it stays refused");
        assert_eq!(decoder.finish(), refused);
    }
    let mut decoder = SseDecoder::new(100);
    decoder.push(Bytes::from("data: 0123456789\n".repeat(20)));
    assert_eq!(decoder.next_event(), refused, "many lines of one event");
}

#[test]
fn an_event_of_exactly_the_limit_passes_in_any_pieces() {
    let line = [b"data: ".as_slice(), &[b'x'; 100], b"\n\n"].concat();
    for size in [1, 7, line.len()] {
        let mut decoder = SseDecoder::new(100);
        for piece in line.chunks(size) {
            decoder.push(Bytes::copy_from_slice(piece));
        }
        assert_eq!(decoder.next_event().unwrap().unwrap().data.len(), 100);
    }
}

#[test]
fn a_line_above_the_limit_is_refused_in_one_piece_as_in_many() {
    for field in [": ", "event: ", "unknown: "] {
        let line = [field.as_bytes(), &[b'x'; 130], b"\ndata: 1\n\n"].concat();
        for size in [1, 7, line.len()] {
            let mut decoder = SseDecoder::new(100);
            line.chunks(size).for_each(|piece| decoder.push(Bytes::copy_from_slice(piece)));
            let outcome = decoder.next_event();
            assert_eq!(outcome, Err(SseError::EventTooLarge { limit: 100 }), "{field:?} in pieces of {size}");
        }
    }
}

#[test]
fn the_line_feeds_between_data_lines_count_too() {
    let mut decoder = SseDecoder::new(3);
    decoder.push(Bytes::from_static(b"data: a\ndata: b\n\n"));
    assert_eq!(decoder.next_event().unwrap().unwrap().data, &b"a\nb"[..]);
    decoder.push(Bytes::from_static(b"data: a\ndata: bc\n\n"));
    assert_eq!(decoder.next_event(), Err(SseError::EventTooLarge { limit: 3 }));
}

#[test]
fn endless_bytes_without_a_line_end_are_refused() {
    let mut decoder = SseDecoder::new(100);
    let mut outcome = Ok(None);
    for _ in 0..20 {
        decoder.push(Bytes::from_static(b": 12345678"));
        outcome = decoder.next_event();
    }
    assert_eq!(outcome, Err(SseError::EventTooLarge { limit: 100 }));
}

#[test]
fn an_event_of_32_mib_in_small_chunks_comes_whole() {
    const SIZE: usize = 32 << 20;
    let mut decoder = SseDecoder::new(SIZE);
    decoder.push(Bytes::from_static(b"data: "));
    let piece = Bytes::from(vec![b'x'; 4096]);
    for _ in 0..SIZE / piece.len() {
        decoder.push(piece.clone());
        assert_eq!(decoder.next_event(), Ok(None));
    }
    decoder.push(Bytes::from_static(b"\n\n"));
    assert_eq!(decoder.next_event().unwrap().unwrap().data.len(), SIZE);
}

#[test]
fn what_is_written_reads_back() {
    let mut out = BytesMut::new();
    write_event(&mut out, None, b"{\"a\":1}");
    write_comment(&mut out, "two\nlines");
    write_event(&mut out, Some(b"ping"), b"a\nb");
    assert_eq!(&out[..], b"data: {\"a\":1}\n\n: two lines\n\nevent: ping\ndata: a\ndata: b\n\n");
    let expected = [(None, "{\"a\":1}".to_owned()), (Some("ping".to_owned()), "a\nb".to_owned())];
    assert_eq!(decode(&[&out]), expected);
}

#[test]
fn an_event_name_cannot_smuggle_a_line() {
    let mut out = BytesMut::new();
    write_event(&mut out, Some(b"a\ndata: forged"), b"x");
    assert_eq!(data(&[&out]), ["x"]);
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "data: ?[a-z{}\":é北👍 ]{0,12}".prop_map(String::into_bytes),
        Just(b"data".to_vec()),
        Just(b": comment".to_vec()),
        Just(b"id: 1".to_vec()),
        Just(b"retry: 10".to_vec()),
        Just(b"event: message".to_vec()),
        Just(Vec::new()),
        Just(Vec::new()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    let end = prop_oneof![Just("\n"), Just("\r"), Just("\r\n")];
    proptest::collection::vec((line, end), 0..24)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.into()].concat()).collect())
}

/// Everything that a stream decodes to when it is cut at these places.
fn decode_cut(stream: &[u8], cuts: &[usize]) -> (Vec<SseEvent>, u64) {
    let mut decoder = SseDecoder::new(LIMIT);
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    places.extend([0, stream.len()]);
    places.sort_unstable();
    let mut events = Vec::new();
    for pair in places.windows(2) {
        decoder.push(Bytes::copy_from_slice(&stream[pair[0]..pair[1]]));
        while let Some(event) = decoder.next_event().unwrap() {
            events.push(event);
        }
    }
    while let Some(event) = decoder.finish().unwrap() {
        events.push(event);
    }
    (events, decoder.comments())
}

proptest! {
    /// C026.
    #[test]
    fn any_split_means_the_same_as_none(stream in stream(), cuts in proptest::collection::vec(any::<usize>(), 0..12)) {
        let whole = decode_cut(&stream, &[]);
        prop_assert_eq!(&decode_cut(&stream, &cuts), &whole);
        let everywhere: Vec<usize> = (0..stream.len()).collect();
        prop_assert_eq!(&decode_cut(&stream, &everywhere), &whole);
    }

    #[test]
    fn any_data_survives_writing_and_reading(lines in proptest::collection::vec("[ -~é👍]{0,20}", 1..5)) {
        let text = lines.join("\n");
        prop_assume!(!text.is_empty());
        let mut out = BytesMut::new();
        write_event(&mut out, None, text.as_bytes());
        prop_assert_eq!(data(&[&out]), [text]);
    }
}
