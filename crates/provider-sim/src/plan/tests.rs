use super::*;

/// Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110, section 5.6.7.
fn example_date() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

fn steps(script: Script, stream: bool) -> Vec<Step> {
    let ask = Ask { model: Some("m".to_owned()), stream, ..Ask::default() };
    let voice = Voice { name: "sim-a".to_owned(), seed: 0, call: 7 };
    plan(script, &ask, &voice, example_date()).steps.collect()
}

#[test]
fn http_dates_count_from_the_given_time_and_stay_in_range() {
    assert_eq!(http_date(example_date(), 0), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(http_date(example_date(), -7_000), "Sun, 06 Nov 1994 08:49:30 GMT");
    assert_eq!(http_date(example_date(), i64::MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert!(http_date(example_date(), i64::MAX).ends_with("2094 08:49:37 GMT"));
}

#[test]
fn a_paced_stream_waits_before_the_head_the_first_output_and_between_outputs() {
    let ms = Duration::from_millis;
    let script = Script::answer("a b c").delay_headers(ms(1)).delay_first_token(ms(2)).between_tokens(ms(3));
    let waits = |steps: Vec<Step>| -> Vec<Option<u128>> {
        let wait = |step: &Step| {
            if let Step::Wait(Some(lasting), None) = step { Some(lasting.as_millis()) } else { None }
        };
        steps.iter().map(wait).collect()
    };
    let (head, chunk) = (None, None);
    let streamed = [Some(1), head, chunk, Some(2), chunk, Some(3), chunk, Some(3), chunk, chunk, chunk];
    assert_eq!(waits(steps(script.clone(), true)), streamed);
    assert_eq!(
        waits(steps(script, false)),
        [Some(1 + 2 + 3 + 3), head, None],
        "as long as it takes to make the answer"
    );
}

#[test]
fn a_head_has_type_request_id_name_and_framing_and_scripted_headers_replace_them() {
    let steps =
        steps(Script::status(429).header("Retry-After", "2").header("x-request-id", "own").body("{}"), false);
    let expected = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nx-sim-name: sim-a\r\n\
                    content-length: 2\r\nRetry-After: 2\r\nx-request-id: own\r\n\r\n";
    assert_eq!(steps.len(), 2);
    let Some(Step::Head(head)) = steps.first() else { panic!("no head") };
    assert_eq!(str::from_utf8(head).unwrap(), expected);
}

#[test]
fn a_status_without_a_name_is_still_a_status_line() {
    let Step::Head(head) = steps(Script::anthropic_style_529(), true).remove(0) else { panic!("no head") };
    assert!(head.starts_with(b"HTTP/1.1 529 Unknown\r\n"));
}
