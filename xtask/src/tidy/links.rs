//! Documents: every relative link leads to a file, and the README stays short.

use std::path::{Component, Path, PathBuf};

use super::Finding;

pub(super) const README: &str = "README.md";
/// The README is read in one sitting: it stays below this many lines.
const README_LINES: usize = 150;

/// The findings of one Markdown document. `exists` says whether a path, relative to the root, is there.
pub(super) fn check(path: &str, text: &str, exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if path == README && lines >= README_LINES {
        let sentence =
            format!("the README has {lines} lines; it must stay below {README_LINES}: move detail to docs/");
        findings.push(Finding::new(path, README_LINES, sentence));
    }
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(&without_code(line)) {
            let leads_somewhere = resolve(path, target).is_some_and(|file| exists(&file));
            if !leads_somewhere {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("the link `{target}` leads to no file of the project"),
                ));
            }
        }
    }
    findings
}

/// The relative link targets of a line: `[text](target "title")`, `![text](target)` and `[label]: target`.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = definition.and_then(|(_, target)| target.split_whitespace().next());
    inline.chain(defined).filter(|target| is_relative(target)).collect()
}

fn is_relative(target: &str) -> bool {
    !target.is_empty()
        && !target.starts_with('#')
        && !target.contains("://")
        && !target.starts_with("mailto:")
}

/// Where a link from the document `from` leads, relative to the root; `None` if it leaves the project.
fn resolve(from: &str, target: &str) -> Option<PathBuf> {
    let target = target.split('#').next().unwrap_or_default();
    let mut resolved = Path::new(from).parent()?.to_path_buf();
    for component in Path::new(target).components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !resolved.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

/// The line without its `code spans`: what stands in them is no link.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}
