//! Log lines, on standard error.

use std::io::{self, IsTerminal};

use pointsman_config::{LogFormat, Telemetry};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::failure::Failure;

mod json;
mod lines;
mod moment;

use json::JsonLine;
use lines::{Lines, Written};

/// Starts logging as the configuration says. What is logged is written at the latest when the answer is dropped.
///
/// # Errors
/// When the level cannot be read.
pub(crate) fn start(telemetry: &Telemetry) -> Result<Written, Failure> {
    let filter = EnvFilter::try_new(&telemetry.level)
        .map_err(|e| Failure::Usage(format!("`telemetry.log_level` '{}': {e}", telemetry.level)))?;
    let failed = |e: &dyn std::fmt::Display| Failure::Failed(format!("logging cannot be started: {e}"));
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    let json = telemetry.log == LogFormat::Json || (telemetry.log == LogFormat::Auto && !terminal);
    let (writer, written) = match terminal {
        // Who watches wants to see it at once.
        true => (BoxMakeWriter::new(io::stderr), Written::at_once()),
        false => {
            let (gathered, written) = Lines::start().map_err(|e| failed(&e))?;
            (BoxMakeWriter::new(gathered), written)
        }
    };
    let lines = lines.with_writer(writer);
    let started = match json {
        true => lines.json().event_format(JsonLine::new()).try_init(),
        false => lines.with_ansi(terminal && colour_wanted()).try_init(),
    };
    started.map_err(|e| failed(&e))?;
    Ok(written)
}

/// Whether the user did not say no to colour (<https://no-color.org>).
pub(crate) fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
