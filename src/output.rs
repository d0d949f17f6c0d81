//! Standard output and standard error, without a panic when nobody reads them any more.

use std::io::{self, Write};

/// Writes to standard output, at once.
///
/// # Errors
/// What writing meets; a broken pipe among it, which ends a verb quietly.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard output, at once.
///
/// # Errors
/// As [`print()`].
pub(crate) fn line(text: &str) -> io::Result<()> {
    print(&format!("{text}\n"))
}

/// Writes a line to standard error. That it cannot be written can be told to nobody.
pub(crate) fn error(text: &str) {
    let written = writeln!(io::stderr().lock(), "{text}");
    drop(written);
}
