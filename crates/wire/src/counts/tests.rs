use super::each_count;

fn counts(usage: &str) -> Option<Vec<(String, String, u64)>> {
    let mut all = Vec::new();
    each_count(usage, |group, name, count| all.push((group.to_owned(), name.to_owned(), count)))?;
    Some(all)
}

#[test]
fn counts_are_told_with_the_object_that_holds_them() {
    let usage = r#"{"a": 1, "details": {"b": 2, "deeper": {"c": 3}}, "d" : 4}"#;
    let told = [("", "a", 1), ("details", "b", 2), ("", "d", 4)];
    let told = told.map(|(group, name, count)| (group.to_owned(), name.to_owned(), count));
    assert_eq!(counts(usage), Some(told.to_vec()));
}

#[test]
fn a_whole_number_may_be_written_with_a_point_and_nothing_else_is_a_count() {
    let usage =
        r#"{"a": 12.0, "b": 1.2e1, "c": -1, "d": null, "e": "5", "f": [6], "g": true, "h": 1e15, "i": 0}"#;
    let told: Vec<_> = counts(usage).unwrap().into_iter().map(|(_, name, count)| (name, count)).collect();
    assert_eq!(told, [("a".to_owned(), 12), ("b".to_owned(), 12), ("i".to_owned(), 0)]);
}

#[test]
fn the_last_of_a_name_that_comes_twice_is_told_last() {
    let told: Vec<u64> = counts(r#"{"a": 1, "\u0061": 2}"#).unwrap().into_iter().map(|(.., n)| n).collect();
    assert_eq!(told, [1, 2]);
}

#[test]
fn what_is_no_object_has_no_counts() {
    for usage in ["null", "5", "[1]", "\"{}\"", "{", "{\"a\":1", ""] {
        assert_eq!(counts(usage), None, "{usage}");
    }
    assert_eq!(counts("{}"), Some(Vec::new()));
}
