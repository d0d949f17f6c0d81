//! The records of the ledger.

use pointsman_core::time::Instant;
use pointsman_core::trace::Decision;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// One request from its acceptance to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestEntry {
    /// The id that the client was given as `x-request-id`.
    pub id: String,
    /// The id that the client brought along, if it was sane.
    pub correlation_id: Option<String>,
    /// When it was accepted, in milliseconds of Unix time.
    pub at_unix_ms: i64,
    /// The name of the gateway key that it used.
    pub key: Option<String>,
    /// The client's wire format.
    pub dialect: &'static str,
    /// The endpoint (`embeddings`, …) where it was not a conversation.
    pub endpoint: Option<&'static str>,
    /// What the client asked for.
    pub requested: String,
    /// The route as `name@version`, where it was one.
    pub route: Option<String>,
    /// Whether the client wanted a stream.
    pub stream: bool,
    /// How it ended.
    pub terminal: &'static str,
    /// What the end was put down to.
    pub cause: &'static str,
    /// The status that the client got.
    pub status: u16,
    /// What brought the last attempt about.
    pub action: Option<&'static str>,
    /// The target that answered.
    pub target: Option<String>,
    /// The logical model that answered.
    pub model: Option<String>,
    /// Another model than the requested one answered.
    pub substituted: bool,
    /// The provider answered with another model than it was asked for: its own name for it.
    pub model_mismatch: Option<String>,
    /// The response was opened by a heartbeat before it was known who answers.
    pub early: bool,
    /// From acceptance to the end, in milliseconds.
    pub duration_ms: u64,
    /// From acceptance to the first output, in milliseconds.
    pub first_token_ms: Option<u64>,
    /// Token counts of the answer.
    pub usage: Option<UsageEntry>,
    /// What the answer cost by the prices that are known, in millionths of a US dollar; unknown is not zero.
    pub cost_micro_usd: Option<u64>,
    /// Stream events that were dropped because they could not be read.
    pub malformed_events: u64,
    /// All attempts in their order.
    pub attempts: Vec<AttemptEntry>,
    /// Every decision, and why.
    pub trace: Vec<TraceEntry>,
}

/// One call to one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttemptEntry {
    /// 1 for the first.
    pub number: usize,
    /// Which target.
    pub target: String,
    /// The logical model.
    pub model: String,
    /// What the provider calls it.
    pub upstream_model: String,
    /// What brought it about.
    pub action: &'static str,
    /// How it came out: `succeeded`, `failed` or `unknown`.
    pub outcome: &'static str,
    /// The failure kind.
    pub failure: Option<&'static str>,
    /// Which row of the classification decided, or what the transport met, in words.
    pub detail: Option<String>,
    /// The provider's status.
    pub status: Option<u16>,
    /// How far it got.
    pub phase: &'static str,
    /// From the request's acceptance to its start, in milliseconds.
    pub start_ms: u64,
    /// From its start to its end, in milliseconds.
    pub duration_ms: u64,
    /// The provider's own id for it.
    pub upstream_request_id: Option<String>,
    /// A reused connection was lost before the first byte of an answer, and the call was repeated on a fresh one.
    pub stale_replaced: bool,
    /// An upper estimate of its cost in millionths of a US dollar; `None` where the price is unknown.
    pub cost_estimate_micro_usd: Option<u64>,
}

/// One decision. It is put in words when it is read: few are.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEntry {
    /// From the request's acceptance, in milliseconds.
    pub at_ms: u64,
    /// The rule that decided.
    pub rule: &'static str,
    /// What was decided.
    pub decision: Decision,
    /// The target that it is about, where it is about one.
    pub target: Option<String>,
    /// What the decision's own moments are counted from.
    pub request_began: Instant,
}

impl TraceEntry {
    /// The decision in words.
    pub fn words(&self) -> String {
        self.decision.words(&|_| self.target.clone().unwrap_or_default(), self.request_began)
    }
}

impl Serialize for TraceEntry {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut entry = to.serialize_struct("TraceEntry", 3)?;
        entry.serialize_field("at_ms", &self.at_ms)?;
        entry.serialize_field("rule", self.rule)?;
        entry.serialize_field("words", &self.words())?;
        entry.end()
    }
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageEntry {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_tokens: u64,
    /// Of these, written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Of these, reasoning.
    pub reasoning_tokens: u64,
    /// The provider told none: these are the gateway's own estimate.
    pub estimated: bool,
}

#[cfg(test)]
mod tests {
    use pointsman_core::kind::Action;
    use pointsman_core::trace::Rule;

    use super::*;

    #[test]
    fn a_decision_is_read_in_words() {
        let entry = TraceEntry {
            at_ms: 3,
            rule: "plan",
            decision: Decision::Attempt { candidate: 7, action: Action::Primary, rule: Rule::Plan },
            target: Some("openai-us".to_owned()),
            request_began: Instant::ZERO,
        };
        let read = serde_json::to_value(&entry).unwrap();
        let words = "primary on openai-us: the first candidate in order that takes calls";
        assert_eq!(read, serde_json::json!({ "at_ms": 3, "rule": "plan", "words": words }));
    }
}
