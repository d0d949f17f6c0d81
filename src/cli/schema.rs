//! `pointsman schema`.

use crate::failure::Failure;
use crate::output;

/// Prints the JSON Schema of the configuration file.
pub(crate) fn run() -> Result<(), Failure> {
    Ok(output::line(&format!("{:#}", pointsman_config::schema()))?)
}
