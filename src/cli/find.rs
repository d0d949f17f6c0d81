//! Where the configuration comes from, for the verbs that need one.

use std::path::{Path, PathBuf};

use pointsman_config::{Loaded, ProcessEnv};
use pointsman_server::{AppError, Loader};

use crate::failure::Failure;
use crate::output;

/// A configuration, and how to read it again.
pub(crate) struct Found {
    /// What was read.
    pub(crate) loaded: Loaded,
    /// Reads it again; nothing where it came from the environment.
    pub(crate) loader: Option<Loader>,
}

/// `--config`, `$POINTSMAN_CONFIG`, `./pointsman.yaml`, else the environment alone.
///
/// # Errors
/// Every problem of the file, or how to go on where nothing is configured.
pub(crate) fn configuration(explicit: Option<&Path>) -> Result<Found, Failure> {
    match pointsman_config::find(explicit, &ProcessEnv, Path::new("")) {
        Some(path) => {
            let loaded = file(&path)?;
            Ok(Found { loaded, loader: Some(loader(path)) })
        }
        None => {
            let loaded =
                pointsman_config::from_environment(&ProcessEnv).map_err(|e| Failure::Usage(e.to_string()))?;
            Ok(Found { loaded, loader: None })
        }
    }
}

/// Reads one file.
///
/// # Errors
/// Every problem of the file.
pub(crate) fn file(path: &Path) -> Result<Loaded, Failure> {
    pointsman_config::load(path, &ProcessEnv).map_err(|problems| Failure::Usage(problems.to_string()))
}

/// Says on standard error what should be looked at but stops nothing.
pub(crate) fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        output::error(&format!("warning: {warning}"));
    }
}

fn loader(path: PathBuf) -> Loader {
    Box::new(move || {
        pointsman_config::load(&path, &ProcessEnv).map_err(|problems| AppError::Problems(problems.0))
    })
}
