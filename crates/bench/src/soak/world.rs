//! What a soak runs on: the gateway's own binary between simulated providers, which follow the course, and whoever
//! listens to its log.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pointsman_provider_sim::{Sim, SimConfig};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::course::{Course, health};
use super::crowd::Scene;
use super::talk::Talk;

/// How long the gateway may take to listen, to answer its operator and to leave.
const PATIENCE: Duration = Duration::from_secs(20);
/// Log lines that are kept to be shown.
const KEPT: usize = 20;

/// See the module.
pub(crate) struct World {
    pub(crate) sims: Vec<Arc<Sim>>,
    pub(crate) gateway: Gateway,
    pub(crate) mark: String,
}

impl World {
    pub(crate) async fn start(binary: &Path, mark: &str) -> Result<Self> {
        let mut sims = Vec::new();
        for target in Course::targets() {
            let config = SimConfig { default: health(target, mark)?, ..SimConfig::named(target) };
            sims.push(Arc::new(Sim::start(config).await.context("a provider cannot listen")?));
        }
        let gateway = Gateway::start(binary, &yaml(&sims, mark), mark)?;
        Ok(Self { sims, gateway, mark: mark.to_owned() })
    }

    /// Calls that reached a provider.
    pub(crate) fn calls(&self) -> u64 {
        self.sims.iter().map(|sim| sim.calls()).sum()
    }

    /// Lets every provider go through its course until the scene is over, and makes them all well again.
    pub(crate) fn play(&self, scene: &Arc<Scene>) -> JoinSet<Result<()>> {
        let mut players = JoinSet::new();
        for sim in &self.sims {
            players.spawn(play(Arc::clone(sim), Arc::clone(scene)));
        }
        players
    }
}

async fn play(sim: Arc<Sim>, scene: Arc<Scene>) -> Result<()> {
    let mark = &scene.mark;
    let well = health(sim.name(), mark)?;
    let mut before = None;
    for slot in 0.. {
        sleep_until(scene.began + scene.course.slot() * slot).await;
        if scene.is_over() {
            break;
        }
        let illness = Course::at(sim.name(), slot as usize);
        if illness.map(|i| i.name) == before {
            continue;
        }
        before = illness.map(|i| i.name);
        sim.revive().await.context("a provider cannot listen again")?;
        match illness {
            None => sim.set(well.clone()),
            Some(illness) => match illness.schedule(mark)? {
                Some(schedule) => sim.set_schedule(schedule),
                None => {
                    sim.stop_accepting().await;
                    sim.close_connections();
                }
            },
        }
    }
    sim.revive().await?;
    sim.set(well);
    Ok(())
}

/// Each target has an account of its own: a rate limit is that of an account and a model, and would else hold for those
/// too that are to be well. Limits of a few seconds, so that every one of them strikes often in a minute, and breakers that come back sooner. That
/// answers take longer at full load than at leisure is what a soak does, and no reason to open a breaker.
fn yaml(sims: &[Arc<Sim>], mark: &str) -> String {
    let mut text = String::from(
        "server: { listen: \"127.0.0.1:0\", keepalive: 1s, drain: { delay: 0s, timeout: 10s } }
admin: { listen: \"127.0.0.1:0\" }
queue: { max_wait: 2s }
throttle: { initial: 1s, max: 1m }
defaults:
  strategy: round-robin
  budget: { deadline: 30s, connect: 2s, first_token: 5s, response: 5s, idle: 5s, write: 5s }
  breaker: { open_for: 500ms, slow_start: 1s, slow: off, rate: { window: 2s } }
  cooldown: { base: 1s, max: 1s }
routes:
  fall: { models: [fall-own, fall-other] }
targets:
",
    );
    for sim in sims {
        let (name, at) = (sim.name(), sim.addr());
        let group = name.split('-').next().unwrap_or(name);
        let (provider, path, model) = match group {
            "messages" => ("anthropic", "", "messages"),
            "fall" => ("openai-compatible", "/v1", "fall-own"),
            "other" => ("openai-compatible", "/v1", "fall-other"),
            group => ("openai-compatible", "/v1", group),
        };
        text += &format!(
            "  {name}: {{ provider: {provider}, base_url: \"http://{at}{path}\", model: {model}, api_key: sk-{mark}-{name} }}\n"
        );
    }
    text
}

/// The running binary. Dropping it ends it.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) data: SocketAddr,
    admin: SocketAddr,
    pub(crate) log: Arc<Log>,
    listeners: Vec<JoinHandle<()>>,
    _folder: TempDir,
}

impl Gateway {
    fn start(binary: &Path, yaml: &str, mark: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("pointsman.yaml");
        std::fs::write(&file, yaml)?;
        let mut child = Command::new(binary)
            .args(["serve", "--config"])
            .arg(&file)
            .current_dir(folder.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} did not start", binary.display()))?;
        let log = Arc::new(Log { mark: mark.to_owned(), heard: Mutex::default() });
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (out, err) = (out.context("no standard output")?, err.context("no standard error")?);
        let errors = listen(err, Arc::clone(&log), None);
        let (said, lines) = std::sync::mpsc::channel();
        let outputs = listen(out, Arc::clone(&log), Some(said));
        let address = |label: &str| -> Result<SocketAddr> {
            while let Ok(line) = lines.recv_timeout(PATIENCE) {
                if let Some((_, url)) = line.split_once(label) {
                    let host = url.trim().trim_start_matches("http://");
                    return host.split('/').next().unwrap_or(host).parse().context("no address");
                }
            }
            bail!("the gateway does not say where its {label} is:\n{}", log.last().join("\n"))
        };
        let addresses = address("data plane").and_then(|data| Ok((data, address("admin plane")?)));
        let (data, admin) = match addresses {
            Ok(addresses) => addresses,
            Err(error) => {
                drop(child.kill());
                drop(child.wait());
                return Err(error);
            }
        };
        Ok(Self { child, data, admin, log, listeners: vec![errors, outputs], _folder: folder })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the admin plane.
    pub(crate) async fn ask(&self, path: &str) -> Result<String> {
        let asking = async {
            let mut talk = Talk::open(self.admin).await?;
            let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.admin);
            talk.send(request.as_bytes()).await?;
            talk.answer().await
        };
        let answer = timeout(PATIENCE, asking).await.with_context(|| format!("no answer to {path}"))??;
        if answer.status != 200 {
            bail!("{path} answered {}", answer.status);
        }
        Ok(String::from_utf8(answer.body)?)
    }

    /// Asks it to leave, and hears it out.
    pub(crate) async fn leave(mut self) -> Result<(ExitStatus, Arc<Log>)> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, Signal::TERM).context("the gateway is gone already")?;
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                bail!("the gateway does not leave");
            }
            sleep(Duration::from_millis(20)).await;
        };
        for listener in std::mem::take(&mut self.listeners) {
            if listener.join().is_err() {
                bail!("who listened to the log died");
            }
        }
        Ok((status, Arc::clone(&self.log)))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the gateway said: nothing of it is kept but counts, what should not be there, and the last lines.
#[derive(Debug)]
pub(crate) struct Log {
    mark: String,
    heard: Mutex<Heard>,
}

/// What was heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) lines: u64,
    pub(crate) errors: u64,
    pub(crate) marked: u64,
    pub(crate) panics: u64,
    /// Changes of the health of targets that are always well.
    pub(crate) maligned: u64,
    /// A few of the lines that should not be there.
    pub(crate) shown: Vec<String>,
    /// The last lines, to be shown where it does not start.
    pub(crate) last: std::collections::VecDeque<String>,
}

impl Log {
    fn hear(&self, line: &str) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.lines += 1;
        let is_error = line.contains(r#""level":"ERROR""#);
        let is_panic = line.contains("panicked at");
        heard.errors += u64::from(is_error);
        let is_malign = line.contains(r#""message":"health changed""#) && names_a_well_one(line);
        heard.panics += u64::from(is_panic);
        heard.maligned += u64::from(is_malign);
        heard.marked += u64::from(memchr::memmem::find(line.as_bytes(), self.mark.as_bytes()).is_some());
        if (is_error || is_panic || is_malign) && heard.shown.len() < KEPT {
            heard.shown.push(line.to_owned());
        }
        if heard.last.len() == KEPT {
            heard.last.pop_front();
        }
        heard.last.push_back(line.to_owned());
    }

    pub(crate) fn heard(&self) -> Heard {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last(&self) -> Vec<String> {
        self.heard().last.into()
    }
}

fn names_a_well_one(line: &str) -> bool {
    Course::always_well().any(|target| line.contains(&format!(r#""name":"{target}""#)))
}

fn listen(
    from: impl Read + Send + 'static,
    log: Arc<Log>,
    said: Option<std::sync::mpsc::Sender<String>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            log.hear(&line);
            // Nobody waits for more once the addresses are known.
            if let Some(said) = &said {
                said.send(line).unwrap_or_default();
            }
        }
    })
}
