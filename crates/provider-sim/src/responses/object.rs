//! The response object: what it repeats of the request, and how it reports usage.

use serde_json::{Map, Value, json};

use crate::answer::Voice;
use crate::prompt::Prompt;
use crate::request::Ask;
use crate::script::{Script, UsageShape};

/// The parts of a response object that stay the same throughout an answer.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    fields: Map<String, Value>,
    created_at: u64,
    usage: UsageShape,
    prompt: Prompt,
}

/// Where an answer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status<'a> {
    InProgress,
    Completed,
    /// With the reason.
    Incomplete(&'a str),
    Failed,
}

impl Status<'_> {
    fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// So many tokens of output, and of these so many of reasoning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) output: usize,
    pub(super) reasoning: usize,
}

impl Frame {
    pub(super) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        // A fixed epoch keeps answers the same from run to run.
        let created_at = 1_700_000_000 + voice.call;
        let asked = ask.model.clone().unwrap_or_default();
        let own = json!({
            "id": format!("resp_sim_{}", voice.call), "object": "response", "created_at": created_at,
            "model": script.answer.model.as_ref().unwrap_or(&asked), "background": false,
            "service_tier": "default",
        });
        let mut fields = own.as_object().cloned().unwrap_or_default();
        for (key, default) in repeated().as_object().into_iter().flatten() {
            let asked = ask.request.get(key).filter(|value| !value.is_null()).cloned();
            fields.insert(key.clone(), asked.unwrap_or_else(|| default.clone()));
        }
        let usage = script.answer.usage;
        Self { fields, created_at, usage, prompt: Prompt::new(&script.answer, ask) }
    }

    /// The whole object.
    pub(super) fn object(&self, status: Status<'_>, output: Vec<Value>, error: Value, spent: Spent) -> Value {
        let mut object = self.fields.clone();
        let incomplete = match status {
            Status::Incomplete(reason) => json!({ "reason": reason }),
            _ => Value::Null,
        };
        let completed_at = if status == Status::Completed { json!(self.created_at + 1) } else { Value::Null };
        for (key, value) in [
            ("status", json!(status.word())),
            ("output", Value::Array(output)),
            ("error", error),
            ("incomplete_details", incomplete),
            ("completed_at", completed_at),
        ] {
            object.insert(key.to_owned(), value);
        }
        if let Some(usage) = self.usage(status, spent) {
            object.insert("usage".to_owned(), usage);
        }
        Value::Object(object)
    }

    fn usage(&self, status: Status<'_>, spent: Spent) -> Option<Value> {
        let open = matches!(status, Status::InProgress | Status::Failed);
        match self.usage {
            UsageShape::Missing => None,
            UsageShape::Null => Some(Value::Null),
            UsageShape::EveryChunk => Some(self.counts(spent)),
            UsageShape::WithZeroes if open => {
                Some(json!({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}))
            }
            _ if open => Some(Value::Null),
            // Other servers of Responses leave the details out.
            UsageShape::OnFinishChunk | UsageShape::Groq | UsageShape::DeepSeek => {
                let mut usage = self.counts(spent);
                if let Some(usage) = usage.as_object_mut() {
                    usage.retain(|key, _| !key.ends_with("_details"));
                }
                Some(usage)
            }
            UsageShape::Standard | UsageShape::WithZeroes => Some(self.counts(spent)),
        }
    }

    fn counts(&self, spent: Spent) -> Value {
        let output = u64::try_from(spent.output).unwrap_or(u64::MAX);
        json!({
            "input_tokens": self.prompt.total(),
            "input_tokens_details": {
                "cached_tokens": self.prompt.cached, "cache_write_tokens": self.prompt.written,
            },
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": spent.reasoning},
            "total_tokens": self.prompt.total().saturating_add(output),
        })
    }
}

/// What is repeated of the request, each with what stands there if it was not asked for.
fn repeated() -> Value {
    json!({
        "instructions": null, "max_output_tokens": null, "max_tool_calls": null, "metadata": {},
        "parallel_tool_calls": true, "previous_response_id": null, "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null}, "safety_identifier": null, "store": true,
        "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled",
        "user": null,
    })
}
