//! Thoughts of another dialect's models in a conversation that goes to a provider of this one.
//!
//! A client keeps them in the form that [`crate::translate`] gave them. A provider that checks signatures refuses a conversation
//! with a foreign one (Anthropic documentation, "Extended thinking": thinking blocks go back unmodified), so that they are left
//! out of the client's bytes; everything else stays where it is.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::json::{self, Members, Span};
use crate::passthrough::spliced;
use crate::translate::{is_foreign, may_hold_foreign};

/// What stands where nothing but thoughts stood: an empty message is refused.
const NOTHING: &str = "{\"type\":\"text\",\"text\":\"(no text)\"}";

/// The request without foreign thoughts; the same bytes where there are none.
pub(crate) fn without_foreign(body: Bytes) -> Bytes {
    if !may_hold_foreign(&body) {
        return body;
    }
    let changes = changes(&body).unwrap_or_default();
    if changes.is_empty() {
        return body;
    }
    spliced(&body, &changes)
}

/// The contents that hold foreign thoughts, by their place, and what stands there instead.
fn changes(body: &[u8]) -> Option<Vec<(Span, String)>> {
    let mut request = Members::of_body(body).ok()?;
    let messages = json::list(request.take("messages")?)?;
    let mut changes = Vec::new();
    // Whether the model's last turn called tools and has lost its thoughts.
    let mut bare = false;
    for message in messages {
        let Ok(mut message) = Members::of(message, "") else { continue };
        let speaks = message.take_text("role").ok().flatten().is_some_and(|role| role == "assistant");
        let blocks = message.take("content").and_then(|content| Some((content, json::list(content)?)));
        let Some((content, blocks)) = blocks else {
            bare &= !speaks;
            continue;
        };
        let kept: Vec<&RawValue> =
            blocks.iter().filter(|block| !is_foreign_thought(block)).copied().collect();
        let lost = kept.len() < blocks.len();
        if speaks {
            bare = lost
                && kept.iter().any(|block| is(block, "tool_use"))
                && !kept.iter().any(|block| is(block, "thinking"));
        }
        if lost {
            let texts: Vec<&str> = kept.iter().map(|block| block.get()).collect();
            let inside = if texts.is_empty() { NOTHING.to_owned() } else { texts.join(",") };
            changes.push((json::span_of(body, content)?, format!("[{inside}]")));
        }
    }
    // Models that think by a budget want the thoughts of the calls whose results they get ("Extended thinking with tool
    // use"): this round goes on without.
    let thinking = request.take("thinking").filter(|thinking| bare && is(thinking, "enabled"));
    if let Some(thinking) = thinking {
        changes.push((json::span_of(body, thinking)?, "{\"type\":\"disabled\"}".to_owned()));
        changes.sort_by_key(|(span, _)| span.start);
    }
    Some(changes)
}

fn is(value: &RawValue, kind: &str) -> bool {
    let Ok(mut value) = Members::of(value, "") else { return false };
    value.take_text("type").ok().flatten().is_some_and(|word| word == kind)
}

fn is_foreign_thought(block: &RawValue) -> bool {
    let Ok(mut block) = Members::of(block, "") else { return false };
    let thinks = block.take_text("type").ok().flatten().is_some_and(|kind| kind == "thinking");
    thinks && block.take_text("signature").ok().flatten().is_some_and(|seal| is_foreign(&seal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_thoughts_go_and_every_other_byte_stays() {
        let body = r#"{"model": "m", "messages": [ {"role":"user","content":"\"pm1.\""}, {"role":"assistant", "content": [{"type":"thinking","thinking":"Hm.","signature":"pm1.chat.0011.AB"}, {"type":"text","text":"x" } ] }, {"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"EqQB"}]} ], "max_tokens": 1.0}"#;
        let sent = without_foreign(Bytes::from(body));
        let expected = body
            .replace(r#"[{"type":"thinking","thinking":"Hm.","signature":"pm1.chat.0011.AB"}, {"type":"text","text":"x" } ]"#, r#"[{"type":"text","text":"x" }]"#);
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_message_of_nothing_but_foreign_thoughts_keeps_its_place() {
        let body = r#"{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"pm1.chat.0."}]}]}"#;
        let sent = without_foreign(Bytes::from(body));
        assert_eq!(
            sent,
            r#"{"messages":[{"role":"assistant","content":[{"type":"text","text":"(no text)"}]}]}"#
        );
    }

    #[test]
    fn a_round_that_lost_its_thoughts_goes_on_without_thinking() {
        let thought = r#"{"type":"thinking","thinking":"Hm.","signature":"pm1.chat.0."},"#;
        let body = r#"{"messages":[{"role":"assistant","content":[THOUGHT{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[]}],"thinking":{"type":"enabled","budget_tokens":2000},"model":"m"}"#;
        let expected = body
            .replace("THOUGHT", "")
            .replace(r#"{"type":"enabled","budget_tokens":2000}"#, r#"{"type":"disabled"}"#);
        assert_eq!(without_foreign(Bytes::from(body.replace("THOUGHT", thought))), expected);
        // A model that decides itself needs none of it, and thoughts of its own are enough.
        let adaptive = body.replace("enabled", "adaptive");
        let expected = adaptive.replace("THOUGHT", "");
        assert_eq!(without_foreign(Bytes::from(adaptive.replace("THOUGHT", thought))), expected);
        let own = r#"{"type":"thinking","thinking":"","signature":"EqQB"},"#;
        let both = body.replace("THOUGHT", &format!("{thought}{own}"));
        assert_eq!(without_foreign(Bytes::from(both)), body.replace("THOUGHT", own));
    }

    #[test]
    fn a_conversation_without_them_is_the_very_same() {
        for body in [
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"\"pm1.chat.0.\""}]}]}"#,
            "[]",
            "{\"pm1.\"",
            "",
        ] {
            assert_eq!(without_foreign(Bytes::from(body)), body);
        }
    }
}
