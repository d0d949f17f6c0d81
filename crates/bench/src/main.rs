//! `cargo xtask bench`: what the gateway costs, measured beside a direct connection and a plain reverse proxy (nginx); and
//! `cargo xtask soak` ([`soak`]): whether it stays well under full load and mixed faults.
//!
//! Everything runs on loopback and in one run, in interleaved rounds: a machine that is slow for a while is slow for all
//! three. [`upstream`] is the provider (a process of its own), [`load`] the clients, [`stage`] starts what is measured,
//! [`process`] reads what it costs, [`measure`] is what is measured, [`report`] how it is told.

mod load;
mod measure;
mod process;
mod report;
mod soak;
mod stage;
mod upstream;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Measures what the gateway costs.
#[derive(Debug, Parser)]
#[command(name = "pointsman-bench")]
struct Arguments {
    /// Shorter and fewer: for a look, not for a verdict
    #[arg(long)]
    quick: bool,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The gateway's binary [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    gateway: Option<PathBuf>,
    /// Only measures whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Be the provider until standard input ends; prints the port
    Upstream,
    /// Load the gateway for long while its providers fail in every way
    Soak(soak::Soak),
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    process::raise_descriptors();
    let gateway = match &arguments.gateway {
        Some(gateway) => gateway.clone(),
        None => std::env::current_exe().context("where is this program?")?.with_file_name("pointsman"),
    };
    if let Some(Verb::Soak(soak)) = &arguments.verb {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
        let holds = runtime.block_on(soak::run(soak, &gateway))?;
        return Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    if let Some(Verb::Upstream) = arguments.verb {
        runtime.block_on(upstream::serve())?;
        return Ok(ExitCode::SUCCESS);
    }
    runtime.block_on(async {
        let stage = stage::Stage::set(&gateway).await?;
        let pace = if arguments.quick { measure::Pace::QUICK } else { measure::Pace::FULL };
        let figures = measure::all(&stage, &pace, arguments.only.as_deref()).await?;
        print!("{}", report::text(&figures, &pace));
        if let Some(file) = &arguments.json {
            let text = format!("{:#}\n", report::json(&figures, &pace));
            std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
