//! Python virtual environments under `target/`, made from pinned requirements: for the SDK suite and for tools that
//! come as wheels. Nothing is installed into the system's or the user's Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt;
use crate::process::{output, succeed};

const MISSING: &str = "Python 3.10 or later with its `venv` module is needed and was not found: install it \
    (Debian, Ubuntu: `apt-get install python3-venv`; Fedora: `dnf install python3`; macOS: `brew install python`) \
    and run the command again";

/// The `bin` folder of a virtual environment that holds what `requirements` pins. One that was made from the same
/// requirements before is used again; any other is made afresh.
///
/// # Errors
/// Python is missing and may not be installed from here, or a package cannot be had.
pub(crate) fn environment(folder: &Path, requirements: &Path) -> Result<PathBuf> {
    let wanted = std::fs::read_to_string(requirements)
        .with_context(|| format!("reading {}", requirements.display()))?;
    if let Some(loose) = unpinned(&wanted) {
        bail!("{}: `{loose}` is not pinned with `==`", requirements.display());
    }
    let (bin, made_from) = (folder.join("bin"), folder.join("made-from.txt"));
    let runs = output(Command::new(bin.join("python")).arg("--version")).is_ok();
    if runs && std::fs::read_to_string(&made_from).is_ok_and(|made| made == wanted) {
        return Ok(bin);
    }
    println!("making {} from {}", folder.display(), requirements.display());
    create(folder)?;
    let mut pip = Command::new(bin.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements);
    succeed(&mut pip).with_context(|| format!("could not install what {} pins", requirements.display()))?;
    std::fs::write(&made_from, wanted).with_context(|| format!("writing {}", made_from.display()))?;
    Ok(bin)
}

/// The first requirement without an exact version.
fn unpinned(requirements: &str) -> Option<&str> {
    let mut lines =
        requirements.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.find(|line| !line.contains("=="))
}

fn create(folder: &Path) -> Result<()> {
    if try_create(folder).is_ok() {
        return Ok(());
    }
    apt::install(&["python3", "python3-venv"], MISSING)?;
    try_create(folder)
}

fn try_create(folder: &Path) -> Result<()> {
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder)).map(|_| ()).context(MISSING)
}

#[cfg(test)]
mod tests {
    use super::unpinned;

    #[test]
    fn a_requirement_without_an_exact_version_is_found() {
        assert_eq!(unpinned("# comment\nopenai==3.57.0\n\npytest==9.2.0\n"), None);
        assert_eq!(unpinned("openai==3.57.0\npytest>=9\n"), Some("pytest>=9"));
        assert_eq!(unpinned("openai\n"), Some("openai"));
    }
}
