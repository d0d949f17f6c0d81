//! What a provider's model thought, on its way through a client of another dialect.
//!
//! A seal (Anthropic's signature, OpenAI's encrypted reasoning, Gemini's thought signature) is of use only to the target that
//! made it. The client gets it in the place that its own dialect has for such, in a form that is never taken for one of that
//! dialect's own: `pm1.DIALECT.ORIGIN.SEAL`. When the conversation comes back, it is opened for its origin and left out for
//! everyone else.

use std::borrow::Cow;

use memchr::memmem;

use super::fingerprint;
use crate::dialect::Dialect;
use crate::ir::{Signature, Text};

const MARK: &str = "pm1.";

/// How a target is named in seals: by a fingerprint, since clients need not know what it is called.
#[must_use]
pub fn origin(target: &str) -> String {
    format!("{:016x}", fingerprint(target))
}

/// A seal as a client of another dialect gets it. An empty one says only that the thoughts are another's.
pub(crate) fn pack(dialect: Dialect, origin: &str, seal: &str) -> String {
    format!("{MARK}{}.{origin}.{seal}", dialect.name())
}

/// What a client handed back in the place of a seal of its own dialect.
pub(crate) fn unpack(text: Text<'_>, own: Dialect) -> Signature<'_> {
    let parts = text.strip_prefix(MARK).and_then(|rest| {
        let (name, rest) = rest.split_once('.')?;
        let (origin, seal) = rest.split_once('.')?;
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)?;
        Some((dialect, origin.to_owned(), seal.to_owned()))
    });
    match parts {
        Some((dialect, origin, seal)) => {
            Signature { dialect, origin: Some(Cow::Owned(origin)), value: Cow::Owned(seal) }
        }
        None => Signature { dialect: own, origin: None, value: text },
    }
}

/// Whether a body may hold a seal that came from another dialect: without a look at its structure.
pub(crate) fn may_hold_foreign(body: &[u8]) -> bool {
    memmem::find(body, b"\"pm1.").is_some()
}

/// Whether a text in the place of a seal is one of another dialect.
pub(crate) fn is_foreign(text: &str) -> bool {
    text.starts_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_comes_back_to_its_origin_alone() {
        let (here, there) = (origin("claude-eu"), origin("claude-us"));
        let packed = pack(Dialect::Messages, &here, "EqQB.x/+=");
        let back = unpack(Cow::Borrowed(&packed), Dialect::Chat);
        assert_eq!(back.value, "EqQB.x/+=");
        assert!(back.is_of(Dialect::Messages, &here));
        assert!(!back.is_of(Dialect::Messages, &there));
        assert!(!back.is_of(Dialect::Chat, &here));
    }

    #[test]
    fn a_seal_of_the_clients_own_dialect_has_no_origin() {
        let own = unpack(Cow::Borrowed("EqQB"), Dialect::Messages);
        assert_eq!(
            (own.dialect, own.origin.as_deref(), own.value.as_ref()),
            (Dialect::Messages, None, "EqQB")
        );
    }

    #[test]
    fn an_empty_seal_opens_nothing() {
        let here = origin("a");
        let packed = pack(Dialect::Chat, &here, "");
        assert!(
            is_foreign(&packed) && may_hold_foreign(format!("{{\"signature\":\"{packed}\"}}").as_bytes())
        );
        assert!(!unpack(Cow::Owned(packed), Dialect::Messages).is_of(Dialect::Chat, &here));
    }

    #[test]
    fn what_only_begins_like_a_seal_is_the_dialects_own() {
        for text in ["pm1.", "pm1.chat", "pm1.nobody.x.y", "pm1.chat.0"] {
            assert_eq!(unpack(Cow::Borrowed(text), Dialect::Messages).origin, None, "{text}");
        }
    }
}
