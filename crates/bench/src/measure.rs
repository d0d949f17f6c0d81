//! What is measured, and how.
//!
//! Processor time is that of the measured processes alone, per request or event. Latency is taken at an arrival rate well
//! below saturation, so that it is not that of a queue.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use crate::load::{self, Arrival, Question, Seen};
use crate::process;
use crate::stage::{Stage, Way};

/// The path of the paced streams: events, and microseconds between two.
pub(crate) const PACED: &str = "stream/200/2000";
const EVENTS: u64 = 201;
/// Streams that stay open: their second event is far away.
pub(crate) const HELD: &str = "stream/2/60000000";
const KIB: usize = 1024;
/// At which numbers of connections latency is taken.
const LEVELS: [u32; 4] = [1, 16, 64, 256];
/// Arrivals per second where latency is taken.
const RATE: u32 = 500;
/// A delayed acknowledgement waits 40 ms: what comes within this is suspected of it, in microseconds.
const DELAYED_ACK: std::ops::Range<u32> = 38_000..46_000;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) rounds: u32,
    pub(crate) each: Duration,
    pub(crate) streams: u32,
}

impl Pace {
    pub(crate) const FULL: Self = Self { rounds: 5, each: Duration::from_millis(1_500), streams: 2_000 };
    pub(crate) const QUICK: Self = Self { rounds: 3, each: Duration::from_millis(600), streams: 500 };
}

/// The values of one measure, one of each round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure {
    /// The order in which figures were first measured.
    pub(crate) place: usize,
    pub(crate) unit: &'static str,
    pub(crate) values: BTreeMap<Way, Vec<f64>>,
    /// Whose figure is asked for, and what it is measured by; the gateway's by nginx unless it says otherwise.
    pub(crate) pair: Option<(Way, Way)>,
    /// At most so many times the yardstick's.
    pub(crate) most_ratio: Option<f64>,
    /// At most so much, in its unit.
    pub(crate) most: Option<f64>,
    /// What the direct way takes is no cost of a proxy, and is subtracted.
    pub(crate) added: bool,
}

/// Figures by name.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    all: BTreeMap<String, Figure>,
    /// Answers that took as long as a delayed acknowledgement, and all, by way.
    pub(crate) delayed: BTreeMap<Way, (u64, u64)>,
}

impl Figures {
    /// In the order in which they were first measured.
    pub(crate) fn in_order(&self) -> Vec<(&str, &Figure)> {
        let mut all: Vec<_> = self.all.iter().map(|(name, figure)| (name.as_str(), figure)).collect();
        all.sort_by_key(|(_, figure)| figure.place);
        all
    }

    fn add(&mut self, name: &str, unit: &'static str, way: Way, value: f64) -> &mut Figure {
        let place = self.all.len();
        let figure =
            self.all.entry(name.to_owned()).or_insert_with(|| Figure { place, unit, ..Figure::default() });
        figure.values.entry(way).or_default().push(value);
        figure
    }

    fn look_for_delays(&mut self, way: Way, seen: &Seen) {
        let suspected = seen.total.iter().filter(|time| DELAYED_ACK.contains(time)).count();
        let (late, all) = self.delayed.entry(way).or_default();
        *late += suspected as u64;
        *all += seen.total.len() as u64;
    }
}

/// One run of the bench.
struct Bench<'a> {
    stage: &'a Stage,
    pace: &'a Pace,
    only: Option<&'a str>,
    figures: Figures,
}

/// Measures everything.
pub(crate) async fn all(stage: &Stage, pace: &Pace, only: Option<&str>) -> Result<Figures> {
    let mut bench = Bench { stage, pace, only, figures: Figures::default() };
    if bench.wanted("memory") {
        bench.memory_idle()?;
    }
    bench.warm_up().await?;
    for round in 1..=pace.rounds {
        eprintln!("round {round} of {}", pace.rounds);
        bench.processor().await.context("processor time")?;
        bench.latency().await.context("latency")?;
        bench.failures().await.context("failures")?;
    }
    if bench.wanted("memory") {
        bench.memory_of_streams().await.context("open streams")?;
    }
    Ok(bench.figures)
}

impl Bench<'_> {
    fn wanted(&self, name: &str) -> bool {
        self.only.is_none_or(|only| name.contains(only))
    }

    /// The direct way and nginx know paths, the gateway knows models.
    fn question(&self, way: Way, kind: &str, size: usize, stream: bool) -> Question {
        let folder = match kind {
            "paced" => PACED,
            "held" => HELD,
            "begun" => "stream/2/100",
            other => other,
        };
        let path = match way {
            Way::Translated => return Question::messages(self.stage.address(way), kind, size, stream),
            Way::Gateway => "/v1/chat/completions".to_owned(),
            Way::Direct | Way::Nginx => format!("/{folder}/v1/chat/completions"),
        };
        Question::new(self.stage.address(way), &path, kind, size, stream)
    }

    async fn warm_up(&self) -> Result<()> {
        for way in Way::ALL {
            for (kind, stream) in [("small", false), ("paced", true)] {
                let question = self.question(way, kind, KIB, stream);
                load::run(&question, 32, Arrival::Closed, self.pace.each / 3).await?;
            }
        }
        Ok(())
    }

    async fn processor(&mut self) -> Result<()> {
        let kinds = [
            ("cpu 1 KB request", "small", KIB, false, 32, Arrival::Closed, Some(1.5)),
            ("cpu 1 KB request at 2,000/s", "small", KIB, false, 64, Arrival::Open(2_000), None),
            ("cpu 100 KB request", "small", 100 * KIB, false, 32, Arrival::Closed, None),
            ("cpu 100 KB answer", "large", KIB, false, 32, Arrival::Closed, None),
            ("cpu streamed event", "paced", KIB, true, 64, Arrival::Closed, Some(1.6)),
        ];
        for (name, kind, size, stream, connections, arrival, most) in kinds {
            if !self.wanted(name) {
                continue;
            }
            for way in [Way::Nginx, Way::Gateway] {
                let question = self.question(way, kind, size, stream);
                let (seen, cpu) = self.costing(way, &question, connections, arrival).await?;
                let units = seen.total.len() as u64 * if stream { EVENTS } else { 1 };
                self.figures.add(name, "us", way, cpu / units as f64).most_ratio = most;
            }
        }
        self.translation().await
    }

    /// What it costs more when the client speaks another dialect than the provider, beside passing on in the same round.
    async fn translation(&mut self) -> Result<()> {
        let kinds = [
            ("translation, cpu 1 KB request", "small", KIB, false, 32),
            ("translation, cpu 100 KB request", "small", 100 * KIB, false, 32),
            ("translation, cpu streamed event", "paced", KIB, true, 64),
        ];
        for (name, kind, size, stream, connections) in kinds {
            if !self.wanted(name) {
                continue;
            }
            for way in [Way::Gateway, Way::Translated] {
                let question = self.question(way, kind, size, stream);
                let (seen, cpu) = self.costing(way, &question, connections, Arrival::Closed).await?;
                let units = seen.total.len() as u64 * if stream { EVENTS } else { 1 };
                let figure = self.figures.add(name, "us", way, cpu / units as f64);
                figure.pair = Some((Way::Translated, Way::Gateway));
                figure.most_ratio = (size == KIB).then_some(3.0);
            }
        }
        Ok(())
    }

    /// Asks, and answers with what the processes of this way needed for it, in microseconds.
    async fn costing(
        &self,
        way: Way,
        question: &Question,
        connections: u32,
        arrival: Arrival,
    ) -> Result<(Seen, f64)> {
        let family = self.stage.family(way);
        let before = process::cpu_us(family)?;
        let seen = load::run(question, connections, arrival, self.pace.each).await?;
        Ok((seen, process::cpu_us(family)? - before))
    }

    async fn latency(&mut self) -> Result<()> {
        for connections in LEVELS {
            if !self.wanted("latency") {
                continue;
            }
            for way in Way::ALL {
                let question = self.question(way, "small", KIB, false);
                let seen = load::run(&question, connections, Arrival::Open(RATE), self.pace.each).await?;
                self.figures.look_for_delays(way, &seen);
                for (name, share, most) in [("p50", 50, Some(1.6)), ("p99", 99, None)] {
                    let name = format!("latency added, {name}, {connections} connections");
                    let figure = self.figures.add(&name, "us", way, percentile(&seen.total, share));
                    (figure.added, figure.most_ratio) = (true, most);
                }
            }
        }
        for way in Way::ALL {
            if !self.wanted("first byte") {
                continue;
            }
            let question = self.question(way, "begun", KIB, true);
            let seen = load::run(&question, 16, Arrival::Open(RATE), self.pace.each).await?;
            self.figures.look_for_delays(way, &seen);
            for (name, share) in [("p50", 50), ("p99", 99)] {
                let name = format!("first byte of a stream added, {name}");
                self.figures.add(&name, "us", way, percentile(&seen.first, share)).added = true;
            }
        }
        Ok(())
    }

    /// What failing over costs beyond the failed attempt itself, and what a refusal costs.
    async fn failures(&mut self) -> Result<()> {
        if self.wanted("failover") {
            let arrival = Arrival::Open(RATE);
            let failed = self.question(Way::Direct, "fail", KIB, false).answered(503);
            let failed = load::run(&failed, 16, arrival, self.pace.each).await?;
            let plain = self.question(Way::Gateway, "small", KIB, false);
            let plain = load::run(&plain, 16, arrival, self.pace.each).await?;
            let over = self.question(Way::Gateway, "failover", KIB, false);
            let over = load::run(&over, 16, arrival, self.pace.each).await?;
            self.figures.look_for_delays(Way::Gateway, &over);
            let beyond = [&over, &plain, &failed].map(|seen| percentile(&seen.total, 50));
            let [over, plain, failed] = beyond;
            let name = "failover, beyond the failed attempt, p50";
            self.figures.add(name, "us", Way::Gateway, over - plain - failed).most = Some(1_000.0);
            let question = self.question(Way::Gateway, "failover", KIB, false);
            let (seen, cpu) = self.costing(Way::Gateway, &question, 32, Arrival::Closed).await?;
            self.figures.add("failover, cpu", "us", Way::Gateway, cpu / seen.total.len() as f64);
        }
        if self.wanted("fast fail") {
            let question = self.question(Way::Gateway, "closed", KIB, false);
            // Its breakers open at the first refusals.
            for _ in 0..2 {
                load::run(&question.clone().answered(503), 4, Arrival::Closed, self.pace.each / 10).await?;
            }
            let question = question.answered(503);
            let (seen, cpu) = self.costing(Way::Gateway, &question, 16, Arrival::Open(2 * RATE)).await?;
            self.figures.add("fast fail, p50", "us", Way::Gateway, percentile(&seen.total, 50));
            self.figures.add("fast fail, cpu", "us", Way::Gateway, cpu / seen.total.len() as f64);
        }
        Ok(())
    }

    fn memory_idle(&mut self) -> Result<()> {
        for way in [Way::Nginx, Way::Gateway] {
            let mib = process::resident(self.stage.family(way))? as f64 / f64::from(1 << 20);
            let figure = self.figures.add("memory, idle", "MiB", way, mib);
            figure.most = (way == Way::Gateway).then_some(20.0).or(figure.most);
        }
        Ok(())
    }

    async fn memory_of_streams(&mut self) -> Result<()> {
        for way in [Way::Nginx, Way::Gateway] {
            let before = process::resident(self.stage.family(way))?;
            let held = load::hold(&self.question(way, "held", KIB, true), self.pace.streams).await?;
            sleep(Duration::from_millis(500)).await;
            let after = process::resident(self.stage.family(way))?;
            let each = after.saturating_sub(before) as f64 / 1024.0 / held.len() as f64;
            let figure = self.figures.add("memory, per open stream", "KiB", way, each);
            figure.most = Some(60.0);
            let mib = after as f64 / f64::from(1 << 20);
            self.figures.add("memory, with open streams", "MiB", way, mib);
            drop(held);
        }
        Ok(())
    }
}

/// The value below which so many of a hundred are.
fn percentile(times: &[u32], share: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * share / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn a_percentile_is_the_value_at_its_rank() {
        let times: Vec<u32> = (0..100).rev().collect();
        assert_eq!(percentile(&times, 50), 50.0);
        assert_eq!(percentile(&times, 99), 99.0);
        assert_eq!(percentile(&[7], 99), 7.0);
    }
}
