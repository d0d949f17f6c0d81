//! File and environment to one resolved configuration.
//!
//! Text → a tree of values that know their place (`tree`) → `${NAME}` filled in (`interpolate`) → sections read key by
//! key, against the one list of all keys (`grammar`, `reader`) → what spans sections (`resolve`) → [`Config`]. Strict:
//! whatever is unknown, dangling, doubled, of the wrong type or not built yet is an error that names file, line and
//! column; and all of them come in one report.

mod aws;
mod base_url;
pub mod catalog;
mod config;
mod contract;
mod environment;
mod govern;
mod grammar;
mod interpolate;
mod layer;
mod names;
mod nearest;
mod problem;
mod provider;
mod quantity;
mod reader;
mod resolve;
mod schema;
mod secret;
mod sections;
mod target;
mod tree;
mod variables;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use config::{
    AdminConfig, Auth, AwsCredential, AwsSource, Azure, Config, Credential, Drain, Expose, HttpPreference,
    Key, LogFormat, Runtime, ServerConfig, Source, Telemetry, Upstream,
};
pub use environment::{NoTargets, from_environment};
pub use nearest::nearest;
pub use problem::{Problem, Problems};
pub use schema::schema;
pub use variables::{ProcessEnv, Vars};

/// The largest file that is read, in bytes; a thousand targets take a few hundred thousand.
const MAX_FILE: usize = 4 << 20;

/// A valid configuration, and what is doubtful about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What should be looked at but stops nothing.
    pub warnings: Vec<Problem>,
}

/// Reads and resolves a file. Reads the secret files that it names too, and nothing else.
///
/// # Errors
/// Everything that is wrong with the file, at once.
pub fn load(path: &Path, vars: &dyn Vars) -> Result<Loaded, Problems> {
    let name = path.display().to_string();
    let unreadable =
        |line, column, message: String| Problems(vec![Problem { file: name.clone(), line, column, message }]);
    let bytes = read(path).map_err(|error| unreadable(0, 0, format!("cannot be read: {error}")))?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, &name, vars),
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let valid = String::from_utf8_lossy(valid);
            let line = valid.matches('\n').count() + 1;
            let column = valid.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            Err(unreadable(line, column, "not UTF-8 text".to_owned()))
        }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Resolves the text of a file; `file_name` is what errors and [`Source::File`] call it.
///
/// # Errors
/// Everything that is wrong with the text, at once.
pub fn parse(text: &str, file_name: &str, vars: &dyn Vars) -> Result<Loaded, Problems> {
    let mut report = problem::Report::new(file_name);
    let config = resolve_text(text, file_name, vars, &mut report);
    report.finish(config).map(|(config, warnings)| Loaded { config, warnings })
}

fn resolve_text(
    text: &str,
    file_name: &str,
    vars: &dyn Vars,
    report: &mut problem::Report,
) -> Option<Config> {
    if text.len() > MAX_FILE {
        report.error(problem::Mark::default(), format!("larger than {MAX_FILE} bytes"));
        return None;
    }
    let mut root = tree::read(text.strip_prefix('\u{feff}').unwrap_or(text), report)?;
    interpolate::fill(&mut root, vars, report);
    resolve::file(&root, file_name, report)
}

/// The file to load: `--config`, else `$POINTSMAN_CONFIG`, else `pointsman.yaml` in the working directory if it is there.
/// Whether a file that was named exists is for [`load`] to say.
pub fn find(explicit: Option<&Path>, vars: &dyn Vars, cwd: &Path) -> Option<PathBuf> {
    if let Some(path) = explicit {
        return Some(path.to_owned());
    }
    if let Some(path) = vars.get("POINTSMAN_CONFIG").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path));
    }
    let default = cwd.join("pointsman.yaml");
    default.is_file().then_some(default)
}
