//! Why a verb did not do what it was asked to, and the exit code that says so.

use std::io;
use std::process::ExitCode;

use crate::output;

/// See the module. Displays one clear sentence, or one problem a line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line or the configuration is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// What was asked for failed: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The output cannot be written: exit code 1, except that a reader that has enough is no error.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Says it on standard error, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Failed(_) | Self::Output(_) | Self::Usage(_) => output::error(&self.to_string()),
        }
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) | Self::Output(_) => ExitCode::from(1),
        }
    }
}
