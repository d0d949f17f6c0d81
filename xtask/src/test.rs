//! `cargo xtask test`: the one test command.
//!
//! It runs every part, also after one has failed, and ends with a line per part and the totals. A part that cannot run
//! is a failed part that says why; what `--fast` leaves out is named.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::outcome::{Part, Tally, closing_lines};
use crate::process::{Heard, cargo, listen, on_path, succeed};
use crate::{node, python, tidy};

/// What to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Leave out doc tests and SDK suites.
    fast: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

impl Options {
    /// # Errors
    /// An unknown flag or a second filter.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--fast" => options.fast = true,
                flag if flag.starts_with('-') => {
                    bail!("`test` knows no `{flag}`, only --fast and one FILTER")
                }
                _ if options.filter.is_some() => {
                    bail!("`test` takes one FILTER; `{argument}` is a second one")
                }
                filter => options.filter = Some(filter.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Runs the parts; `false` if one of them failed.
///
/// # Errors
/// Nothing matched the filter.
pub(crate) fn run(root: &Path, options: &Options) -> Result<bool> {
    let filter = options.filter.as_deref();
    let mut parts = vec![part("tidy", || tidy_part(root)), part("rust tests", || heard(rust(root, filter)))];
    if options.fast {
        println!("test: --fast leaves out the doc tests and the SDK suites");
    } else {
        parts.push(part("doc tests", || heard(doc(root, filter))));
        parts.push(part("Python SDK", || heard(python_sdk(root, filter))));
        parts.push(part("Node SDK", || heard(node_sdk(root, filter))));
    }
    println!("\n{}", closing_lines(&parts));
    let ok = parts.iter().all(|part| part.ok);
    if let Some(filter) = filter
        && ok
        && parts.iter().map(|part| part.tally.passed + part.tally.failed).sum::<u64>() == 0
    {
        bail!("no test has `{filter}` in its name");
    }
    Ok(ok)
}

type Ended = Result<(bool, Tally, String)>;

fn part(name: &'static str, run: impl FnOnce() -> Ended) -> Part {
    println!("\n=== {name} ===");
    let since = Instant::now();
    let (ok, tally, note) = run().unwrap_or_else(|error| {
        eprintln!("{name}: {error:#}");
        (false, Tally::default(), format!("could not run: {error}"))
    });
    Part { name, ok, took: since.elapsed(), tally, note }
}

fn tidy_part(root: &Path) -> Ended {
    let ok = tidy::run(root)?;
    let note = if ok { "nothing to say" } else { "see its findings above" };
    Ok((ok, Tally::default(), note.to_owned()))
}

fn heard(heard: Result<Heard>) -> Ended {
    heard.map(|heard| (heard.status.success(), heard.tally, heard.note()))
}

/// The workspace's own tests: with nextest where it is installed (faster, a process per test), else with cargo alone.
fn rust(root: &Path, filter: Option<&str>) -> Result<Heard> {
    let mut command = cargo(root);
    if on_path("cargo-nextest").is_some() {
        command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests=pass"]);
    } else {
        command.args(["test", "--workspace", "--tests", "--no-fail-fast"]);
    }
    command.args(filter);
    let mut heard = listen(&mut command)?;
    if filter.is_some() {
        // nextest counts what the filter left out as skipped
        heard.tally.ignored = 0;
    }
    Ok(heard)
}

fn doc(root: &Path, filter: Option<&str>) -> Result<Heard> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--doc", "--no-fail-fast", "--"]).args(filter);
    listen(&mut command)
}

/// The official Python SDK against the real binary.
fn python_sdk(root: &Path, filter: Option<&str>) -> Result<Heard> {
    let suite = root.join("clients/python");
    let bin = python::environment(&root.join("target/clients/python"), &suite.join("requirements.txt"))?;
    let gateway = build_gateway(root)?;
    let mut command = Command::new(bin.join("python"));
    command.args(["-m", "pytest"]).current_dir(&suite);
    if let Some(name) = filter {
        // The other suite's names are sentences with spaces; here they would be an expression.
        command.args(["-k", &name.replace(' ', "_")]);
    }
    command.env("POINTSMAN_BIN", gateway).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut heard = listen(&mut command)?;
    // pytest calls "no test matched" a failure of its own (5); here another part may have matched.
    if filter.is_some() && heard.status.code() == Some(5) {
        heard = Heard { status: std::process::ExitStatus::default(), ..heard };
    }
    Ok(heard)
}

/// The official Node SDKs against the real binary.
fn node_sdk(root: &Path, filter: Option<&str>) -> Result<Heard> {
    let suite = root.join("clients/node");
    let node = node::with_packages(&suite)?;
    let gateway = build_gateway(root)?;
    let mut command = Command::new(node);
    command.args(["--test", "--test-reporter=spec", "--test-concurrency=2"]);
    if let Some(name) = filter {
        // In one process: with a process per file the runner counts each file in which nothing matched as a test.
        command.arg("--test-isolation=none").arg(format!("--test-name-pattern={}", node::pattern(name)));
    }
    command.arg("*.test.js").current_dir(&suite).env("POINTSMAN_BIN", gateway);
    let heard = listen(&mut command)?;
    if filter.is_none() && heard.status.success() && heard.tally.passed == 0 {
        bail!("Node's test runner ran no test");
    }
    Ok(heard)
}

fn build_gateway(root: &Path) -> Result<PathBuf> {
    // With the tests' own selection, so that no dependency is built a second time with fewer features.
    let mut build = cargo(root);
    build.args(["build", "--quiet", "--workspace", "--bins", "--tests"]);
    succeed(&mut build).context("the gateway does not build")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let gateway = root.join(target).join("debug/pointsman");
    if !gateway.is_file() {
        bail!("the gateway was built, but {} is not there", gateway.display());
    }
    Ok(gateway)
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(arguments: &[&str]) -> Option<Options> {
        Options::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn options_are_a_flag_and_one_filter_in_any_order() {
        let both = Some(Options { fast: true, filter: Some("breaker".to_owned()) });
        assert_eq!(parse(&[]), Some(Options::default()));
        assert_eq!(parse(&["--fast", "breaker"]), both);
        assert_eq!(parse(&["breaker", "--fast"]), both);
        assert_eq!(parse(&["--slow"]), None);
        assert_eq!(parse(&["one", "two"]), None);
    }
}
