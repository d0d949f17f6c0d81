//! Seals on thoughts, as a client of this dialect keeps them.
//!
//! Google's own are bytes, which its SDKs read as base64: another provider's seal reaches a client in that form too. When the
//! conversation comes back, it is opened for its origin. Google itself refuses seals that it did not make, so that they are
//! left out of a client's bytes on their way there.

use std::borrow::Cow;

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine};
use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use super::parts::list_or_one;
use crate::dialect::Dialect;
use crate::ir::{Signature, Text};
use crate::json::{self, Members, Span};
use crate::passthrough::spliced;
use crate::translate::{is_foreign, unpack};

/// What stands for the seal of a call that another model made (Gemini API documentation, "Thought signatures").
pub(super) const NO_SEAL: &str = "skip_thought_signature_validator";

/// How a foreign seal begins: `pm1.` in base64.
const FOREIGN: &str = "cG0xL";

/// What stands where nothing but thoughts stood: an empty content is refused.
const NOTHING: &str = "{\"text\":\"(no text)\"}";

/// A seal of another dialect as a client of this one gets it; `None` for one that opens nothing.
pub(super) fn for_client(seal: &str) -> Option<String> {
    let opens = !unpack(Cow::Borrowed(seal), Dialect::Gemini).value.is_empty();
    opens.then(|| STANDARD.encode(seal))
}

/// What a client handed back as a seal; `None` for what only stands for one.
pub(super) fn of_client(seal: Text<'_>) -> Option<Signature<'_>> {
    if seal.is_empty() || seal == NO_SEAL {
        return None;
    }
    match opened(&seal) {
        Some(foreign) => Some(unpack(Cow::Owned(foreign), Dialect::Gemini)),
        None => Some(Signature { dialect: Dialect::Gemini, origin: None, value: seal }),
    }
}

/// A foreign seal without its base64.
fn opened(seal: &str) -> Option<String> {
    let bytes = seal.starts_with(FOREIGN).then(|| from_base64(seal)).flatten()?;
    String::from_utf8(bytes).ok().filter(|text| is_foreign(text))
}

/// The request without foreign seals; the same bytes where there are none.
pub(crate) fn without_foreign(body: Bytes) -> Bytes {
    if memmem::find(&body, format!("\"{FOREIGN}").as_bytes()).is_none() {
        return body;
    }
    let changes = changes(&body).unwrap_or_default();
    if changes.is_empty() { body } else { spliced(&body, &changes) }
}

/// The lists of parts that hold foreign seals, by their place, and what stands there instead.
fn changes(body: &[u8]) -> Option<Vec<(Span, String)>> {
    let mut request = Members::of_body(body).ok()?;
    let mut changes = Vec::new();
    for content in list_or_one(&mut request, "contents").ok()?? {
        let Ok(mut content) = Members::of(content, "") else { continue };
        let Some(whole) = content.take("parts") else { continue };
        let Some(parts) = json::list(whole) else { continue };
        let kept: Vec<Cow<'_, str>> = parts.iter().filter_map(|part| without_seal(part)).collect();
        let same = kept.len() == parts.len() && kept.iter().all(|part| matches!(part, Cow::Borrowed(_)));
        if !same {
            let inside = if kept.is_empty() { NOTHING.to_owned() } else { kept.join(",") };
            changes.push((json::span_of(body, whole)?, format!("[{inside}]")));
        }
    }
    Some(changes)
}

/// A part without its foreign seal; nothing of a thought.
fn without_seal(part: &RawValue) -> Option<Cow<'_, str>> {
    let own = Some(Cow::Borrowed(part.get()));
    let Ok(mut members) = Members::of(part, "").map(Members::camel) else { return own };
    let Some(seal) = members.take("thoughtSignature") else { return own };
    if json::text(seal.get().as_bytes()).is_none_or(|text| opened(&text).is_none()) {
        return own;
    }
    let thought = members.take("thought").is_some_and(|flag| flag.get() == "true");
    if thought {
        return None;
    }
    let Some(at) = json::span_of(part.get().as_bytes(), seal) else { return own };
    let sent = spliced(part.get().as_bytes(), &[(at, format!("\"{NO_SEAL}\""))]);
    Some(String::from_utf8(sent.into()).map_or_else(|_| Cow::Borrowed(part.get()), Cow::Owned))
}

/// Padding may be missing.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Both alphabets of RFC 4648 are read, since SDKs write the one for the other.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    LENIENT.decode(text.replace('-', "+").replace('_', "/")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_in_both_alphabets_and_without_padding() {
        // RFC 4648, section 10.
        for (plain, written) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(from_base64(written).as_deref(), Some(plain.as_bytes()));
            assert_eq!(from_base64(written.trim_end_matches('=')).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(from_base64("_-8="), from_base64("/+8="));
        assert_eq!(from_base64("ä"), None);
    }

    #[test]
    fn a_foreign_seal_goes_through_a_client_as_base64() {
        let given = for_client("pm1.messages.0451.EqQB").unwrap();
        assert_eq!(given, "cG0xLm1lc3NhZ2VzLjA0NTEuRXFRQg==");
        let back = of_client(Cow::Owned(given)).unwrap();
        assert!(back.is_of(Dialect::Messages, "0451") && back.value == "EqQB");
        assert_eq!(for_client("pm1.chat.0451."), None, "what opens nothing is not given out");
    }

    #[test]
    fn what_only_stands_for_a_seal_is_none() {
        assert!(of_client(Cow::Borrowed(NO_SEAL)).is_none());
        assert!(of_client(Cow::Borrowed("")).is_none());
        let own = of_client(Cow::Borrowed("cG0xLnh5eg==")).unwrap();
        assert_eq!((own.dialect, own.origin), (Dialect::Gemini, None), "`pm1.xyz` is no seal of another");
    }

    #[test]
    fn foreign_seals_leave_the_clients_bytes_and_all_else_stays() {
        let foreign = for_client("pm1.messages.0451.EqQB").unwrap();
        let thought = format!(r#"{{"text":"Hm.","thought":true,"thoughtSignature":"{foreign}"}}"#);
        let body = format!(
            r#"{{"contents": [{{"role":"model","parts":[{thought}, {{"text":"x" , "n":1.0}}]}}, {{"parts":[{thought}],"role":"model"}}, {{"role":"model","parts":[{{"functionCall":{{"name":"f"}},"thought_signature":"{foreign}"}}, {{"text":"","thoughtSignature":"AbC="}}]}}], "x": 1.0}}"#
        );
        let expected = body
            .replacen(&format!("{thought}, {{\"text\":\"x\""), "{\"text\":\"x\"", 1)
            .replacen(&thought, NOTHING, 1)
            .replacen(&format!("\"{foreign}\"}}, "), &format!("\"{NO_SEAL}\"}},"), 1);
        assert_eq!(without_foreign(Bytes::from(body)), expected);
    }

    #[test]
    fn a_conversation_without_them_is_the_very_same() {
        for body in [
            r#"{"contents":[{"parts":[{"text":"\"cG0xLm1l"}]}]}"#,
            r#"{"contents":{"parts":[{"text":"cG0xL"}]}}"#,
            "\"cG0xL",
            "",
        ] {
            assert_eq!(without_foreign(Bytes::from(body)), body);
        }
    }
}
