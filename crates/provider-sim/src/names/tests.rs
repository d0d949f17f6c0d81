use super::*;

/// A name as one writes it: the value's placeholder replaced by a value of its kind.
fn example(usage: &str) -> String {
    let (name, value) = usage.split_once(['[', ':']).unwrap_or((usage, ""));
    match value.trim_matches([':', ']']) {
        "" => name.to_owned(),
        "CODE" => format!("{name}:503"),
        "SHAPE" => format!("{name}:groq"),
        "DURATION" => format!("{name}:250ms"),
        "N" | "SECONDS" | "MS" => format!("{name}:3"),
        _ => format!("{name}:word"),
    }
}

#[test]
fn every_listed_name_makes_a_script_of_its_own_and_the_script_survives_json() {
    for (usage, _) in script_names() {
        let script = script_from_name(&example(usage)).unwrap();
        assert!(*usage == "healthy" || script != Script::healthy(), "{usage} does nothing");
        let json = serde_json::to_string(&script).unwrap();
        assert_eq!(serde_json::from_str::<Script>(&json).unwrap(), script, "{json}");
    }
}

#[test]
fn names_mean_what_their_constructors_mean() {
    for (name, script) in [
        ("status:500", Script::status(500)),
        ("cut:3", Script::cut_after(3)),
        ("rate-limit:2", Script::openai_rate_limit(2)),
        ("rate-limit", Script::rate_limit(Guidance::Absent)),
        ("silence", Script::silence()),
        ("slow-headers:1.5s", Script::slow_headers(Duration::from_millis(1_500))),
        ("slow-headers:2", Script::slow_headers(Duration::from_secs(2))),
        ("heartbeats", Script::heartbeats_only(Duration::from_secs(1))),
        ("answer:so: be it", Script::answer("so: be it")),
        ("usage:every", Script::healthy().usage(UsageShape::EveryChunk)),
    ] {
        assert_eq!(script_from_name(name), Ok(script), "{name}");
    }
}

#[test]
fn joined_names_add_up_in_any_order() {
    let joined = Script::cut_after(3).tokens(40).crlf();
    assert_eq!(script_from_name("tokens:40+crlf+cut:3"), Ok(joined.clone()));
    assert_eq!(script_from_name("cut:3 + tokens:40 + crlf"), Ok(joined));
    let late = Script::status(500).delay_headers(Duration::from_secs(2));
    assert_eq!(script_from_name("slow-headers:2s+status:500"), Ok(late));
}

#[test]
fn a_wrong_name_or_value_says_what_there_is() {
    let unknown = script_from_name("cutt:3").unwrap_err().to_string();
    assert!(unknown.starts_with("no script is called 'cutt'; there are: healthy, answer:TEXT"), "{unknown}");
    let value = script_from_name("cut:x").unwrap_err().to_string();
    assert_eq!(value, "script 'cut' cannot take 'x': write cut:N");
    for missing in ["cut", "tool", "slow-headers:", "usage:none", "slow-headers:-1s", "status:99999999"] {
        assert!(matches!(script_from_name(missing), Err(UnknownScript::Value { .. })), "{missing}");
    }
}

#[test]
fn a_text_in_braces_is_json() {
    assert_eq!(script_from_text(r#"{"fault":{"cut":{"after":3}}}"#), Ok(Script::cut_after(3)));
    assert!(matches!(script_from_text("{"), Err(UnknownScript::Json(_))));
    assert_eq!(script_from_text("silence"), Ok(Script::silence()));
}
