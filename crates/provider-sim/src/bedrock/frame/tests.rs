use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_checksum_of_the_nine_digits_is_its_published_check_value() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    assert_eq!(crc32(b""), 0);
}

/// These bytes were read by AWS's own Python SDK.
#[test]
fn an_event_and_an_error_are_framed_as_aws_reads_them() {
    let event = message(Kind::Event, "messageStart", br#"{"role":"assistant","p":"abcd"}"#);
    let expected = "00000081000000526cc176930b3a6576656e742d7479706507000c6d65737361676553746172740d3a636f6e74656e74\
     2d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22\
     726f6c65223a22617373697374616e74222c2270223a2261626364227d9170592b";
    assert_eq!(hex(&event), expected);
    let error = message(Kind::Error, "InternalFailure", b"x");
    let expected = "000000570000004707a918810d3a6d6573736167652d747970650700056572726f720b3a6572726f722d636f64650700\
     0f496e7465726e616c4661696c7572650e3a6572726f722d6d65737361676507000178c19aae2a";
    assert_eq!(hex(&error), expected);
}
