//! What the gateway holds, second by second.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep_until};

use super::crowd::Scene;
use super::world::World;
use crate::process;

/// The ledger is looked through for what must not be in it every so many samples.
const LEDGER_EVERY: usize = 5;

/// One look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// Bytes.
    pub(crate) resident: u64,
    pub(crate) descriptors: u64,
    pub(crate) held: Held,
    /// Share of one processor since the last look.
    pub(crate) processor: f64,
}

/// What requests hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) in_flight: u64,
    pub(crate) streams: u64,
    pub(crate) queued: u64,
}

/// What was seen over the whole run.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) samples: Vec<Sample>,
    /// Looks at the metrics and the ledger that found the mark.
    pub(crate) marked: u64,
}

/// Looks every second until the scene is over.
pub(crate) async fn watch(world: &World, scene: &Arc<Scene>) -> Result<Watched> {
    let mut watched = Watched::default();
    let pid = [world.gateway.pid()];
    let (mut busy, mut before) = (process::cpu_us(&pid)?, Instant::now());
    for second in 1.. {
        sleep_until(scene.began + Duration::from_secs(1) * second).await;
        if scene.is_over() {
            break;
        }
        let metrics = world.gateway.ask("/metrics").await?;
        watched.marked += u64::from(metrics.contains(&world.mark));
        if watched.samples.len() % LEDGER_EVERY == 0 {
            let ledger = world.gateway.ask("/admin/v1/requests?limit=1000").await?;
            watched.marked += u64::from(ledger.contains(&world.mark));
        }
        let (now, until) = (Instant::now(), process::cpu_us(&pid)?);
        let processor = (until - busy) / (now - before).as_micros().max(1) as f64;
        (busy, before) = (until, now);
        watched.samples.push(Sample {
            at: scene.began.elapsed(),
            resident: process::resident(&pid)?,
            descriptors: descriptors(world.gateway.pid())?,
            held: held(&metrics),
            processor,
        });
    }
    Ok(watched)
}

/// Open file descriptors of a process.
pub(crate) fn descriptors(pid: u32) -> Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd")).context("the process is gone")?.count() as u64)
}

pub(crate) fn held(metrics: &str) -> Held {
    Held {
        in_flight: sum(metrics, "pointsman_in_flight"),
        streams: sum(metrics, "pointsman_open_streams"),
        queued: sum(metrics, "pointsman_queue_waiting"),
    }
}

/// The sum of a metric over all its labels.
pub(crate) fn sum(metrics: &str, name: &str) -> u64 {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) {
            return None;
        }
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    values.sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_no_other_is_taken_for_it() {
        let text = "# TYPE a counter\na_total{x=\"1 2\"} 3\na_total{x=\"b\"} 4\na_total_more 5\nb 6\n";
        assert_eq!(sum(text, "a_total"), 7);
        assert_eq!(sum(text, "b"), 6);
    }
}
