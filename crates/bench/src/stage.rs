//! What is measured, started on free ports of loopback: the provider, nginx, the gateway. Everything ends with the stage.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::process;

/// How long a process may take to listen.
const READY_WITHIN: Duration = Duration::from_secs(10);
const NGINX: [&str; 4] =
    ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx", "/usr/bin/nginx"];

/// Whose cost is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Direct,
    Nginx,
    /// The client's own dialect, passed on.
    Gateway,
    /// A client of Messages before the same provider of Chat Completions.
    Translated,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Direct, Self::Nginx, Self::Gateway, Self::Translated];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Gateway => "pointsman",
            Self::Translated => "translated",
        }
    }
}

/// See the module.
pub(crate) struct Stage {
    upstream: SocketAddr,
    nginx: SocketAddr,
    gateway: SocketAddr,
    nginx_family: Vec<u32>,
    gateway_family: Vec<u32>,
    _children: Vec<Ended>,
    _folder: TempDir,
}

/// A child that does not outlive the stage.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // nginx's workers end with their master only if it is asked, not killed.
        let asked = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let heard = asked.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        for _ in 0..if heard { 20 } else { 0 } {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Stage {
    /// Starts everything and waits until it listens.
    pub(crate) async fn set(gateway: &Path) -> Result<Self> {
        let nginx = NGINX.iter().map(PathBuf::from).find(|path| path.is_file());
        let nginx =
            nginx.context("nginx is not installed: it is the yardstick (apt-get install nginx-light)")?;
        let gateway = gateway.canonicalize().with_context(|| {
            format!("there is no gateway at {}: build it with --release", gateway.display())
        })?;
        let folder = tempfile::tempdir()?;
        let (upstream_child, upstream) = upstream()?;
        let (nginx_at, gateway_at, admin_at) = (free()?, free()?, free()?);
        let configuration = folder.path().join("nginx.conf");
        std::fs::write(&configuration, nginx_conf(folder.path(), nginx_at, upstream))?;
        let nginx_child =
            start(Command::new(nginx).arg("-c").arg(&configuration), folder.path(), "nginx.log")?;
        let configuration = folder.path().join("pointsman.yaml");
        std::fs::write(&configuration, gateway_yaml(gateway_at, admin_at, upstream))?;
        let mut command = Command::new(&gateway);
        command.args(["serve", "--config"]).arg(&configuration);
        // A proxy of the environment is no part of what is measured.
        command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        let gateway_child = start(&mut command, folder.path(), "pointsman.log")?;
        for (name, address) in [("nginx", nginx_at), ("the gateway", gateway_at)] {
            ready(name, address, folder.path()).await?;
        }
        Ok(Self {
            upstream,
            nginx: nginx_at,
            gateway: gateway_at,
            nginx_family: process::family(nginx_child.0.id())?,
            gateway_family: process::family(gateway_child.0.id())?,
            _children: vec![gateway_child, nginx_child, upstream_child],
            _folder: folder,
        })
    }

    /// Where this way begins.
    pub(crate) const fn address(&self, way: Way) -> SocketAddr {
        match way {
            Way::Direct => self.upstream,
            Way::Nginx => self.nginx,
            Way::Gateway | Way::Translated => self.gateway,
        }
    }

    /// The processes of this way.
    pub(crate) fn family(&self, way: Way) -> &[u32] {
        match way {
            Way::Direct => &[],
            Way::Nginx => &self.nginx_family,
            Way::Gateway | Way::Translated => &self.gateway_family,
        }
    }
}

fn upstream() -> Result<(Ended, SocketAddr)> {
    let own = std::env::current_exe().context("where is this program?")?;
    let mut child = Command::new(own)
        .arg("upstream")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("the provider did not start")?;
    let out = child.stdout.take().context("the provider has no output")?;
    let child = Ended(child);
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let port = line.trim().parse().context("the provider did not say its port")?;
    Ok((child, SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn start(command: &mut Command, folder: &Path, log: &str) -> Result<Ended> {
    let log = File::create(folder.join(log))?;
    let started =
        command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
    Ok(Ended(started.with_context(|| format!("{} did not start", command.get_program().display()))?))
}

async fn ready(name: &str, address: SocketAddr, folder: &Path) -> Result<()> {
    let until = Instant::now() + READY_WITHIN;
    while tokio::net::TcpStream::connect(address).await.is_err() {
        if Instant::now() > until {
            let said = |log: &str| std::fs::read_to_string(folder.join(log)).unwrap_or_default();
            bail!("{name} does not listen on {address}:\n{}{}", said("nginx.log"), said("pointsman.log"));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// A plain reverse proxy as one would set it up: kept connections, nothing buffered, one log line a request.
fn nginx_conf(folder: &Path, listen: SocketAddr, upstream: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
worker_processes 2;
worker_rlimit_nofile 16384;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  upstream provider {{ server {upstream}; keepalive 4096; keepalive_requests 1000000000; }}
  server {{
    listen {listen} backlog=4096;
    location / {{
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_request_buffering off;
    }}
  }}
}}
"
    )
}

/// Each kind of answer is a model of its own. `failing` goes on at every request: its first target always refuses, and
/// its breaker never opens. `shut` has nothing but targets that refuse. That an answer takes longer at saturation than at
/// leisure is what a bench does, and no reason to open a breaker.
fn gateway_yaml(listen: SocketAddr, admin: SocketAddr, upstream: SocketAddr) -> String {
    let mut targets = String::new();
    let mut target = |name: &str, model: &str, path: &str, priority: u32| {
        targets += &format!(
            "  {name}: {{ provider: openai-compatible, model: {model}, upstream_model: bench, priority: {priority}, http: 1, base_url: 'http://{upstream}/{path}/v1' }}\n"
        );
    };
    target("small", "small", "small", 1);
    target("large", "large", "large", 1);
    target("paced", "paced", crate::measure::PACED, 1);
    target("held", "held", crate::measure::HELD, 1);
    target("begun", "begun", "stream/2/100", 1);
    target("refuses", "failing", "fail", 1);
    target("answers", "failing", "small", 2);
    target("shut-a", "shut", "fail", 1);
    target("shut-b", "shut", "fail", 2);
    format!(
        "server: {{ listen: '{listen}' }}
admin: {{ listen: '{admin}' }}
targets:
{targets}routes:
  failover:
    models: [failing]
    breaker: {{ failures: 1000000000, rate: {{ share: 100%, min_calls: 1000000000, window: 30s }}, slow: off }}
  closed:
    models: [shut]
    breaker: {{ open_for: 10m }}
defaults:
  breaker: {{ slow: off }}
queue: {{ max_wait: 0s }}
"
    )
}
