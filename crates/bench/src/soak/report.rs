//! What came out of a soak: tables, verdicts, JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::crowd::Tally;
use super::watch::{Held, Sample};
use super::world::Heard;

const MIB: f64 = 1024.0 * 1024.0;
/// Upstream calls that a request may cost.
const CALLS_PER_REQUEST: f64 = 1.25;
/// By how much the memory of the last quarter may be above that of the second: what the allocator keeps of bursts differs
/// by a few MiB between two quarters that play the same. A leak shows above it all the same: it grows with every request.
const MEMORY_SHARE: f64 = 0.05;
const MEMORY_MIB: f64 = 6.0;
/// Findings that are shown.
const SHOWN: usize = 20;

/// Everything that was seen.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// When the warm-up was over; samples count from there on.
    pub(crate) from: Duration,
    pub(crate) lasted: Duration,
    /// Requests after the warm-up.
    pub(crate) asked: u64,
    pub(crate) crowd: Vec<(&'static str, Tally)>,
    pub(crate) samples: Vec<Sample>,
    /// Attempts that the gateway counted, and calls that reached a provider.
    pub(crate) attempts: u64,
    pub(crate) calls: u64,
    /// What was held when everyone had gone.
    pub(crate) held: Held,
    /// Open descriptors before the first and after the last client.
    pub(crate) descriptors: (u64, u64),
    /// Looks at metrics and ledger that found the mark.
    pub(crate) marked: u64,
    pub(crate) heard: Heard,
    pub(crate) left_well: bool,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) name: &'static str,
    pub(crate) holds: bool,
    pub(crate) words: String,
}

fn verdict(name: &'static str, holds: bool, words: String) -> Verdict {
    Verdict { name, holds, words }
}

impl Outcome {
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let sum = |of: fn(&Tally) -> u64| self.crowd.iter().map(|(_, tally)| of(tally)).sum::<u64>();
        let (asked, unexplained) = (sum(|t| t.asked), sum(|t| t.unexplained));
        let (refused, broken) = (sum(|t| t.refused), sum(|t| t.broken));
        let idle: Vec<_> =
            self.crowd.iter().filter(|(_, t)| t.answered + t.left == 0).map(|(name, _)| *name).collect();
        let per_request = self.attempts.max(self.calls) as f64 / asked.max(1) as f64;
        let (before, after) = self.descriptors;
        let Heard { lines, errors, panics, marked, maligned, .. } = &self.heard;
        vec![
            verdict(
                "everyone is served",
                idle.is_empty(),
                match idle.as_slice() {
                    [] => format!("{asked} requests went out whole"),
                    names => format!("nobody of these was: {}", names.join("; ")),
                },
            ),
            verdict(
                "no unexplained error",
                unexplained == 0,
                format!("{unexplained} unexplained; as played: {refused} refused, {broken} streams broken"),
            ),
            verdict(
                "upstream calls",
                per_request <= CALLS_PER_REQUEST,
                format!("{per_request:.3} per request, at most {CALLS_PER_REQUEST}"),
            ),
            self.memory(),
            verdict(
                "no content",
                marked + self.marked == 0,
                format!("{marked} of {lines} log lines, {} looks at ledger and metrics", self.marked),
            ),
            verdict(
                "nothing is left",
                self.held == Held::default() && after <= before,
                format!(
                    "{} in flight, {} streams, {} queued; {before} descriptors before, {after} after",
                    self.held.in_flight, self.held.streams, self.held.queued
                ),
            ),
            verdict(
                "who is well stays in",
                *maligned == 0,
                format!("{maligned} changes of the health of targets that are always well"),
            ),
            verdict("no error in the log", errors + panics == 0, format!("{errors} errors, {panics} panics")),
            verdict("leaves in good order", self.left_well, "after SIGTERM".to_owned()),
        ]
    }

    /// The second quarter is past warming up; what it and the last one play is the same.
    fn memory(&self) -> Verdict {
        let (second, last) = (self.resident(1), self.resident(3));
        let most = second + (second * MEMORY_SHARE).max(MEMORY_MIB);
        // Half of the run lies between the middles of the two quarters.
        let shows = (most - second) * MIB / (self.asked as f64 / 2.0).max(1.0);
        verdict(
            "memory is flat",
            second > 0.0 && last <= most,
            format!(
                "{second:.1} MiB in the second quarter, {last:.1} in the last, at most {most:.1} (shows a leak of {shows:.0} \
                 bytes a request)"
            ),
        )
    }

    fn quarter(&self, number: u32) -> Vec<Sample> {
        let quarter = self.lasted / 4;
        let from = self.from + quarter * number;
        let to = from + quarter;
        self.samples.iter().filter(|s| s.at > from && s.at <= to).copied().collect()
    }

    /// Median of a quarter, in MiB.
    fn resident(&self, number: u32) -> f64 {
        let mut all: Vec<u64> = self.quarter(number).iter().map(|s| s.resident).collect();
        all.sort_unstable();
        all.get(all.len() / 2).map_or(0.0, |bytes| *bytes as f64 / MIB)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = self.clients();
        text += &self.process();
        let findings: Vec<_> = self.crowd.iter().flat_map(|(_, t)| &t.findings).collect();
        for line in findings.iter().copied().chain(&self.heard.shown).take(SHOWN) {
            text += &format!("! {line}\n");
        }
        text.push('\n');
        for Verdict { name, holds, words } in self.verdicts() {
            text += &format!("{name:<22} {:<7} {words}\n", if holds { "holds" } else { "FAILED" });
        }
        text
    }

    fn clients(&self) -> String {
        let mut text = format!(
            "{:<22} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>12} {:>8} {:>8}\n",
            "clients",
            "asked",
            "answered",
            "rescued",
            "refused",
            "broken",
            "left",
            "unexplained",
            "p50 ms",
            "p99 ms"
        );
        for (name, tally) in &self.crowd {
            let Tally { asked, answered, rescued, refused, broken, left, unexplained, took, .. } = tally;
            let (half, most) = (quantile(took, 0.5), quantile(took, 0.99));
            text += &format!(
                "{name:<22} {asked:>8} {answered:>9} {rescued:>8} {refused:>8} {broken:>8} {left:>8} {unexplained:>12} {half:>8.1} {most:>8.1}\n"
            );
        }
        text
    }

    fn process(&self) -> String {
        let mut text = format!(
            "\n{:<22} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8}\n",
            "quarter", "RSS MiB", "most MiB", "files", "flying", "streams", "CPU %"
        );
        for number in 0..4 {
            let all = self.quarter(number);
            let most = |of: fn(&Sample) -> u64| all.iter().map(of).max().unwrap_or(0);
            let busy = all.iter().map(|s| s.processor).sum::<f64>() / all.len().max(1) as f64;
            text += &format!(
                "{:<22} {:>8.1} {:>9.1} {:>8} {:>8} {:>8} {:>8.0}\n",
                number + 1,
                self.resident(number),
                most(|s| s.resident) as f64 / MIB,
                most(|s| s.descriptors),
                most(|s| s.held.in_flight),
                most(|s| s.held.streams),
                busy * 100.0,
            );
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let crowd = self.crowd.iter().map(|(name, tally)| {
            json!({
                "clients": name, "asked": tally.asked, "answered": tally.answered, "rescued": tally.rescued,
                "refused": tally.refused, "broken": tally.broken, "left": tally.left,
                "unexplained": tally.unexplained, "findings": tally.findings,
                "p50_ms": quantile(&tally.took, 0.5), "p99_ms": quantile(&tally.took, 0.99),
            })
        });
        let samples = self.samples.iter().map(|s| {
            json!({
                "at_s": s.at.as_secs_f64(), "resident": s.resident, "descriptors": s.descriptors,
                "in_flight": s.held.in_flight, "streams": s.held.streams, "queued": s.held.queued,
                "processor": s.processor,
            })
        });
        let verdicts = self.verdicts();
        let verdicts = verdicts.iter().map(|v| json!({ "name": v.name, "holds": v.holds, "words": v.words }));
        json!({
            "warm_up_seconds": self.from.as_secs_f64(),
            "requests_after_it": self.asked,
            "seconds": self.lasted.as_secs_f64(),
            "crowd": crowd.collect::<Vec<_>>(),
            "attempts": self.attempts,
            "calls": self.calls,
            "log_lines": self.heard.lines,
            "samples": samples.collect::<Vec<_>>(),
            "verdicts": verdicts.collect::<Vec<_>>(),
        })
    }
}

/// In milliseconds.
fn quantile(micros: &[u32], share: f64) -> f64 {
    let mut all = micros.to_vec();
    all.sort_unstable();
    let place = (all.len() as f64 * share) as usize;
    all.get(place.min(all.len().saturating_sub(1))).map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(resident_mib: [u64; 4]) -> Outcome {
        let samples = (0..40_u64).zip(resident_mib.iter().flat_map(|mib| [*mib; 10])).map(|(second, mib)| {
            Sample { at: Duration::from_secs(second + 1), resident: mib << 20, ..Sample::default() }
        });
        let tally = Tally { asked: 1_000, answered: 1_000, ..Tally::default() };
        Outcome {
            from: Duration::ZERO,
            lasted: Duration::from_secs(40),
            asked: 1_000,
            crowd: vec![("chat", tally)],
            samples: samples.collect(),
            attempts: 1_100,
            calls: 1_000,
            held: Held::default(),
            descriptors: (12, 12),
            marked: 0,
            heard: Heard::default(),
            left_well: true,
        }
    }

    fn failed(outcome: &Outcome) -> Vec<&'static str> {
        outcome.verdicts().iter().filter(|v| !v.holds).map(|v| v.name).collect()
    }

    #[test]
    fn memory_may_rise_while_it_warms_up_and_not_after_that() {
        assert!(failed(&outcome([20, 60, 60, 62])).is_empty());
        assert_eq!(failed(&outcome([20, 60, 64, 68])), ["memory is flat"]);
    }

    #[test]
    fn each_thing_that_must_not_be_fails_its_own_verdict() {
        let well = || outcome([60; 4]);
        let tally = |tally| Outcome { crowd: vec![("chat", tally)], ..well() };
        let answered = Tally { asked: 1_000, answered: 1_000, ..Tally::default() };
        let cases = [
            (tally(Tally { unexplained: 1, ..answered.clone() }), "no unexplained error"),
            (tally(Tally { answered: 0, ..answered }), "everyone is served"),
            (Outcome { attempts: 1_251, ..well() }, "upstream calls"),
            (Outcome { calls: 1_251, ..well() }, "upstream calls"),
            (Outcome { marked: 1, ..well() }, "no content"),
            (Outcome { heard: Heard { marked: 1, ..Heard::default() }, ..well() }, "no content"),
            (Outcome { heard: Heard { panics: 1, ..Heard::default() }, ..well() }, "no error in the log"),
            (Outcome { heard: Heard { maligned: 1, ..Heard::default() }, ..well() }, "who is well stays in"),
            (Outcome { held: Held { streams: 1, ..Held::default() }, ..well() }, "nothing is left"),
            (Outcome { descriptors: (12, 13), ..well() }, "nothing is left"),
            (Outcome { left_well: false, ..well() }, "leaves in good order"),
        ];
        for (outcome, name) in cases {
            assert_eq!(failed(&outcome), [name]);
        }
    }
}
