//! What the process logs, at the most detailed level that a release has.

use std::io;
use std::sync::{Mutex, OnceLock};

use tracing_subscriber::fmt::MakeWriter;

/// Lines of the process that hold a marker, and how many requests were said to have ended.
#[derive(Debug, Default)]
pub struct Logs {
    marked: Mutex<Vec<String>>,
    ends: Mutex<usize>,
}

static LOGS: OnceLock<Logs> = OnceLock::new();
const CONTROL: &str = "MARK-control";

/// Captures from now on.
pub fn capture() -> &'static Logs {
    LOGS.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(Writer)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        Logs::default()
    })
}

impl Logs {
    /// Lines with a marker.
    pub fn lines(&self) -> Vec<String> {
        self.marked.lock().unwrap().clone()
    }

    /// Lines with a marker that should not be there.
    pub fn marked(&self) -> Vec<String> {
        self.lines().into_iter().filter(|line| !line.contains(CONTROL)).collect()
    }

    /// Requests that were said to have ended.
    pub fn ends(&self) -> usize {
        *self.ends.lock().unwrap()
    }
}

struct Writer;

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl io::Write for Writer {
    /// The subscriber writes whole lines.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        if let Some(logs) = LOGS.get() {
            if line.contains("MARK-") {
                logs.marked.lock().unwrap().push(line.clone().into_owned());
            }
            if line.contains("request ended") {
                *logs.ends.lock().unwrap() += 1;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
