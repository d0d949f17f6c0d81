//! The steps of the tour. Each begins with every provider healthy and nothing remembered.

use std::io;

use super::seen::Seen;
use super::stage::Stage;
use super::world::World;

mod failover;
mod health;
mod honesty;

pub(crate) use failover::{cut, healthy, opening, primary_dies};
pub(crate) use health::{breaker, rate_limit};
pub(crate) use honesty::{policy, substitution};

/// Shows an answer: its line and what the gateway says about it.
fn show(stage: &Stage, seen: &Seen) -> io::Result<()> {
    stage.saw(&seen.line())?;
    match seen.headers() {
        none if none.is_empty() => Ok(()),
        headers => stage.saw(&headers),
    }
}

/// Checks who was called how often.
fn called(stage: &mut Stage, world: &World, expected: (u64, u64, u64), what: &str) -> io::Result<()> {
    let calls = world.calls();
    let (north, south, branch) = calls;
    stage.check(calls == expected, &format!("{what} (calls: north {north}, south {south}, branch {branch})"))
}
