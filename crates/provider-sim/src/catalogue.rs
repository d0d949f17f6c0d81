//! Error answers with the bodies that providers are known to send.

use serde_json::{Value, json};

use crate::script::Script;

pub(crate) const INVALID_API_KEY: &str = concat!(
    r#"{"error":{"message":"Incorrect API key provided: sk-sim*****key. "#,
    r#"You can find your API key at https://platform.openai.com/account/api-keys.","#,
    r#""type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#
);
pub(crate) const INVALID_JSON: &str = concat!(
    r#"{"error":{"message":"We could not parse the JSON body of your request.","#,
    r#""type":"invalid_request_error","param":null,"code":null}}"#
);
pub(crate) const MISSING_MODEL: &str = concat!(
    r#"{"error":{"message":"you must provide a model parameter","#,
    r#""type":"invalid_request_error","param":"model","code":null}}"#
);

/// How a rate limit says when to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guidance {
    /// Not at all.
    Absent,
    /// `retry-after` in seconds.
    Seconds(u64),
    /// `retry-after` as an HTTP date so many seconds from the moment of answering.
    Date(i64),
    /// `retry-after-ms`.
    Millis(u64),
    /// `x-ratelimit-reset-requests` and `-tokens` with this value, a duration in Go's form (`6m0s`, `20ms`).
    Reset(String),
    /// The message alone says it: "Please try again in N s".
    Text(u64),
    /// `retry-after: soon`, which nobody can read.
    Garbage,
    /// `retry-after: -1`.
    Negative,
}

/// Ready error answers of OpenAI.
impl Script {
    /// 429 `rate_limit_exceeded`; its type is the limited unit.
    pub fn rate_limit(guidance: Guidance) -> Self {
        let hint = match &guidance {
            Guidance::Text(seconds) => format!(" Please try again in {seconds}s."),
            _ => String::new(),
        };
        let message = format!(
            "Rate limit reached for sim-model in organization org-sim on requests per min (RPM): Limit 3, Used 3, \
             Requested 1.{hint} Visit https://platform.openai.com/account/rate-limits to learn more."
        );
        let script = json_error(429, &message, "requests", None, Some("rate_limit_exceeded"));
        match guidance {
            Guidance::Absent | Guidance::Text(_) => script,
            Guidance::Seconds(seconds) => script.header("retry-after", seconds.to_string()),
            Guidance::Date(seconds) => script.header_date("retry-after", seconds),
            Guidance::Millis(ms) => script.header("retry-after-ms", ms.to_string()),
            Guidance::Reset(duration) => script
                .header("x-ratelimit-limit-requests", "3")
                .header("x-ratelimit-remaining-requests", "0")
                .header("x-ratelimit-reset-requests", duration.clone())
                .header("x-ratelimit-reset-tokens", duration),
            Guidance::Garbage => script.header("retry-after", "soon"),
            Guidance::Negative => script.header("retry-after", "-1"),
        }
    }

    /// 429 `rate_limit_exceeded` with `retry-after` in seconds.
    pub fn openai_rate_limit(retry_after: u64) -> Self {
        Self::rate_limit(Guidance::Seconds(retry_after))
    }

    /// 429 whose request can never succeed on this account: it alone is over the tokens per minute.
    pub fn request_over_token_limit() -> Self {
        let message = "Request too large for sim-model in organization org-sim on tokens per min (TPM): Limit 30000, \
                       Requested 30601. The input or output tokens must be reduced in order to run successfully.";
        json_error(429, message, "tokens", None, Some("rate_limit_exceeded"))
    }

    /// 429 `insufficient_quota`: no money, which waiting does not help.
    pub fn openai_quota() -> Self {
        let message = "You exceeded your current quota, please check your plan and billing details.";
        json_error(429, message, "insufficient_quota", None, Some("insufficient_quota"))
    }

    /// 503 `server_is_overloaded`.
    pub fn openai_overloaded() -> Self {
        let message = "Our servers are currently overloaded. Please try again later.";
        json_error(503, message, "service_unavailable_error", None, Some("server_is_overloaded"))
    }

    /// A server error of this status, 500 and up.
    pub fn server_error(status: u16) -> Self {
        let message = "The server had an error while processing your request. Sorry about that!";
        json_error(status, message, "server_error", None, None)
    }

    /// 400 `context_length_exceeded`.
    pub fn context_length_exceeded() -> Self {
        let message = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 \
                       tokens. Please reduce the length of the messages.";
        json_error(400, message, "invalid_request_error", Some("messages"), Some("context_length_exceeded"))
    }

    /// 400 `content_policy_violation`.
    pub fn content_policy() -> Self {
        let message = "Your request was rejected as a result of our safety system.";
        json_error(400, message, "invalid_request_error", None, Some("content_policy_violation"))
    }

    /// 401 `invalid_api_key`.
    pub fn invalid_api_key() -> Self {
        Self::fixed(401, "application/json", INVALID_API_KEY)
    }

    /// 404 `model_not_found`.
    pub fn model_not_found(model: &str) -> Self {
        Self::fixed(404, "application/json", model_not_found(model))
    }

    /// 400 `invalid_value` of this parameter.
    pub fn invalid_request(param: &str) -> Self {
        let message = format!("Invalid value for '{param}'.");
        json_error(400, &message, "invalid_request_error", Some(param), Some("invalid_value"))
    }

    /// A refusal to process a well-formed request, 422.
    pub fn unprocessable(status: u16) -> Self {
        json_error(
            status,
            "Unprocessable entity: 'messages' must not be empty.",
            "invalid_request_error",
            None,
            None,
        )
    }
}

/// Ready error answers of others.
impl Script {
    /// Azure's 429: the code is the text `429`, there is no type, and the message says when.
    pub fn azure_429(seconds: u64) -> Self {
        let message = format!(
            "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded \
             token rate limit of your current OpenAI S0 pricing tier. Please retry after {seconds} seconds."
        );
        let body = json!({"error": {"code": "429", "message": message}}).to_string();
        Self::fixed(429, "application/json", body)
            .header("retry-after", seconds.to_string())
            .header("retry-after-ms", seconds.saturating_mul(1000).to_string())
            .header("x-ratelimit-remaining-requests", "-1")
    }

    /// Azure's 400 `content_filter`: the prompt was filtered.
    pub fn azure_content_filter() -> Self {
        let verdict = json!({
            "hate": {"filtered": false, "severity": "safe"},
            "jailbreak": {"filtered": false, "detected": false},
            "self_harm": {"filtered": false, "severity": "safe"},
            "sexual": {"filtered": false, "severity": "safe"},
            "violence": {"filtered": true, "severity": "medium"},
        });
        let inner = json!({"code": "ResponsibleAIPolicyViolation", "content_filter_result": verdict});
        let message = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. \
                       Please modify your prompt and retry.";
        let body = json!({"error": {
            "message": message, "type": null, "param": "prompt", "code": "content_filter", "status": 400,
            "innererror": inner,
        }});
        Self::fixed(400, "application/json", body.to_string())
    }

    /// 529 `overloaded_error` in Anthropic's envelope.
    pub fn anthropic_style_529() -> Self {
        Self::anthropic_overloaded()
    }

    /// OpenRouter's 402: the code is a number.
    pub fn payment_required() -> Self {
        let body = json!({"error": {"message": "Insufficient credits", "code": 402}});
        Self::fixed(402, "application/json", body.to_string())
    }

    /// A CDN's HTML page with a gateway error status (502, 520–524).
    pub fn cdn_html(status: u16) -> Self {
        let page = format!(
            "<html>\r\n<head><title>{status} Bad Gateway</title></head>\r\n<body>\r\n<center><h1>{status} Bad \
             Gateway</h1></center>\r\n<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"
        );
        Self::fixed(status, "text/html", page)
    }

    /// vLLM's 400 when the prompt is too long: the code is a number, the text alone tells.
    pub fn vllm_context_length() -> Self {
        let message = "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens. \
                       Please reduce the length of the messages or completion.";
        let body =
            json!({"error": {"message": message, "type": "BadRequestError", "param": null, "code": 400}});
        Self::fixed(400, "application/json", body.to_string())
    }

    /// SGLang's bare error object, not wrapped in `error`.
    pub fn sglang_context_length() -> Self {
        let message = "The input (40000 tokens) is longer than the model's context length (32768 tokens).";
        let body = json!({
            "object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400,
        });
        Self::fixed(400, "application/json", body.to_string())
    }

    /// llama.cpp's 503 while the model is being loaded.
    pub fn llama_cpp_loading() -> Self {
        let body = json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}});
        Self::fixed(503, "application/json", body.to_string())
    }
}

fn json_error(status: u16, message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Script {
    Script::fixed(status, "application/json", error(message, kind, param, code))
}

/// An error body in OpenAI's form: all four keys are always there.
pub(crate) fn error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> String {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}}).to_string()
}

/// What OpenAI says of an input of Responses that is too long.
pub(crate) const INPUT_TOO_LONG: &str =
    "Your input exceeds the context window of this model. Please adjust your input and try again.";
/// What Anthropic says of a prompt that is too long.
pub(crate) const PROMPT_TOO_LONG: &str = "prompt is too long: 209303 tokens > 200000 maximum";
/// What Anthropic says when the money is spent.
pub(crate) const CREDIT_BALANCE: &str = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase \
     credits.";

/// An error body in Anthropic's form.
pub(crate) fn anthropic_error(
    kind: &str,
    message: &str,
    error_code: Option<&str>,
    request_id: &str,
) -> String {
    let mut error = json!({"type": kind, "message": message});
    if let (Some(code), Some(error)) = (error_code, error.as_object_mut()) {
        error.insert("details".to_owned(), json!({ "error_code": code }));
    }
    json!({"type": "error", "error": error, "request_id": request_id}).to_string()
}

pub(crate) fn model_not_found(model: &str) -> String {
    let message = format!("The model `{model}` does not exist or you do not have access to it.");
    error(&message, "invalid_request_error", None, Some("model_not_found"))
}

pub(crate) fn unknown_url(method: &str, path: &str) -> String {
    error(&format!("Invalid URL ({method} {path})"), "invalid_request_error", None, None)
}

/// An error of the simulator itself: a request that could not be read, a script that does not exist.
pub(crate) fn refused(message: &str) -> String {
    error(message, "invalid_request_error", None, None)
}

/// The body of `GET /v1/models`.
pub(crate) fn models(served: &[String]) -> String {
    let any = ["sim-model".to_owned()];
    let served = if served.is_empty() { any.as_slice() } else { served };
    let data: Vec<Value> = served.iter().map(|id| model(id)).collect();
    json!({"object": "list", "data": data}).to_string()
}

fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 1_700_000_000, "owned_by": "pointsman-sim"})
}
