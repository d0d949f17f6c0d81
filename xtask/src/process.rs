//! Child processes: found on PATH, started, listened to.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow};

use crate::outcome::{NODE, Tally, without_colour};

/// What a test runner did: how it exited and the closing lines that it printed.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) status: ExitStatus,
    pub(crate) closing: Vec<String>,
    pub(crate) tally: Tally,
}

impl Heard {
    /// The runner's own closing line, or the sum where it printed several (cargo prints one per test binary, Node one per
    /// outcome).
    pub(crate) fn note(&self) -> String {
        let Tally { passed, failed, ignored } = self.tally;
        let sum = format!("{passed} passed; {failed} failed; {ignored} ignored");
        match self.closing.as_slice() {
            [] => format!("ended with {} before any test ran", self.status),
            [only] => only.trim_matches(['=', ' ']).to_owned(),
            [first, ..] if first.starts_with(NODE) => sum,
            several => format!("{sum} in {} test binaries", several.len()),
        }
    }
}

/// Cargo as it was called for this run, else the one on PATH.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

/// The first executable file of that name on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs a command with its output shown; an error if it cannot start or exits with anything but success.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("`{shown}` did not start"))?;
    if status.success() { Ok(()) } else { Err(anyhow!("`{shown}` ended with {status}")) }
}

/// Runs a command without showing its output and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{shown}` did not start"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(anyhow!("`{shown}` ended with {}: {}", output.status, errors.trim()));
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed something that is not UTF-8"))
}

/// Runs a test runner with its output shown as it comes, and keeps its closing lines.
pub(crate) fn listen(command: &mut Command) -> Result<Heard> {
    let shown = shown(command);
    println!("$ {shown}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{shown}` did not start"))?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(anyhow!("`{shown}` has no output to listen to"));
    };
    let (from_out, from_err) = std::thread::scope(|scope| {
        let other = scope.spawn(|| copy_lines(err, std::io::stderr()));
        (copy_lines(out, std::io::stdout()), other.join())
    });
    let mut closing = from_out.with_context(|| format!("reading from `{shown}`"))?;
    closing.extend(from_err.map_err(|_| anyhow!("the listener of `{shown}` died"))??);
    let mut tally = Tally::default();
    closing.iter().filter_map(|line| Tally::from_closing_line(line)).for_each(|part| tally += part);
    Ok(Heard { status: child.wait()?, closing, tally })
}

/// Copies line by line, also lines that are not UTF-8, and returns those that close a test run.
fn copy_lines(from: impl Read, mut to: impl Write) -> std::io::Result<Vec<String>> {
    let mut from = BufReader::new(from);
    let mut closing = Vec::new();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        let text = String::from_utf8_lossy(&line);
        if Tally::from_closing_line(&text).is_some() {
            closing.push(without_colour(&text).trim().to_owned());
        }
        line.clear();
    }
    Ok(closing)
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut text = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text += &argument.to_string_lossy();
    }
    text
}
