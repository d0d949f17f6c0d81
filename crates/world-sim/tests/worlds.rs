//! Worlds in which no promise may be broken: random ones, the scenarios that the project shows, and those that once failed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::{Path, PathBuf};

use pointsman_world_sim::generate;
use pointsman_world_sim::report::Report;
use pointsman_world_sim::scenario::Scenario;
use pointsman_world_sim::seeds::{play_seeds, play_twice};
use pointsman_world_sim::world::{Outcome, play};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no scenario", folder.display());
    files
}

fn read(path: &Path) -> Scenario {
    let text = std::fs::read_to_string(path).unwrap();
    Scenario::from_json(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn kept(outcome: &Outcome, what: &str) {
    if let Some(violation) = &outcome.violation {
        panic!("{what}: {violation}");
    }
}

#[test]
fn random_worlds_keep_every_promise() {
    let summary = play_seeds(1, 20, 300);
    assert_eq!(summary.worlds, 20);
    // Something must have gone wrong in them, and something must have been done about it.
    assert!(summary.report.availability_raw() < 0.99, "{}", summary.report.availability_raw());
    assert!(summary.report.availability() > summary.report.availability_raw());
    let broken: Vec<String> =
        summary.failures.iter().map(|f| format!("seed {}: {}", f.scenario.seed, f.violation)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn worlds_that_once_failed_keep_every_promise() {
    for path in files("corpus") {
        kept(&play(&read(&path)), &path.display().to_string());
    }
}

#[test]
fn the_same_seed_gives_the_same_decisions_and_another_seed_others() {
    let (one, other) = (generate::scenario(3, 200), generate::scenario(4, 200));
    kept(&play_twice(&one, play), "seed 3");
    assert_ne!(play(&one).digest, play(&other).digest);
}

#[test]
fn a_scenario_survives_its_file() {
    for seed in 0..50 {
        let scenario = generate::scenario(seed, 100);
        let text = serde_json::to_string(&scenario).unwrap();
        let read = Scenario::from_json(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text, "seed {seed}");
        assert_eq!(play(&read).digest, play(&scenario).digest, "seed {seed}");
    }
}

fn shown(name: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(format!("{name}.json"));
    let outcome = play_twice(&read(&path), play);
    kept(&outcome, name);
    outcome.report
}

#[test]
fn every_shown_scenario_keeps_every_promise() {
    for path in files("scenarios") {
        kept(&play(&read(&path)), &path.display().to_string());
    }
}

#[test]
fn an_outage_of_one_of_two_equivalents_costs_nobody_an_answer() {
    let report = shown("outage");
    assert!(report.availability_raw() < 0.98, "{}", report.availability_raw());
    // What was under way at the first moment of the outage, after its first output, is lost.
    assert!(report.availability() > 0.995, "{}", report.availability());
    assert!(report.calls_per_request() < 1.1, "{}", report.calls_per_request());
}

#[test]
fn a_lost_region_is_survived_by_the_other_and_by_the_other_model() {
    let report = shown("region");
    assert!(report.availability() > 0.99, "{}", report.availability());
    assert!(report.availability_raw() < report.availability());
}

#[test]
fn a_single_target_that_was_down_answers_again_within_two_seconds() {
    let report = shown("alone");
    let recovery = report.targets["t0"].recoveries.first().unwrap();
    let after = recovery.after.expect("it is seen to recover");
    // Up to a second until the next early round of probes, then one call.
    assert!(after < 2.0 + 3.0, "{after}");
}

#[test]
fn a_dead_key_is_left_alone_and_found_again() {
    let report = shown("dead-key");
    let target = &report.targets["t0"];
    // Two different requests isolate the account; then one probe every five minutes.
    assert!(target.failures["auth"] <= 4, "{:?}", target.failures);
    assert!(report.availability() > 0.999, "{}", report.availability());
}

#[test]
fn a_rate_limit_with_guidance_is_obeyed_and_bypassed() {
    let report = shown("rate-limit");
    let target = &report.targets["t0"];
    assert!(target.failures["rate_limit"] > 0);
    // At most what was under way together each time that the limit is found again.
    assert!(target.failures["rate_limit"] < 60, "{:?}", target.failures);
    assert!(report.availability() > 0.99, "{}", report.availability());
}

#[test]
fn a_brown_out_is_noticed_as_an_outage() {
    let report = shown("brown-out");
    let (slow, other) = (report.targets["t0"].calls, report.targets["t1"].calls);
    assert!(other > slow / 4, "{other} calls went elsewhere, {slow} did not");
    assert!(report.availability() > 0.99, "{}", report.availability());
}
