//! Configuration files.

use pointsman_config::{Problem, Vars, parse};

const FILE: &str = "fuzz.yaml";
/// Longer than anything that a file could hold by chance.
const SECRET: &str = "sk-never-to-be-shown-0451";

struct Environment;

impl Vars for Environment {
    fn get(&self, name: &str) -> Option<String> {
        match name {
            "EMPTY" => Some(String::new()),
            "PORT" => Some("8080".to_owned()),
            name => name.ends_with("KEY").then(|| SECRET.to_owned()),
        }
    }
}

/// # Panics
/// If a report is empty, points outside of the text, shows a secret, or differs from one reading to the next.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // A secret's file is read where it lies: nothing for a fuzzer to choose.
    if text.contains("file:/") || text.contains(SECRET) {
        return;
    }
    match parse(text, FILE, &Environment) {
        Ok(loaded) => loaded.warnings.iter().for_each(|problem| holds(problem, text)),
        Err(problems) => {
            assert!(!problems.0.is_empty(), "a refusal has a reason");
            problems.0.iter().for_each(|problem| holds(problem, text));
            assert_eq!(
                parse(text, FILE, &Environment).err(),
                Some(problems),
                "the same text, the same report"
            );
        }
    }
}

fn holds(problem: &Problem, text: &str) {
    assert_eq!(problem.file, FILE);
    assert!(!problem.message.is_empty() && !problem.message.contains(SECRET));
    assert!(problem.message.len() < 4096, "a report is for reading: {}", problem.message);
    if problem.line == 0 {
        return;
    }
    // Just after the last line and just after a line's end are places too.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(problem.line <= lines.len(), "{problem}: there are {} lines", lines.len());
    let length = lines[problem.line - 1].chars().count();
    assert!((1..=length + 1).contains(&problem.column), "{problem}: the line has {length} characters");
}
