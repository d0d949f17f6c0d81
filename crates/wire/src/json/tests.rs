use proptest::prelude::*;
use serde_json::Value;

use super::{ScanError, Scanner, is_falsy, text};

fn scan(json: &str, max_depth: usize) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(json.as_bytes(), max_depth);
    scanner.skip_value()?;
    scanner.end()
}

#[test]
fn depth_counts_what_is_open_at_once() {
    assert_eq!(scan("[[[]]]", 3), Ok(()));
    assert_eq!(scan("[[[]]]", 2), Err(ScanError::TooDeep));
    assert_eq!(scan("[[],[],{},[[]]]", 3), Ok(()));
    assert_eq!(scan(&"[".repeat(1_000_000), 128), Err(ScanError::TooDeep));
}

#[test]
fn the_offset_points_at_the_first_byte_that_does_not_fit() {
    assert_eq!(scan("{\"a\":1,}", 8), Err(ScanError::Syntax { offset: 7 }));
    assert_eq!(scan("{\"a\" 1}", 8), Err(ScanError::Syntax { offset: 5 }));
    assert_eq!(scan("[1 2]", 8), Err(ScanError::Syntax { offset: 3 }));
    assert_eq!(scan("\"a\u{1}b\"", 8), Err(ScanError::Syntax { offset: 2 }));
    assert_eq!(scan("\"\\u12G4\"", 8), Err(ScanError::Syntax { offset: 2 }));
    assert_eq!(scan("\"abc", 8), Err(ScanError::Syntax { offset: 4 }));
    assert_eq!(scan("{} x", 8), Err(ScanError::Syntax { offset: 3 }));
    assert_eq!(scan("01", 8), Err(ScanError::Syntax { offset: 1 }));
}

#[test]
fn a_string_is_unescaped_and_a_lone_surrogate_is_none() {
    assert_eq!(text(br#""gpt-4o""#).unwrap(), "gpt-4o");
    assert_eq!(text(br#""\u0067pt\/\ud83d\ude00""#).unwrap(), "gpt/😀");
    assert_eq!(text(br#""\ud83d""#), None);
    assert_eq!(text(b"12"), None);
}

#[test]
fn values_that_say_nothing_are_told_from_those_that_do() {
    for json in ["null", "false", "0", "\"\"", "{}", "[ ]", " null "] {
        assert!(is_falsy(json), "{json}");
    }
    for json in ["true", "1", "\" \"", "{\"a\":1}", "[0]", "\"0\"", "[[]]"] {
        assert!(!is_falsy(json), "{json}");
    }
}

proptest! {
    /// `serde_json` is the judge of what JSON is.
    #[test]
    fn the_scanner_agrees_with_another_parser(json in r#"[\[\]{}:, "\\truefalsn0-9.eEu+-]{0,24}"#) {
        let expected = serde_json::from_str::<serde::de::IgnoredAny>(&json).is_ok();
        prop_assert_eq!(scan(&json, 200).is_ok(), expected, "{}", json);
    }

    #[test]
    fn the_scanner_agrees_on_json_that_was_damaged(value in value(), at: usize, with in r#"[\[\]{}:,"\\0-9.e+-]?"#) {
        let mut json: Vec<char> = value.to_string().chars().collect();
        let at = at % json.len();
        json.splice(at..=at, with.chars());
        let json: String = json.into_iter().collect();
        let expected = serde_json::from_str::<serde::de::IgnoredAny>(&json).is_ok();
        prop_assert_eq!(scan(&json, 200).is_ok(), expected, "{}", json);
    }

    #[test]
    fn valid_json_in_any_dress_is_accepted(value in value(), pretty: bool) {
        let json = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        prop_assert_eq!(scan(&json.unwrap(), 200), Ok(()));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
