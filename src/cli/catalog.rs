//! `pointsman catalog`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::Failure;

mod import;
mod list;
mod litellm;

/// Arguments of `catalog`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Catalog {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the models of the built-in catalog, as without a verb
    List(List),
    /// Turn LiteLLM's price file into the `models` of a configuration, on standard output
    Import(Import),
}

#[derive(Debug, Args)]
struct List {
    /// Only models whose names contain these words
    #[arg(value_name = "SEARCH")]
    search: Vec<String>,
    /// Print the data in place of words
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Import {
    /// LiteLLM's model_prices_and_context_window.json
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only models whose names contain these words
    #[arg(value_name = "SEARCH")]
    search: Vec<String>,
}

impl Catalog {
    /// Lists, or imports.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.verb {
            None => list::run(&self.list.search, self.list.json),
            Some(Verb::List(list)) => list::run(&list.search, list.json),
            Some(Verb::Import(import)) => import::run(&import.file, &import.search),
        }
    }
}

/// Whether a name contains all words of a search, in whatever case.
fn matches(name: &str, search: &[String]) -> bool {
    let name = name.to_lowercase();
    search.iter().all(|word| name.contains(&word.to_lowercase()))
}

/// Millionths of a US dollar as US dollars, without zeros that say nothing.
fn usd(micro: u64) -> String {
    let decimals = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
    decimals.trim_end_matches('0').trim_end_matches('.').to_owned()
}
