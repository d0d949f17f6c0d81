//! `pointsman-world-sim`: plays worlds and says what they came to, or which promise was broken and how to see it again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use pointsman_world_sim::checker::Violation;
use pointsman_world_sim::generate;
use pointsman_world_sim::report::Report;
use pointsman_world_sim::scenario::Scenario;
use pointsman_world_sim::seeds::{play_seeds, play_twice};
use pointsman_world_sim::shrink::shrink;
use pointsman_world_sim::world::play;

/// Where failing scenarios are kept when the project is the current directory.
const CORPUS: &str = "crates/world-sim/corpus";

/// Plays simulated worlds around the decision core and checks every invariant at every step.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The seed; with --seeds the first one.
    #[arg(long)]
    seed: Option<u64>,
    /// Requests per world.
    #[arg(long)]
    requests: Option<u64>,
    /// How many seeds to play.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// A scenario file (JSON) instead of a random one.
    #[arg(long, conflicts_with = "seeds")]
    scenario: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Where a failing scenario is kept.
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Answers whether every promise was kept.
fn run(arguments: &Arguments) -> Result<bool, String> {
    if arguments.scenario.is_none() && arguments.seeds > 1 {
        return run_seeds(arguments);
    }
    let scenario = one_scenario(arguments)?;
    let outcome = play_twice(&scenario, play);
    show(arguments, &outcome.report, 1);
    match &outcome.violation {
        None => Ok(true),
        Some(violation) => complain(arguments, &scenario, violation).map(|()| false),
    }
}

fn one_scenario(arguments: &Arguments) -> Result<Scenario, String> {
    let Some(path) = &arguments.scenario else {
        let (seed, requests) = (arguments.seed.unwrap_or(1), arguments.requests.unwrap_or(10_000));
        return Ok(generate::scenario(seed, requests));
    };
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut scenario = Scenario::from_json(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);
    scenario.requests = arguments.requests.unwrap_or(scenario.requests);
    Ok(scenario)
}

fn run_seeds(arguments: &Arguments) -> Result<bool, String> {
    let (first, requests) = (arguments.seed.unwrap_or(1), arguments.requests.unwrap_or(10_000));
    let summary = play_seeds(first, arguments.seeds, requests);
    show(arguments, &summary.report, summary.worlds);
    for failure in &summary.failures {
        eprintln!("seed {}: {}", failure.scenario.seed, failure.violation);
    }
    if let Some(failure) = summary.failures.first() {
        complain(arguments, &failure.scenario, &failure.violation)?;
    }
    Ok(summary.failures.is_empty())
}

fn show(arguments: &Arguments, report: &Report, worlds: u64) {
    if arguments.json {
        let mut json = report.json();
        if let Some(object) = json.as_object_mut() {
            object.insert("worlds".into(), worlds.into());
        }
        println!("{json:#}");
    } else {
        println!("worlds              {worlds}");
        print!("{}", report.words());
    }
}

/// Shrinks a failing scenario, keeps it, and says how to see it again.
fn complain(arguments: &Arguments, scenario: &Scenario, violation: &Violation) -> Result<(), String> {
    eprintln!("{violation}");
    let (smallest, violation) = shrink(scenario, violation, play);
    let default = if Path::new(CORPUS).is_dir() { CORPUS } else { "." };
    let folder = arguments.keep.clone().unwrap_or_else(|| default.into());
    let path = folder.join(format!("seed-{}.json", smallest.seed));
    let text =
        serde_json::to_string_pretty(&smallest).map_err(|e| format!("cannot write the scenario: {e}"))?;
    std::fs::write(&path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    eprintln!(
        "smallest: {} requests, {} targets, {} faults, {} clients",
        smallest.requests,
        smallest.targets.len(),
        smallest.faults.len(),
        smallest.clients.len()
    );
    eprintln!("{violation}");
    eprintln!(
        "again: cargo run --release -p pointsman-world-sim -- --scenario {} --seed {} --requests {}",
        path.display(),
        smallest.seed,
        smallest.requests
    );
    Ok(())
}
