//! Names and ids that a dialect does not take as they are.

use std::borrow::Cow;

use crate::ir::{Answer, Block};

/// OpenAI and Anthropic take ids of letters, digits, `_` and `-`; OpenAI no more than this many.
const MAX_ID: usize = 64;

/// What was renamed in one request, so that the answer can be given its names back.
///
/// Both ways are functions of the name alone: the same name gets the same substitute in each attempt and each turn, and
/// providers that cache prompts see the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    longest: usize,
    renamed: Vec<(String, String)>,
}

impl Names {
    /// For a dialect that takes names of at most so many bytes.
    pub(crate) fn within(longest: usize) -> Self {
        Self { longest, renamed: Vec::new() }
    }

    /// Notes the name of a tool, so that [`Names::original`] knows it.
    pub(crate) fn learn(&mut self, name: &str) {
        let short = self.short(name);
        if short != name && self.renamed.iter().all(|(known, _)| *known != short) {
            self.renamed.push((short.into_owned(), name.to_owned()));
        }
    }

    /// The name of a tool as it is sent.
    pub(crate) fn short<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if name.len() <= self.longest && name.bytes().all(is_plain) {
            return Cow::Borrowed(name);
        }
        let kept: String =
            name.chars().map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' }).collect();
        let kept = kept.get(..kept.len().min(self.longest.saturating_sub(17))).unwrap_or_default();
        Cow::Owned(format!("{kept}_{:016x}", fingerprint(name)))
    }

    /// The name of a tool as the client calls it.
    #[must_use]
    pub fn original<'n>(&'n self, name: &'n str) -> &'n str {
        self.renamed.iter().find(|(short, _)| short == name).map_or(name, |(_, original)| original)
    }

    /// The id of a tool call as it is sent. An id is never cut: two long ones may begin alike.
    pub(crate) fn id<'n>(&self, id: &'n str) -> Cow<'n, str> {
        if !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(is_plain) {
            return Cow::Borrowed(id);
        }
        Cow::Owned(format!("call_{:016x}{:016x}", fingerprint(id), fingerprint(&format!("{id}#"))))
    }

    /// Who asks: a short name as it is; a long one, of which providers take no more, by its fingerprint.
    pub(crate) fn user<'n>(&self, user: &'n str) -> Cow<'n, str> {
        if user.len() <= MAX_ID {
            return Cow::Borrowed(user);
        }
        Cow::Owned(format!("user_{:016x}{:016x}", fingerprint(user), fingerprint(&format!("{user}#"))))
    }

    /// Gives an answer the client's names.
    pub(crate) fn restore(&self, answer: &mut Answer<'_>) {
        for block in &mut answer.blocks {
            if let Block::ToolCall(call) = block
                && let original = self.original(&call.name)
                && original != call.name
            {
                call.name = Cow::Owned(original.to_owned());
            }
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// FNV-1a (64 bits): a function of the name alone, on every machine.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
