//! Short names of scripts, for the command line, the control endpoint and the header `x-sim-script`.

use std::time::Duration;

use crate::catalogue::Guidance;
use crate::script::{ResponsesShape, Script, UsageShape};

/// Why a text names no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownScript {
    /// No script has this name.
    #[error("no script is called '{name}'; there are: {}", known())]
    Name {
        /// The name as given.
        name: String,
    },
    /// The name takes a value and got none, or one that it cannot read.
    #[error("script '{name}' cannot take '{value}': write {usage}")]
    Value {
        /// The name.
        name: String,
        /// The value as given.
        value: String,
        /// How the name is written.
        usage: &'static str,
    },
    /// The text is JSON and no script.
    #[error("not a script in JSON: {0}")]
    Json(String),
}

/// Every short name with its value, and what it does. A value in brackets may be left out.
pub fn script_names() -> &'static [(&'static str, &'static str)] {
    NAMES
}

const NAMES: &[(&str, &str)] = &[
    ("healthy", "a complete answer that names the simulator"),
    ("answer:TEXT", "a complete answer with this text"),
    ("tokens:N", "an answer of N tokens"),
    ("status:CODE", "this status with a small error body"),
    ("rate-limit[:SECONDS]", "OpenAI's 429, with Retry-After if given"),
    ("rate-limit-date:SECONDS", "429 with Retry-After as an HTTP date"),
    ("rate-limit-ms:MS", "429 with retry-after-ms"),
    ("rate-limit-reset:DURATION", "429 with x-ratelimit-reset-* in the form 6m0s"),
    ("rate-limit-text:SECONDS", "429 whose text alone says when"),
    ("rate-limit-garbage", "429 with an unreadable Retry-After"),
    ("rate-limit-negative", "429 with Retry-After: -1"),
    ("azure-429:SECONDS", "Azure's 429"),
    ("quota", "OpenAI's 429 insufficient_quota"),
    ("payment", "402, insufficient credits"),
    ("overloaded", "OpenAI's 503 server_is_overloaded"),
    ("529", "529 overloaded_error in Anthropic's form"),
    ("anthropic-rate-limit:SECONDS", "Anthropic's 429 with its headers"),
    ("spend-limit", "Anthropic's 429 enforced_spend_limit_reached"),
    ("credit-balance", "Anthropic's 400 for a spent balance"),
    ("prompt-too-long", "Anthropic's 400 for a long prompt"),
    ("error[:CODE]", "a server error, 500 by default"),
    ("bad-gateway", "502 with a CDN's HTML page"),
    ("context-length", "400 context_length_exceeded"),
    ("content-policy", "400 content_policy_violation"),
    ("content-filter", "Azure's 400 content_filter"),
    ("invalid[:PARAM]", "400 invalid_request_error"),
    ("unprocessable", "422"),
    ("auth", "401 invalid_api_key"),
    ("not-found[:MODEL]", "404 model_not_found"),
    ("reset", "TCP reset after the request was read"),
    ("reset-on-accept", "TCP reset as soon as connected"),
    ("close", "closed without an answer after the request was read"),
    ("silence", "no answer until the client leaves"),
    ("slow-headers:DURATION", "headers come late (2s, 250ms)"),
    ("slow-first-token:DURATION", "first output comes late"),
    ("slow-tokens:DURATION", "so long between two outputs"),
    ("role-only", "role event, then silence"),
    ("heartbeats[:DURATION]", "only comments, every second by default"),
    ("cut:N", "connection closed inside an HTTP chunk after N outputs"),
    ("reset-after:N", "connection reset inside an HTTP chunk after N outputs"),
    ("end:N", "clean end without finish after N outputs"),
    ("stall:N", "silence after N outputs"),
    ("malformed:N", "one broken event after N outputs"),
    ("error-first", "an error event in place of any output"),
    ("error-after:N", "an error event after N outputs"),
    ("error-done:N", "an error event after N outputs, then [DONE]"),
    ("failed:CODE", "response.failed with this code before any output"),
    ("error-flat:N", "an error event of Responses with flat fields after N outputs"),
    ("error-nested:N", "an error event of Responses with an error object after N outputs"),
    ("html", "an HTML page with status 200"),
    ("empty", "status 200 without a body"),
    ("no-choices", "choices is empty"),
    ("no-content", "role and finish, no content"),
    ("no-done", "no [DONE]"),
    ("text-plain", "wrong content type"),
    ("crlf", "CRLF line ends"),
    ("cr", "CR line ends"),
    ("bom", "a byte order mark first"),
    ("split", "one byte per HTTP chunk"),
    ("no-space", "no space after 'data:'"),
    ("multi-line", "JSON over several data lines"),
    ("comments", "a comment before each event"),
    ("azure", "Azure's first chunk"),
    ("llama-cpp", "a stream of Responses as llama.cpp sends it"),
    ("whole-items", "a stream of Responses without deltas"),
    ("tool:NAME", "a call of this tool"),
    ("tool-empty:NAME", "a call of this tool whose arguments are empty"),
    ("custom-tool:NAME", "a call of this tool with free text"),
    ("reasoning", "reasoning_content before the text"),
    ("refusal", "a refusal"),
    ("length", "finish_reason length"),
    ("filtered", "finish_reason content_filter"),
    ("model:NAME", "the answer names another model"),
    ("usage:SHAPE", "standard, finish, groq, every, deepseek, null, missing, zeroes"),
    ("cached:N", "N tokens more of the prompt, which came from a cache"),
    ("stale", "the connection is closed after the answer, unannounced"),
];

fn known() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(usage, _)| *usage).collect();
    names.join(", ")
}

/// The script with this short name; several are joined by `+`: `tokens:40+crlf+cut:3`. Each part changes what the
/// parts before it made.
///
/// # Errors
/// When a part has no such name, or its value is missing or unreadable; the message lists what there is.
pub fn script_from_name(name: &str) -> Result<Script, UnknownScript> {
    name.split('+').try_fold(Script::healthy(), |script, part| {
        let part = part.trim();
        let (name, value) = part.split_once(':').unwrap_or((part, ""));
        named(script, &Part { name, value })
    })
}

/// A script as a client names it in a header or body: JSON or a short name.
pub(crate) fn script_from_text(text: &str) -> Result<Script, UnknownScript> {
    let text = text.trim();
    if text.starts_with('{') {
        serde_json::from_str(text).map_err(|error| UnknownScript::Json(error.to_string()))
    } else {
        script_from_name(text.trim_matches('"'))
    }
}

struct Part<'a> {
    name: &'a str,
    value: &'a str,
}

fn named(script: Script, part: &Part<'_>) -> Result<Script, UnknownScript> {
    if let Some(error) = error_reply(part)? {
        return Ok(Script {
            reply: error.reply,
            headers: error.headers,
            date_headers: error.date_headers,
            ..script
        });
    }
    if let Some(broken) = broken_connection(part) {
        return Ok(Script { connection: broken.connection, ..script });
    }
    if let Some(fault) = broken_answer(part)? {
        return Ok(Script { fault: fault.fault, ..script });
    }
    if let Some(script) = spelled(&script, part) {
        return Ok(script);
    }
    said(script, part)?.ok_or_else(|| UnknownScript::Name { name: part.name.to_owned() })
}

fn error_reply(part: &Part<'_>) -> Result<Option<Script>, UnknownScript> {
    Ok(Some(match part.name {
        "status" => Script::status(part.number()?),
        "rate-limit" if part.value.is_empty() => Script::rate_limit(Guidance::Absent),
        "rate-limit" => Script::openai_rate_limit(part.number()?),
        "rate-limit-date" => Script::rate_limit(Guidance::Date(part.number()?)),
        "rate-limit-ms" => Script::rate_limit(Guidance::Millis(part.number()?)),
        "rate-limit-reset" => Script::rate_limit(Guidance::Reset(part.text()?)),
        "rate-limit-text" => Script::rate_limit(Guidance::Text(part.number()?)),
        "rate-limit-garbage" => Script::rate_limit(Guidance::Garbage),
        "rate-limit-negative" => Script::rate_limit(Guidance::Negative),
        "azure-429" => Script::azure_429(part.number()?),
        "quota" => Script::openai_quota(),
        "payment" => Script::payment_required(),
        "overloaded" => Script::openai_overloaded(),
        "529" => Script::anthropic_style_529(),
        "anthropic-rate-limit" => Script::anthropic_rate_limit(part.number()?),
        "spend-limit" => Script::anthropic_spend_limit(),
        "credit-balance" => Script::anthropic_credit_balance(),
        "prompt-too-long" => Script::anthropic_prompt_too_long(),
        "error" => Script::server_error(part.number_or(500)?),
        "bad-gateway" => Script::cdn_html(502),
        "context-length" => Script::context_length_exceeded(),
        "content-policy" => Script::content_policy(),
        "content-filter" => Script::azure_content_filter(),
        "invalid" => Script::invalid_request(if part.value.is_empty() { "messages" } else { part.value }),
        "unprocessable" => Script::unprocessable(422),
        "auth" => Script::invalid_api_key(),
        "not-found" => Script::model_not_found(if part.value.is_empty() { "sim-model" } else { part.value }),
        "html" => Script::healthy().html(),
        "empty" => Script::healthy().empty_body(),
        _ => return Ok(None),
    }))
}

fn broken_connection(part: &Part<'_>) -> Option<Script> {
    Some(match part.name {
        "reset" => Script::reset_before_headers(),
        "reset-on-accept" => Script::reset_on_accept(),
        "close" => Script::close_after_read(),
        "silence" => Script::silence(),
        _ => return None,
    })
}

fn broken_answer(part: &Part<'_>) -> Result<Option<Script>, UnknownScript> {
    let error = || {
        serde_json::json!({
            "message": "The server had an error while processing your request. Sorry about that!",
            "type": "server_error", "param": null, "code": null,
        })
    };
    Ok(Some(match part.name {
        "role-only" => Script::role_only_then_silence(),
        "heartbeats" if part.value.is_empty() => Script::heartbeats_only(Duration::from_secs(1)),
        "heartbeats" => Script::heartbeats_only(part.duration()?),
        "cut" => Script::cut_after(part.number()?),
        "reset-after" => Script::reset_after(part.number()?),
        "end" => Script::end_after(part.number()?),
        "stall" => Script::stall_after(part.number()?),
        "malformed" => Script::malformed_event_at(part.number()?),
        "error-first" => Script::error_event_first(error()),
        "error-after" => Script::error_event_after(part.number()?, error()),
        "error-done" => Script::error_then_done(part.number()?, error()),
        "failed" => Script::response_failed_after(0, &part.text()?),
        "error-flat" => Script::flat_error_after(part.number()?, "server_error"),
        "error-nested" => Script::nested_error_after(part.number()?, "server_error"),
        _ => return Ok(None),
    }))
}

fn spelled(script: &Script, part: &Part<'_>) -> Option<Script> {
    let script = || script.clone();
    Some(match part.name {
        "no-choices" => script().choices_empty(),
        "no-content" => script().empty_content_finish(),
        "no-done" => script().no_done(),
        "text-plain" => script().content_type("text/plain"),
        "crlf" => script().crlf(),
        "cr" => script().cr(),
        "bom" => script().bom(),
        "split" => script().split_every_byte(),
        "no-space" => script().no_space_after_colon(),
        "multi-line" => script().multi_line_data(),
        "comments" => script().comments(),
        "azure" => script().azure_preamble(),
        "llama-cpp" => script().responses(ResponsesShape::LlamaCpp),
        "whole-items" => script().responses(ResponsesShape::WholeItems),
        "stale" => script().close_afterwards(),
        "reasoning" => script().reasoning("Let me think about this.", "reasoning_content"),
        "refusal" => script().refusal("I'm sorry, but I can't help with that."),
        "length" => script().finish("length"),
        "filtered" => script().finish("content_filter"),
        _ => return None,
    })
}

fn said(script: Script, part: &Part<'_>) -> Result<Option<Script>, UnknownScript> {
    Ok(Some(match part.name {
        "healthy" | "ok" => Script::healthy(),
        "answer" => {
            let mut script = script;
            script.answer.text = Some(part.text()?);
            script
        }
        "tokens" => script.tokens(part.number()?),
        "slow-headers" => script.delay_headers(part.duration()?),
        "slow-first-token" => script.delay_first_token(part.duration()?),
        "slow-tokens" => script.between_tokens(part.duration()?),
        "tool" => script.tool_call(part.text()?, r#"{"city":"Zürich","unit":"celsius"}"#),
        "tool-empty" => script.tool_call(part.text()?, ""),
        "custom-tool" => script.custom_tool_call(part.text()?, "*** Begin Patch\n+ \"grüße\"\n*** End Patch"),
        "model" => script.model(part.text()?),
        "cached" => script.cached(part.number()?, 0),
        "usage" => script.usage(part.usage_shape()?),
        _ => return Ok(None),
    }))
}

impl Part<'_> {
    fn unreadable(&self) -> UnknownScript {
        let usage = NAMES.iter().map(|(usage, _)| *usage);
        let own = usage.clone().find(|usage| usage.split([':', '[']).next() == Some(self.name));
        UnknownScript::Value {
            name: self.name.to_owned(),
            value: self.value.to_owned(),
            usage: own.unwrap_or_default(),
        }
    }

    fn number<N: std::str::FromStr>(&self) -> Result<N, UnknownScript> {
        self.value.parse().map_err(|_| self.unreadable())
    }

    fn number_or<N: std::str::FromStr>(&self, default: N) -> Result<N, UnknownScript> {
        if self.value.is_empty() { Ok(default) } else { self.number() }
    }

    fn text(&self) -> Result<String, UnknownScript> {
        if self.value.is_empty() { Err(self.unreadable()) } else { Ok(self.value.to_owned()) }
    }

    /// `250ms`, `2s`, `1.5s`; a bare number is seconds.
    fn duration(&self) -> Result<Duration, UnknownScript> {
        let (number, unit) = match self.value.strip_suffix("ms") {
            Some(number) => (number, 0.001),
            None => (self.value.strip_suffix('s').unwrap_or(self.value), 1.0),
        };
        let seconds: f64 = number.parse().map_err(|_| self.unreadable())?;
        Duration::try_from_secs_f64(seconds * unit).map_err(|_| self.unreadable())
    }

    fn usage_shape(&self) -> Result<UsageShape, UnknownScript> {
        Ok(match self.value {
            "standard" => UsageShape::Standard,
            "finish" => UsageShape::OnFinishChunk,
            "groq" => UsageShape::Groq,
            "every" => UsageShape::EveryChunk,
            "deepseek" => UsageShape::DeepSeek,
            "null" => UsageShape::Null,
            "missing" => UsageShape::Missing,
            "zeroes" => UsageShape::WithZeroes,
            _ => return Err(self.unreadable()),
        })
    }
}

#[cfg(test)]
mod tests;
