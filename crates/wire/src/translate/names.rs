//! Names and ids that a dialect does not take as they are.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::unwrap::unwrap;
use crate::ir::{Answer, Block, Opening, Tool, ToolKind};

/// OpenAI and Anthropic take ids of letters, digits, `_` and `-`; OpenAI no more than this many.
const MAX_ID: usize = 64;

/// A tool that is called otherwise in the answer than the client calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Renamed {
    name: String,
    namespace: Option<String>,
    /// The client's tool takes any text; it was sent as a function.
    wrapped: bool,
}

/// What was renamed in one request, so that the answer can be given its names back.
///
/// Both ways are functions of the request's names alone: the same name gets the same substitute in each attempt and each turn, and
/// providers that cache prompts see the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    longest: usize,
    /// A name must begin with a letter or `_`.
    lettered: bool,
    /// The dialect has tools that take any text.
    custom: bool,
    /// Names that several of the client's tools would have, once those of groups are in them.
    alike: BTreeSet<String>,
    /// By the name that was sent.
    renamed: BTreeMap<String, Renamed>,
}

impl Names {
    /// For a dialect that takes names of at most so many bytes.
    pub(crate) fn within(longest: usize) -> Self {
        Self { longest, ..Self::default() }
    }

    /// The same for one whose names begin with a letter or `_`.
    pub(crate) fn lettered(self) -> Self {
        Self { lettered: true, ..self }
    }

    /// The destination has tools that take any text.
    #[must_use]
    pub(crate) fn with_custom_tools(self, custom: bool) -> Self {
        Self { custom, ..self }
    }

    /// Notes the tools that are sent, so that the answer's calls can be told in the client's terms.
    pub(crate) fn learn(&mut self, tools: &[Tool<'_>]) {
        let mut seen = BTreeSet::new();
        for tool in tools {
            let flat = flat(&tool.name, tool.namespace.as_deref());
            if !seen.insert(flat.clone()) {
                self.alike.insert(flat.into_owned());
            }
        }
        for tool in tools {
            let sent = self.sent(&tool.name, tool.namespace.as_deref());
            let wrapped = self.wraps(matches!(tool.kind, ToolKind::Custom { .. }));
            let same = sent == tool.name && !wrapped;
            if !same {
                let renamed = Renamed {
                    name: tool.name.clone().into_owned(),
                    namespace: tool.namespace.clone().map(Cow::into_owned),
                    wrapped,
                };
                let sent = sent.into_owned();
                self.renamed.entry(sent).or_insert(renamed);
            }
        }
    }

    /// Whether a tool, or a call of one, that takes any text must be sent as a function.
    pub(crate) fn wraps(&self, custom: bool) -> bool {
        custom && !self.custom
    }

    /// The name of a tool as it is sent. A dialect without groups of tools has theirs in the name.
    pub(crate) fn sent<'n>(&self, name: &'n str, namespace: Option<&str>) -> Cow<'n, str> {
        let Some(namespace) = namespace else { return self.short(name) };
        let flat = flat(name, Some(namespace));
        if self.alike.contains(flat.as_ref()) {
            return Cow::Owned(self.marked(&flat, &format!("{namespace}\u{0}{name}")));
        }
        Cow::Owned(self.short(&flat).into_owned())
    }

    /// The name of a tool as it is sent, for one that is chosen by it.
    pub(crate) fn chosen<'n>(&self, name: &'n str, tools: &[Tool<'_>]) -> Cow<'n, str> {
        let tool = tools.iter().find(|tool| tool.name == name);
        self.sent(name, tool.and_then(|tool| tool.namespace.as_deref()))
    }

    fn short<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.is_begun(name) && name.len() <= self.longest && name.bytes().all(is_plain) {
            return Cow::Borrowed(name);
        }
        Cow::Owned(self.marked(name, name))
    }

    fn is_begun(&self, name: &str) -> bool {
        let begins = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        !self.lettered || name.bytes().next().is_none_or(begins)
    }

    /// What may stand in a name, with the fingerprint of what it stands for.
    fn marked(&self, name: &str, of: &str) -> String {
        let kept: String =
            name.chars().map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' }).collect();
        let first = if self.is_begun(name) { "" } else { "_" };
        let room = self.longest.saturating_sub(17 + first.len());
        let kept = kept.get(..kept.len().min(room)).unwrap_or_default();
        format!("{first}{kept}_{:016x}", fingerprint(of))
    }

    /// The name of a tool as the client calls it.
    #[must_use]
    pub fn original<'n>(&'n self, name: &'n str) -> &'n str {
        self.renamed(name).map_or(name, |known| known.name.as_str())
    }

    fn renamed(&self, sent: &str) -> Option<&Renamed> {
        self.renamed.get(sent)
    }

    /// Tells a call that begins in the client's terms; whether its arguments must be unwrapped.
    pub(crate) fn restore_opening(&self, opening: &mut Opening) -> bool {
        let Opening::ToolCall { name, namespace, custom, .. } = opening else { return false };
        let Some(known) = self.renamed(name) else { return false };
        name.clone_from(&known.name);
        namespace.clone_from(&known.namespace);
        *custom |= known.wrapped;
        known.wrapped
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
                && let Some(known) = self.renamed(&call.name)
            {
                call.name = Cow::Owned(known.name.clone());
                call.namespace = known.namespace.clone().map(Cow::Owned);
                if known.wrapped {
                    call.custom = true;
                    call.arguments = Cow::Owned(unwrap(&call.arguments));
                }
            }
        }
    }
}

/// The name of a tool with that of its group in it.
fn flat<'n>(name: &'n str, namespace: Option<&str>) -> Cow<'n, str> {
    namespace.map_or(Cow::Borrowed(name), |namespace| Cow::Owned(format!("{namespace}__{name}")))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// FNV-1a (64 bits): a function of the name alone, on every machine.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
