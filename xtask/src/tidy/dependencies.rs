//! Which of our crates may use which (ARCHITECTURE.md), read from `cargo metadata`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;
use crate::process::{cargo, output};

const PREFIX: &str = "pointsman-";
const CORE: &str = "pointsman-core";
/// What the core may use besides the language's own `core` and `alloc`.
const CORE_MAY_USE: [&str; 1] = ["libm"];
/// A leaf that any crate may use in its tests.
const TEST_SUPPORT: &str = "provider-sim";

/// What each crate may use of ours, without the prefix. `None`: everything.
const ALLOWED: [(&str, Option<&[&str]>); 11] = [
    ("pointsman", None),
    ("pointsman-server", Some(&["core", "wire", "config", "store", "upstream"])),
    ("pointsman-config", Some(&["core"])),
    ("pointsman-store", Some(&["core"])),
    ("pointsman-upstream", Some(&["core"])),
    (CORE, Some(&[])),
    ("pointsman-wire", Some(&[])),
    ("pointsman-provider-sim", Some(&[])),
    ("pointsman-world-sim", Some(&["core"])),
    ("pointsman-bench", Some(&["provider-sim"])),
    ("xtask", Some(&[])),
];

/// A package of the workspace as far as the rules look at it.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    /// The manifest's path and text, to say where a dependency stands.
    pub(super) manifest: String,
    pub(super) manifest_text: String,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) for_tests: bool,
}

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let text = output(cargo(root).args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
    let packages =
        metadata.get("packages").and_then(Value::as_array).context("cargo metadata names no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        findings.extend(of_package(&read(root, package)?));
    }
    let core = "crates/core/src/lib.rs";
    let text = std::fs::read_to_string(root.join(core)).with_context(|| format!("reading {core}"))?;
    if !text.lines().any(|line| line.trim() == "#![no_std]") {
        findings.push(Finding::new(core, 1, "the core must say `#![no_std]`: it knows no system"));
    }
    Ok(findings)
}

fn read(root: &Path, package: &Value) -> Result<Package> {
    let field = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = field(package, "name").context("cargo metadata: a package without a name")?;
    let manifest = field(package, "manifest_path").context("cargo metadata: a package without a manifest")?;
    let manifest_text = std::fs::read_to_string(&manifest).with_context(|| format!("reading {manifest}"))?;
    let manifest = Path::new(&manifest)
        .strip_prefix(root)
        .map_or_else(|_| manifest.clone(), |path| path.display().to_string());
    let listed = package.get("dependencies").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let dependencies = listed
        .iter()
        .filter_map(|one| {
            Some(Dependency {
                name: field(one, "name")?,
                for_tests: field(one, "kind").as_deref() == Some("dev"),
            })
        })
        .collect();
    Ok(Package { name, manifest, manifest_text, dependencies })
}

/// The findings of one package.
pub(super) fn of_package(package: &Package) -> Vec<Finding> {
    let name = package.name.as_str();
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        let sentence =
            format!("`{name}` has no row in xtask's table of who may use whom: say there what it may use");
        return vec![Finding::new(&package.manifest, 1, sentence)];
    };
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        if name == CORE && !dependency.for_tests && !CORE_MAY_USE.contains(&dependency.name.as_str()) {
            let sentence = format!(
                "the core may use nothing but {}, not `{}`",
                CORE_MAY_USE.join(", "),
                dependency.name
            );
            findings.push(Finding::new(&package.manifest, line_of(package, &dependency.name), sentence));
        } else if !may_use(*allowed, dependency) {
            let sentence =
                format!("`{name}` may not use `{}`: see the crate table in ARCHITECTURE.md", dependency.name);
            findings.push(Finding::new(&package.manifest, line_of(package, &dependency.name), sentence));
        }
    }
    findings
}

fn may_use(allowed: Option<&[&str]>, dependency: &Dependency) -> bool {
    let Some(ours) = dependency.name.strip_prefix(PREFIX) else {
        return dependency.name != "pointsman" && dependency.name != "xtask";
    };
    allowed.is_none_or(|allowed| allowed.contains(&ours)) || (dependency.for_tests && ours == TEST_SUPPORT)
}

fn line_of(package: &Package, dependency: &str) -> usize {
    let names_it = |line: &str| {
        line.trim_start().strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    package.manifest_text.lines().position(names_it).map_or(1, |index| index + 1)
}
