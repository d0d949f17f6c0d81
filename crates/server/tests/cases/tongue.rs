//! One test in either dialect: what is asked, what providers say, and what an answer must be.

use bytes::Bytes;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::{assert_broken_off, assert_whole_from, world_from};
use crate::line::{VERSION, assert_complete_from, assert_ended_by_error, message};
use crate::support::{Answer, World, chat};

/// The language of a client and of the provider behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tongue {
    Chat,
    Messages,
}

pub const BOTH: [Tongue; 2] = [Tongue::Chat, Tongue::Messages];

/// In every dialect, as a stream and as a plain answer.
pub const ALL: [(Tongue, bool); 4] =
    [(Tongue::Chat, true), (Tongue::Chat, false), (Tongue::Messages, true), (Tongue::Messages, false)];

/// Retries whose waits cost a test no time.
pub const AT_ONCE: &str = "retry: { base: 1ms, max: 2ms }";

impl Tongue {
    pub fn model(self) -> &'static str {
        match self {
            Self::Chat => "gpt-4o",
            Self::Messages => crate::line::MODEL,
        }
    }

    pub fn provider(self) -> &'static str {
        match self {
            Self::Chat => "openai",
            Self::Messages => "anthropic",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Messages => "/v1/messages",
        }
    }

    /// A line of `targets:` for the sim of this name, with more keys.
    pub fn target(self, name: &str, more: &str) -> String {
        let (provider, model) = (self.provider(), self.model());
        let model = if more.contains(" model:") { String::new() } else { format!("model: {model}, ") };
        format!(
            "  {name}: {{ provider: {provider}, base_url: \"<{name}>\", {model}api_key: sk-upstream-{name}{more} }}\n"
        )
    }

    /// Targets of these names and more keys, then the rest of the file.
    pub async fn world(self, targets: &[(&str, &str)], rest: &str) -> World {
        let names: Vec<&str> = targets.iter().map(|(name, _)| *name).collect();
        let lines: String = targets.iter().map(|(name, more)| self.target(name, more)).collect();
        world_from(&names, &format!("targets:\n{lines}{rest}")).await
    }

    /// Targets `a` and `b` of one model. `a` is given little time, `b` as much as it needs on a busy machine.
    pub async fn pair(self, rest: &str) -> World {
        let little = ", budget: { first_token: 400ms, response: 400ms, idle: 600ms }";
        self.world(&[("a", little), ("b", "")], rest).await
    }

    /// One target `a`.
    pub async fn alone(self, rest: &str) -> World {
        self.world(&[("a", "")], rest).await
    }

    pub fn request(self, stream: bool) -> Value {
        match self {
            Self::Chat => chat(self.model(), stream),
            Self::Messages => message(stream),
        }
    }

    /// A request for another model or a route.
    pub fn request_for(self, model: &str, stream: bool) -> Value {
        let mut body = self.request(stream);
        body["model"] = json!(model);
        body
    }

    pub async fn ask(self, world: &World, stream: bool) -> Answer {
        self.post(world, &self.request(stream), &[]).await
    }

    pub async fn post(self, world: &World, body: &Value, headers: &[(&str, &str)]) -> Answer {
        self.send(world, self.path(), Bytes::from(body.to_string()), headers).await
    }

    pub async fn send(self, world: &World, path: &str, body: Bytes, headers: &[(&str, &str)]) -> Answer {
        let mut all = headers.to_vec();
        if self == Self::Messages {
            all.push(VERSION);
        }
        world.send("POST", path, body, &all).await
    }

    // What providers say

    pub fn overloaded(self) -> Script {
        match self {
            Self::Chat => Script::openai_overloaded(),
            Self::Messages => Script::anthropic_overloaded(),
        }
    }

    pub fn rate_limit(self, seconds: u64) -> Script {
        match self {
            Self::Chat => Script::openai_rate_limit(seconds),
            Self::Messages => Script::anthropic_rate_limit(seconds),
        }
    }

    /// An error answer in the provider's own envelope.
    pub fn says(self, status: u16, kind: &str, said: &str) -> Script {
        match self {
            Self::Chat => {
                let body = json!({"error": {"message": said, "type": kind, "param": null, "code": null}});
                Script::fixed(status, "application/json", body.to_string())
            }
            Self::Messages => Script::anthropic_error(status, kind, said, None),
        }
    }

    // What came

    pub fn assert_whole(self, answer: &Answer, who: &str) {
        match self {
            Self::Chat => assert_whole_from(answer, who),
            Self::Messages => assert_complete_from(answer, who),
        }
    }

    /// The stream ended in one error of the dialect, which this gives.
    pub fn assert_broken(self, answer: &Answer) -> Value {
        match self {
            Self::Chat => assert_broken_off(answer),
            Self::Messages => assert_ended_by_error(answer),
        }
    }

    /// The text of a stream.
    pub fn text(self, answer: &Answer) -> String {
        match self {
            Self::Chat => answer.content(),
            Self::Messages => answer.words(),
        }
    }
}

/// `metric{labels} value` as the gateway would tell it now; zero if it is not there.
pub fn metric(world: &World, name: &str, labels: &[(&str, &str)]) -> f64 {
    let text = world.gateway.app().metrics.render(world.gateway.app());
    let lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    let wanted: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let matching = lines.filter(|line| wanted.iter().all(|label| line.contains(label)));
    matching.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}
