//! The route that all scenarios run on, and what is asked of every answer.

use std::time::Duration;

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::{assert_whole_from, world_from};
use crate::support::{Answer, World, chat};

/// What a route and a target are given beyond what every scenario has.
#[derive(Clone, Copy, Default)]
pub struct Extra<'a> {
    /// More keys of the primary's target.
    pub primary: &'a str,
    /// More keys of the route.
    pub route: &'a str,
    /// `models:` of the file.
    pub models: &'a str,
}

/// A model with one target `primary`, and another model with one target `fallback`.
pub async fn world_with(extra: Extra<'_>) -> World {
    let Extra { primary, route, models } = extra;
    let yaml = format!(
        r#"
targets:
  primary: {{ provider: openai, base_url: "<primary>", model: gpt-4o, api_key: sk-upstream-p{primary} }}
  fallback: {{ provider: openai, base_url: "<fallback>", model: deepseek-chat, api_key: sk-upstream-f }}
routes:
  agent: {{ models: [gpt-4o, deepseek-chat], profile: interactive{route} }}
{models}
"#
    );
    world_from(&["primary", "fallback"], &yaml).await
}

/// The same with nothing more, and a primary that answers by this script.
pub async fn world_where(primary: Script) -> World {
    let world = world_with(Extra::default()).await;
    world.sim(0).set(primary);
    world
}

/// A request to the route.
pub fn ask(stream: bool) -> Value {
    chat("agent", stream)
}

/// A streaming request that wants to be told the usage.
pub fn ask_with_usage() -> Value {
    let mut request = ask(true);
    request["stream_options"] = json!({ "include_usage": true });
    request
}

/// How many calls reached the primary and the fallback.
pub fn calls(world: &World) -> (u64, u64) {
    (world.sim(0).calls(), world.sim(1).calls())
}

/// Between one call to the primary and the next.
pub fn gaps(world: &World) -> Vec<Duration> {
    let at: Vec<_> = world.sim(0).received().iter().map(|r| r.at).collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The most calls that reached the primary within any span of this length.
pub fn most_calls_within(world: &World, span: Duration) -> usize {
    let at: Vec<_> = world.sim(0).received().iter().map(|r| r.at).collect();
    let within = |from: usize| at[from..].iter().filter(|t| **t - at[from] <= span).count();
    (0..at.len()).map(within).max().unwrap_or(0)
}

/// One whole answer of the primary's model, and nothing of another.
pub fn assert_primary_answered(answer: &Answer, action: &str) {
    assert_whole_from(answer, "primary");
    assert_eq!(answer.header("x-pointsman-target"), Some("primary"));
    assert_eq!(answer.header("x-pointsman-model"), Some("gpt-4o"));
    assert_eq!(answer.header("x-pointsman-action"), Some(action));
    assert_eq!(answer.header("x-pointsman-substituted"), None);
}

/// One whole answer of the other model, disclosed as such.
pub fn assert_fallback_answered(answer: &Answer) {
    assert_whole_from(answer, "fallback");
    assert_eq!(answer.header("x-pointsman-target"), Some("fallback"));
    assert_eq!(answer.header("x-pointsman-model"), Some("deepseek-chat"));
    assert_eq!(answer.header("x-pointsman-action"), Some("fallback"));
    assert_eq!(answer.header("x-pointsman-substituted"), Some("true"));
}
