//! `cargo xtask bench`: builds the gateway and its bench for release, then measures. It takes minutes and a quiet machine,
//! so it is no part of the gate.

use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{cargo, succeed};

/// Hands the arguments on to the bench, which knows them.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool> {
    let packages = ["--package", "pointsman", "--package", "pointsman-bench"];
    succeed(cargo(root).args(["build", "--release"]).args(packages))?;
    let mut bench = cargo(root);
    bench.args(["run", "--quiet", "--release", "--package", "pointsman-bench", "--"]).args(arguments);
    let status = bench.status().context("the bench did not start")?;
    Ok(status.success())
}
