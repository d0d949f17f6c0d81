//! The clients: patient ones, those that leave at any moment, and those that stop reading. What each of them saw is held
//! against the course at once, so that nothing has to be kept but what cannot be explained.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::course::{CHAT, Course, FALL, FLOOD, LONE, MESSAGES, Route};
use super::talk::{Answer, Dialect, Talk, request};

/// Whoever gets no whole answer within this hangs: longer than the deadline and the limits of a stream.
const PATIENCE: Duration = Duration::from_secs(60);
/// One that got an error comes back after this.
const REST: Duration = Duration::from_millis(50);
/// One that does not read is let go within the write limit (5 s), and looks for it after this.
const DEAF_FOR: Duration = Duration::from_secs(7);
/// A connection is given up by its client after so many requests.
const REQUESTS_PER_CONNECTION: u32 = 200;
/// Findings of one client that are kept.
const KEPT: usize = 5;

/// What all clients know.
pub(crate) struct Scene {
    pub(crate) gateway: SocketAddr,
    pub(crate) mark: String,
    pub(crate) course: Course,
    pub(crate) began: Instant,
    pub(crate) over: AtomicBool,
    /// Requests that went out whole so far.
    pub(crate) asked: AtomicU64,
}

impl Scene {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn since(&self) -> Duration {
        self.began.elapsed()
    }
}

/// What clients of one kind saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Requests that went out whole.
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    /// Of these, answers that came by retry, failover or fallback.
    pub(crate) rescued: u64,
    /// Errors before any output, and streams that broke, as it was played.
    pub(crate) refused: u64,
    pub(crate) broken: u64,
    /// Left, or let go as they should be.
    pub(crate) left: u64,
    pub(crate) unexplained: u64,
    /// Some of what cannot be explained.
    pub(crate) findings: Vec<String>,
    /// From sending to the last byte of an answer, in microseconds.
    pub(crate) took: Vec<u32>,
}

impl Tally {
    pub(crate) fn add(&mut self, more: Self) {
        self.asked += more.asked;
        self.answered += more.answered;
        self.rescued += more.rescued;
        self.refused += more.refused;
        self.broken += more.broken;
        self.left += more.left;
        self.unexplained += more.unexplained;
        self.findings.extend(more.findings);
        self.took.extend(more.took);
    }

    fn finds(&mut self, what: String) {
        self.unexplained += 1;
        if self.findings.len() < KEPT {
            self.findings.push(what);
        }
    }
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Asks, reads the whole answer, asks again.
    Patient { dialect: Dialect, route: Route, stream: bool },
    /// Leaves at any moment.
    Leaves { dialect: Dialect, route: Route },
    /// Takes the beginning of a long answer and nothing more.
    Deaf,
}

/// Who is in the crowd, under which name they are counted, and how many of them.
const CROWD: [(&str, Habit, u32); 10] = [
    ("chat", Habit::Patient { dialect: Dialect::Chat, route: CHAT, stream: false }, 32),
    ("chat, streams", Habit::Patient { dialect: Dialect::Chat, route: CHAT, stream: true }, 96),
    ("messages", Habit::Patient { dialect: Dialect::Messages, route: MESSAGES, stream: false }, 16),
    ("messages, streams", Habit::Patient { dialect: Dialect::Messages, route: MESSAGES, stream: true }, 64),
    ("fallback", Habit::Patient { dialect: Dialect::Chat, route: FALL, stream: false }, 8),
    ("fallback, streams", Habit::Patient { dialect: Dialect::Chat, route: FALL, stream: true }, 16),
    ("one target", Habit::Patient { dialect: Dialect::Chat, route: LONE, stream: true }, 8),
    ("chat, who leave", Habit::Leaves { dialect: Dialect::Chat, route: CHAT }, 12),
    ("messages, who leave", Habit::Leaves { dialect: Dialect::Messages, route: MESSAGES }, 8),
    ("who do not read", Habit::Deaf, 4),
];

/// Everyone, until the scene is over. Each ends with what it saw.
pub(crate) fn gather(scene: &Arc<Scene>, seed: u64) -> JoinSet<(&'static str, Tally)> {
    let mut crowd = JoinSet::new();
    let mut number = seed;
    for (name, habit, count) in CROWD {
        for _ in 0..count {
            number += 1;
            let client = Client::new(Arc::clone(scene), habit, number);
            crowd.spawn(async move { (name, client.live().await) });
        }
    }
    crowd
}

/// What everyone saw, by name, in the order of the crowd.
pub(crate) async fn heard(mut crowd: JoinSet<(&'static str, Tally)>) -> Result<Vec<(&'static str, Tally)>> {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    while let Some(one) = crowd.join_next().await {
        let (name, tally) = one.context("a client died")?;
        tallies.entry(name).or_default().add(tally);
    }
    Ok(CROWD.map(|(name, ..)| (name, tallies.remove(name).unwrap_or_default())).into())
}

struct Client {
    scene: Arc<Scene>,
    habit: Habit,
    dice: fastrand::Rng,
    tally: Tally,
}

impl Client {
    fn new(scene: Arc<Scene>, habit: Habit, seed: u64) -> Self {
        Self { scene, habit, dice: fastrand::Rng::with_seed(seed), tally: Tally::default() }
    }

    async fn live(mut self) -> Tally {
        while !self.scene.is_over() {
            let lived = match self.habit {
                Habit::Patient { dialect, route, stream } => self.converse(dialect, route, stream).await,
                Habit::Leaves { dialect, route } => self.leave(dialect, route).await,
                Habit::Deaf => self.ignore().await,
            };
            if let Err(error) = lived {
                let at = self.scene.since();
                self.tally.finds(format!("{:.1} s: {error:#}", at.as_secs_f64()));
                sleep(REST).await;
            }
        }
        self.tally
    }

    fn asked(&mut self) {
        self.tally.asked += 1;
        self.scene.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Mostly small, sometimes large.
    fn size(&mut self) -> usize {
        if self.dice.u8(..) < 12 { 60_000 } else { 700 }
    }

    fn request(&mut self, dialect: Dialect, route: Route, stream: bool) -> Vec<u8> {
        let size = self.size();
        request(self.scene.gateway, dialect, route, stream, size, &self.scene.mark)
    }

    /// One connection.
    async fn converse(&mut self, dialect: Dialect, route: Route, stream: bool) -> Result<()> {
        let mut talk = Talk::open(self.scene.gateway).await?;
        for _ in 0..REQUESTS_PER_CONNECTION {
            if self.scene.is_over() {
                return Ok(());
            }
            let request = self.request(dialect, route, stream);
            let (sent, from) = (Instant::now(), self.scene.since());
            talk.send(&request).await?;
            self.asked();
            let what = || format!("{} (stream: {stream}) asked at {:.1} s", route.name, from.as_secs_f64());
            let answer = timeout(PATIENCE, talk.answer());
            let answer = answer.await.with_context(|| format!("{} hangs", what()))?.with_context(what)?;
            let micros = sent.elapsed().as_micros();
            let well = self.judge(&answer, dialect, route, stream, from);
            if well {
                self.tally.took.push(u32::try_from(micros).unwrap_or(u32::MAX));
            } else {
                sleep(REST).await;
            }
            if answer.closes {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Holds an answer against the course; whether it is a good one.
    fn judge(
        &mut self,
        answer: &Answer,
        dialect: Dialect,
        route: Route,
        stream: bool,
        from: Duration,
    ) -> bool {
        let (course, to) = (self.scene.course, self.scene.since());
        let said = |what: &str| {
            let Answer { status, reason, .. } = answer;
            let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
            let error = answer.error().and_then(|error| error.get("pointsman").cloned());
            let (reason, error) = (reason.as_deref().unwrap_or("-"), error.unwrap_or(Value::Null));
            format!(
                "{from:.1} to {to:.1} s: {} (stream: {stream}): {what}: {status}, {reason}, {error}",
                route.name
            )
        };
        for (target, kind) in failures(answer) {
            if !course.was_ill(&target, from, to) {
                self.tally.finds(said(&format!("{kind} put down to {target}, which was well")));
                return false;
            }
        }
        let Some(error) = answer.error() else {
            if answer.status != 200 || !answer.is_complete(dialect, stream) {
                self.tally.finds(said("not a whole answer"));
                return false;
            }
            self.tally.answered += 1;
            let action = answer.action.as_deref();
            self.tally.rescued += u64::from(action.is_some_and(|action| action != "primary"));
            return true;
        };
        let own = error.get("pointsman");
        let terminal = own.and_then(|own| own.get("terminal")).and_then(Value::as_str);
        if terminal == Some("partial") {
            let last =
                own.and_then(|own| own.get("attempts")).and_then(Value::as_array).and_then(|a| a.last());
            let target = last.and_then(|last| last.get("target")).and_then(Value::as_str).unwrap_or_default();
            if course.broke(target, from, to) {
                self.tally.broken += 1;
            } else {
                self.tally.finds(said("a stream broke"));
            }
        } else if matches!(answer.status, 200 | 429 | 500..) && course.was_out(route, from, to) {
            self.tally.refused += 1;
        } else {
            self.tally.finds(said("an error"));
        }
        false
    }

    /// Leaves at any moment, in good order or by reset.
    async fn leave(&mut self, dialect: Dialect, route: Route) -> Result<()> {
        let stream = self.dice.bool();
        let request = self.request(dialect, route, stream);
        let mut talk = Talk::open(self.scene.gateway).await?;
        let head = memchr::memmem::find(&request, b"\r\n\r\n").map_or(0, |at| at + 4);
        match self.dice.u8(..6) {
            0 => {}
            1 => talk.send(request.get(..head / 2).unwrap_or_default()).await?,
            2 => talk.send(request.get(..head).unwrap_or_default()).await?,
            3 => talk.send(request.get(..head + (request.len() - head) / 2).unwrap_or_default()).await?,
            point => {
                talk.send(&request).await?;
                self.asked();
                if point == 5 && stream {
                    // Whatever comes first, output, an error or nothing: then it leaves.
                    let first = timeout(Duration::from_secs(5), talk.until(b"data: ", 0)).await;
                    drop(first);
                }
            }
        }
        sleep(Duration::from_millis(self.dice.u64(..30))).await;
        if self.dice.bool() {
            talk.stream.set_zero_linger().context("no reset")?;
        } else {
            talk.stream.shutdown().await.unwrap_or_default();
        }
        self.tally.left += 1;
        Ok(())
    }

    async fn ignore(&mut self) -> Result<()> {
        let mut talk = Talk::open_small(self.scene.gateway).await?;
        let request = request(self.scene.gateway, Dialect::Chat, FLOOD, true, 100, &self.scene.mark);
        talk.send(&request).await?;
        self.asked();
        timeout(PATIENCE, talk.until(b"data: ", 0)).await.context("a long answer does not begin")??;
        sleep(DEAF_FOR).await;
        let seen = timeout(PATIENCE, talk.drained()).await.context("who does not read is not let go")?;
        if seen > 20_000_000 {
            anyhow::bail!("who did not read was sent {seen} bytes");
        }
        self.tally.left += 1;
        Ok(())
    }
}

/// Which targets failed, and how, as the answer tells it: `chat-a:overloaded>chat-c`, and in errors one by one.
fn failures(answer: &Answer) -> Vec<(String, String)> {
    let reason = answer.reason.as_deref().unwrap_or_default();
    let steps = reason.split('>').filter_map(|step| step.split_once(':'));
    let mut all: Vec<_> = steps.map(|(target, kind)| (target.to_owned(), kind.to_owned())).collect();
    let error = answer.error();
    let attempts = error.as_ref().and_then(|e| e.get("pointsman")?.get("attempts")?.as_array());
    for attempt in attempts.into_iter().flatten() {
        let text = |name: &str| attempt.get(name).and_then(Value::as_str);
        if let (Some(target), Some(kind)) = (text("target"), text("failure")) {
            all.push((target.to_owned(), kind.to_owned()));
        }
    }
    all
}
