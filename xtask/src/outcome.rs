//! What the parts of a test run report, and the lines in which test runners report it.

use std::time::Duration;

/// Begins each closing line of Node's test runner (its reporter `spec`).
pub(crate) const NODE: &str = "\u{2139} ";

/// Tests counted by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// Reads a runner's closing line: nextest's `Summary [..]`, cargo's `test result:`, pytest's `=== 3 passed in 1s ===`,
    /// and of Node's runner each of `ℹ pass 3`, `ℹ fail 0`, …. Any other line is `None`, also if it holds words such as
    /// "3 passed".
    pub(crate) fn from_closing_line(line: &str) -> Option<Self> {
        let line = without_colour(line);
        let line = line.trim();
        let nextest = line.starts_with("Summary [") && line.contains(" run: ");
        let cargo = line.starts_with("test result: ");
        let pytest = line.starts_with("==") && line.ends_with("==") && line.contains(" in ");
        if nextest || cargo || pytest { Some(Self::count(line)) } else { Self::from_node(line) }
    }

    /// A test that Node's runner gave up ("cancelled") is a failed one.
    fn from_node(line: &str) -> Option<Self> {
        let (what, number) = line.strip_prefix(NODE)?.split_once(' ')?;
        let number = number.parse().ok()?;
        match what {
            "pass" => Some(Self { passed: number, ..Self::default() }),
            "fail" | "cancelled" => Some(Self { failed: number, ..Self::default() }),
            "skipped" | "todo" => Some(Self { ignored: number, ..Self::default() }),
            _ => None,
        }
    }

    fn count(line: &str) -> Self {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
        let mut tally = Self::default();
        for pair in words.windows(2) {
            let [number, word] = pair else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match *word {
                "passed" | "xfailed" => tally.passed += number,
                // "1 timed out", "1 exec failed" (nextest); "1 error" (pytest: a fixture failed)
                "failed" | "timed" | "exec" | "error" | "errors" | "xpassed" => tally.failed += number,
                "ignored" | "skipped" => tally.ignored += number,
                _ => {}
            }
        }
        tally
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// One part of a test run, ended.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    pub(crate) took: Duration,
    pub(crate) tally: Tally,
    /// One line: the runner's own closing line, or what went wrong.
    pub(crate) note: String,
}

/// The closing lines of a whole run: one per part, then the totals in the form that `cargo test` uses.
pub(crate) fn closing_lines(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut sum = Tally::default();
    for part in parts {
        sum += part.tally;
        let verdict = if part.ok { "ok" } else { "FAILED" };
        text +=
            &format!("  {:<12} {verdict:<6} {:>7.1} s  {}\n", part.name, part.took.as_secs_f64(), part.note);
    }
    let verdict = if parts.iter().all(|part| part.ok) { "ok" } else { "FAILED" };
    let took: Duration = parts.iter().map(|part| part.took).sum();
    let Tally { passed, failed, ignored } = sum;
    let seconds = took.as_secs_f64();
    text += &format!(
        "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; finished in {seconds:.2}s"
    );
    text
}

/// The line without terminal colour sequences (`ESC [ … m`).
pub(crate) fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain += before;
        rest = after.split_once('m').map_or("", |(_, tail)| tail);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: u64, failed: u64, ignored: u64) -> Option<Tally> {
        Some(Tally { passed, failed, ignored })
    }

    #[test]
    fn closing_lines_of_each_runner_are_read() {
        let cases = [
            (
                "     Summary [   0.412s] 812 tests run: 810 passed (1 slow), 2 failed, 3 skipped",
                tally(810, 2, 3),
            ),
            (
                "     Summary [   9.1s] 4 tests run: 1 passed, 1 failed, 1 exec failed, 1 timed out, 0 skipped",
                tally(1, 3, 0),
            ),
            ("     Summary [   0.010s] 1 test run: 1 passed, 40 skipped", tally(1, 0, 40)),
            (
                "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 5 filtered out; finished in 0.01s",
                tally(3, 1, 2),
            ),
            ("============ 23 passed in 18.80s ============", tally(23, 0, 0)),
            ("==== 1 failed, 22 passed, 1 skipped, 2 errors in 18.80s ====", tally(22, 3, 1)),
            (
                "\u{1b}[32m=== \u{1b}[32m\u{1b}[1m2 passed\u{1b}[0m\u{1b}[32m in 0.10s\u{1b}[0m\u{1b}[32m ===\u{1b}[0m",
                tally(2, 0, 0),
            ),
            ("ℹ pass 41", tally(41, 0, 0)),
            ("\u{1b}[34mℹ fail 2\u{1b}[39m", tally(0, 2, 0)),
            ("ℹ cancelled 1", tally(0, 1, 0)),
            ("ℹ skipped 3", tally(0, 0, 3)),
        ];
        for (line, expected) in cases {
            assert_eq!(Tally::from_closing_line(line), expected, "{line}");
        }
    }

    #[test]
    fn a_line_that_only_talks_of_tests_is_not_counted() {
        for line in [
            "3 passed",
            "test parser::counts_3_passed ... ok",
            "=== FAILURES ===",
            "ℹ tests 12",
            "ℹ duration_ms 12.5",
            "ℹ pass on what was said",
            "pass 3",
            "",
        ] {
            assert_eq!(Tally::from_closing_line(line), None, "{line}");
        }
    }

    #[test]
    fn one_failed_part_fails_the_run_even_without_a_failed_test() {
        let part = |ok, passed| Part {
            name: "x",
            ok,
            took: Duration::from_secs(1),
            tally: Tally { passed, failed: 0, ignored: 1 },
            note: String::new(),
        };
        let text = closing_lines(&[part(true, 3), part(false, 4)]);
        assert!(
            text.ends_with("test result: FAILED. 7 passed; 0 failed; 2 ignored; finished in 2.00s"),
            "{text}"
        );
        let text = closing_lines(&[part(true, 3)]);
        assert!(
            text.ends_with("test result: ok. 3 passed; 0 failed; 1 ignored; finished in 1.00s"),
            "{text}"
        );
    }
}
