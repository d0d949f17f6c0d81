//! The packages of the Node suite, installed beside it from its lock file, and the Node that they need. Nothing is
//! installed globally, and no script of a package is run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::apt;
use crate::process::{on_path, output, succeed};

const MISSING: &str = "npm, which comes with Node, is needed and was not found: install it (Debian, Ubuntu: \
    `apt-get install npm`; Fedora: `dnf install nodejs-npm`; macOS: `brew install node`) and run the command again";

/// The oldest Node whose test runner has the options that the suite is run with. (The SDKs run on 22, too.)
const OLDEST: u64 = 24;

/// Installs what the suite's lock file pins, unless exactly that is there already, and returns the Node to run the suite
/// with: where one comes as a package that one, as exactly pinned as the SDKs, else the system's.
///
/// # Errors
/// Something is not pinned, npm is missing and may not be installed from here, a package cannot be had, or there is no
/// Node that is new enough.
pub(crate) fn with_packages(suite: &Path) -> Result<PathBuf> {
    let (manifest, lock) = (read(&suite.join("package.json"))?, read(&suite.join("package-lock.json"))?);
    if let Some(loose) = loose(&manifest, &lock)? {
        bail!("{}: {loose}", suite.display());
    }
    let wanted = format!("{manifest}{lock}");
    let made_from = suite.join("node_modules/made-from.txt");
    if std::fs::read_to_string(&made_from).is_ok_and(|made| made == wanted)
        && let Ok(node) = runtime(suite)
    {
        return Ok(node);
    }
    println!("installing the packages of {}", suite.display());
    if on_path("npm").is_none() {
        apt::install(&["npm"], MISSING)?;
    }
    // The flag for npm's remark that the system's own Node is too old for the SDKs: it only installs them.
    let mut npm = Command::new("npm");
    succeed(npm.args(["ci", "--loglevel=error"]).current_dir(suite))
        .with_context(|| format!("could not install what {} pins", suite.display()))?;
    let node = runtime(suite)?;
    std::fs::write(&made_from, wanted).with_context(|| format!("writing {}", made_from.display()))?;
    Ok(node)
}

/// The regular expression that matches names that contain `text`, as Node's test runner wants it.
pub(crate) fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// What is not pinned exactly: a version that is a range, a package without a hash, or one that names the place where it
/// was found, which may not be there for others.
fn loose(manifest: &str, lock: &str) -> Result<Option<String>> {
    let manifest: Value = serde_json::from_str(manifest).context("package.json is no JSON")?;
    let lock: Value = serde_json::from_str(lock).context("package-lock.json is no JSON")?;
    let groups = ["dependencies", "devDependencies", "optionalDependencies"];
    let groups = groups.iter().filter_map(|group| manifest.get(group)?.as_object());
    for (name, version) in groups.flatten() {
        if !version.as_str().is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())) {
            return Ok(Some(format!("the version {version} of `{name}` is not exact")));
        }
    }
    let packages =
        lock.get("packages").and_then(Value::as_object).context("package-lock.json has no `packages`")?;
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        if package.get("integrity").is_none() {
            return Ok(Some(format!("`{name}` has no hash in package-lock.json")));
        }
        if package.get("resolved").is_some() {
            return Ok(Some(format!("`{name}` names an address in package-lock.json: see .npmrc")));
        }
    }
    Ok(None)
}

/// The Node among the installed packages, else the system's if it is new enough.
fn runtime(suite: &Path) -> Result<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let package = format!("node_modules/node-{}-{arch}/bin/node", std::env::consts::OS);
    let packaged = std::path::absolute(suite.join(package))?;
    let system = on_path("node");
    for node in [Some(packaged), system].into_iter().flatten() {
        let said = output(Command::new(&node).arg("--version"));
        if said.is_ok_and(|version| major(&version).is_some_and(|major| major >= OLDEST)) {
            return Ok(node);
        }
    }
    bail!("Node {OLDEST} or later is needed and was not found: install it and run the command again")
}

/// `v24.22.3` is 24.
fn major(version: &str) -> Option<u64> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{loose, major, pattern};

    const MANIFEST: &str = r#"{"devDependencies":{"openai":"7.59.0"}}"#;

    #[test]
    fn a_range_a_missing_hash_and_an_address_are_found() {
        let lock = |package: &str| format!(r#"{{"packages":{{"":{{}},"node_modules/openai":{package}}}}}"#);
        let whole = lock(r#"{"integrity":"sha512-x"}"#);
        let said = |manifest, lock: &str| loose(manifest, lock).unwrap().unwrap_or_default();
        assert_eq!(said(MANIFEST, &whole), "");
        assert!(
            said(r#"{"devDependencies":{"openai":"^7.59.0"}}"#, &whole).contains("`openai` is not exact")
        );
        assert!(said(r#"{"optionalDependencies":{"ai":"latest"}}"#, &whole).contains("`ai` is not exact"));
        assert!(said(MANIFEST, &lock("{}")).contains("no hash"));
        let found = lock(r#"{"integrity":"sha512-x","resolved":"https://example.com/openai.tgz"}"#);
        assert!(said(MANIFEST, &found).contains("names an address"));
        assert!(loose(MANIFEST, "{}").is_err());
    }

    #[test]
    fn the_version_that_node_prints_is_read() {
        assert_eq!(major("v24.22.3\n"), Some(24));
        assert_eq!(major("24.22.3"), None);
        assert_eq!(major(""), None);
    }

    #[test]
    fn a_filter_is_text_and_no_expression() {
        assert_eq!(pattern("a 503, stream"), r"a 503\, stream");
        assert_eq!(pattern("(x)"), r"\(x\)");
    }
}
