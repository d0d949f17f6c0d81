//! What is wrong with a configuration, and where.

use std::fmt;

/// A place in the file, both counted from 1; line 0 is "no place in particular".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// One thing that is wrong, or doubtful. Its message never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file as it was named, or `environment`.
    pub file: String,
    /// Counted from 1; 0 where there is no line to point at.
    pub line: usize,
    /// Counted from 1, in characters; 0 where there is no line to point at.
    pub column: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message),
        }
    }
}

/// Everything that is wrong with a file, in the order of the file. Displays one problem a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Collects errors and warnings while a configuration is read.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    /// Errors beyond the most that are kept.
    more: usize,
}

/// Nobody reads further; a file of garbage stays a short report.
const MOST_ERRORS: usize = 500;

impl Report {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), errors: Vec::new(), warnings: Vec::new(), more: 0 }
    }

    pub(crate) fn error(&mut self, at: Mark, message: impl Into<String>) {
        if self.is_full() {
            self.more += 1;
            return;
        }
        let problem = self.problem(at, message.into());
        self.errors.push(problem);
    }

    /// Whether further errors are only counted, so that their text need not be worked out.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= MOST_ERRORS
    }

    /// The warnings so far.
    pub(crate) fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    pub(crate) fn warn(&mut self, at: Mark, message: impl Into<String>) {
        let problem = self.problem(at, message.into());
        self.warnings.push(problem);
    }

    fn problem(&self, at: Mark, message: String) -> Problem {
        Problem { file: self.file.clone(), line: at.line, column: at.column, message }
    }

    /// The value if nothing was wrong, with the warnings; else every error in the order of the file.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<(T, Vec<Problem>), Problems> {
        self.errors.sort_by_key(|p| (p.line, p.column));
        self.errors.dedup();
        if self.more > 0
            && let Some(last) = self.errors.last()
        {
            let message = format!("{} more errors are not shown", self.more);
            self.errors.push(Problem { message, ..last.clone() });
        }
        self.warnings.sort_by_key(|p| (p.line, p.column));
        match value {
            Some(value) if self.errors.is_empty() => Ok((value, self.warnings)),
            _ => Err(Problems(self.errors)),
        }
    }
}
