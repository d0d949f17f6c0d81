//! Debian packages, installed where that is ours to do.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{on_path, output, succeed};

/// Installs packages as root where there is apt, as in a container.
///
/// # Errors
/// There is no apt or we are not root, or apt failed; with `missing`, which says what a person can do.
pub(crate) fn install(packages: &[&str], missing: &'static str) -> Result<()> {
    let root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || on_path("apt-get").is_none() {
        bail!(missing);
    }
    println!("installing {} with apt-get", packages.join(", "));
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        apt
    };
    succeed(apt().arg("update")).context(missing)?;
    succeed(apt().args(["install", "--yes", "--no-install-recommends"]).args(packages)).context(missing)
}
