//! `pointsman demo`: a tour with three simulated providers and the gateway, all in this process.
//!
//! [`world`] is what runs, [`seen`] what a client saw, [`stage`] how it is shown, [`steps`] the tour itself. Each step
//! checks by itself that what it says is what happened: what the client got, and whom the providers saw.

use clap::Args;

use crate::cli::runtime;
use crate::failure::Failure;
use crate::signals::Leave;

mod closing;
mod seen;
mod stage;
mod steps;
mod world;

use stage::Stage;
use world::World;

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Leave after the tour; exit code 0 only if each step did what it says
    #[arg(long)]
    once: bool,
}

impl Demo {
    /// Shows the tour, then serves on until a signal asks to leave.
    pub(crate) fn run(self) -> Result<(), Failure> {
        runtime()?.block_on(async {
            let mut leave = Leave::new()?;
            let mut stage = Stage::new();
            let world = World::start().await?;
            let toured = tokio::select! {
                toured = tour(&world, &mut stage) => toured,
                () = leave.asked() => return Ok(()),
            };
            toured?;
            if !self.once {
                closing::how_to_go_on(&world, &mut stage)?;
                leave.asked().await;
            }
            stage.verdict()
        })
    }
}

async fn tour(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    steps::opening(world, stage)?;
    steps::healthy(world, stage).await?;
    steps::primary_dies(world, stage).await?;
    steps::rate_limit(world, stage).await?;
    steps::breaker(world, stage).await?;
    steps::cut(world, stage).await?;
    steps::policy(world, stage).await?;
    steps::substitution(world, stage).await?;
    world.fresh().await?;
    Ok(stage.summary()?)
}
