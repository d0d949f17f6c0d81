//! One row of a table, and how it is written.

use super::FailureClass;
use super::evidence::Evidence;

/// All conditions that are not empty must hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// One of these statuses.
    status: &'static [u16],
    /// One of these codes or types, in lower case.
    codes: &'static [&'static str],
    /// One of these phrases in the message, in lower case.
    phrases: &'static [&'static str],
    /// The message begins with one of these, in lower case.
    begins: &'static [&'static str],
    /// A condition of another kind.
    check: Option<fn(&Evidence) -> bool>,
    pub(super) class: FailureClass,
    pub(super) rule: &'static str,
}

impl Row {
    pub(super) fn fits(&self, evidence: &Evidence) -> bool {
        (self.status.is_empty() || evidence.status.is_some_and(|status| self.status.contains(&status)))
            && (self.codes.is_empty() || self.codes.iter().any(|code| evidence.has_code(code)))
            && (self.phrases.is_empty() || self.phrases.iter().any(|phrase| evidence.says(phrase)))
            && (self.begins.is_empty() || self.begins.iter().any(|words| evidence.begins_with(words)))
            && self.check.is_none_or(|check| check(evidence))
    }

    /// Also: one of these statuses.
    pub(super) const fn status(self, status: &'static [u16]) -> Self {
        Self { status, ..self }
    }

    /// Also: one of these phrases.
    pub(super) const fn phrases(self, phrases: &'static [&'static str]) -> Self {
        Self { phrases, ..self }
    }

    /// Also: this condition.
    pub(super) const fn and(self, check: fn(&Evidence) -> bool) -> Self {
        Self { check: Some(check), ..self }
    }
}

/// A row for codes and types.
pub(super) const fn codes(class: FailureClass, rule: &'static str, codes: &'static [&'static str]) -> Row {
    Row { codes, ..any(class, rule) }
}

/// A row for phrases of the message.
pub(super) const fn says(class: FailureClass, rule: &'static str, phrases: &'static [&'static str]) -> Row {
    Row { phrases, ..any(class, rule) }
}

/// A row for the beginning of the message.
pub(super) const fn begins(class: FailureClass, rule: &'static str, begins: &'static [&'static str]) -> Row {
    Row { begins, ..any(class, rule) }
}

/// A row for statuses.
pub(super) const fn status(class: FailureClass, rule: &'static str, status: &'static [u16]) -> Row {
    Row { status, ..any(class, rule) }
}

/// A row without condition.
pub(super) const fn any(class: FailureClass, rule: &'static str) -> Row {
    Row { status: &[], codes: &[], phrases: &[], begins: &[], check: None, class, rule }
}
