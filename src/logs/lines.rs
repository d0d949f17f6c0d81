//! Log lines off the way of a request: they are gathered, and written by a thread of their own.
//!
//! A line costs whoever logs it a copy. Warnings and errors are written at once, with everything before them. When
//! standard error takes nothing, lines beyond a bound are lost, and how many is said.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line may wait for others.
const GATHERED_FOR: Duration = Duration::from_millis(20);
/// So much may wait, in bytes.
const MOST: usize = 4 * 1024 * 1024;

/// Where lines go. Clones share it; dropping [`Written`] writes what still waits.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    came: Condvar,
    /// Held while lines are written, so that they stay in their order.
    out: Mutex<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    lost: u64,
    over: bool,
}

/// Writes what waits when it is dropped, and ends the thread.
#[derive(Debug)]
pub(crate) struct Written(Option<Lines>);

impl Written {
    /// For lines that wait for nobody.
    pub(crate) const fn at_once() -> Self {
        Self(None)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if let Some(Lines(shared)) = &self.0 {
            lock(&shared.waiting).over = true;
            shared.came.notify_one();
            shared.write();
        }
    }
}

impl Lines {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system grants no thread.
    pub(crate) fn start() -> io::Result<(Self, Written)> {
        let shared = Arc::new(Shared::default());
        let writing = Arc::clone(&shared);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writing.serve())?;
        Ok((Self(Arc::clone(&shared)), Written(Some(Self(shared)))))
    }
}

impl Shared {
    fn add(&self, line: &[u8]) {
        let mut waiting = lock(&self.waiting);
        if waiting.bytes.len() + line.len() > MOST {
            waiting.lost += 1;
            return;
        }
        let first = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line);
        drop(waiting);
        if first {
            self.came.notify_one();
        }
    }

    fn serve(&self) {
        loop {
            let waiting = lock(&self.waiting);
            let idle = |waiting: &mut Waiting| waiting.bytes.is_empty() && !waiting.over;
            let waiting = self.came.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner);
            if waiting.over {
                return;
            }
            drop(waiting);
            std::thread::sleep(GATHERED_FOR);
            self.write();
        }
    }

    fn write(&self) {
        let out = lock(&self.out);
        let (bytes, lost) = {
            let mut waiting = lock(&self.waiting);
            let room = Vec::with_capacity(waiting.bytes.len());
            (std::mem::replace(&mut waiting.bytes, room), std::mem::take(&mut waiting.lost))
        };
        let mut to = io::stderr().lock();
        // That standard error is gone can be told to nobody.
        let mut written = to.write_all(&bytes);
        if lost > 0 {
            written = written.and_then(|()| {
                writeln!(to, "{{\"level\":\"WARN\",\"message\":\"log lines were lost\",\"lines\":{lost}}}")
            });
        }
        drop((written, out));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { shared: &self.0, urgent: true }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { shared: &self.0, urgent: *meta.level() <= Level::WARN }
    }
}

/// One line; the subscriber writes it whole.
pub(crate) struct Line<'a> {
    shared: &'a Shared,
    urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shared.add(bytes);
        if self.urgent {
            self.shared.write();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_standard_error_does_not_take_is_lost_beyond_a_bound_and_counted() {
        let shared = Shared::default();
        let line = vec![b'x'; MOST / 2];
        for _ in 0..5 {
            shared.add(&line);
        }
        let waiting = lock(&shared.waiting);
        assert_eq!((waiting.bytes.len(), waiting.lost), (MOST, 3));
    }

    #[test]
    fn the_thread_ends_with_its_guard() {
        let (lines, written) = Lines::start().unwrap();
        drop(written);
        assert!(lock(&lines.0.waiting).over);
    }
}
