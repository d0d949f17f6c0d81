//! Many seeds on all processors, each checked, some of them twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pointsman_core::time::Instant;

use crate::checker::{Invariant, Violation};
use crate::generate;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::world::{Outcome, play};

/// How often a world is played a second time to see that it takes the same decisions.
const TWICE_EVERY: u64 = 16;

/// A seed that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The world in which it showed.
    pub scenario: Scenario,
    /// The promise.
    pub violation: Violation,
    /// Requests that had come by then.
    pub arrived: u64,
}

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// All their numbers together.
    pub report: Report,
    /// Seeds that broke a promise.
    pub failures: Vec<Failure>,
    /// Worlds that were played.
    pub worlds: u64,
}

/// Plays a scenario twice and compares every decision.
pub fn play_twice(scenario: &Scenario, mut play: impl FnMut(&Scenario) -> Outcome) -> Outcome {
    let mut first = play(scenario);
    let second = play(scenario);
    if first.violation.is_none() && first.digest != second.digest {
        let what = "the same scenario gave other decisions".into();
        let violation =
            Violation { invariant: Invariant::Deterministic, at: Instant::ZERO, request: 0, what };
        first.violation = Some(violation);
    }
    first
}

/// Plays `count` seeds from `first` on with this many requests each.
pub fn play_seeds(first: u64, count: u64, requests: u64) -> Summary {
    let next = AtomicU64::new(0);
    let summary = Mutex::new(Summary::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&next, &summary, first, count, requests));
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.failures.sort_by_key(|f| f.scenario.seed);
    summary
}

fn work(next: &AtomicU64, summary: &Mutex<Summary>, first: u64, count: u64, requests: u64) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return;
        }
        let scenario = generate::scenario(first.wrapping_add(number), requests);
        let twice = number.is_multiple_of(TWICE_EVERY);
        let outcome = if twice { play_twice(&scenario, play) } else { play(&scenario) };
        let mut summary = summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        summary.worlds += 1;
        summary.report.merge(&outcome.report);
        if let Some(violation) = outcome.violation {
            summary.failures.push(Failure { scenario, violation, arrived: outcome.arrived });
        }
    }
}
