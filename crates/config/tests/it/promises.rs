//! What holds for any text.

use pointsman_config::{nearest, parse};
use proptest::prelude::*;

use crate::support::{usual, vars};

/// Pieces that a configuration is made of, right and wrong.
const WORDS: &[&str] = &[
    "targets",
    "routes",
    "models",
    "server",
    "listen",
    "provider",
    "ollama",
    "azure",
    "base_url",
    "budget",
    "deadline",
    "30",
    "30s",
    "5%",
    "http://h/v1",
    "https://u:p@h",
    "${X}",
    "${X:-y}",
    "$$",
    "*a",
    "&a",
    "!t",
    "- ",
    "---",
    ": ",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "\"",
    "'",
    "#",
    "|",
    ">",
    "?",
    "<<",
    "~",
    "off",
    "slow",
    "breaker",
    "keys",
    "hash",
    "sha256:",
    "api_key",
    "file:/",
    "os.environ/X",
    "ä",
    "\u{feff}",
    "\r\n",
];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic_and_what_it_refuses_has_a_reason(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        if let Err(problems) = parse(&text, "f.yaml", &usual()) {
            prop_assert!(!problems.0.is_empty());
            for problem in &problems.0 {
                prop_assert!(problem.line >= 1 && problem.column >= 1, "{}", problem);
                prop_assert!(problem.line <= text.split('\n').count() + 1, "{}", problem);
                prop_assert!(!problem.to_string().contains('\n'));
            }
        }
    }

    #[test]
    fn no_bytes_at_all_make_it_panic(text in "\\PC{0,200}|[ -~\n\t]{0,200}") {
        drop(parse(&text, "f.yaml", &usual()));
    }

    #[test]
    fn every_wrong_line_gets_its_own_error(wrong in prop::collection::btree_set(0usize..40, 1..20)) {
        let mut text = String::from("targets:\n  t:\n    provider: ollama\n    model: m\nmodels:\n");
        for index in 0..40 {
            let value = if wrong.contains(&index) { "x" } else { "1" };
            text.push_str(&format!("  m{index}: {{ max_output: {value} }}\n"));
        }
        let problems = parse(&text, "f.yaml", &usual()).unwrap_err();
        let lines: Vec<usize> = problems.0.iter().map(|p| p.line).collect();
        let expected: Vec<usize> = wrong.iter().map(|index| index + 6).collect();
        prop_assert_eq!(lines, expected);
    }

    #[test]
    fn no_value_of_a_variable_shows_in_a_problem(value in "[a-z0-9]{12,20}", key in "listen|auth|max_body|keepalive|drain|hosts|expose") {
        let text = format!("server: {{ {key}: \"a${{SECRET}}\" }}\nwatch: \"${{SECRET}}\"\n");
        let problems = parse(&text, "f.yaml", &vars(&[("SECRET", &value)])).unwrap_err();
        prop_assert!(!problems.to_string().contains(&value), "{}", problems);
    }

    #[test]
    fn a_word_is_nearest_to_itself(word in "[a-z][a-z0-9-]{0,12}", others in prop::collection::vec("[a-z]{1,8}", 0..6)) {
        let valid: Vec<&str> = others.iter().map(String::as_str).chain([word.as_str()]).collect();
        let near = nearest(&word, valid);
        prop_assert_eq!(near.first(), Some(&word));
        prop_assert!(near.len() <= 3);
    }
}

#[test]
fn the_nearest_words_are_those_that_a_person_would_name() {
    let models = ["gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5", "deepseek-v3"];
    assert_eq!(nearest("gpt-4", models), ["gpt-4o", "gpt-4o-mini"]);
    assert_eq!(nearest("GPT-4O", models), ["gpt-4o", "gpt-4o-mini"]);
    assert_eq!(nearest("claude-sonet-4-5", models), ["claude-sonnet-4-5"]);
    assert_eq!(nearest("deepseek", models), ["deepseek-v3"]);
    assert_eq!(nearest("mistral-large", models), Vec::<String>::new());
    assert_eq!(nearest("", models), Vec::<String>::new());
}
