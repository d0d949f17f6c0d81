//! A gateway with its simulated providers, an operator's client, a user's client, and everything that was logged.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pointsman_provider_sim::{Sim, SimConfig};
use pointsman_server::{AppError, Clock, Loader, Running, start};
use serde_json::{Value, json};
use tokio::net::TcpStream;

pub const HEAD: &str = "server: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\n";

/// Long past anything that a test expects.
const PATIENCE: Duration = Duration::from_secs(30);

static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that all gateways of this process logged so far.
pub fn logged() -> String {
    String::from_utf8(LOGGED.lock().unwrap().clone()).unwrap()
}

fn keep_the_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
            .with_ansi(false)
            .with_writer(|| Log)
            .init();
    });
}

pub struct World {
    pub sims: Vec<Sim>,
    pub gateway: Running,
    pub clock: Clock,
    /// What a reload reads.
    pub file: Arc<Mutex<String>>,
    pub admin_key: Option<&'static str>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// The code of an error, which must come with one sentence.
    pub fn code(&self) -> String {
        assert_eq!(self.header("content-type"), "application/json", "{}", self.text());
        let body = self.json();
        assert!(body["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{body}");
        body["error"]["code"].as_str().unwrap().to_owned()
    }
}

/// The lines of targets: `("a", "gpt-4o")` is a target of this name at a simulator of its own.
pub async fn providers(targets: &[(&str, &str)]) -> (Vec<Sim>, String) {
    let mut sims = Vec::new();
    let mut lines = String::from("targets:\n");
    for (name, model) in targets {
        let sim = Sim::start(SimConfig::named(*name)).await.unwrap();
        lines.push_str(&target_line(name, model, &sim));
        sims.push(sim);
    }
    (sims, lines)
}

pub fn target_line(name: &str, model: &str, sim: &Sim) -> String {
    let base = sim.base_url();
    format!(
        "  {name}: {{ provider: openai, base_url: \"{base}\", model: {model}, api_key: sk-secret-of-{name} }}\n"
    )
}

pub async fn world(targets: &[(&str, &str)], rest: &str) -> World {
    let (sims, lines) = providers(targets).await;
    world_of(sims, &format!("{HEAD}{lines}{rest}"))
}

/// A gateway with a whole file of its own.
pub fn world_of(sims: Vec<Sim>, yaml: &str) -> World {
    keep_the_log();
    let file = Arc::new(Mutex::new(yaml.to_owned()));
    let read = file.clone();
    let loader: Loader = Box::new(move || {
        let text = read.lock().unwrap().clone();
        parse(&text).map_err(|problems| AppError::Problems(problems.0))
    });
    let config = parse(yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}")).config;
    let clock = Clock::default();
    let gateway = start(config, clock.clone(), Some(loader)).unwrap();
    World { sims, gateway, clock, file, admin_key: None }
}

fn parse(yaml: &str) -> Result<pointsman_config::Loaded, pointsman_config::Problems> {
    pointsman_config::parse(yaml, "test.yaml", &BTreeMap::<String, String>::new())
}

pub fn chat(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Say something." }] })
}

impl World {
    pub fn set_file(&self, yaml: &str) {
        *self.file.lock().unwrap() = yaml.to_owned();
    }

    /// A user's request that is not retried on the same target, as if an SDK did that: nothing waits for a backoff.
    pub async fn ask(&self, model: &str) -> Answer {
        self.ask_for(&chat(model)).await
    }

    pub async fn ask_for(&self, body: &Value) -> Answer {
        let headers = [("content-type", "application/json"), ("x-stainless-retry-count", "1")];
        let path = "/v1/chat/completions";
        send(self.gateway.data_addr(), "POST", path, body.to_string().into(), &headers).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.admin("GET", path, Bytes::new(), &[]).await
    }

    pub async fn post(&self, path: &str) -> Answer {
        self.admin("POST", path, Bytes::new(), &[("content-type", "application/json")]).await
    }

    pub async fn post_body(&self, path: &str, body: &Value) -> Answer {
        self.admin("POST", path, body.to_string().into(), &[("content-type", "application/json")]).await
    }

    pub async fn admin(&self, method: &str, path: &str, body: Bytes, headers: &[(&str, &str)]) -> Answer {
        let bearer = self.admin_key.map(|key| format!("Bearer {key}"));
        let mut all = headers.to_vec();
        all.extend(bearer.as_deref().map(|b| ("authorization", b)));
        send(self.gateway.admin_addr(), method, path, body, &all).await
    }

    /// A target as the admin plane shows it.
    pub async fn target(&self, id: &str) -> Value {
        let answer = self.get(&format!("/admin/v1/targets/{id}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The domain of this kind of a target.
    pub async fn domain(&self, target: &str, kind: &str) -> Value {
        let target = self.target(target).await;
        let domains = target["domains"].as_array().unwrap();
        domains.iter().find(|d| d["kind"] == kind).unwrap_or_else(|| panic!("{target}")).clone()
    }

    pub async fn explain(&self, body: &Value) -> Value {
        let answer = self.post_body("/admin/v1/explain", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The value of one line of the metrics, such as `pointsman_in_flight{target="a"}`.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.get("/metrics").await.text();
        let line = text.lines().find_map(|l| l.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    /// Asks until this holds.
    pub async fn until<F: Future<Output = bool>>(&self, what: impl Fn() -> F) {
        let look = async {
            while !what().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("what was waited for came");
    }
}

/// A gateway whose configuration is a real file.
pub async fn from_a_file(rest: &str) -> (World, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pointsman.yaml");
    let (sims, lines) = providers(&[("a", "gpt-4o")]).await;
    let yaml = format!("{HEAD}{rest}{lines}");
    std::fs::write(&path, &yaml).unwrap();
    let load = {
        let path = path.clone();
        move || {
            let vars = BTreeMap::<String, String>::new();
            pointsman_config::load(&path, &vars).map_err(|p| AppError::Problems(p.0))
        }
    };
    let config = load().unwrap().config;
    let mut world = world_of(sims, &yaml);
    world.gateway = start(config, Clock::default(), Some(Box::new(load))).unwrap();
    (world, path, folder)
}

/// The strategy that is in force: something of the configuration that can be seen.
pub async fn strategy(world: &World) -> Value {
    world.explain(&chat("gpt-4o")).await["strategy"].clone()
}

/// One request on a connection of its own. A header given replaces the usual one.
pub async fn send(to: SocketAddr, method: &str, path: &str, body: Bytes, headers: &[(&str, &str)]) -> Answer {
    let host = to.to_string();
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", &host);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body)).unwrap();
    tokio::time::timeout(PATIENCE, exchange(to, request)).await.expect("an answer in time")
}

async fn exchange(to: SocketAddr, request: Request<Full<Bytes>>) -> Answer {
    let stream = TcpStream::connect(to).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driving = tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    driving.abort();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}
