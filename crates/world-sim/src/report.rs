//! What a world came to, in numbers.

use std::collections::BTreeMap;
use std::fmt::Write;

use pointsman_core::controller::Cause;
use pointsman_core::kind::{Action, Terminal};
use pointsman_core::time::Duration;
use serde::Serialize;

use crate::scenario::Fault;

/// Buckets of a histogram: eight to each doubling, from a microsecond to a day.
const BUCKETS: usize = 8 * 37;

/// A histogram of durations whose buckets are 9 % wide.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&mut self, span: Duration) {
        let micros = (span.as_secs_f64() * 1e6).max(1.0);
        let place = ((micros.log2() * 8.0).round() as usize).min(BUCKETS - 1);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
            self.total += 1;
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (own, others) in self.counts.iter_mut().zip(&other.counts) {
            *own += others;
        }
        self.total += other.total;
    }

    /// The duration that this share of the counted ones does not exceed, in seconds. What is below two microseconds is 0.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                let micros = (place as f64 / 8.0).exp2();
                return if place < 8 { 0.0 } else { micros / 1e6 };
            }
        }
        0.0
    }
}

/// What went to one target.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TargetReport {
    /// Calls.
    pub calls: u64,
    /// Calls that were answered well.
    pub answered: u64,
    /// Calls by what brought them about.
    pub actions: BTreeMap<&'static str, u64>,
    /// Calls by how they failed.
    pub failures: BTreeMap<&'static str, u64>,
    /// How it came back from its faults.
    pub recoveries: Vec<RecoveryReport>,
}

/// How a target came back from a fault.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryReport {
    /// What had gone wrong.
    pub what: Fault,
    /// When it was over, in seconds from the start.
    pub until: f64,
    /// How many seconds after that the first call succeeded, if one did.
    pub after: Option<f64>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests of clients.
    pub requests: u64,
    /// Those that were at fault themselves, or whose client left.
    pub excluded: u64,
    /// Of the rest: those whose first call was answered.
    pub answered_raw: u64,
    /// Of the rest: those that were answered.
    pub answered: u64,
    /// Calls to providers.
    pub calls: u64,
    /// Decisions of the core.
    pub steps: u64,
    /// Requests by how they ended.
    pub terminals: BTreeMap<&'static str, u64>,
    /// Requests that were not answered, by what their client is told.
    pub causes: BTreeMap<String, u64>,
    /// Those of them for which a target was well that might have answered: what health costs that has not yet noticed a
    /// recovery, and limits of our own.
    pub missed: BTreeMap<String, u64>,
    /// Time of answered requests that was not spent in the attempt that answered.
    pub added: Histogram,
    /// By target.
    pub targets: BTreeMap<String, TargetReport>,
    /// Recoveries of all targets: how long, and how many never came.
    pub recovery: Histogram,
    /// Seconds of virtual time.
    pub seconds: f64,
}

/// One request as the report counts it.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// How.
    pub terminal: Terminal,
    /// What its client is told.
    pub cause: Cause,
    /// It was its own fault.
    pub own_fault: bool,
    /// Its first call was answered.
    pub first_answered: bool,
    /// A target that was not asked might have answered.
    pub missed: bool,
    /// Time that was not spent in the attempt that answered.
    pub added: Duration,
}

impl Report {
    /// A call begins.
    pub fn call(&mut self, target: &str, action: Action) {
        self.calls += 1;
        let target = self.target(target);
        target.calls += 1;
        *target.actions.entry(action.name()).or_default() += 1;
    }

    /// A call ended.
    pub fn call_ended(&mut self, target: &str, failure: Option<&'static str>) {
        let target = self.target(target);
        match failure {
            None => target.answered += 1,
            Some(kind) => *target.failures.entry(kind).or_default() += 1,
        }
    }

    /// A client's request ended.
    pub fn ended(&mut self, ended: &Ended) {
        self.requests += 1;
        *self.terminals.entry(ended.terminal.name()).or_default() += 1;
        if ended.own_fault || ended.terminal == Terminal::Cancelled {
            self.excluded += 1;
            return;
        }
        let answered = ended.terminal == Terminal::Success;
        self.answered_raw += u64::from(answered && ended.first_answered);
        self.answered += u64::from(answered);
        if answered {
            self.added.add(ended.added);
        } else {
            let cause = format!("{:?}", ended.cause);
            if ended.missed {
                *self.missed.entry(cause.clone()).or_default() += 1;
            }
            *self.causes.entry(cause).or_default() += 1;
        }
    }

    /// The target's part, made when it is first asked for.
    pub fn target(&mut self, name: &str) -> &mut TargetReport {
        if !self.targets.contains_key(name) {
            self.targets.insert(name.to_owned(), TargetReport::default());
        }
        self.targets.entry(name.to_owned()).or_default()
    }

    /// Adds another world's numbers; targets of different worlds have nothing in common and are left out.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.excluded += other.excluded;
        self.answered_raw += other.answered_raw;
        self.answered += other.answered;
        self.calls += other.calls;
        self.steps += other.steps;
        self.seconds += other.seconds;
        self.added.merge(&other.added);
        self.recovery.merge(&other.recovery);
        for (terminal, count) in &other.terminals {
            *self.terminals.entry(terminal).or_default() += count;
        }
        for (cause, count) in &other.missed {
            *self.missed.entry(cause.clone()).or_default() += count;
        }
        for (cause, count) in &other.causes {
            *self.causes.entry(cause.clone()).or_default() += count;
        }
    }

    fn share(&self, answered: u64) -> f64 {
        let counted = self.requests.saturating_sub(self.excluded);
        if counted == 0 { 1.0 } else { answered as f64 / counted as f64 }
    }

    /// The share of requests whose first call was answered.
    pub fn availability_raw(&self) -> f64 {
        self.share(self.answered_raw)
    }

    /// The share of requests that were answered.
    pub fn availability(&self) -> f64 {
        self.share(self.answered)
    }

    /// Calls to providers per request.
    pub fn calls_per_request(&self) -> f64 {
        self.calls as f64 / self.requests.max(1) as f64
    }

    /// In words.
    pub fn words(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).unwrap_or_default();
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "requests            {} in {:.0} s of virtual time", self.requests, self.seconds)?;
        let counted = self.requests.saturating_sub(self.excluded);
        writeln!(out, "counted             {counted} (without the clients' own faults and those who left)")?;
        writeln!(out, "availability raw    {:.3} %", self.availability_raw() * 100.0)?;
        writeln!(out, "after failover      {:.3} %", self.availability() * 100.0)?;
        writeln!(out, "upstream calls      {:.3} per request", self.calls_per_request())?;
        let (half, most) = (self.added.quantile(0.5), self.added.quantile(0.99));
        writeln!(out, "added latency       p50 {half:.3} s, p99 {most:.3} s")?;
        let (half, most) = (self.recovery.quantile(0.5), self.recovery.quantile(0.99));
        writeln!(out, "time to recover     p50 {half:.1} s, p99 {most:.1} s")?;
        let ends: Vec<String> = self.terminals.iter().map(|(name, n)| format!("{name} {n}")).collect();
        writeln!(out, "ends                {}", ends.join(", "))?;
        let causes: Vec<String> = self.causes.iter().map(|(name, n)| format!("{name} {n}")).collect();
        writeln!(out, "not answered        {}", causes.join(", "))?;
        let missed: Vec<String> = self.missed.iter().map(|(name, n)| format!("{name} {n}")).collect();
        writeln!(out, "  might have been   {}", missed.join(", "))?;
        for (name, target) in &self.targets {
            writeln!(out, "  {name}: {} calls, {} answered", target.calls, target.answered)?;
            let failures: Vec<String> =
                target.failures.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
            if !failures.is_empty() {
                writeln!(out, "    failed: {}", failures.join(", "))?;
            }
            for recovery in &target.recoveries {
                let after = recovery
                    .after
                    .map_or_else(|| "not seen to recover".into(), |s| format!("back after {s:.1} s"));
                writeln!(out, "    {:?} until {:.0} s: {after}", recovery.what, recovery.until)?;
            }
        }
        Ok(())
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "requests": self.requests,
            "counted": self.requests.saturating_sub(self.excluded),
            "availability_raw": self.availability_raw(),
            "availability_after_failover": self.availability(),
            "upstream_calls_per_request": self.calls_per_request(),
            "added_latency_p50_seconds": self.added.quantile(0.5),
            "added_latency_p99_seconds": self.added.quantile(0.99),
            "recovery_p50_seconds": self.recovery.quantile(0.5),
            "recovery_p99_seconds": self.recovery.quantile(0.99),
            "virtual_seconds": self.seconds,
            "decisions": self.steps,
            "terminals": self.terminals,
            "causes": self.causes,
            "might_have_been_answered": self.missed,
            "targets": self.targets,
        })
    }
}
