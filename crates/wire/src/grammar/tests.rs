use super::{Ending, MessagesGrammar, Violation};

/// Runs a stream of events, each named by its type, to its end.
fn run(events: &[&str]) -> Result<Ending, Violation> {
    let mut grammar = MessagesGrammar::new();
    for data in events {
        let kind = crate::messages::event_kind(data.as_bytes()).unwrap_or_default().into_owned();
        grammar.event(Some(kind.as_bytes()), data.as_bytes())?;
    }
    grammar.end()
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}"#;
const PING: &str = r#"{"type":"ping"}"#;
const TEXT: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const HI: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#;
const STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
const TOOL: &str = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
const INPUT: &str =
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
const TOOL_STOP: &str = r#"{"type":"content_block_stop","index":1}"#;
const DELTA: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#;
const END: &str = r#"{"type":"message_stop"}"#;
const ERROR: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;

#[test]
fn the_documented_order_is_complete() {
    let stream = [START, PING, TEXT, PING, HI, STOP, TOOL, INPUT, TOOL_STOP, DELTA, PING, END];
    assert_eq!(run(&stream), Ok(Ending::Complete));
    assert_eq!(run(&[START, DELTA, END]), Ok(Ending::Complete));
}

#[test]
fn an_error_ends_a_stream_wherever_it_comes() {
    assert_eq!(run(&[ERROR]), Ok(Ending::Error));
    assert_eq!(run(&[START, TEXT, HI, ERROR]), Ok(Ending::Error));
}

#[test]
fn each_break_of_the_order_is_found_where_it_is() {
    let later = TEXT.replace("\"index\":0", "\"index\":1");
    for (stream, at) in [
        (vec![TEXT], 0),
        (vec![PING], 0),
        (vec![START, START], 1),
        (vec![START, &later], 1),
        (vec![START, HI], 1),
        (vec![START, TEXT, TEXT], 2),
        (vec![START, TEXT, INPUT], 2),
        (vec![START, TEXT, DELTA], 2),
        (vec![START, TEXT, STOP, TEXT], 3),
        (vec![START, TEXT, HI, STOP, STOP], 4),
        (vec![START, END], 1),
        (vec![START, DELTA, TEXT], 2),
        (vec![START, DELTA, END, PING], 3),
        (vec![START, ERROR, ERROR], 2),
        (vec![START, DELTA], 2),
        (vec![], 0),
    ] {
        let broken = run(&stream).unwrap_err();
        assert_eq!(broken.at, at, "{stream:?}: {broken}");
    }
}

#[test]
fn a_delta_that_does_not_fit_its_block_is_found() {
    let thinking = TEXT.replace("\"text\",\"text\"", "\"thinking\",\"thinking\"");
    assert_eq!(run(&[START, &thinking, HI]).unwrap_err().at, 2);
}

#[test]
fn the_name_must_be_the_type() {
    let mut grammar = MessagesGrammar::new();
    assert!(grammar.event(None, START.as_bytes()).is_err());
    assert!(grammar.event(Some(b"message"), START.as_bytes()).is_err());
    assert!(grammar.event(Some(b"message_start"), START.as_bytes()).is_ok());
}
