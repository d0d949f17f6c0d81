//! `cargo xtask soak`: full load for minutes, while the providers go through faults that change all the time.
//!
//! [`course`] says what each provider suffers and when, [`world`] has the running gateway and its providers, [`crowd`] the
//! clients ([`talk`] is what they speak), [`mod@watch`] looks at the process, [`report`] comes to verdicts.

mod course;
mod crowd;
mod report;
mod talk;
mod watch;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::time::{Instant, sleep, sleep_until};

use course::Course;
use crowd::Scene;
use report::Outcome;
use watch::{Held, descriptors, held, sum, watch};
use world::World;

/// Stands in prompts, answers, tools and keys, and may stand nowhere else.
const MARK: &str = "zaffre-quandary";
/// The ledger keeps the last 10,000 requests: once it is full of what is played, memory does not grow by it any more.
const WARM_AFTER: u64 = 12_000;
const WARM_WITHIN: Duration = Duration::from_secs(60);
/// How long what is left may take to go.
const SETTLES_WITHIN: Duration = Duration::from_secs(15);

/// Arguments of `soak`.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(20..))]
    seconds: u64,
    /// Chooses what clients do
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs it; whether all verdicts hold.
pub(crate) async fn run(arguments: &Soak, binary: &Path) -> Result<bool> {
    let world = World::start(binary, MARK).await?;
    let outcome = play(world, Duration::from_secs(arguments.seconds), arguments.seed).await?;
    print!("{}", outcome.text());
    if let Some(file) = &arguments.json {
        let text = format!("{:#}\n", outcome.json());
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(outcome.verdicts().iter().all(|verdict| verdict.holds))
}

async fn play(world: World, lasting: Duration, seed: u64) -> Result<Outcome> {
    // The first look at the metrics is part of the rest that everything comes back to.
    world.gateway.ask("/metrics").await?;
    let before = settled(&world, |_| false, Duration::from_millis(500)).await?.1;
    let scene = Arc::new(Scene {
        gateway: world.gateway.data,
        mark: world.mark.clone(),
        course: Course::of(lasting),
        began: Instant::now(),
        over: AtomicBool::new(false),
        asked: AtomicU64::new(0),
    });
    let mut players = world.play(&scene);
    let crowd = crowd::gather(&scene, seed);
    let (watched, (from, first)) = tokio::try_join!(watch(&world, &scene), end(&scene, lasting))?;
    let asked = scene.asked.load(Ordering::Relaxed) - first;
    let crowd = crowd::heard(crowd).await?;
    while let Some(played) = players.join_next().await {
        played.context("a player died")??;
    }
    let (left, _) = settled(&world, |(held, _)| *held == Held::default(), SETTLES_WITHIN).await?;
    // Connections that are kept for the next request are no leak: they go with their providers.
    world.sims.iter().for_each(|sim| sim.close_connections());
    let (_, after) = settled(&world, |(_, files)| *files <= before, SETTLES_WITHIN).await?;
    let metrics = world.gateway.ask("/metrics").await?;
    let calls = world.calls();
    let (status, log) = world.gateway.leave().await?;
    Ok(Outcome {
        from,
        lasted: lasting,
        asked,
        crowd,
        samples: watched.samples,
        attempts: sum(&metrics, "pointsman_attempts_total"),
        calls,
        held: left,
        descriptors: (before, after),
        marked: watched.marked,
        heard: log.heard(),
        left_well: status.success(),
    })
}

/// Ends the scene when its time is over, which begins with the first cycle after the warm-up. Answers with that moment, from
/// the scene's beginning, and how many requests there had been.
async fn end(scene: &Scene, lasting: Duration) -> Result<(Duration, u64)> {
    let at_the_latest = scene.began + WARM_WITHIN;
    while scene.asked.load(Ordering::Relaxed) < WARM_AFTER && Instant::now() < at_the_latest {
        sleep(Duration::from_millis(100)).await;
    }
    let cycle = scene.course.cycle();
    let cycles = (scene.began.elapsed().as_secs_f64() / cycle.as_secs_f64()).ceil();
    let from = cycle.mul_f64(cycles);
    sleep_until(scene.began + from).await;
    let first = scene.asked.load(Ordering::Relaxed);
    sleep_until(scene.began + from + lasting).await;
    scene.over.store(true, Ordering::Relaxed);
    Ok((from, first))
}

/// What is held, and how many descriptors, once it is as it should be, or when the time is over.
async fn settled(
    world: &World,
    is_well: impl Fn(&(Held, u64)) -> bool,
    within: Duration,
) -> Result<(Held, u64)> {
    let until = Instant::now() + within;
    loop {
        let metrics = world.gateway.ask("/metrics").await?;
        // The connection that was asked over is closed a moment later.
        sleep(Duration::from_millis(50)).await;
        let now = (held(&metrics), descriptors(world.gateway.pid())?);
        if is_well(&now) || Instant::now() > until {
            return Ok(now);
        }
    }
}
