//! File and environment to one resolved configuration.
//!
//! Text → a tree of values that know their place → `${NAME}` filled in → sections read key by key → [`Config`]. Strict:
//! whatever is unknown, dangling, doubled, of the wrong type or not built yet is an error that names file, line and
//! column; and all of them come in one report.

mod config;
mod nearest;
mod problem;
mod variables;

use std::path::{Path, PathBuf};

pub use config::{
    AdminConfig, Auth, Azure, Config, Credential, Drain, Expose, HttpPreference, Key, LogFormat, Runtime,
    ServerConfig, Source, Telemetry, Upstream,
};
pub use nearest::nearest;
pub use problem::{Problem, Problems};
pub use variables::{ProcessEnv, Vars};

/// A valid configuration, and what is doubtful about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What should be looked at but stops nothing.
    pub warnings: Vec<Problem>,
}

/// The environment alone gives nothing to serve. Displays how to go on, in three lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no targets")]
pub struct NoTargets;

/// Reads and resolves a file.
///
/// # Errors
/// Everything that is wrong with the file, at once.
pub fn load(path: &Path, vars: &dyn Vars) -> Result<Loaded, Problems> {
    parse("", &path.display().to_string(), vars)
}

/// Resolves the text of a file; `file_name` is what errors call it.
///
/// # Errors
/// Everything that is wrong with the text, at once.
pub fn parse(_text: &str, file_name: &str, _vars: &dyn Vars) -> Result<Loaded, Problems> {
    let mut report = problem::Report::new(file_name);
    report.error(problem::Mark::default(), "not read yet");
    report.finish(None).map(|(config, warnings)| Loaded { config, warnings })
}

/// Targets from the environment alone, as wildcard targets such as `openai/*`.
///
/// # Errors
/// [`NoTargets`] if no variable names a provider.
pub fn from_environment(_vars: &dyn Vars) -> Result<Loaded, NoTargets> {
    Err(NoTargets)
}

/// The file to load: `--config`, else `$POINTSMAN_CONFIG`, else `pointsman.yaml` in the working directory if it is there.
pub fn find(explicit: Option<&Path>, vars: &dyn Vars, cwd: &Path) -> Option<PathBuf> {
    if let Some(path) = explicit {
        return Some(path.to_owned());
    }
    if let Some(path) = vars.get("POINTSMAN_CONFIG").filter(|p| !p.is_empty()) {
        return Some(PathBuf::from(path));
    }
    let default = cwd.join("pointsman.yaml");
    default.is_file().then_some(default)
}

/// The JSON Schema of the file, for editors.
pub fn schema() -> serde_json::Value {
    serde_json::Value::Bool(true)
}
