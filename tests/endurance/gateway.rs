//! A gateway in a process of its own, and what that process holds.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Asked;
use crate::process::{PATIENCE, Serving, chat, file, folder};

/// Limits that strike within a test, and a breaker that comes back within one.
const DEFAULTS: &str = "defaults: { budget: { connect: 1s, first_token: 1s, response: 1s, idle: 1s, write: 1s }, \
                        breaker: { open_for: 300ms } }\n";
/// By how much memory may be above where it was: pages that the allocator keeps after its first work, in bytes.
const MEMORY: u64 = 24 << 20;

/// See the module. Dropping it ends it.
pub(crate) struct Gateway {
    process: Serving,
    pub(crate) data: SocketAddr,
    admin: SocketAddr,
    before: Rest,
    _folder: TempDir,
}

/// What a process without requests has.
#[derive(Clone, Copy, Debug)]
struct Rest {
    descriptors: usize,
    threads: usize,
    resident: u64,
}

/// `name: settings` of a target that serves the model `m`.
pub(crate) fn target(name: &str, base: &str, more: &str) -> String {
    format!("  {name}: {{ provider: openai-compatible, base_url: \"{base}\", model: m{more} }}\n")
}

/// A file with these settings of `server:` and these targets.
pub(crate) fn yaml(server: &str, targets: &[String]) -> String {
    let server = format!("server: {{ listen: \"127.0.0.1:0\"{server} }}\n");
    let (admin, targets) = ("admin: { listen: \"127.0.0.1:0\" }\n", targets.concat());
    format!("{server}{admin}{DEFAULTS}targets:\n{targets}")
}

impl Gateway {
    /// With these settings of `server:` and these targets.
    pub(crate) async fn start(server: &str, targets: &[String]) -> Self {
        Self::with(&yaml(server, targets)).await
    }

    /// With a whole file of its own.
    pub(crate) async fn with(yaml: &str) -> Self {
        let folder = folder();
        file(folder.path(), "pointsman.yaml", yaml);
        let mut process = Serving::start(folder.path(), &["serve"]);
        let data = process.address("data plane").parse().unwrap();
        let admin = process.address("admin plane").parse().unwrap();
        let before = Rest { descriptors: usize::MAX, threads: 0, resident: 0 };
        let mut gateway = Self { process, data, admin, before, _folder: folder };
        // The first look belongs to what it rests with.
        gateway.metrics().await;
        let mut looks = Vec::new();
        for _ in 0..10 {
            looks.push(gateway.rest());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        gateway.before = *looks.iter().min_by_key(|rest| rest.descriptors).unwrap();
        gateway
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Waits for its end and gives its exit code.
    pub(crate) async fn code(self) -> Option<i32> {
        let process = self.process;
        tokio::task::spawn_blocking(move || process.code()).await.unwrap()
    }

    /// A request for the model `m`.
    pub(crate) async fn ask(&self, stream: bool) -> Asked {
        Asked::chat(self.data, &chat("m", stream)).await
    }

    /// Which target answers a plain request, and how long it took.
    pub(crate) async fn answered_by(&self) -> (String, Duration) {
        let begun = Instant::now();
        let text = self.ask(false).await.rest().await;
        (named_in(&text), begun.elapsed())
    }

    /// Which target answers a request for a stream; its end is not waited for.
    pub(crate) async fn streamed_by(&self) -> String {
        let mut asked = self.ask(true).await;
        named_in(&asked.until("data: ", 1).await)
    }

    async fn look(&self, path: &str) -> String {
        let text = Asked::get(self.admin, path).await.rest().await;
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        text
    }

    pub(crate) async fn metrics(&self) -> String {
        self.look("/metrics").await
    }

    /// What is known of one target.
    pub(crate) async fn target(&self, name: &str) -> serde_json::Value {
        let text = self.look(&format!("/admin/v1/targets/{name}")).await;
        serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    }

    fn rest(&self) -> Rest {
        let id = self.process.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let resident: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        Rest {
            descriptors: std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count(),
            threads: std::fs::read_dir(format!("/proc/{id}/task")).unwrap().filter(is_ours).count(),
            resident: resident << 10,
        }
    }

    pub(crate) fn resident(&self) -> u64 {
        self.rest().resident
    }

    /// All that requests held is given back, while the neighbours are as they are.
    pub(crate) async fn nothing_is_held(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.metrics().await;
            let held = ["pointsman_in_flight", "pointsman_open_streams", "pointsman_queue_waiting"]
                .map(|name| sum(&text, name));
            if held == [0; 3] {
                return;
            }
            assert!(Instant::now() < until, "in flight, streams, queued: {held:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything is where it was before the first request. The clients and providers have gone by then: a connection
    /// that is kept for the next request is no leak.
    pub(crate) async fn everything_is_back(&self) {
        self.nothing_is_held().await;
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.rest();
            let (files, threads) = (now.descriptors, now.threads);
            let back = files <= self.before.descriptors && threads <= self.before.threads;
            if back && now.resident <= self.before.resident + MEMORY {
                return;
            }
            assert!(Instant::now() < until, "before: {:?}, now: {now:?}", self.before);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Not one that the allocator starts when it comes to it; one that has ended meanwhile is nobody's.
fn is_ours(task: &std::io::Result<std::fs::DirEntry>) -> bool {
    let name = task.as_ref().map(|task| std::fs::read_to_string(task.path().join("comm")));
    matches!(name, Ok(Ok(name)) if !name.starts_with("jemalloc"))
}

/// The target that an answer names.
fn named_in(text: &str) -> String {
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let target = text.split("x-pointsman-target: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    target.expect("a target is named").to_owned()
}

/// The sum of a metric over all its labels.
fn sum(metrics: &str, name: &str) -> u64 {
    let lines = metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}
