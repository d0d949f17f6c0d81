//! The command line: one file per verb.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::demo;
use crate::failure::Failure;

mod catalog;
mod check;
mod explain;
mod find;
mod schema;
mod serve;
mod sim;

/// Verbs of later releases; asking for one is answered with 'not built yet'.
const NOT_BUILT: &[&str] =
    &["keys", "report", "replay", "verify", "drill", "simulate", "import", "claude", "codex"];
/// What can be asked for now, for the message about an unknown verb.
const BUILT: &[&str] = &["serve", "demo", "check", "schema", "explain", "catalog", "sim"];

/// An LLM gateway whose heart is safe failover.
#[derive(Debug, Parser)]
#[command(name = "pointsman", version, about, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve requests
    Serve(serve::Serve),
    /// Show the product with simulated providers: no key, network or database needed
    Demo(demo::Demo),
    /// Check a configuration file without serving
    Check(check::Check),
    /// Print the JSON Schema of the configuration file
    Schema,
    /// Say which targets a request may go to, in which order and why, without sending it
    Explain(explain::Explain),
    /// List what is known of models, or import LiteLLM's prices
    Catalog(catalog::Catalog),
    /// Run a simulated provider with scripted faults
    Sim(sim::Sim),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Cli {
    /// Does what was asked for.
    ///
    /// # Errors
    /// [`Failure`], which knows its exit code.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.verb {
            Verb::Serve(serve) => serve.run(),
            Verb::Demo(demo) => demo.run(),
            Verb::Check(check) => check.run(),
            Verb::Schema => schema::run(),
            Verb::Explain(explain) => explain.run(),
            Verb::Catalog(catalog) => catalog.run(),
            Verb::Sim(sim) => sim.run(),
            Verb::Other(words) => Err(unknown(&words)),
        }
    }
}

fn unknown(words: &[OsString]) -> Failure {
    let verb = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    if NOT_BUILT.contains(&verb.as_str()) {
        return Failure::Usage(format!("`pointsman {verb}` is not built yet"));
    }
    let close = pointsman_config::nearest(&verb, BUILT.iter().chain(NOT_BUILT).copied());
    let hint = match close.first() {
        Some(close) => format!("did you mean `{close}`?"),
        None => format!("there are: {}", BUILT.join(", ")),
    };
    Failure::Usage(format!("there is no verb `{verb}`; {hint}"))
}

/// The runtime of a verb. The gateway's workers bring their own.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|e| Failure::Failed(format!("the runtime cannot be started: {e}")))
}
