//! Listening and leaving: workers, the acceptor, the drain.
//!
//! One acceptor hands each connection to the worker with the fewest; a worker is a runtime of its own with its own pool
//! of upstream connections (`server.runtime: per_core`), or one runtime serves all (`shared`).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pointsman_config::{Config, Runtime};
use pointsman_upstream::{Client, PoolStats};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::app::{App, AppError, Loader};
use crate::clock::Clock;
use crate::connection;
use crate::descriptors;
use crate::guard::Hosts;
use crate::reload;

/// Connections that wait for their worker; beyond it the acceptor waits too, and the kernel's queue takes over.
const HANDED_OVER: usize = 1_024;
/// Connections that cannot be accepted are told of at most so often.
const WARN_EVERY: Duration = Duration::from_secs(1);
/// After the drain's end, connections get this long to send their last event.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// One runtime and its pools.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    clients: Mutex<HashMap<Option<PathBuf>, Client>>,
    connections: AtomicUsize,
}

impl Worker {
    /// The client of this worker for targets with these certificates.
    pub(crate) fn client(&self, app: &App, ca_file: &Option<PathBuf>) -> Option<Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(ca_file) {
            return Some(client.clone());
        }
        let client = app.client(ca_file)?;
        clients.insert(ca_file.clone(), client.clone());
        Some(client)
    }

    fn stats(&self) -> Vec<PoolStats> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).values().map(Client::stats).collect()
    }
}

/// A gateway that runs. Dropping it stops it at once; [`Running::shut_down`] drains first.
#[derive(Debug)]
pub struct Running {
    app: Arc<App>,
    data: SocketAddr,
    admin: SocketAddr,
    workers: Vec<Arc<Worker>>,
    stages: Stages,
    threads: Vec<JoinHandle<()>>,
}

/// The stages of leaving, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stages {
    /// Everything is served, and everyone is told to turn elsewhere.
    pub(crate) draining: CancellationToken,
    /// No new connections; those that are open end after what they are doing.
    pub(crate) closing: CancellationToken,
    /// Everything ends.
    pub(crate) gone: CancellationToken,
}

/// Starts a gateway: listens on both planes, then serves.
///
/// # Errors
/// [`AppError`] if an address is taken or the configuration cannot be served.
pub fn start(config: Config, clock: Clock, loader: Option<Loader>) -> Result<Running, AppError> {
    descriptors::raise(config.server.max_in_flight);
    let data = bind("the data plane", config.server.listen)?;
    let admin_listener = bind("the admin plane", config.admin.listen)?;
    let at = |l: &std::net::TcpListener, configured| l.local_addr().unwrap_or(configured);
    let (data_addr, admin_addr) = (at(&data, config.server.listen), at(&admin_listener, config.admin.listen));
    let runtime = config.server.runtime;
    let hosts = Arc::new(Hosts::new(data_addr, &config.server.hosts));
    let admin_hosts = Hosts::new(admin_addr, &config.server.hosts);
    let app = Arc::new(App::new(config, clock, loader)?);
    let stages = Stages::default();
    let mut threads = Vec::new();
    let mut workers = Vec::new();
    let mut desks = Vec::new();
    let count = match runtime {
        Runtime::PerCore => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        Runtime::Shared => 1,
    };
    for number in 0..count {
        let worker = Arc::new(Worker::default());
        let (desk, handed) = mpsc::channel(HANDED_OVER);
        let serving = serve_handed(handed, app.clone(), worker.clone(), hosts.clone(), stages.clone());
        threads.push(spawn(&format!("worker-{number}"), runtime == Runtime::Shared, serving)?);
        workers.push(worker.clone());
        desks.push((worker, desk));
    }
    let accepting = accept(data, desks, stages.clone());
    let administering = admin::serve(admin_listener, admin_hosts, app.clone(), stages.gone.clone());
    let following = reload::follow(app.clone(), stages.gone.clone());
    threads.push(spawn("control", false, async move {
        // Signals are listened for before the first connection is taken.
        tokio::join!(following, accepting, administering);
    })?);
    tracing::info!(data = %data_addr, admin = %admin_addr, workers = count, "serving");
    Ok(Running { app, data: data_addr, admin: admin_addr, workers, stages, threads })
}

impl Running {
    /// What the process shares.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Where the data plane listens.
    pub fn data_addr(&self) -> SocketAddr {
        self.data
    }

    /// Where the admin plane listens.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// Connections from clients.
    pub fn connections(&self) -> usize {
        self.workers.iter().map(|w| w.connections.load(Ordering::Relaxed)).sum()
    }

    /// The upstream connections of all workers.
    pub fn upstream_stats(&self) -> PoolStats {
        let mut sum = PoolStats::default();
        for stats in self.workers.iter().flat_map(|w| w.stats()) {
            sum.open += stats.open;
            sum.idle += stats.idle;
            sum.in_use += stats.in_use;
            sum.requests += stats.requests;
        }
        sum
    }

    /// Leaves in good order: says so for `server.drain.delay` while it still serves, then takes no more, lets streams run
    /// on to `server.drain.timeout`, then ends them with their dialect's error.
    pub async fn shut_down(mut self) {
        let drain = self.app.snapshot.load().config.server.drain;
        self.app.start_draining();
        self.stages.draining.cancel();
        tracing::info!(delay_s = drain.delay.as_secs(), timeout_s = drain.timeout.as_secs(), "draining");
        tokio::time::sleep(drain.delay).await;
        self.app.close();
        self.stages.closing.cancel();
        let ended = self.wait_for_the_last(drain.timeout).await;
        if !ended {
            tracing::warn!(connections = self.connections(), "the drain's time is over: streams end now");
            self.app.hard_stop.cancel();
            self.wait_for_the_last(LAST_WORDS).await;
        }
        self.stages.gone.cancel();
        let threads = std::mem::take(&mut self.threads);
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|t| drop(t.join())));
        if joined.await.is_err() {
            tracing::warn!("a worker did not end in good order");
        }
        tracing::info!("gone");
    }

    async fn wait_for_the_last(&self, within: Duration) -> bool {
        let until = tokio::time::Instant::now() + within;
        while self.connections() > 0 {
            if tokio::time::Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.app.hard_stop.cancel();
        self.stages.draining.cancel();
        self.stages.closing.cancel();
        self.stages.gone.cancel();
    }
}

fn bind(what: &'static str, address: SocketAddr) -> Result<std::net::TcpListener, AppError> {
    let listen = || {
        let socket =
            socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        // A restart must not wait for the last connections of the process before.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(4_096)?;
        socket.set_nonblocking(true)?;
        Ok(std::net::TcpListener::from(socket))
    };
    listen().map_err(|source| AppError::Listen { what, address, source })
}

fn spawn(
    name: &str,
    shared: bool,
    what: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<()>, AppError> {
    let mut builder = match shared {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build().map_err(AppError::Worker)?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread
        .spawn(move || {
            runtime.block_on(what);
            // What hangs on is given up: the drain had its time.
            runtime.shutdown_timeout(Duration::from_millis(200));
        })
        .map_err(AppError::Worker)
}

async fn accept(
    listener: std::net::TcpListener,
    desks: Vec<(Arc<Worker>, mpsc::Sender<std::net::TcpStream>)>,
    stages: Stages,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the data plane cannot be served"),
    };
    let mut warned: Option<std::time::Instant> = None;
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = stages.closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => hand_over(stream, &desks).await,
            Err(error) => {
                // Out of file descriptors, or a client that left at once: not a reason to spin, to stop or to flood the log.
                let now = std::time::Instant::now();
                if warned.is_none_or(|at| now.duration_since(at) >= WARN_EVERY) {
                    warned = Some(now);
                    tracing::warn!(%error, "a connection could not be accepted");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn hand_over(stream: TcpStream, desks: &[(Arc<Worker>, mpsc::Sender<std::net::TcpStream>)]) {
    let least = desks.iter().min_by_key(|(worker, _)| worker.connections.load(Ordering::Relaxed));
    let Some((worker, desk)) = least else { return };
    worker.connections.fetch_add(1, Ordering::Relaxed);
    let handed = match stream.into_std() {
        Ok(stream) => desk.send(stream).await.is_ok(),
        Err(_) => false,
    };
    if !handed {
        worker.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_handed(
    mut handed: mpsc::Receiver<std::net::TcpStream>,
    app: Arc<App>,
    worker: Arc<Worker>,
    hosts: Arc<Hosts>,
    stages: Stages,
) {
    loop {
        let stream = tokio::select! {
            biased;
            stream = handed.recv() => stream,
            () = stages.gone.cancelled() => return,
        };
        // The acceptor is gone: what is open is served on until everything ends.
        let Some(stream) = stream else {
            stages.gone.cancelled().await;
            return;
        };
        let (app, worker, hosts, stages) = (app.clone(), worker.clone(), hosts.clone(), stages.clone());
        tokio::spawn(async move {
            let counted = Counted(worker.clone());
            connection::serve(stream, app, worker, hosts, stages).await;
            drop(counted);
        });
    }
}

struct Counted(Arc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
