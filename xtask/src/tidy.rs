//! `cargo xtask tidy`: the rules of this project that no compiler checks. All findings are shown at once, each as
//! `file:line: sentence`.
//!
//! - [`dependencies`]: which of our crates may use which, and that the core uses nothing.
//! - [`source`]: sizes, names, `unsafe`, white space, and that each crate begins with its contract.
//! - [`cases`]: the numbered inputs that broke other gateways are borne by tests.
//! - [`links`]: documents point at files that exist, and the README stays short.

mod cases;
mod dependencies;
mod links;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that hold nothing of ours.
const FOREIGN: [&str; 5] = ["target", ".git", "node_modules", ".venv", "__pycache__"];
/// Kinds of files that are read.
const READ: [&str; 9] = ["rs", "md", "toml", "yaml", "yml", "py", "sh", "js", "ts"];

/// One broken rule and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the workspace root.
    path: String,
    line: usize,
    sentence: String,
}

impl Finding {
    fn new(path: &str, line: usize, sentence: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, sentence: sentence.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// Checks everything and prints what it finds; `false` if it found something.
///
/// # Errors
/// A file cannot be read or `cargo metadata` fails.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut files = Vec::new();
    walk(root, "", &mut files)?;
    let mut findings = dependencies::check(root)?;
    let mut cases = cases::Cases::default();
    for path in &files {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
        findings.extend(source::check(path, &text));
        cases.take(path, &text);
        if path.ends_with(".md") {
            findings.extend(links::check(path, &text, &|target| root.join(target).exists()));
        }
    }
    findings.extend(cases.check());
    if !files.iter().any(|path| path == links::README) {
        findings.push(Finding::new(links::README, 1, "there is no README"));
    }
    findings.sort();
    findings.iter().for_each(|finding| println!("{finding}"));
    let verdict = if findings.is_empty() {
        "nothing to say".to_owned()
    } else {
        format!("{} findings", findings.len())
    };
    println!("tidy: {} files read, {verdict}", files.len());
    Ok(findings.is_empty())
}

/// Collects the files to read below `folder`, with `/` between names whatever the system uses.
fn walk(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<()> {
    let entries =
        std::fs::read_dir(root.join(folder)).with_context(|| format!("reading the folder `{folder}`"))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !FOREIGN.contains(&name.as_str()) {
            walk(root, &path, files)?;
        } else if kind.is_file() && is_read(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_read(path: &str) -> bool {
    path == ".ci/run" || path.rsplit_once('.').is_some_and(|(_, extension)| READ.contains(&extension))
}
