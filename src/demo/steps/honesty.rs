//! What is nobody's to route around, and what is never done in silence.

use pointsman_provider_sim::Script;

use super::{called, show};
use crate::demo::stage::Stage;
use crate::demo::world::{LARGE, ROUTE, SMALL, World};
use crate::failure::Failure;

/// Step 6.
pub(crate) async fn policy(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    world.fresh().await?;
    stage.step(
        "A content-policy refusal is an answer, not an outage",
        "What is the request's own fault is not retried, not routed around, and counts against nobody.",
    )?;
    stage.did(&format!("north refuses the content; the request is for the route '{ROUTE}'"))?;
    world.north.set(Script::content_policy());
    let seen = world.ask(ROUTE).await?;
    show(stage, &seen)?;
    stage.check(seen.status() == 400, "the client gets the provider's status, 400")?;
    let code = seen.error("/error/code");
    stage.check(code == "content_policy_violation", "and its code, content_policy_violation")?;
    stage.check(seen.header("x-should-retry") == "false", "SDKs are told not to try again")?;
    called(stage, world, (1, 0, 0), "one call was made; nobody else saw the request")?;
    let target = world.target("north").await?;
    let failures = target.pointer("/domains").and_then(|d| d.as_array()).is_some_and(|domains| {
        domains.iter().all(|domain| domain.get("failures_in_a_row").and_then(|f| f.as_u64()) == Some(0))
    });
    let closed = world.state("north").await? == "closed";
    Ok(stage.check(closed && failures, "north's health did not change")?)
}

/// Step 7.
pub(crate) async fn substitution(world: &World, stage: &mut Stage) -> Result<(), Failure> {
    world.fresh().await?;
    stage.step(
        "Another model, only where allowed and never in silence",
        "The route permits a second model. A plain model name permits none.",
    )?;
    stage.did(&format!("both providers of {LARGE} are overloaded; the request is for '{ROUTE}'"))?;
    world.north.set(Script::openai_overloaded());
    world.south.set(Script::openai_overloaded());
    let seen = world.ask(ROUTE).await?;
    show(stage, &seen)?;
    stage.check(seen.status() == 200 && seen.is_from("branch"), "branch answered")?;
    stage.check(seen.says("action") == "fallback", "as a fallback: another model")?;
    let disclosed = seen.says("substituted") == "true" && seen.says("model") == SMALL;
    stage.check(disclosed, &format!("disclosed: x-pointsman-substituted: true, model {SMALL}"))?;
    stage.check(
        seen.says("attempts") == "4",
        "four attempts: north, south, south again after a pause, branch",
    )?;
    called(stage, world, (1, 2, 1), "and each provider saw just these")?;

    world.fresh().await?;
    stage.did(&format!("the same, but the request is for '{LARGE}' itself"))?;
    world.north.set(Script::openai_overloaded());
    world.south.set(Script::openai_overloaded());
    let seen = world.ask(LARGE).await?;
    show(stage, &seen)?;
    let code = seen.error("/error/code");
    stage.check(
        seen.status() == 503 && code == "server_is_overloaded",
        "an honest 503, server_is_overloaded",
    )?;
    stage.check(seen.error("/pointsman/terminal") == "exhausted", "that says that all was tried")?;
    stage.check(
        seen.header("x-should-retry") == "false",
        "SDKs are told not to multiply it by their own retries",
    )?;
    Ok(called(stage, world, (1, 2, 0), "no other model was asked")?)
}
