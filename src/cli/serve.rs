//! `pointsman serve`.

use std::path::PathBuf;

use clap::Args;
use pointsman_config::{Config, Source};
use pointsman_server::{AppError, Clock, Running};

use super::{find, runtime};
use crate::failure::Failure;
use crate::signals::Leave;
use crate::{logs, output};

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The configuration file [default: $POINTSMAN_CONFIG, else ./pointsman.yaml, else the environment]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A LiteLLM configuration file (not built yet)
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    litellm: Option<PathBuf>,
}

impl Serve {
    /// Serves until a signal asks to leave, then drains; a second signal ends it at once.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.litellm.is_some() {
            return Err(Failure::Usage("`serve --litellm` is not built yet".to_owned()));
        }
        let found = find::configuration(self.config.as_deref())?;
        let _written = logs::start(&found.loaded.config.telemetry)?;
        for warning in &found.loaded.warnings {
            tracing::warn!(%warning, "configuration");
        }
        let source = source(&found.loaded.config);
        let runtime = runtime()?;
        runtime.block_on(async {
            // Before anything listens: a signal that comes now is not lost.
            let mut leave = Leave::new()?;
            let running = pointsman_server::start(found.loaded.config, Clock::default(), found.loader)
                .map_err(|e| unservable(&e))?;
            output::print(&listening(&running, &source))?;
            leave.asked().await;
            tokio::select! {
                () = running.shut_down() => Ok(()),
                () = leave.asked() => Err(Failure::Failed("ended before everything was served".to_owned())),
            }
        })
    }
}

/// An address that is taken is the machine's fault, everything else the configuration's.
fn unservable(error: &AppError) -> Failure {
    match error {
        AppError::Listen { .. } | AppError::Worker(_) => Failure::Failed(error.to_string()),
        _ => Failure::Usage(error.to_string()),
    }
}

fn source(config: &Config) -> String {
    match &config.source {
        Source::File(path) => path.display().to_string(),
        Source::Environment => "the environment".to_owned(),
    }
}

fn listening(running: &Running, source: &str) -> String {
    format!(
        "pointsman {} serves {source}\n  data plane   http://{}/v1\n  admin plane  http://{}\n",
        env!("CARGO_PKG_VERSION"),
        running.data_addr(),
        running.admin_addr(),
    )
}
