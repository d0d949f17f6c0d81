//! What runs during the tour: three simulated providers and the gateway.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Method;
use pointsman_config::Config;
use pointsman_provider_sim::{Script, Sim, SimConfig};
use pointsman_server::{AppError, Clock, Running};
use serde_json::{Value, json};

use super::seen::Seen;
use crate::client::{self, Answer, CallError};
use crate::failure::Failure;

/// The model that two providers serve.
pub(crate) const LARGE: &str = "demo-large";
/// The model that one provider serves.
pub(crate) const SMALL: &str = "demo-small";
/// The route that permits the second model to stand in for the first.
pub(crate) const ROUTE: &str = "assistant";
/// What every request of the tour asks.
pub(crate) const PROMPT: &str = "Which way does this train go?";
/// How long an open breaker of the tour fails fast.
pub(crate) const OPEN_FOR: Duration = Duration::from_secs(2);
/// Over which time a target of the tour comes back after its breaker closed.
pub(crate) const SLOW_START: Duration = Duration::from_secs(3);

/// The first two ports to try.
const DATA_PORT: u16 = 4000;
const ADMIN_PORT: u16 = 4001;

/// See the module. Dropping it stops everything.
#[derive(Debug)]
pub(crate) struct World {
    /// Serves [`LARGE`]; asked first.
    pub(crate) north: Sim,
    /// Serves [`LARGE`]; asked second.
    pub(crate) south: Sim,
    /// Serves [`SMALL`].
    pub(crate) branch: Sim,
    gateway: Running,
}

impl World {
    /// Starts everything on loopback.
    ///
    /// # Errors
    /// When no port can be had.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let (north, south, branch) = (sim("north").await?, sim("south").await?, sim("branch").await?);
        let config = |data, admin| configured(&configuration([&north, &south, &branch], data, admin));
        let gateway = match pointsman_server::start(config(DATA_PORT, ADMIN_PORT)?, Clock::default(), None) {
            // Something else runs there, maybe a gateway: any free port will do.
            Err(AppError::Listen { .. }) => pointsman_server::start(config(0, 0)?, Clock::default(), None),
            started => started,
        };
        let gateway = gateway.map_err(|e| Failure::Failed(e.to_string()))?;
        Ok(Self { north, south, branch, gateway })
    }

    /// Where clients connect.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.gateway.data_addr())
    }

    /// Where operators connect.
    pub(crate) fn admin_url(&self) -> String {
        format!("http://{}", self.gateway.admin_addr())
    }

    /// One plain request for this model or route.
    pub(crate) async fn ask(&self, model: &str) -> Result<Seen, Failure> {
        self.chat(model, false).await
    }

    /// One streaming request for this model or route.
    pub(crate) async fn stream(&self, model: &str) -> Result<Seen, Failure> {
        self.chat(model, true).await
    }

    async fn chat(&self, model: &str, stream: bool) -> Result<Seen, Failure> {
        let message = json!({"role": "user", "content": PROMPT});
        let body = json!({"model": model, "stream": stream, "messages": [message]}).to_string();
        let url = format!("{}/chat/completions", self.base_url());
        let began = Instant::now();
        let answer = client::call(Method::POST, &url, &[], Some(body.as_bytes())).await.map_err(broken)?;
        Ok(Seen::new(answer, began.elapsed()))
    }

    /// What the admin API says of this target.
    pub(crate) async fn target(&self, name: &str) -> Result<Value, Failure> {
        let url = format!("{}/admin/v1/targets/{name}", self.admin_url());
        Ok(well(client::call(Method::GET, &url, &[], None).await)?.json())
    }

    /// The state of this target, as the admin API names it.
    pub(crate) async fn state(&self, name: &str) -> Result<String, Failure> {
        let target = self.target(name).await?;
        Ok(target.get("state").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Every provider healthy, counts at zero, and all of health forgotten: what an operator's `reset` does.
    pub(crate) async fn fresh(&self) -> Result<(), Failure> {
        for sim in [&self.north, &self.south, &self.branch] {
            sim.revive().await?;
            sim.set(well_spoken(Script::healthy(), sim.name()));
            sim.reset_counters();
            let url = format!("{}/admin/v1/targets/{}/reset", self.admin_url(), sim.name());
            well(client::call(Method::POST, &url, &[], Some(b"{}")).await)?;
        }
        Ok(())
    }

    /// The calls that each provider saw since the step began: north, south, branch.
    pub(crate) fn calls(&self) -> (u64, u64, u64) {
        (self.north.calls(), self.south.calls(), self.branch.calls())
    }
}

/// The script with a text that names its speaker.
pub(crate) fn well_spoken(mut script: Script, name: &str) -> Script {
    let text = format!("This is {name}: take track three, change at the junction and mind the gap.");
    script.answer.text = Some(text);
    script
}

async fn sim(name: &str) -> Result<Sim, Failure> {
    let default = well_spoken(Script::healthy(), name);
    let started = Sim::start(SimConfig { default, ..SimConfig::named(name) }).await;
    started.map_err(|e| Failure::Failed(format!("the simulated provider '{name}' cannot listen: {e}")))
}

fn configured(yaml: &str) -> Result<Config, Failure> {
    let loaded = pointsman_config::parse(yaml, "demo", &BTreeMap::new());
    loaded.map(|loaded| loaded.config).map_err(|problems| Failure::Failed(problems.to_string()))
}

/// The configuration of the tour: as anybody's, with short times so that nobody waits.
fn configuration([north, south, branch]: [&Sim; 3], data: u16, admin: u16) -> String {
    format!(
        r#"
server: {{ listen: "127.0.0.1:{data}" }}
admin: {{ listen: "127.0.0.1:{admin}" }}
targets:
  north: {{ provider: openai-compatible, base_url: "{}", model: {LARGE}, priority: 1 }}
  south: {{ provider: openai-compatible, base_url: "{}", model: {LARGE}, priority: 2 }}
  branch: {{ provider: openai-compatible, base_url: "{}", model: {SMALL} }}
routes:
  {ROUTE}: {{ version: 1, models: [{LARGE}, {SMALL}] }}
defaults:
  retry: {{ base: 20ms, max: 100ms }}
  breaker: {{ failures: 3, open_for: {}s, probes: 1, probe_successes: 2, slow_start: {}s }}
queue: {{ max_wait: 500ms }}
"#,
        north.base_url(),
        south.base_url(),
        branch.base_url(),
        OPEN_FOR.as_secs(),
        SLOW_START.as_secs(),
    )
}

fn well(answer: Result<Answer, CallError>) -> Result<Answer, Failure> {
    let answer = answer.map_err(broken)?;
    match answer.status.is_success() {
        true => Ok(answer),
        false => Err(Failure::Failed(format!("the admin API answered {}", answer.status))),
    }
}

fn broken(error: CallError) -> Failure {
    Failure::Failed(error.to_string())
}
