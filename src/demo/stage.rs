//! How the tour is shown: colour and rules on a terminal, plain text when piped.

use std::io::{self, IsTerminal};

use crate::failure::Failure;
use crate::logs::colour_wanted;
use crate::output;

const BOLD: &str = "1";
const DIM: &str = "2";
const GREEN: &str = "32";
const RED: &str = "1;31";
const CYAN: &str = "36";
/// Columns of the text.
const WIDTH: usize = 100;

/// See the module. Counts what it was told to check.
#[derive(Debug)]
pub(crate) struct Stage {
    terminal: bool,
    colour: bool,
    steps: usize,
    checked: usize,
    failed: Vec<String>,
}

impl Stage {
    /// For standard output as it is.
    pub(crate) fn new() -> Self {
        let terminal = io::stdout().is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = terminal && !dumb && colour_wanted();
        Self { terminal, colour, steps: 0, checked: 0, failed: Vec::new() }
    }

    /// The head of the whole tour.
    pub(crate) fn head(&self, text: &str) -> io::Result<()> {
        output::print(&format!("\n{}\n{}\n", self.paint(BOLD, text), self.rule()))
    }

    /// The head of a step, and one sentence about what is going to be shown.
    pub(crate) fn step(&mut self, title: &str, about: &str) -> io::Result<()> {
        self.steps += 1;
        let title = self.paint(BOLD, &format!("{}  {title}", self.steps));
        output::print(&format!("\n{title}\n"))?;
        self.paragraph(about)
    }

    /// Further text.
    pub(crate) fn paragraph(&self, text: &str) -> io::Result<()> {
        let lines = wrapped(text, WIDTH - 3);
        output::print(&lines.iter().map(|l| format!("   {}\n", self.paint(DIM, l))).collect::<String>())
    }

    /// Something that the tour does.
    pub(crate) fn did(&self, what: &str) -> io::Result<()> {
        self.with_margin(if self.terminal { "▸" } else { ">" }, CYAN, what)
    }

    /// Something that a client or an operator sees.
    pub(crate) fn saw(&self, what: &str) -> io::Result<()> {
        self.with_margin(if self.terminal { "│" } else { "|" }, DIM, what)
    }

    /// Something that must hold. What does not is counted.
    pub(crate) fn check(&mut self, holds: bool, what: &str) -> io::Result<()> {
        self.checked += 1;
        let (mark, colour) = match (holds, self.terminal) {
            (true, true) => ("✓", GREEN),
            (true, false) => ("ok", GREEN),
            (false, true) => ("✗", RED),
            (false, false) => ("FAILED", RED),
        };
        if !holds {
            self.failed.push(format!("step {}: {what}", self.steps));
        }
        self.with_margin(mark, colour, what)
    }

    /// A line as it is, to be copied.
    pub(crate) fn verbatim(&self, line: &str) -> io::Result<()> {
        output::line(line)
    }

    /// What came of the tour.
    pub(crate) fn summary(&self) -> io::Result<()> {
        let passed = self.checked.saturating_sub(self.failed.len());
        let text = format!("{} steps, {passed} of {} checks hold", self.steps, self.checked);
        let colour = if self.failed.is_empty() { GREEN } else { RED };
        output::print(&format!("\n{}\n{}\n", self.rule(), self.paint(colour, &text)))?;
        self.failed.iter().try_for_each(|what| output::line(&format!("   {}", self.paint(RED, what))))
    }

    /// Whether each step did what it says.
    ///
    /// # Errors
    /// [`Failure::Failed`] if one did not.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        match self.failed.len() {
            0 => Ok(()),
            1 => Err(Failure::Failed("one check of the tour does not hold".to_owned())),
            many => Err(Failure::Failed(format!("{many} checks of the tour do not hold"))),
        }
    }

    fn with_margin(&self, mark: &str, colour: &str, text: &str) -> io::Result<()> {
        let pad = if self.terminal { 1 } else { 6 };
        let margin = self.paint(colour, &format!("{mark:<pad$}"));
        let mut lines = wrapped(text, WIDTH - 4 - pad).into_iter();
        let first = lines.next().unwrap_or_default();
        let rest: String = lines.map(|line| format!("   {:<pad$} {line}\n", "")).collect();
        output::print(&format!("   {margin} {first}\n{rest}"))
    }

    fn rule(&self) -> String {
        let line = if self.terminal { "─" } else { "-" };
        self.paint(DIM, &line.repeat(WIDTH))
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Breaks a text between words. A word that is longer than a line stands alone.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}
