//! The top-level fields of a request, by dialect.

use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::json::camel;

/// A field that the gateway reads. One that comes twice is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Model,
    Messages,
    Stream,
    StreamOptions,
    Models,
    Provider,
    MaxTokens,
    MaxCompletionTokens,
    N,
    Tools,
    Functions,
    ParallelToolCalls,
    ResponseFormat,
    ReasoningEffort,
    Reasoning,
    Thinking,
    Logprobs,
    TopLogprobs,
    Modalities,
    Audio,
    PromptCacheKey,
    SafetyIdentifier,
    User,
    System,
    OutputConfig,
    OutputFormat,
    ToolChoice,
    Metadata,
    Contents,
    SystemInstruction,
    WholeRequest,
    ToolConfig,
    GenerationConfig,
    Input,
    Prompt,
    Query,
    Documents,
    Instructions,
    Items,
    MaxOutputTokens,
    Text,
    StreamFormat,
}

impl Field {
    const CHAT: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Messages, "messages"),
        (Self::Stream, "stream"),
        (Self::StreamOptions, "stream_options"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
        (Self::MaxTokens, "max_tokens"),
        (Self::MaxCompletionTokens, "max_completion_tokens"),
        (Self::N, "n"),
        (Self::Tools, "tools"),
        (Self::Functions, "functions"),
        (Self::ParallelToolCalls, "parallel_tool_calls"),
        (Self::ToolChoice, "tool_choice"),
        (Self::ResponseFormat, "response_format"),
        (Self::ReasoningEffort, "reasoning_effort"),
        (Self::Reasoning, "reasoning"),
        (Self::Thinking, "thinking"),
        (Self::Logprobs, "logprobs"),
        (Self::TopLogprobs, "top_logprobs"),
        (Self::Modalities, "modalities"),
        (Self::Audio, "audio"),
        (Self::PromptCacheKey, "prompt_cache_key"),
        (Self::SafetyIdentifier, "safety_identifier"),
        (Self::User, "user"),
    ];

    const MESSAGES: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Messages, "messages"),
        (Self::Stream, "stream"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
        (Self::MaxTokens, "max_tokens"),
        (Self::Tools, "tools"),
        (Self::Thinking, "thinking"),
        (Self::System, "system"),
        (Self::OutputConfig, "output_config"),
        (Self::OutputFormat, "output_format"),
        (Self::ToolChoice, "tool_choice"),
        (Self::Metadata, "metadata"),
    ];

    const RESPONSES: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Items, "input"),
        (Self::Instructions, "instructions"),
        (Self::Stream, "stream"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
        (Self::MaxOutputTokens, "max_output_tokens"),
        (Self::Tools, "tools"),
        (Self::ParallelToolCalls, "parallel_tool_calls"),
        (Self::ToolChoice, "tool_choice"),
        (Self::Text, "text"),
        (Self::Reasoning, "reasoning"),
        (Self::TopLogprobs, "top_logprobs"),
        (Self::PromptCacheKey, "prompt_cache_key"),
        (Self::SafetyIdentifier, "safety_identifier"),
        (Self::User, "user"),
    ];

    /// In both spellings that Google's parsers take.
    const GEMINI: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
        (Self::Contents, "contents"),
        (Self::WholeRequest, "generateContentRequest"),
        (Self::WholeRequest, "generate_content_request"),
        (Self::Tools, "tools"),
        (Self::SystemInstruction, "systemInstruction"),
        (Self::SystemInstruction, "system_instruction"),
        (Self::ToolConfig, "toolConfig"),
        (Self::ToolConfig, "tool_config"),
        (Self::GenerationConfig, "generationConfig"),
        (Self::GenerationConfig, "generation_config"),
    ];

    const COMPLETIONS: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Prompt, "prompt"),
        (Self::Stream, "stream"),
        (Self::StreamOptions, "stream_options"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
        (Self::MaxTokens, "max_tokens"),
        (Self::User, "user"),
    ];

    /// What never is a stream takes no notice of `stream`.
    const WHOLE: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Input, "input"),
        (Self::Query, "query"),
        (Self::Documents, "documents"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
        (Self::User, "user"),
    ];

    const IMAGES: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Prompt, "prompt"),
        (Self::Stream, "stream"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
        (Self::User, "user"),
    ];

    const SPEECH: &[(Self, &'static str)] = &[
        (Self::Model, "model"),
        (Self::Input, "input"),
        (Self::StreamFormat, "stream_format"),
        (Self::Models, "models"),
        (Self::Provider, "provider"),
    ];

    fn all(endpoint: Endpoint, dialect: Dialect) -> &'static [(Self, &'static str)] {
        match (endpoint, dialect) {
            (Endpoint::Generation, Dialect::Chat | Dialect::Bedrock) => Self::CHAT,
            (Endpoint::CountTokens, _) | (Endpoint::Generation, Dialect::Messages) => Self::MESSAGES,
            (Endpoint::InputTokens, _) | (Endpoint::Generation, Dialect::Responses) => Self::RESPONSES,
            (Endpoint::GeminiCount, _) | (Endpoint::Generation, Dialect::Gemini) => Self::GEMINI,
            (Endpoint::Completions, _) => Self::COMPLETIONS,
            (Endpoint::Speech, _) => Self::SPEECH,
            (Endpoint::ImageGenerations | Endpoint::ImageEdits | Endpoint::Transcriptions, _) => Self::IMAGES,
            (
                Endpoint::Embeddings
                | Endpoint::Moderations
                | Endpoint::Rerank
                | Endpoint::ImageVariations
                | Endpoint::Translations,
                _,
            ) => Self::WHOLE,
        }
    }

    pub(crate) fn of(endpoint: Endpoint, dialect: Dialect, key: &str) -> Option<Self> {
        Self::all(endpoint, dialect).iter().find(|(_, name)| *name == key).map(|(field, _)| *field)
    }

    /// The field that a key would be for a reader who does not mind the case of letters. Go's `encoding/json`
    /// is one, and takes `ſ` for `s` and the Kelvin sign for `k` too.
    pub(crate) fn folded(endpoint: Endpoint, dialect: Dialect, key: &str) -> Option<Self> {
        let plain = key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        if plain || key.len() > 64 {
            return None;
        }
        let folded = key.to_uppercase().to_lowercase();
        let same = |name: &str| name.eq_ignore_ascii_case(&folded);
        Self::all(endpoint, dialect).iter().find(|(_, name)| same(name)).map(|(field, _)| *field)
    }

    pub(crate) fn name(self) -> &'static str {
        let lists = [
            Self::CHAT,
            Self::MESSAGES,
            Self::RESPONSES,
            Self::GEMINI,
            Self::COMPLETIONS,
            Self::WHOLE,
            Self::SPEECH,
        ];
        let mut all = lists.into_iter().flatten();
        all.find(|(field, _)| *field == self).map_or("", |(_, name)| name)
    }
}

/// Fields of Messages that pass through unread: the documented ones, those of betas among them (Anthropic API,
/// "Create a message").
const PASSED_IN_MESSAGES: &[&str] = &[
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "cache_control",
    "service_tier",
    "speed",
    "inference_geo",
    "container",
    "diagnostics",
    "mcp_servers",
    "context_management",
    "compaction",
    "fallbacks",
    "fallback_credit_token",
    "thread",
    "billing_policy",
];

/// Fields of Responses that pass through unread: the documented ones (OpenAI API reference, "Create a model response"), and
/// one of Codex.
const PASSED_IN_RESPONSES: &[&str] = &[
    "access_programs",
    "background",
    "background_options",
    "client_metadata",
    "context_management",
    "conversation",
    "image",
    "include",
    "max_tool_calls",
    "metadata",
    "moderation",
    "previous_response_id",
    "prompt",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
    "store",
    "stream_options",
    "temperature",
    "top_p",
    "truncation",
];

/// Fields of Gemini that pass through unread, Vertex's own among them (Gemini API reference, "generateContent").
const PASSED_IN_GEMINI: &[&str] = &[
    "safetySettings",
    "cachedContent",
    "labels",
    "serviceTier",
    "store",
    "continuationToken",
    "modelConfig",
    "modelArmorConfig",
    "outputConfig",
];

/// Fields of Chat that pass through unread: OpenAI's documented ones, then the extras of vendors.
const PASSED: &[&str] = &[
    "function_call",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "stop",
    "seed",
    "logit_bias",
    "verbosity",
    "prediction",
    "web_search_options",
    "service_tier",
    "store",
    "metadata",
    "prompt_cache_options",
    "prompt_cache_retention",
    "moderation",
    // vLLM, SGLang
    "top_k",
    "min_p",
    "repetition_penalty",
    "length_penalty",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "truncate_prompt_tokens",
    "echo",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "structured_outputs",
    "thinking_token_budget",
    "include_reasoning",
    "separate_reasoning",
    "priority",
    "cache_salt",
    "request_id",
    "rid",
    // llama.cpp, Ollama
    "reasoning_format",
    "cache_prompt",
    "grammar",
    "json_schema",
    "typical_p",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "samplers",
    "id_slot",
    "timings_per_token",
    "keep_alive",
    "options",
    "think",
    // OpenRouter, Groq, Mistral, DeepSeek, xAI
    "route",
    "transforms",
    "plugins",
    "usage",
    "session_id",
    "top_a",
    "search_settings",
    "safe_prompt",
    "random_seed",
    "prompt_mode",
    "prefix",
    "search_parameters",
    "enable_thinking",
    "thinking_budget",
];

/// Whether a field that the gateway does not read is at least known.
pub(crate) fn is_passed(dialect: Dialect, key: &str) -> bool {
    match dialect {
        Dialect::Chat | Dialect::Bedrock => PASSED.contains(&key),
        Dialect::Messages => PASSED_IN_MESSAGES.contains(&key),
        Dialect::Responses => PASSED_IN_RESPONSES.contains(&key),
        Dialect::Gemini => PASSED_IN_GEMINI.contains(&camel(key).as_ref()),
    }
}
