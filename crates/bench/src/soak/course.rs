//! What each target suffers and when: the same in every cycle, so that one part of a run can be compared with another,
//! and so that what a client saw can be held against what was played.

use std::time::Duration;

use anyhow::{Result, anyhow};
use pointsman_provider_sim::{Schedule, Script, script_from_name};

/// A switch takes place so much later or earlier than planned at most, on a machine with all processors busy.
const SLACK: Duration = Duration::from_millis(700);
/// For so long after an illness a target may still be left out: its breaker is open for half a second and on probation
/// until two probes succeeded, its cooldown and throttle last a second (see the gateway's file in the module `world`).
const RECOVERY: Duration = Duration::from_millis(2_500);
/// How long a flapping target stays in one state.
const FLAP: Duration = Duration::from_millis(250);
/// At most so long is one cycle.
const LONGEST_CYCLE: Duration = Duration::from_secs(40);

/// How a target is made ill.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// Nothing listens, and what was open is closed.
    Down,
    /// Every request gets this script.
    Script(&'static str),
    /// This script and health by turns.
    Flapping(&'static str),
}

/// Something that a target suffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Illness {
    pub(crate) name: &'static str,
    pub(crate) manner: Manner,
    /// It can break a stream that has begun.
    breaks: bool,
}

const fn fails(name: &'static str, script: &'static str) -> Option<Illness> {
    Some(Illness { name, manner: Manner::Script(script), breaks: false })
}

const fn breaks(name: &'static str, script: &'static str) -> Option<Illness> {
    Some(Illness { name, manner: Manner::Script(script), breaks: true })
}

const FLAPPING: Option<Illness> =
    Some(Illness { name: "flapping", manner: Manner::Flapping("error:500"), breaks: false });
const OUTAGE: Option<Illness> = Some(Illness { name: "outage", manner: Manner::Down, breaks: true });
const SERVER_ERRORS: Option<Illness> = fails("server errors", "error:500");
const OVERLOADED: Option<Illness> = fails("overloaded", "overloaded");
const OVERLOADED_529: Option<Illness> = fails("529", "529");
const RATE_LIMITED: Option<Illness> = fails("rate limited", "rate-limit:1");
const RATE_LIMITED_A: Option<Illness> = fails("rate limited", "anthropic-rate-limit:1");
const RESETS: Option<Illness> = fails("resets", "reset");
const CLOSES: Option<Illness> = fails("closes", "close");
const SILENT: Option<Illness> = fails("silence", "silence");
const BROWN_OUT: Option<Illness> = fails("brown-out", "slow-first-token:1200ms+slow-headers:1200ms");
const HEARTBEATS: Option<Illness> = fails("only heartbeats", "heartbeats:200ms");
const ROLE_ONLY: Option<Illness> = fails("role only", "role-only");
const PAGES: Option<Illness> = fails("a CDN's page", "bad-gateway");
const HTML: Option<Illness> = fails("HTML in a 200", "html");
const EMPTY: Option<Illness> = fails("empty answers", "empty");
const CUTS: Option<Illness> = breaks("cuts", "cut:5");
const CUTS_BY_RESET: Option<Illness> = breaks("resets in mid-stream", "reset-after:5");
const STALLS: Option<Illness> = breaks("stalls", "stall:4");
const ENDS_EARLY: Option<Illness> = breaks("ends without a finish", "end:3");
const ERROR_EVENTS: Option<Illness> = breaks("errors in mid-stream", "error-after:4");
const WELL: Option<Illness> = None;

const SLOTS: usize = 12;
type Line = [Option<Illness>; SLOTS];
const ALWAYS_WELL: Line = [WELL; SLOTS];

/// A model that clients ask for, with the targets that may answer, the ill ones first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// What clients put in `model`.
    pub(crate) name: &'static str,
    pub(crate) targets: &'static [&'static str],
}

pub(crate) const CHAT: Route = Route { name: "chat", targets: &["chat-a", "chat-b", "chat-c"] };
pub(crate) const MESSAGES: Route =
    Route { name: "messages", targets: &["messages-a", "messages-b", "messages-c"] };
/// Its own model is out as a whole at times, and another stands in.
pub(crate) const FALL: Route = Route { name: "fall", targets: &["fall-a", "fall-b", "other"] };
/// Nothing stands in for its one target.
pub(crate) const LONE: Route = Route { name: "lone", targets: &["lone"] };
/// Long answers for those who do not read them.
pub(crate) const FLOOD: Route = Route { name: "flood", targets: &["flood"] };

/// Every target and what it goes through.
const LINES: [(&str, Line); 11] = [
    (
        "chat-a",
        [SERVER_ERRORS, WELL, OVERLOADED, WELL, RESETS, WELL, SILENT, WELL, CUTS, WELL, FLAPPING, WELL],
    ),
    (
        "chat-b",
        [
            WELL,
            OUTAGE,
            RATE_LIMITED,
            WELL,
            WELL,
            BROWN_OUT,
            HEARTBEATS,
            WELL,
            HTML,
            STALLS,
            WELL,
            ERROR_EVENTS,
        ],
    ),
    ("chat-c", ALWAYS_WELL),
    (
        "messages-a",
        [
            OVERLOADED_529,
            WELL,
            RATE_LIMITED_A,
            WELL,
            CLOSES,
            WELL,
            ROLE_ONLY,
            WELL,
            CUTS_BY_RESET,
            WELL,
            ENDS_EARLY,
            WELL,
        ],
    ),
    (
        "messages-b",
        [WELL, SERVER_ERRORS, SILENT, WELL, WELL, OUTAGE, PAGES, WELL, EMPTY, CUTS, WELL, FLAPPING],
    ),
    ("messages-c", ALWAYS_WELL),
    ("fall-a", [WELL, WELL, OVERLOADED, OVERLOADED, WELL, WELL, SILENT, WELL, OUTAGE, OUTAGE, WELL, WELL]),
    ("fall-b", [WELL, WELL, WELL, SERVER_ERRORS, WELL, WELL, RESETS, WELL, OUTAGE, RATE_LIMITED, WELL, WELL]),
    ("other", ALWAYS_WELL),
    ("lone", [WELL, WELL, WELL, OVERLOADED, WELL, WELL, WELL, RESETS, WELL, WELL, WELL, OUTAGE]),
    ("flood", ALWAYS_WELL),
];

/// The course of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    slot: Duration,
}

impl Course {
    /// A quarter of the run is a whole number of cycles.
    pub(crate) fn of(run: Duration) -> Self {
        let quarter = run / 4;
        let cycles = quarter.as_secs_f64() / LONGEST_CYCLE.as_secs_f64();
        Self { slot: quarter.div_f64(cycles.ceil().max(1.0)) / SLOTS as u32 }
    }

    pub(crate) const fn slot(&self) -> Duration {
        self.slot
    }

    pub(crate) fn cycle(&self) -> Duration {
        self.slot * SLOTS as u32
    }

    /// Every target.
    pub(crate) fn targets() -> impl Iterator<Item = &'static str> {
        LINES.iter().map(|(name, _)| *name)
    }

    /// Targets that never suffer anything.
    pub(crate) fn always_well() -> impl Iterator<Item = &'static str> {
        LINES.iter().filter(|(_, line)| line.iter().all(Option::is_none)).map(|(name, _)| *name)
    }

    /// What a target suffers in the slot of this number, counted from the run's beginning.
    pub(crate) fn at(target: &str, slot: usize) -> Option<Illness> {
        let (_, line) = LINES.iter().find(|(name, _)| *name == target)?;
        line.iter().cycle().nth(slot % SLOTS).copied().flatten()
    }

    /// What a target suffered at any moment between these two (from the run's beginning).
    fn between(&self, target: &str, from: Duration, to: Duration) -> impl Iterator<Item = Illness> {
        let number = |at: Duration| (at.as_secs_f64() / self.slot.as_secs_f64()) as usize;
        let (first, last) = (number(from.saturating_sub(SLACK)), number(to + SLACK));
        // More than a cycle shows nothing new.
        (first..=last.min(first + SLOTS)).filter_map(|slot| Self::at(target, slot))
    }

    /// Whether a failure of this target in a request between these two moments was played.
    pub(crate) fn was_ill(&self, target: &str, from: Duration, to: Duration) -> bool {
        self.between(target, from, to).next().is_some()
    }

    /// Whether it was played that a stream of this target breaks.
    pub(crate) fn broke(&self, target: &str, from: Duration, to: Duration) -> bool {
        self.between(target, from, to).any(|illness| illness.breaks)
    }

    /// Whether it was played that nothing of this route could answer: all targets were ill or had just been.
    pub(crate) fn was_out(&self, route: Route, from: Duration, to: Duration) -> bool {
        let from = from.saturating_sub(RECOVERY);
        route.targets.iter().all(|target| self.was_ill(target, from, to))
    }
}

/// A healthy target's answer holds the mark; a stream of it takes about a tenth of a second.
fn well(mark: &str) -> String {
    format!("answer:The {mark} is answered at some length, and with some care.+tokens:24+slow-tokens:4ms")
}

impl Illness {
    /// What the target answers from now on; `None` where it does not even listen.
    pub(crate) fn schedule(&self, mark: &str) -> Result<Option<Schedule>> {
        let read = |name: &str| script_from_name(name).map_err(|error| anyhow!("{error}"));
        let ill = |name: &str| read(&format!("{}+{name}", well(mark)));
        Ok(match self.manner {
            Manner::Down => None,
            Manner::Script(name) => Some(Schedule::once([(FLAP, ill(name)?)])),
            Manner::Flapping(name) => {
                Some(Schedule::repeating([(FLAP, ill(name)?), (FLAP, read(&well(mark))?)]))
            }
        })
    }
}

/// What a target answers with when it is well.
pub(crate) fn health(target: &str, mark: &str) -> Result<Script> {
    let name = match target {
        // More than all sockets on the way can hold, so that it waits for whoever does not read.
        "flood" => return Ok(flood(mark)),
        "other" => format!("{}+tool:{mark}", well(mark)),
        _ => well(mark),
    };
    script_from_name(&name).map_err(|error| anyhow!("{error}"))
}

fn flood(mark: &str) -> Script {
    let mut script = Script::answer(format!("{mark}{} ", "x".repeat(2_000)).repeat(12_000));
    script.answer.tokens = Some(12_000);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_quarter_of_a_run_is_whole_cycles() {
        for (run, slot) in [(60, 1_250), (600, 3_125), (160, 3_333)] {
            let course = Course::of(SECOND * run);
            assert_eq!(course.slot.as_millis(), slot);
        }
    }

    #[test]
    fn what_was_played_explains_a_failure_and_nothing_else_does() {
        // Slots of 1.25 s: `lone` is overloaded from 3.75 s to 5 s, and listens from 1.25 s before the end of a cycle.
        let course = Course::of(SECOND * 60);
        assert!(course.was_ill("lone", SECOND * 4, SECOND * 4));
        assert!(course.was_out(LONE, SECOND * 6, SECOND * 6), "it has just been ill");
        assert!(!course.was_ill("lone", SECOND * 6, SECOND * 6));
        assert!(!course.was_out(LONE, SECOND * 2, SECOND * 2));
        assert!(!course.broke("lone", SECOND * 4, SECOND * 4), "an overload breaks no stream");
        assert!(course.broke("lone", SECOND * 14, SECOND * 14));
        for at in 0..15 {
            assert!(!course.was_out(CHAT, SECOND * at, SECOND * (at + 5)), "one of them is always well");
        }
    }

    #[test]
    fn every_script_can_be_read() {
        for (target, line) in LINES {
            assert!(health(target, "mark").is_ok());
            for illness in line.into_iter().flatten() {
                assert!(illness.schedule("mark").is_ok(), "{illness:?}");
            }
        }
    }
}
