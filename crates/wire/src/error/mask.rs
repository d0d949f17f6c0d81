//! Credentials that a provider quotes in its messages.

use std::borrow::Cow;

/// How a known kind of key begins, and how many characters must follow for it to be one.
const KEYS: &[(&str, usize)] = &[
    ("sk-", 8),
    ("sk_", 16),
    ("pk-", 16),
    ("gsk_", 8),
    ("xai-", 8),
    ("AIza", 20),
    ("hf_", 16),
    ("pplx-", 16),
    ("r8_", 16),
    ("nvapi-", 16),
    ("AKIA", 16),
    ("ASIA", 16),
    ("ya29.", 16),
    ("eyJ", 24),
];

/// Words after which a credential stands, with the separators that may come between.
const LABELS: &[&str] = &[
    "bearer",
    "basic",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "api_key",
    "apikey",
    "api key provided",
    "subscription-key",
    "access_token",
    "client_secret",
    "password",
    "secret",
    "token",
    "key",
];

/// The shortest word after a label that is taken for a credential, in characters.
const SHORTEST: usize = 8;

const MASK: &str = "***";

/// `text` with everything that looks like a credential masked: keys by their known beginnings (`sk-…`, `AIza…`)
/// and whatever follows `Bearer`, `api-key:`, `key=` and the like.
#[must_use]
pub fn mask_credentials(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let at_word =
            text.get(..at).and_then(|before| before.chars().next_back()).is_none_or(|c| !is_key_char(c));
        if let Some((keep, cut)) = at_word.then(|| credential(rest)).flatten() {
            out.push_str(text.get(copied..at + keep).unwrap_or_default());
            out.push_str(MASK);
            at += keep + cut;
            copied = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// If a credential begins at the start of `rest`: how many bytes before it to keep, and how many to mask.
fn credential(rest: &str) -> Option<(usize, usize)> {
    for (prefix, least) in KEYS {
        let Some(tail) = rest.strip_prefix(prefix) else { continue };
        let length = word_length(tail);
        if length >= *least {
            return Some((prefix.len(), length));
        }
    }
    LABELS.iter().find_map(|label| labelled(rest, label))
}

fn labelled(rest: &str, label: &str) -> Option<(usize, usize)> {
    let head = rest.get(..label.len())?;
    if !head.eq_ignore_ascii_case(label) {
        return None;
    }
    let tail = rest.get(label.len()..)?;
    let word = tail.trim_start_matches([' ', ':', '=', '"', '\'']);
    if KEYS.iter().any(|(prefix, _)| word.starts_with(prefix)) {
        // Masked when the key itself is reached, which keeps its beginning.
        return None;
    }
    let gap = tail.len() - word.len();
    let length = word_length(word);
    let separated = tail.get(..gap)?.contains([':', '=']);
    // "Bearer abc" needs no colon, "the key question" does; what holds a digit or mask is no common word.
    let plain = word.get(..length)?.chars().all(|c| c.is_ascii_alphabetic());
    let certain = separated || (matches!(label, "bearer" | "basic") && gap > 0);
    (certain && length >= SHORTEST && !(plain && length < 20)).then_some((label.len() + gap, length))
}

/// The length of the credential at the start of `text`; a full stop after it is the sentence's.
fn word_length(text: &str) -> usize {
    let end = text.find(|c: char| !is_key_char(c) && !matches!(c, '.' | '*' | '+' | '/' | '~' | '='));
    text.get(..end.unwrap_or(text.len())).unwrap_or_default().trim_end_matches('.').len()
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}
