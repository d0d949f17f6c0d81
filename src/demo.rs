//! `pointsman demo`: the tour.

use clap::Args;

use crate::failure::Failure;

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Leave after the tour; exit code 0 only if each step did what it says
    #[arg(long)]
    once: bool,
}

impl Demo {
    /// Shows the product.
    pub(crate) fn run(self) -> Result<(), Failure> {
        Err(Failure::Usage(format!("`demo` is not built yet (once: {})", self.once)))
    }
}
