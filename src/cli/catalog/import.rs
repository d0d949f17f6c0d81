//! LiteLLM's price file as the `models` of a configuration.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use super::{litellm, matches};
use crate::failure::Failure;
use crate::output;

/// The largest file that is read, in bytes; LiteLLM's own has four million.
const MAX_FILE: u64 = 64 << 20;

/// Prints what could be read; what could not goes to standard error, each with its reason.
pub(super) fn run(file: &Path, search: &[String]) -> Result<(), Failure> {
    let name = file.display();
    let usage = |why: String| Failure::Usage(format!("{name}: {why}"));
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).and_then(|f| f.take(MAX_FILE + 1).read_to_end(&mut bytes));
    opened.map_err(|e| usage(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(usage(format!("larger than {MAX_FILE} bytes")));
    }
    let models: Map<String, Value> = serde_json::from_slice(&bytes)
        .map_err(|e| usage(format!("is not LiteLLM's price file, a JSON object of models: {e}")))?;
    let wanted = models.iter().filter(|(name, _)| matches(name, search));
    let read = litellm::read(wanted);
    for line in read.report() {
        output::error(&line);
    }
    if read.models.is_empty() {
        return Err(Failure::Failed(format!("{name}: no model in it could be read")));
    }
    Ok(output::print(&read.yaml())?)
}
