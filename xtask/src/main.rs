//! The task runner, called as `cargo xtask <verb>`.
//!
//! One verb per thing that a contributor or the gate does, so that both do the same:
//!
//! - `test [--fast] [FILTER]`: every test there is; brings up what it needs ([`mod@test`]).
//! - `tidy`: the rules that no compiler checks ([`tidy`]).
//! - `bench [--quick] [--json FILE]`: what the gateway costs, beside a direct connection and nginx ([`mod@bench`]).
//! - `soak [--seconds N] [--json FILE]`: full load and mixed faults for minutes ([`mod@soak`]).
//! - `fuzz [--seconds N] [TARGET]`: the fuzz targets, each for some seconds ([`mod@fuzz`]).
//! - `deny`: licences, sources and banned crates ([`policy`]).
//! - `ci`: the gate, `.ci/run`.

mod apt;
mod bench;
mod fuzz;
mod node;
mod outcome;
mod policy;
mod process;
mod python;
mod soak;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask <verb>

  test [--fast] [FILTER]  run every test: tidy, the workspace, doc tests, the client SDK suites
                          --fast leaves out doc tests and SDK suites; FILTER keeps tests whose name contains it
  tidy                    check the rules that no compiler checks
  bench [--quick] [--json FILE]
                          measure what the gateway costs, beside a direct connection and nginx
  soak [--seconds N] [--json FILE]
                          load the gateway for N seconds (600) while its providers fail in every way
  fuzz [--seconds N] [TARGET]
                          run the fuzz targets, or one, each for N seconds (20)
  deny                    check licences, sources and banned crates
  ci                      run the gate, .ci/run";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one verb; `false` means that it ran and found something wrong.
fn run(arguments: &[String]) -> Result<bool> {
    let root = workspace_root()?;
    let Some((verb, rest)) = arguments.split_first() else {
        println!("{USAGE}");
        return Ok(true);
    };
    match verb.as_str() {
        "test" => test::run(&root, &test::Options::parse(rest)?),
        "tidy" => alone(rest).and_then(|()| tidy::run(&root)),
        "bench" => bench::run(&root, rest),
        "soak" => soak::run(&root, rest),
        "fuzz" => fuzz::run(&root, rest),
        "deny" => alone(rest).and_then(|()| policy::run(&root)),
        "ci" => alone(rest).and_then(|()| gate(&root)),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(true)
        }
        unknown => bail!("there is no verb `{unknown}`\n\n{USAGE}"),
    }
}

fn alone(rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => bail!("`{extra}` is one argument too many\n\n{USAGE}"),
    }
}

/// The gate is a shell script, so that a machine that has built nothing yet can run it; here it is only called.
fn gate(root: &Path) -> Result<bool> {
    let status =
        Command::new(root.join(".ci/run")).current_dir(root).status().context(".ci/run did not start")?;
    Ok(status.success())
}

fn workspace_root() -> Result<PathBuf> {
    // `cargo run` says where the checkout is; what was compiled in may be the place of another one that shares the
    // target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map(Path::to_path_buf).context("xtask must lie one folder below the workspace root")
}
