//! What the gateway learns about its targets.

use std::time::{Duration, Instant};

use pointsman_provider_sim::Script;
use serde_json::Value;

use super::{called, show};
use crate::demo::stage::Stage;
use crate::demo::world::{LARGE, OPEN_FOR, SLOW_START, World, well_spoken};
use crate::failure::Failure;

/// Failures that come at once count as one: these come apart.
const APART: Duration = Duration::from_millis(150);
/// Beyond a time that was told, for timers that fire a little late.
const MARGIN: Duration = Duration::from_millis(150);

/// Step 3.
pub(crate) async fn rate_limit(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    const RETRY_AFTER: u64 = 2;
    world.fresh().await?;
    stage.step(
        "A rate limit: waited out, not hammered",
        "A 429 is no failure: the target rests for exactly as long as it asked, and others serve.",
    )?;
    stage.did(&format!("north answers 429 with Retry-After: {RETRY_AFTER}"))?;
    world.north.enqueue([Script::openai_rate_limit(RETRY_AFTER)]);
    let seen = world.ask(LARGE).await?;
    let limited = Instant::now();
    show(stage, &seen)?;
    stage.check(seen.says("reason") == "north:rate_limit>south", "south answered: a failover")?;
    let target = world.target("north").await?;
    stage.saw(&format!("GET /admin/v1/targets/north: {}", told(&target)))?;
    stage.check(state(&target) == "throttled", "north is throttled")?;
    stage.did("three more requests at once")?;
    for _ in 0..3 {
        let seen = world.ask(LARGE).await?;
        stage.saw(&format!("{}  {}", seen.line(), seen.headers()))?;
        stage.check(seen.says("target") == "south" && seen.says("attempts") == "1", "straight to south")?;
    }
    called(stage, world, (1, 4, 0), "north was left alone")?;
    let rest = (Duration::from_secs(RETRY_AFTER) + MARGIN).saturating_sub(limited.elapsed());
    stage.did(&format!("{} ms later", rest.as_millis()))?;
    tokio::time::sleep(rest).await;
    let seen = world.ask(LARGE).await?;
    show(stage, &seen)?;
    Ok(stage.check(seen.is_from("north") && seen.says("attempts") == "1", "north is back")?)
}

/// Step 4.
pub(crate) async fn breaker(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    world.fresh().await?;
    stage.step(
        "The circuit breaker: opens, fails fast, probes, comes back slowly",
        "Three failures in a row open it (here for 2 s, by default for 30 s). Clients notice nothing: south serves. States are what GET /admin/v1/targets/north says.",
    )?;
    opens(world, stage).await?;
    let opened = Instant::now();
    fails_fast(world, stage).await?;
    probes(world, stage, opened).await?;
    slow_start(world, stage).await
}

async fn opens(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    stage.did("north answers 500, three requests")?;
    world.north.set(Script::server_error(500));
    let mut served = 0;
    for number in 1..=3 {
        if number > 1 {
            tokio::time::sleep(APART).await;
        }
        let seen = world.ask(LARGE).await?;
        served += u32::from(seen.is_from("south"));
        let target = world.target("north").await?;
        stage.saw(&format!("request {number}: {}; north is {}", seen.says("reason"), told(&target)))?;
    }
    stage.check(served == 3, "all three were answered, by south")?;
    Ok(stage.check(world.state("north").await? == "open", "the third failure opened north's breaker")?)
}

async fn fails_fast(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    stage.did("five more requests")?;
    let mut first_attempts = 0;
    for _ in 0..5 {
        let seen = world.ask(LARGE).await?;
        first_attempts += u32::from(seen.is_from("south") && seen.says("attempts") == "1");
    }
    stage.check(first_attempts == 5, "south answered each at the first attempt")?;
    Ok(called(stage, world, (3, 8, 0), "no call was wasted on north")?)
}

async fn probes(world: &World, stage: &mut Stage, opened: Instant) -> Result<(), Failure> {
    stage.did("north is well again; nobody has told the gateway")?;
    world.north.set(well_spoken(Script::healthy(), "north"));
    world.north.reset_counters();
    tokio::time::sleep((OPEN_FOR + MARGIN).saturating_sub(opened.elapsed())).await;
    let target = world.target("north").await?;
    stage.saw(&format!("{} s after it opened, north is {}", OPEN_FOR.as_secs(), told(&target)))?;
    stage.check(state(&target) == "half_open", "half-open: a few real requests may try")?;
    for number in 1..=2 {
        let seen = world.ask(LARGE).await?;
        let target = world.target("north").await?;
        stage.saw(&format!("probe {number}: {}; north is {}", seen.line(), told(&target)))?;
        stage.check(seen.is_from("north"), "the probe was a client's own request, and was answered")?;
    }
    Ok(stage.check(world.state("north").await? == "closed", "two good probes closed it")?)
}

async fn slow_start(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    let closed = Instant::now();
    let first = share(&world.target("north").await?);
    tokio::time::sleep(SLOW_START / 2).await;
    let middle = share(&world.target("north").await?);
    tokio::time::sleep((SLOW_START + MARGIN).saturating_sub(closed.elapsed())).await;
    let last = share(&world.target("north").await?);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    stage.saw(&format!("north's share: {} > {} > {}", percent(first), percent(middle), percent(last)))?;
    stage.check(first < middle && middle < last, "slow start: its share grows back, it does not jump")?;
    Ok(stage.check((last - 1.0).abs() < f64::EPSILON, "and is whole again")?)
}

fn state(target: &Value) -> &str {
    target.get("state").and_then(Value::as_str).unwrap_or_default()
}

fn share(target: &Value) -> f64 {
    target.get("share").and_then(Value::as_f64).unwrap_or_default()
}

/// A target's state, and why and for how long.
fn told(target: &Value) -> String {
    let domains = target.get("domains").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let cause = domains.iter().find(|domain| state(domain) == state(target) && state(domain) != "closed");
    let text = |at: &str| cause.and_then(|domain| domain.get(at)).and_then(Value::as_str);
    let until = cause.and_then(|domain| domain.get("until_ms")).and_then(Value::as_u64);
    let failures = domains.iter().filter_map(|d| d.get("failures_in_a_row").and_then(Value::as_u64)).max();
    let mut words = state(target).to_owned();
    match failures {
        Some(failures) if failures > 0 => words.push_str(&format!(", failures in a row: {failures}")),
        _ => {}
    }
    if let Some(reason) = text("reason") {
        words.push_str(&format!(", {reason}"));
    }
    if let Some(until) = until {
        words.push_str(&format!(", for another {until} ms"));
    }
    words
}
