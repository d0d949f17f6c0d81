//! The rows themselves. Addresses are those of each provider's API reference; where a quirk is not documented there, its
//! source stands beside it.

use super::{AuthScheme, Provider, UrlRule};
use crate::classify::{Table, tables};
use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::passthrough::MaxTokensName;

const DEFAULT: Provider = Provider {
    name: "openai-compatible",
    url: UrlRule::ModelInBody { base: None, path: "/v1" },
    auth: AuthScheme::Bearer,
    // An unknown server may refuse a field that it does not know, with a 400 for every stream.
    stream_usage: false,
    stream_carries_everything: false,
    max_tokens_name: None,
    takes_preferences: false,
    table: tables::COMPATIBLE,
    dialects: &[Dialect::Chat],
    endpoints: None,
    custom_tools: false,
    required_headers: &[],
    signs_for: None,
};

/// None beside conversations.
const NO_OTHERS: Option<&[Endpoint]> = Some(&[]);
const TEXTS: Option<&[Endpoint]> = Some(&[Endpoint::Completions, Endpoint::Embeddings]);

/// The servers that one runs oneself serve Messages beside Chat Completions (vLLM, llama.cpp, SGLang, Ollama: the
/// documentation of their servers, "Anthropic Messages"). Responses only where its streams are whole: llama.cpp leaves out
/// what the official accumulators need, and Ollama knows a part of it, so that Responses is translated for both.
const SELF_HOSTED: Provider = Provider {
    stream_usage: true,
    stream_carries_everything: true,
    dialects: &[Dialect::Chat, Dialect::Messages],
    endpoints: Some(&[Endpoint::Completions, Endpoint::Embeddings, Endpoint::Rerank]),
    ..DEFAULT
};

const ALL_OF_OPENAI_AND_MESSAGES: &[Dialect] = &[Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// A provider that sends usage with the last chunk of every stream, asked or not.
const fn hosted(name: &'static str, base: &'static str, path: &'static str, table: Table) -> Provider {
    let url = UrlRule::ModelInBody { base: Some(base), path };
    Provider { name, url, stream_carries_everything: true, table, ..DEFAULT }
}

pub(super) static PROVIDERS: &[Provider] = &[
    Provider {
        name: "openai",
        url: UrlRule::ModelInBody { base: Some("https://api.openai.com/v1"), path: "/v1" },
        stream_usage: true,
        stream_carries_everything: true,
        table: tables::OPENAI,
        endpoints: Some(&[
            Endpoint::Completions,
            Endpoint::Embeddings,
            Endpoint::Moderations,
            Endpoint::ImageGenerations,
            Endpoint::ImageEdits,
            Endpoint::ImageVariations,
            Endpoint::Speech,
            Endpoint::Transcriptions,
            Endpoint::Translations,
            Endpoint::InputTokens,
        ]),
        dialects: &[Dialect::Chat, Dialect::Responses],
        custom_tools: true,
        ..DEFAULT
    },
    Provider {
        name: "azure",
        url: UrlRule::Azure,
        auth: AuthScheme::ApiKeyHeader { name: "api-key" },
        stream_usage: true,
        stream_carries_everything: true,
        table: tables::AZURE,
        endpoints: Some(&[
            Endpoint::Completions,
            Endpoint::Embeddings,
            Endpoint::ImageGenerations,
            Endpoint::ImageEdits,
            Endpoint::Speech,
            Endpoint::Transcriptions,
            Endpoint::Translations,
        ]),
        dialects: &[Dialect::Chat, Dialect::Responses],
        custom_tools: true,
        ..DEFAULT
    },
    DEFAULT,
    Provider {
        name: "vllm",
        table: tables::VLLM,
        endpoints: Some(&[
            Endpoint::Completions,
            Endpoint::Embeddings,
            Endpoint::Rerank,
            Endpoint::Transcriptions,
            Endpoint::Translations,
            Endpoint::CountTokens,
        ]),
        dialects: ALL_OF_OPENAI_AND_MESSAGES,
        ..SELF_HOSTED
    },
    Provider {
        name: "llama-cpp",
        table: tables::LLAMA_CPP,
        endpoints: Some(&[
            Endpoint::Completions,
            Endpoint::Embeddings,
            Endpoint::Rerank,
            Endpoint::CountTokens,
        ]),
        ..SELF_HOSTED
    },
    Provider { name: "sglang", table: tables::SGLANG, dialects: ALL_OF_OPENAI_AND_MESSAGES, ..SELF_HOSTED },
    Provider {
        name: "ollama",
        url: UrlRule::ModelInBody { base: Some("http://127.0.0.1:11434/v1"), path: "/v1" },
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        table: tables::OLLAMA,
        // "OpenAI compatibility".
        endpoints: TEXTS,
        ..SELF_HOSTED
    },
    Provider {
        name: "openrouter",
        url: UrlRule::ModelInBody { base: Some("https://openrouter.ai/api/v1"), path: "/api/v1" },
        stream_usage: true,
        stream_carries_everything: true,
        takes_preferences: true,
        table: tables::OPENROUTER,
        endpoints: TEXTS,
        ..DEFAULT
    },
    Provider {
        name: "groq",
        url: UrlRule::ModelInBody { base: Some("https://api.groq.com/openai/v1"), path: "/openai/v1" },
        // It always sends `x_groq.usage`.
        stream_usage: false,
        stream_carries_everything: true,
        table: tables::GROQ,
        endpoints: Some(&[Endpoint::Speech, Endpoint::Transcriptions, Endpoint::Translations]),
        ..DEFAULT
    },
    Provider {
        name: "deepseek",
        url: UrlRule::ModelInBody { base: Some("https://api.deepseek.com"), path: "" },
        stream_usage: true,
        stream_carries_everything: true,
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        table: tables::DEEPSEEK,
        // Its completions are a beta under another base URL.
        endpoints: NO_OTHERS,
        ..DEFAULT
    },
    Provider {
        name: "mistral",
        url: UrlRule::ModelInBody { base: Some("https://api.mistral.ai/v1"), path: "/v1" },
        // It sends usage with the last chunk anyway, and refuses fields that it does not know.
        stream_usage: false,
        stream_carries_everything: true,
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        table: tables::MISTRAL,
        endpoints: Some(&[Endpoint::Embeddings, Endpoint::Moderations, Endpoint::Transcriptions]),
        ..DEFAULT
    },
    Provider {
        name: "anthropic",
        url: UrlRule::Anthropic { base: "https://api.anthropic.com" },
        auth: AuthScheme::ApiKeyHeader { name: "x-api-key" },
        stream_carries_everything: true,
        table: tables::ANTHROPIC,
        dialects: &[Dialect::Messages],
        endpoints: Some(&[Endpoint::CountTokens]),
        // The oldest version that is served: it takes all that newer ones take, and sampling parameters too.
        required_headers: &[("anthropic-version", "2023-06-01")],
        ..DEFAULT
    },
    Provider {
        name: "gemini",
        url: UrlRule::Gemini { base: "https://generativelanguage.googleapis.com" },
        auth: AuthScheme::ApiKeyHeader { name: "x-goog-api-key" },
        stream_carries_everything: true,
        table: tables::GEMINI,
        dialects: &[Dialect::Gemini],
        endpoints: Some(&[Endpoint::GeminiCount]),
        ..DEFAULT
    },
    Provider {
        name: "bedrock",
        url: UrlRule::Bedrock,
        stream_carries_everything: true,
        table: tables::BEDROCK,
        dialects: &[Dialect::Bedrock],
        endpoints: NO_OTHERS,
        signs_for: Some("bedrock"),
        ..DEFAULT
    },
    // Its reference calls `max_tokens` deprecated, and takes both.
    Provider {
        stream_usage: true,
        endpoints: Some(&[Endpoint::ImageGenerations]),
        ..hosted("xai", "https://api.x.ai/v1", "/v1", tables::XAI)
    },
    // "OpenAI compatibility" has no moderations; audio is in "Transcribe audio" and "Text to speech".
    Provider {
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        endpoints: Some(&[
            Endpoint::Completions,
            Endpoint::Embeddings,
            Endpoint::ImageGenerations,
            Endpoint::Speech,
            Endpoint::Transcriptions,
            Endpoint::Translations,
        ]),
        ..hosted("together", "https://api.together.ai/v1", "/v1", tables::TOGETHER)
    },
    // "Anthropic compatibility": the same base, the same bearer.
    Provider {
        dialects: &[Dialect::Chat, Dialect::Messages],
        ..hosted("fireworks", "https://api.fireworks.ai/inference/v1", "/inference/v1", tables::FIREWORKS)
    },
    Provider {
        stream_usage: true,
        endpoints: NO_OTHERS,
        ..hosted("cerebras", "https://api.cerebras.ai/v1", "/v1", tables::CEREBRAS)
    },
    Provider {
        // Its compatible endpoint does not say whether streams carry usage.
        stream_carries_everything: false,
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        endpoints: Some(&[Endpoint::Embeddings]),
        ..hosted("cohere", "https://api.cohere.ai/compatibility/v1", "/compatibility/v1", tables::COHERE)
    },
    // "OpenAI compatibility": since Chat Completions ended on 2026-09-27 it has Responses alone.
    Provider {
        dialects: &[Dialect::Responses],
        stream_carries_everything: false,
        endpoints: NO_OTHERS,
        ..hosted("perplexity", "https://api.perplexity.ai/v1", "/v1", tables::COMPATIBLE)
    },
    Provider {
        stream_usage: true,
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        endpoints: TEXTS,
        ..hosted("nvidia", "https://integrate.api.nvidia.com/v1", "/v1", tables::NVIDIA)
    },
    Provider {
        stream_usage: true,
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        // Its router has chat alone.
        endpoints: NO_OTHERS,
        ..hosted("huggingface", "https://router.huggingface.co/v1", "/v1", tables::HUGGING_FACE)
    },
    hosted("github-models", "https://models.github.ai/inference", "/inference", tables::COMPATIBLE),
    Provider {
        name: "lm-studio",
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        table: tables::LM_STUDIO,
        endpoints: TEXTS,
        ..SELF_HOSTED
    },
    // It leaves out fields that it does not know, `max_completion_tokens` among them.
    Provider {
        name: "tgi",
        max_tokens_name: Some(MaxTokensName::MaxTokens),
        table: tables::TGI,
        endpoints: Some(&[Endpoint::Completions]),
        dialects: &[Dialect::Chat],
        ..SELF_HOSTED
    },
];
