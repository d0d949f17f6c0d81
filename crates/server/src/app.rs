//! What the whole process shares.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use pointsman_config::{Config, Loaded, Problem};
use pointsman_core::fleet::{Fleet, Transition};
use pointsman_store::{Ledger, MemoryLedger};
use pointsman_upstream::{Client, ClientConfig, ClientError, ProxyConfig};
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::clock::Clock;
use crate::limits::Admission;
use crate::metrics::Metrics;
use crate::snapshot::{Snapshot, SnapshotError};
use crate::switches::Switches;

/// How many requests the ledger in memory keeps.
const REQUESTS_KEPT: usize = 10_000;

/// Why the gateway cannot start, or cannot take a new configuration.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The HTTP client cannot be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An address cannot be listened on.
    #[error("{what} cannot listen on {address}: {source}")]
    Listen {
        /// Which listener.
        what: &'static str,
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The configuration has no place to reload from.
    #[error("the configuration did not come from a file: there is nothing to reload")]
    NoFile,
    /// The configuration is wrong; every problem is named.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
    /// These keys need a restart to change.
    #[error("{} cannot change while the gateway runs: restart it", quoted(.0))]
    Restart(Vec<&'static str>),
    /// The configuration cannot be served.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A worker thread cannot be started.
    #[error("a worker cannot be started: {0}")]
    Worker(std::io::Error),
}

fn quoted(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// How the configuration is read again.
pub type Loader = Box<dyn Fn() -> Result<Loaded, AppError> + Send + Sync>;

/// See the module.
pub struct App {
    /// The configuration in force.
    pub snapshot: ArcSwap<Snapshot>,
    /// Time.
    pub clock: Clock,
    /// Past requests.
    pub ledger: Arc<dyn Ledger>,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// What is in flight, and the memory that it takes.
    pub admission: Arc<Admission>,
    /// What operators changed.
    pub(crate) audit: Audit,
    /// What operators switched off.
    pub(crate) switches: Switches,
    /// Cancelled when streams must end: the drain is over.
    pub(crate) hard_stop: CancellationToken,
    /// Identifies this process in what it sends upstream, so that a loop is noticed.
    pub(crate) hop_id: String,
    fleet: Mutex<Fleet>,
    draining: AtomicBool,
    closed: AtomicBool,
    numbers: AtomicU64,
    prototypes: Mutex<HashMap<Option<PathBuf>, Client>>,
    proxy: ProxyConfig,
    loader: Option<Loader>,
    /// One reload at a time: the fleet must end up bound to the snapshot that is in force.
    reloading: Mutex<()>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl App {
    /// Makes what the process shares out of a configuration. `loader` reads it again on a reload.
    ///
    /// # Errors
    /// [`AppError`] if the configuration cannot be served.
    pub fn new(config: Config, clock: Clock, loader: Option<Loader>) -> Result<Self, AppError> {
        let mut fleet = Fleet::new(config.process.clone());
        let admission = Arc::new(Admission::new(&config.server));
        let snapshot = Snapshot::build(config, &mut fleet)?;
        let app = Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            clock,
            ledger: Arc::new(MemoryLedger::new(REQUESTS_KEPT)),
            metrics: Metrics::default(),
            admission,
            audit: Audit::default(),
            switches: Switches::default(),
            hard_stop: CancellationToken::new(),
            hop_id: uuid::Uuid::now_v7().simple().to_string(),
            fleet: Mutex::new(fleet),
            draining: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            numbers: AtomicU64::new(1),
            prototypes: Mutex::default(),
            proxy: ProxyConfig::from_env(),
            loader,
            reloading: Mutex::new(()),
        };
        app.make_prototypes(&app.snapshot.load().config)?;
        Ok(app)
    }

    /// Does something with the fleet under its short lock, then publishes the transitions that it made.
    pub fn with_fleet<T>(&self, what: impl FnOnce(&mut Fleet) -> T) -> T {
        let (result, transitions) = {
            // A panic while it was held can only have left a count unfinished.
            let mut fleet = self.fleet.lock().unwrap_or_else(PoisonError::into_inner);
            let result = what(&mut fleet);
            let transitions = fleet.take_transitions().into_iter().filter_map(|t| {
                let domain = fleet.domain(t.domain)?;
                Some((t, domain.kind.name(), domain.name.clone()))
            });
            (result, transitions.collect::<Vec<_>>())
        };
        for (transition, kind, name) in &transitions {
            self.publish(transition, kind, name);
        }
        result
    }

    /// Reads the configuration again and swaps it in; requests in flight keep theirs. A bad file changes nothing.
    ///
    /// # Errors
    /// [`AppError`] that says what is wrong with the new configuration.
    pub fn reload(&self) -> Result<Vec<Problem>, AppError> {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = self.try_reload();
        self.metrics.reloaded(outcome.is_ok());
        match &outcome {
            Ok(_) => tracing::info!("configuration reloaded"),
            Err(error) => tracing::error!(%error, "configuration not reloaded, the old one stays in force"),
        }
        outcome
    }

    /// Whether the gateway is on its way out.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// A number that no other request of this process has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// A client with these certificates and a pool of its own, for one worker.
    pub(crate) fn client(&self, ca_file: &Option<PathBuf>) -> Option<Client> {
        let prototypes = self.prototypes.lock().unwrap_or_else(PoisonError::into_inner);
        prototypes.get(ca_file).map(Client::with_own_pool)
    }

    fn try_reload(&self) -> Result<Vec<Problem>, AppError> {
        let loader = self.loader.as_ref().ok_or(AppError::NoFile)?;
        let Loaded { config, warnings } = loader()?;
        {
            let old = self.snapshot.load();
            restart_needed(&old.config, &config)?;
        }
        // What can fail comes before the fleet learns of the new targets.
        self.make_prototypes(&config)?;
        let snapshot = self.with_fleet(|fleet| Snapshot::build(config, fleet))?;
        self.admission.set_limits(&snapshot.config.server);
        self.snapshot.store(Arc::new(snapshot));
        Ok(warnings)
    }

    fn make_prototypes(&self, config: &Config) -> Result<(), AppError> {
        let mut prototypes = self.prototypes.lock().unwrap_or_else(PoisonError::into_inner);
        for upstream in &config.upstreams {
            if !prototypes.contains_key(&upstream.ca_file) {
                let settings = ClientConfig {
                    ca_file: upstream.ca_file.clone(),
                    proxy: self.proxy.clone(),
                    ..ClientConfig::default()
                };
                prototypes.insert(upstream.ca_file.clone(), Client::new(settings)?);
            }
        }
        Ok(())
    }

    fn publish(&self, transition: &Transition, kind: &'static str, name: &str) {
        self.metrics.transition(kind, name, transition.to.name());
        let (from, to) = (transition.from.name(), transition.to.name());
        if transition.alert {
            tracing::warn!(
                alert = true,
                domain = kind,
                name,
                from,
                to,
                cause = transition.cause,
                "health changed"
            );
        } else {
            tracing::info!(domain = kind, name, from, to, cause = transition.cause, "health changed");
        }
    }
}

/// What listeners and workers were built from cannot change under them.
fn restart_needed(old: &Config, new: &Config) -> Result<(), AppError> {
    let changed = [
        ("server.listen", old.server.listen != new.server.listen),
        ("admin.listen", old.admin.listen != new.admin.listen),
        ("server.hosts", old.server.hosts != new.server.hosts),
        ("server.runtime", old.server.runtime != new.server.runtime),
        ("server.max_header", old.server.max_header != new.server.max_header),
        ("telemetry", old.telemetry != new.telemetry),
    ];
    let keys: Vec<&str> = changed.iter().filter(|(_, changed)| *changed).map(|(key, _)| *key).collect();
    if keys.is_empty() { Ok(()) } else { Err(AppError::Restart(keys)) }
}
