//! The signals that ask the process to leave.

use std::io;

/// Listens for SIGTERM and SIGINT from the moment that it is made.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Leave {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Leave {
    /// # Errors
    /// When signals cannot be listened for.
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next time that someone asks.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Listens for Ctrl-C.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Leave;

#[cfg(not(unix))]
impl Leave {
    /// # Errors
    /// Never here.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// The next time that someone asks.
    pub(crate) async fn asked(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
