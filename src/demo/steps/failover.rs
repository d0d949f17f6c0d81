//! What a client does not notice, and what it is told when it must.

use pointsman_provider_sim::Script;

use super::{called, show};
use crate::demo::seen::Seen;
use crate::demo::stage::Stage;
use crate::demo::world::{LARGE, ROUTE, SMALL, World, well_spoken};
use crate::failure::Failure;

/// Who is who.
pub(crate) fn opening(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    stage.head(&format!("Pointsman {}: a tour of safe failover", env!("CARGO_PKG_VERSION")))?;
    let line = |name: &str, what: &str, at: &str| stage.verbatim(&format!("   {name:<10}{what:<38}{at}"));
    line("gateway", &world.base_url(), &format!("admin {}", world.admin_url()))?;
    line("north", &format!("serves {LARGE}, asked first"), &world.north.base_url())?;
    line("south", &format!("serves {LARGE}, asked second"), &world.south.base_url())?;
    line("branch", &format!("serves {SMALL}"), &world.branch.base_url())?;
    Ok(line(ROUTE, &format!("a route: {LARGE}, else {SMALL}"), "a substitution, always disclosed")?)
}

/// Step 1.
pub(crate) async fn healthy(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    world.fresh().await?;
    stage.step(
        "A healthy request",
        "Response headers (x-pointsman-target, -model, -action, ...) say who answered and how it came about.",
    )?;
    stage.did(&format!("POST /v1/chat/completions for {LARGE}"))?;
    let seen = world.ask(LARGE).await?;
    show(stage, &seen)?;
    stage.check(seen.status() == 200 && seen.is_from("north"), "north answered")?;
    stage.check(seen.says("action") == "primary" && seen.says("attempts") == "1", "at the first attempt")?;
    Ok(called(stage, world, (1, 0, 0), "nobody else was asked")?)
}

/// Step 2.
pub(crate) async fn primary_dies(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    world.fresh().await?;
    stage.step(
        "The primary dies: failover",
        "Before the first output nothing has reached the client, so another target of the same model can take over.",
    )?;
    stage.did("north's process is gone: connections are refused")?;
    world.north.kill().await.map_err(|e| Failure::Failed(e.to_string()))?;
    let seen = world.ask(LARGE).await?;
    show(stage, &seen)?;
    taken_over(stage, &seen, "north:connect>south")?;
    called(stage, world, (0, 1, 0), "one call reached a provider")?;

    world.fresh().await?;
    stage.did("north is back and answers 500; the request is a stream now")?;
    world.north.set(Script::server_error(500));
    let seen = world.stream(LARGE).await?;
    show(stage, &seen)?;
    taken_over(stage, &seen, "north:server_error>south")?;
    stage.check(seen.done() == 1 && seen.errors().is_empty(), "the stream is whole, with one [DONE]")?;
    Ok(called(stage, world, (1, 1, 0), "each was called once")?)
}

/// Step 5.
pub(crate) async fn cut(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    world.fresh().await?;
    stage.step(
        "A stream is cut: before the first output, and after it",
        "The line is the first output that goes to the client: before it, failover; after it, one voice and the truth.",
    )?;
    stage.did("north sends its headers and the role, then the connection breaks")?;
    world.north.set(Script::cut_after(0));
    let seen = world.stream(LARGE).await?;
    show(stage, &seen)?;
    stage.check(
        seen.status() == 200 && seen.is_from("south"),
        "invisible: one whole answer, all of it south's",
    )?;
    stage.check(seen.done() == 1 && seen.errors().is_empty(), "no error, one [DONE]")?;
    called(stage, world, (1, 1, 0), "each was called once")?;

    world.fresh().await?;
    stage.did("north sends five words, then the connection breaks")?;
    world.north.set(well_spoken(Script::cut_after(5), "north"));
    let seen = world.stream(LARGE).await?;
    show(stage, &seen)?;
    stage.saw(&format!("last event: error code {}", seen.error("/error/code")))?;
    stage.check(seen.is_from("north"), "what came is north's alone: two answers are never spliced")?;
    stage.check(seen.errors().len() == 1 && seen.ends_with_error(), "one error ends the stream")?;
    stage.check(seen.done() == 0, "no [DONE]: it does not look complete")?;
    stage
        .check(seen.error("/pointsman/terminal") == "partial", "the error says that the answer is partial")?;
    Ok(called(stage, world, (1, 0, 0), "nothing was sent to anybody else")?)
}

fn taken_over(stage: &mut Stage, seen: &Seen, reason: &str) -> Result<(), Failure> {
    stage.check(seen.status() == 200 && seen.is_from("south"), "south answered in north's place")?;
    let attempts = seen.says("action") == "failover" && seen.says("attempts") == "2";
    stage.check(attempts, "at the second attempt, a failover: same model, other target")?;
    Ok(stage.check(seen.says("reason") == reason, &format!("the headers say why: {reason}"))?)
}
