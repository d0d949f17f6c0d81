//! Inputs that broke other gateways have numbers: each that is said to be shown is borne by a test, and each that a test
//! bears is listed.

use std::collections::BTreeMap;

use super::Finding;

/// The list: `C001 = "words"`, under `[shown]` or `[later]`.
pub(super) const LIST: &str = "tests/cases.toml";
const SHOWN: &str = "[shown]";
const LATER: &str = "[later]";

/// What the files say of the cases.
#[derive(Debug, Default)]
pub(super) struct Cases {
    /// The list's text, if there is one.
    list: Option<String>,
    /// Where tests bear a number, the first place of each.
    borne: BTreeMap<String, (String, usize)>,
}

impl Cases {
    /// Takes a file in.
    pub(super) fn take(&mut self, path: &str, text: &str) {
        if path == LIST {
            self.list = Some(text.to_owned());
        } else if holds_tests(path) {
            for (index, line) in text.lines().enumerate() {
                for number in numbers(line) {
                    self.borne.entry(number.to_owned()).or_insert_with(|| (path.to_owned(), index + 1));
                }
            }
        }
    }

    /// What is wrong with them. Nothing is asked of a project without a list.
    pub(super) fn check(&self) -> Vec<Finding> {
        let Some(list) = &self.list else { return Vec::new() };
        let mut findings = Vec::new();
        let mut listed = BTreeMap::new();
        let mut section = "";
        for (index, line) in list.lines().enumerate() {
            let mut find = |sentence: String| findings.push(Finding::new(LIST, index + 1, sentence));
            match line.trim() {
                SHOWN => section = SHOWN,
                LATER => section = LATER,
                entry if entry.is_empty() || entry.starts_with('#') => {}
                entry => match number_of(entry).filter(|_| !section.is_empty()) {
                    None => find(format!("`{entry}` is no `C001 = \"words\"` under `{SHOWN}` or `{LATER}`")),
                    Some(number) => {
                        if listed.insert(number, section).is_some() {
                            find(format!("{number} is listed twice"));
                        } else if section == SHOWN && !self.borne.contains_key(number) {
                            find(format!("{number} is said to be shown, but no test bears the number"));
                        }
                    }
                },
            }
        }
        for (number, (path, line)) in &self.borne {
            if listed.get(number.as_str()) != Some(&SHOWN) {
                findings.push(Finding::new(
                    path,
                    *line,
                    format!("{number} is not under `{SHOWN}` in {LIST}"),
                ));
            }
        }
        findings
    }
}

/// Our own tests of this check speak of numbers that are none.
fn holds_tests(path: &str) -> bool {
    let tests = path.contains("tests/") || path.ends_with("tests.rs") || path.starts_with("clients/");
    tests && !path.starts_with("xtask/")
}

/// The number of an entry `C001 = "words"`.
fn number_of(entry: &str) -> Option<&str> {
    let (number, words) = entry.split_once(" = ")?;
    let said = words.strip_prefix('"')?.strip_suffix('"')?;
    (numbers(number).next() == Some(number) && !said.is_empty()).then_some(number)
}

/// The numbers that stand in a line as words of their own: `C` and three digits.
fn numbers(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| {
        let digits = word.strip_prefix('C').unwrap_or_default();
        digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}
