//! `cargo xtask fuzz`: runs the fuzz targets of `fuzz/`, each for some seconds, and fails on a finding.
//!
//! It needs a C++ compiler (libFuzzer is built from source) and no nightly Rust: coverage alone guides the fuzzer, and
//! sanitizers would find nothing in code without `unsafe`. What a run learns is kept below `target/`; the seeds in the
//! repository stay as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, on_path, output, succeed};

const CARGO_FUZZ: &str = "0.13.2";

/// One fuzz target and what it starts from, relative to the root.
struct Target {
    name: &'static str,
    dictionary: &'static str,
    /// Inputs beside those in `fuzz/seeds/<name>`.
    more_seeds: &'static [&'static str],
}

const TARGETS: [Target; 7] = [
    Target { name: "sse", dictionary: "stream", more_seeds: &[] },
    Target { name: "envelope", dictionary: "envelope", more_seeds: &[] },
    Target { name: "chat", dictionary: "stream", more_seeds: &["crates/wire/tests/golden/chat"] },
    Target { name: "messages", dictionary: "stream", more_seeds: &["crates/wire/tests/golden/messages"] },
    Target { name: "translate", dictionary: "stream", more_seeds: &[] },
    Target { name: "error", dictionary: "error", more_seeds: &[] },
    Target { name: "config", dictionary: "config", more_seeds: &["crates/config/tests/good"] },
];

/// What to run.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// How long each target runs.
    seconds: u32,
    /// Only this target.
    target: Option<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { seconds: 20, target: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--seconds" => {
                    let seconds = arguments.next().and_then(|count| count.parse().ok());
                    // libFuzzer takes 0 for "no end".
                    options.seconds = seconds
                        .filter(|count| *count > 0)
                        .context("--seconds needs a whole number from 1")?;
                }
                flag if flag.starts_with('-') => {
                    bail!("`fuzz` knows no `{flag}`, only --seconds N and one TARGET")
                }
                name if !TARGETS.iter().any(|target| target.name == name) => {
                    let known = TARGETS.map(|target| target.name).join(", ");
                    bail!("there is no fuzz target `{name}`; there are {known}")
                }
                name if options.target.is_some() => {
                    bail!("`fuzz` takes one TARGET; `{name}` is a second one")
                }
                name => options.target = Some(name.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Runs all targets or one; `false` if a target has found something.
///
/// # Errors
/// `cargo-fuzz` cannot be had or the targets do not build.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let tool = cargo_fuzz(root)?;
    succeed(called(&tool, root, "build").args(&options.target)).context("the fuzz targets do not build")?;
    let mut found = Vec::new();
    for target in &TARGETS {
        if options.target.as_deref().is_some_and(|name| name != target.name) {
            continue;
        }
        println!("=== fuzz {}: {} s", target.name, options.seconds);
        if let Err(error) = succeed(&mut fuzzer(&tool, root, target, options.seconds)?) {
            println!(
                "fuzz {}: a finding ({error}); its input is in fuzz/artifacts/{}",
                target.name, target.name
            );
            found.push(target.name);
        }
    }
    match found.as_slice() {
        [] => println!("fuzz: nothing found"),
        names => println!("fuzz: findings in {}", names.join(", ")),
    }
    Ok(found.is_empty())
}

/// `cargo-fuzz` with what holds for all its verbs.
fn called(tool: &Path, root: &Path, verb: &str) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(root).args([
        "fuzz",
        verb,
        "--fuzz-dir",
        "fuzz",
        "--sanitizer",
        "none",
        "--target-dir",
    ]);
    command.arg(root.join("target/fuzz"));
    command
}

fn fuzzer(tool: &Path, root: &Path, target: &Target, seconds: u32) -> Result<Command> {
    // The fuzzer writes to the first folder and only reads the others.
    let learnt = format!("target/fuzz/corpus/{}", target.name);
    std::fs::create_dir_all(root.join(&learnt)).with_context(|| format!("making {learnt}"))?;
    let mut command = called(tool, root, "run");
    command.args([target.name, &learnt, &format!("fuzz/seeds/{}", target.name)]).args(target.more_seeds);
    command.args(["--", "-max_len=16384", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-dict=fuzz/dictionaries/{}.dict", target.dictionary));
    Ok(command)
}

/// The pinned `cargo-fuzz`: the one on PATH if it has that version, else built from source, which takes a minute.
fn cargo_fuzz(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/tools");
    let ours = folder.join("bin/cargo-fuzz");
    let is_pinned = |tool: &Path| {
        output(Command::new(tool).args(["fuzz", "--version"]))
            .is_ok_and(|version| version.trim().ends_with(CARGO_FUZZ))
    };
    if let Some(tool) = on_path("cargo-fuzz").into_iter().chain([ours.clone()]).find(|tool| is_pinned(tool)) {
        return Ok(tool);
    }
    let package = format!("cargo-fuzz@{CARGO_FUZZ}");
    println!("building {package} into {}", folder.display());
    let mut install = cargo(root);
    install.args(["install", "--locked", "--quiet", &package, "--root"]).arg(&folder);
    succeed(&mut install).context("cargo-fuzz cannot be had")?;
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use super::{Options, TARGETS};

    fn parsed(words: &[&str]) -> Option<Options> {
        Options::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn each_target_runs_for_twenty_seconds_unless_told_otherwise() {
        assert_eq!(parsed(&[]), Some(Options { seconds: 20, target: None }));
        let one = Options { seconds: 600, target: Some("sse".to_owned()) };
        assert_eq!(parsed(&["sse", "--seconds", "600"]), Some(one));
    }

    #[test]
    fn what_would_run_for_ever_or_not_at_all_is_refused() {
        for words in [&["--seconds", "0"][..], &["--seconds"], &["--minutes"], &["sse", "chat"], &["nothing"]]
        {
            assert_eq!(parsed(words), None, "{words:?}");
        }
    }

    #[test]
    fn every_target_of_the_folder_is_run_and_has_what_it_starts_from() {
        let root = crate::workspace_root().unwrap();
        let mut files: Vec<_> = std::fs::read_dir(root.join("fuzz/fuzz_targets"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let mut names = TARGETS.map(|target| target.name);
        names.sort_unstable();
        assert_eq!(files, names);
        for target in &TARGETS {
            assert!(root.join(format!("fuzz/dictionaries/{}.dict", target.dictionary)).is_file());
            let seeds = format!("fuzz/seeds/{}", target.name);
            for folder in target.more_seeds.iter().copied().chain([seeds.as_str()]) {
                assert!(root.join(folder).is_dir(), "{folder}");
            }
        }
    }
}
