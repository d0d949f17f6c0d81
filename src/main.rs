//! `pointsman`: an LLM gateway whose heart is safe failover.
//!
//! One file per verb in [`cli`]; the tour of `pointsman demo` is in [`demo`]. What the gateway does is in the crates of
//! this workspace, the way of a request in `crates/server/src/pipeline.rs`.

mod cli;
mod client;
mod demo;
mod failure;
mod logs;
mod output;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version come as errors too, with exit code 0; a wrong usage has 2.
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            // Nobody is left to tell when the terminal itself is gone.
            return error.print().map_or(ExitCode::FAILURE, |()| ExitCode::from(code));
        }
    };
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
