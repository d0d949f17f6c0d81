//! `pointsman check`.

use std::path::PathBuf;

use clap::Args;
use pointsman_config::{Auth, Config};
use pointsman_server::{App, Clock};

use super::find;
use crate::failure::Failure;
use crate::output;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Check {
    /// Reads the file as `serve` would, and says what it found.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let loaded = find::file(&self.file)?;
        find::warn(&loaded);
        let summary = summary(&self.file.display().to_string(), &loaded.config);
        // What only shows when it is put to use: certificates, characters that no header can carry.
        App::new(loaded.config, Clock::default(), None).map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(output::print(&summary)?)
    }
}

fn summary(file: &str, config: &Config) -> String {
    let catalog = &config.catalog;
    let auth = match config.server.auth {
        Auth::Keys => "asks for a key",
        Auth::None => "asks for no key",
    };
    format!(
        "{file} is valid: {}, {}, {}\n  data plane   {} ({auth})\n  admin plane  {}\n",
        count(catalog.targets.len(), "target"),
        count(catalog.routes.len(), "route"),
        count(config.keys.len(), "key"),
        config.server.listen,
        config.admin.listen,
    )
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
