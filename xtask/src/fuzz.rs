//! `cargo xtask fuzz`: runs the fuzz targets of `fuzz/`, each for some seconds, and fails on a finding.
//!
//! It needs a C++ compiler (libFuzzer is built from source) and no nightly Rust: coverage alone guides the fuzzer, and
//! sanitizers would find nothing in code without `unsafe`. What a run learns is kept below `target/`; the seeds in the
//! repository stay as they are.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::apt;
use crate::process::{cargo, on_path, output, succeed};

/// One fuzz target and what it starts from, relative to the root.
struct Target {
    name: &'static str,
    dictionary: &'static str,
    /// Inputs beside those in `fuzz/seeds/<name>`.
    more_seeds: &'static [&'static str],
}

const TARGETS: [Target; 10] = [
    Target { name: "sse", dictionary: "stream", more_seeds: &[] },
    Target { name: "envelope", dictionary: "envelope", more_seeds: &[] },
    Target { name: "chat", dictionary: "stream", more_seeds: &["crates/wire/tests/golden/chat"] },
    Target { name: "messages", dictionary: "stream", more_seeds: &["crates/wire/tests/golden/messages"] },
    Target { name: "responses", dictionary: "stream", more_seeds: &["crates/wire/tests/golden/responses"] },
    Target { name: "gemini", dictionary: "stream", more_seeds: &["crates/wire/tests/golden/gemini"] },
    Target { name: "bedrock", dictionary: "stream", more_seeds: &["crates/wire/tests/golden/bedrock"] },
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

/// Runs all targets or one, three at a time; `false` if a target has found something.
///
/// # Errors
/// The targets do not build or cannot be started.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments)?;
    let host = host()?;
    if std::env::var_os("CXX").is_none() && on_path("c++").is_none() {
        apt::install(&["g++"], MISSING)?;
    }
    succeed(&mut build(root, &host, options.target.as_deref())).context("the fuzz targets do not build")?;
    let wanted = |target: &&Target| options.target.as_deref().is_none_or(|name| name == target.name);
    let queue = Mutex::new(TARGETS.iter().filter(wanted));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Result<Vec<&str>> {
        let mut found = Vec::new();
        while let Some(target) = next() {
            if !fuzz(root, &host, target, options.seconds)? {
                found.push(target.name);
            }
        }
        Ok(found)
    };
    let found = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Vec<&'static str>>>| {
            worker.join().unwrap_or_else(|_| bail!("a worker panicked"))
        };
        workers.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?
    .concat();
    match found.as_slice() {
        [] => println!("fuzz: nothing found"),
        names => println!("fuzz: findings in {}", names.join(", ")),
    }
    Ok(found.is_empty())
}

const MISSING: &str = "libFuzzer is C++ and no `c++` was found: install a compiler (Debian, Ubuntu: `apt-get install g++`; \
    Fedora: `dnf install gcc-c++`; macOS: `xcode-select --install`) or name one in CXX, and run the command again";

/// Fuzzers that run beside each other: more than the cores of a small machine, since none keeps one busy all the time.
const AT_ONCE: usize = 3;

/// What makes the compiler count coverage for libFuzzer: LLVM's SanitizerCoverage without a sanitizer, as `cargo-fuzz` asks
/// for it. All of it is stable. One codegen unit, or nothing is inlined across crates.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
     --cfg fuzzing -Ccodegen-units=1";

/// The compiler's own platform. It must be named, or build scripts would be instrumented too and not link.
fn host() -> Result<String> {
    let told = output(Command::new("rustc").arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not tell its host")
}

fn build(root: &Path, host: &str, target: Option<&str>) -> Command {
    let mut command = cargo(root);
    command.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", host]);
    command.arg("--target-dir").arg(root.join("target/fuzz"));
    match target {
        Some(name) => command.args(["--bin", name]),
        None => command.arg("--bins"),
    };
    command.env("RUSTFLAGS", COVERAGE);
    command
}

/// Runs one target; `false` if it has found something. What it says goes to a log: several at once could not be read.
fn fuzz(root: &Path, host: &str, target: &Target, seconds: u32) -> Result<bool> {
    let name = target.name;
    let learnt = format!("target/fuzz/corpus/{name}");
    let artifacts = format!("fuzz/artifacts/{name}/");
    for folder in [&learnt, &artifacts] {
        std::fs::create_dir_all(root.join(folder)).with_context(|| format!("making {folder}"))?;
    }
    let log = root.join(format!("target/fuzz/{name}.log"));
    let file = std::fs::File::create(&log).with_context(|| format!("making {}", log.display()))?;
    let mut command = Command::new(root.join(format!("target/fuzz/{host}/release/{name}")));
    // The fuzzer writes to the first folder and only reads the others.
    command.current_dir(root).args([&learnt, &format!("fuzz/seeds/{name}")]).args(target.more_seeds);
    command.args(["-max_len=16384", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"]);
    command.arg(format!("-artifact_prefix={artifacts}")).arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-dict=fuzz/dictionaries/{}.dict", target.dictionary));
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.status().with_context(|| format!("the fuzz target {name} cannot be started"))?;
    let said = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    if status.success() {
        let inputs = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("fuzz {name}: {seconds} s, {} inputs, nothing found", inputs.map_or("?", str::trim));
        return Ok(true);
    }
    let last: Vec<&str> = said.lines().rev().take(60).collect();
    println!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
    println!("fuzz {name}: a finding ({status}); its input is in {artifacts}");
    Ok(false)
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
