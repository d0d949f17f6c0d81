//! `pointsman sim`.

use std::net::SocketAddr;

use clap::Args;
use pointsman_provider_sim::{Script, Sim as Provider, SimConfig, script_from_name, script_names};

use super::runtime;
use crate::failure::Failure;
use crate::output;
use crate::signals::Leave;

/// Arguments of `sim`.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Its name, which its answers mention
    #[arg(long, default_value = "sim")]
    name: String,
    /// How requests are answered, such as `healthy`, `status:503` or `cut:3` [default: healthy]
    #[arg(long, value_name = "SCRIPT")]
    script: Option<String>,
    /// A model that it serves; may be repeated [default: any]
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// The key that it asks for [default: none]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Chooses the words of its answers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// List the names of scripts and leave
    #[arg(long)]
    scripts: bool,
}

impl Sim {
    /// Answers until a signal asks to leave.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.scripts {
            return Ok(output::print(&scripts())?);
        }
        let default = match &self.script {
            Some(name) => script_from_name(name).map_err(|e| Failure::Usage(e.to_string()))?,
            None => Script::healthy(),
        };
        let listen = self.listen;
        let config = SimConfig {
            listen,
            name: self.name,
            models: self.models,
            api_key: self.api_key,
            seed: self.seed,
            default,
        };
        runtime()?.block_on(async {
            let mut leave = Leave::new()?;
            let provider = Provider::start(config).await.map_err(|e| {
                Failure::Failed(format!("the simulated provider cannot listen on {listen}: {e}"))
            })?;
            output::print(&control(&provider))?;
            leave.asked().await;
            Ok(())
        })
    }
}

fn scripts() -> String {
    script_names().iter().map(|(name, what)| format!("{name:<28} {what}\n")).collect()
}

fn control(provider: &Provider) -> String {
    let at = provider.addr();
    format!(
        "simulated provider '{}'\n  base URL     {}\n  state        curl http://{at}/_sim/state\n  \
         set a fault  curl -X PUT http://{at}/_sim/script -d 'status:503'\n  next ones    \
         curl -X POST http://{at}/_sim/enqueue -d '[\"rate-limit:2\", \"cut:3\"]'\n  received     \
         curl http://{at}/_sim/received\n  names        curl http://{at}/_sim/scripts\n  \
         reset        curl -X POST http://{at}/_sim/reset\n",
        provider.name(),
        provider.base_url(),
    )
}
