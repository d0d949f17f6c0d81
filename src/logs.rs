//! Log lines, on standard error.

use std::io::{self, IsTerminal};

use pointsman_config::{LogFormat, Telemetry};
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// Starts logging as the configuration says.
///
/// # Errors
/// When the level cannot be read.
pub(crate) fn start(telemetry: &Telemetry) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&telemetry.level)
        .map_err(|e| Failure::Usage(format!("`telemetry.log_level` '{}': {e}", telemetry.level)))?;
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let json = telemetry.log == LogFormat::Json || (telemetry.log == LogFormat::Auto && !terminal);
    let started = match json {
        // Without the module, which would be a second `target` beside the one that a request went to.
        true => lines.json().flatten_event(true).with_target(false).try_init(),
        false => lines.with_ansi(terminal && colour_wanted()).try_init(),
    };
    started.map_err(|e| Failure::Failed(format!("logging cannot be started: {e}")))
}

/// Whether the user did not say no to colour (<https://no-color.org>).
pub(crate) fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
