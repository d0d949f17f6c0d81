use super::*;

fn head(text: &str) -> Result<Head, Refusal> {
    Head::parse(text.as_bytes())
}

#[test]
fn a_request_line_and_headers_are_read_with_names_in_lower_case() {
    let head = head("POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length:  12 \r\n").unwrap();
    assert_eq!((head.method.as_str(), head.target.as_str()), ("POST", "/v1/chat/completions?x=1"));
    assert_eq!(head.header("content-length"), Some("12"));
    assert_eq!(head.framing(), Ok(Framing::Length(12)));
    assert!(head.keep_alive());
}

#[test]
fn connection_options_decide_whether_the_connection_is_kept() {
    assert!(!head("GET / HTTP/1.1\r\nConnection: te, Close\r\n").unwrap().keep_alive());
    assert!(!head("GET / HTTP/1.0\r\n").unwrap().keep_alive());
    assert!(head("GET / HTTP/1.0\r\nConnection: keep-alive\r\n").unwrap().keep_alive());
}

#[test]
fn malformed_heads_are_refused_with_the_status_that_fits() {
    assert_eq!(head("GET /\r\n").unwrap_err().status, 400);
    assert_eq!(head("GET / HTTP/2.0\r\n").unwrap_err().status, 505);
    assert_eq!(head("GET / HTTP/1.1\r\nno colon\r\n").unwrap_err().status, 400);
    assert_eq!(head("GET / HTTP/1.1\r\nbad name : 1\r\n").unwrap_err().status, 400);
    let too_long = head("POST / HTTP/1.1\r\nContent-Length: 67108865\r\n").unwrap();
    assert_eq!(too_long.framing().unwrap_err().status, 413);
    let odd = head("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n").unwrap();
    assert_eq!(odd.framing().unwrap_err().status, 501);
}

#[test]
fn chunk_sizes_are_hexadecimal_with_optional_extensions() {
    assert_eq!(chunk_size(b"1aF"), Ok(0x1af));
    assert_eq!(chunk_size(b"10;name=value"), Ok(16));
    assert!(chunk_size(b"zz").is_err());
    assert!(chunk_size(b"").is_err());
}

#[test]
fn a_body_tells_model_stream_and_whether_usage_is_wanted() {
    let ask =
        Ask::read(Form::Chat, br#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#)
            .unwrap();
    assert_eq!((ask.model.as_deref(), ask.stream, ask.include_usage), (Some("m"), true, true));
    assert_eq!(Ask::read(Form::Chat, b"[1]"), None);
    assert_eq!(Ask::read(Form::Chat, b"{"), None);
}
