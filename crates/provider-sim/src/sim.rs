//! The running simulator.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connection::serve;
use crate::request::Received;
use crate::script::{Schedule, Script};
use crate::state::State;

/// Connections at the same time; one more is closed at once.
const MAX_CONNECTIONS: usize = 10_000;
/// How long [`Sim::wait_until`] waits: long past anything that a test expects.
const WAIT_LIMIT: Duration = Duration::from_secs(30);
const BACKLOG: u32 = 1024;

/// How a simulator is started.
#[derive(Clone)]
pub struct SimConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Named in answers and in the header `x-sim-name`, so that a human sees who answered.
    pub name: String,
    /// Models that are served, others get 404; empty serves any.
    pub models: Vec<String>,
    /// If set, requests with another key get 401.
    pub api_key: Option<String>,
    /// Chooses the words of generated answers.
    pub seed: u64,
    /// What requests get while no other rule holds.
    pub default: Script,
}

impl fmt::Debug for SimConfig {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimConfig")
            .field("listen", &self.listen)
            .field("name", &self.name)
            .field("models", &self.models)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Default for SimConfig {
    /// A healthy provider named `sim` on a free loopback port, for any model and key.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            name: "sim".to_owned(),
            models: Vec::new(),
            api_key: None,
            seed: 0,
            default: Script::healthy(),
        }
    }
}

impl SimConfig {
    /// A healthy provider of this name on a free loopback port.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A running provider. Dropping it stops it and closes all its connections.
pub struct Sim {
    state: Arc<State>,
    addr: SocketAddr,
    listening: AsyncMutex<Option<Listening>>,
    /// Bound and not listening: keeps the port from being given to anyone else while the listener is closed.
    _reserved: Option<TcpSocket>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("name", &self.name()).field("addr", &self.addr).finish_non_exhaustive()
    }
}

struct Listening {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// [`Sim::wait_until`] gave up.
#[derive(Debug, thiserror::Error)]
#[error(
    "simulator {name}: the awaited state did not come within {} s ({calls} calls, {active} active, {open} connections, \
     {aborted} aborted)",
    WAIT_LIMIT.as_secs()
)]
#[non_exhaustive]
pub struct WaitTimedOut {
    /// Name of the simulator.
    pub name: String,
    /// Calls so far.
    pub calls: u64,
    /// Requests being answered.
    pub active: usize,
    /// Open connections.
    pub open: usize,
    /// Requests whose client went away.
    pub aborted: u64,
}

impl Sim {
    /// Listens and serves on the current tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(config: SimConfig) -> io::Result<Self> {
        let socket = bound(config.listen)?;
        let addr = socket.local_addr()?;
        // Where the system does not allow a second binding the port is simply not reserved.
        let reserved = bound(addr).ok();
        let sim = Self {
            state: Arc::new(State::new(config)),
            addr,
            listening: AsyncMutex::new(None),
            _reserved: reserved,
        };
        let listening = sim.listen(socket.listen(BACKLOG)?);
        *sim.listening.lock().await = Some(listening);
        Ok(sim)
    }

    /// The address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What a client takes as base URL: `http://127.0.0.1:port/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// The name it was started with.
    pub fn name(&self) -> &str {
        &self.state.config.name
    }

    /// All requests from now on get this script; rules for models, the schedule and the queue are dropped.
    pub fn set(&self, script: Script) {
        self.state.set(script);
    }

    /// Requests of this model get this script, unless one is queued.
    pub fn set_for_model(&self, model: &str, script: Script) {
        self.state.set_for_model(model, script);
    }

    /// The next requests get these scripts, one each, before any other rule.
    pub fn enqueue(&self, scripts: impl IntoIterator<Item = Script>) {
        self.state.enqueue(scripts);
    }

    /// From now on the script follows the clock; a rule for a model and the queue go first.
    pub fn set_schedule(&self, schedule: Schedule) {
        self.state.set_schedule(schedule);
    }

    /// Chat requests so far, whatever they got.
    pub fn calls(&self) -> u64 {
        self.state.calls()
    }

    /// Chat requests so far for this model.
    pub fn calls_for_model(&self, model: &str) -> u64 {
        self.state.calls_for_model(model)
    }

    /// Sets calls, aborted requests and accepted connections to 0 and forgets what was received.
    pub fn reset_counters(&self) {
        self.state.reset_counters();
    }

    /// The last 1,000 requests (fewer if their bodies are over 128 MiB together), oldest first.
    pub fn received(&self) -> Vec<Received> {
        self.state.received()
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.state.open_connections()
    }

    /// Connections accepted so far.
    pub fn accepted_connections(&self) -> u64 {
        self.state.accepted()
    }

    /// Requests that are being answered now.
    pub fn active_requests(&self) -> usize {
        self.state.active_requests()
    }

    /// Requests whose client went away before the answer was complete.
    pub fn aborted(&self) -> u64 {
        self.state.aborted()
    }

    /// Waits until this holds; it is looked at again after every change of a count.
    ///
    /// # Errors
    /// When it does not hold within 30 s.
    pub async fn wait_until(&self, what: impl Fn(&Self) -> bool) -> Result<(), WaitTimedOut> {
        let mut changes = self.state.changes();
        let holds = async {
            while !what(self) {
                // The sender lives in our own state: an error cannot happen while we wait.
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        timeout(WAIT_LIMIT, holds).await.map_err(|_| WaitTimedOut {
            name: self.name().to_owned(),
            calls: self.calls(),
            active: self.active_requests(),
            open: self.open_connections(),
            aborted: self.aborted(),
        })
    }

    /// Refuses connections from now on: the listener is closed when this returns. Open connections go on.
    pub async fn stop_accepting(&self) {
        let listening = self.listening.lock().await.take();
        if let Some(mut listening) = listening {
            listening.stop.cancel();
            // An accept loop that panicked is closed as well.
            (&mut listening.task).await.unwrap_or_default();
        }
    }

    /// Refuses connections from now on and closes those that are open, as a process that dies does.
    ///
    /// # Errors
    /// When connections are still open after 30 s.
    pub async fn kill(&self) -> Result<(), WaitTimedOut> {
        self.stop_accepting().await;
        self.close_connections();
        self.wait_until(|sim| sim.open_connections() == 0).await
    }

    /// Closes all open connections; new ones are accepted.
    pub fn close_connections(&self) {
        self.state.close_connections();
    }

    /// Listens again on the same port, after [`Sim::kill`] or [`Sim::stop_accepting`].
    ///
    /// # Errors
    /// When the port cannot be bound again.
    pub async fn revive(&self) -> io::Result<()> {
        let mut listening = self.listening.lock().await;
        if listening.is_none() {
            *listening = Some(self.listen(bound(self.addr)?.listen(BACKLOG)?));
        }
        Ok(())
    }

    fn listen(&self, listener: TcpListener) -> Listening {
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, Arc::clone(&self.state), stop.clone()));
        Listening { stop, task }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.close_connections();
    }
}

/// A bound socket. The address may be in use by connections of an earlier listener, and by the reservation.
fn bound(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if cfg!(not(windows)) {
        socket.set_reuseaddr(true)?;
    }
    socket.bind(addr)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, state: Arc<State>, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors or the like: accept again when some may be free.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        tokio::spawn(run(stream, Arc::clone(&state), state.connection_token(), permit));
    }
}

async fn run(
    stream: TcpStream,
    state: Arc<State>,
    stop: CancellationToken,
    _permit: tokio::sync::OwnedSemaphorePermit,
) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = serve(stream, state) => {}
    }
}
