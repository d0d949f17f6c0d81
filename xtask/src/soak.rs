//! `cargo xtask soak`: builds the gateway and its bench for release, then loads the gateway while its providers fail in
//! every way.

use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{cargo, succeed};

/// Hands the arguments on to the bench, which knows them; `false` if a verdict fails.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool> {
    let packages = ["--package", "pointsman", "--package", "pointsman-bench"];
    succeed(cargo(root).args(["build", "--release", "--locked"]).args(packages))?;
    let mut soak = cargo(root);
    soak.args(["run", "--quiet", "--release", "--locked", "--package", "pointsman-bench", "--", "soak"]);
    let status = soak.args(arguments).status().context("the soak did not start")?;
    Ok(status.success())
}
