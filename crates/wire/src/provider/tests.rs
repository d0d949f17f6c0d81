use super::{AuthScheme, UrlError, provider, providers};
use crate::dialect::Dialect;
use crate::endpoint::Endpoint;

fn url(name: &str, base: Option<&str>, model: &str, version: Option<&str>) -> String {
    provider(name).unwrap().chat_url(base, model, version).unwrap()
}

#[test]
fn each_provider_has_one_row_under_its_name() {
    let names: Vec<&str> = providers().iter().map(|provider| provider.name).collect();
    let expected = [
        "openai",
        "azure",
        "openai-compatible",
        "vllm",
        "llama-cpp",
        "sglang",
        "ollama",
        "openrouter",
        "groq",
        "deepseek",
        "mistral",
        "anthropic",
        "gemini",
        "bedrock",
        "xai",
        "together",
        "fireworks",
        "cerebras",
        "cohere",
        "perplexity",
        "nvidia",
        "huggingface",
        "github-models",
        "lm-studio",
        "tgi",
    ];
    assert_eq!(names, expected);
    for name in names {
        assert_eq!(provider(name).unwrap().name, name);
    }
    assert!(provider("OpenAI").is_none());
}

#[test]
fn public_urls_are_those_of_the_providers_documentation() {
    for (name, expected) in [
        ("openai", "https://api.openai.com/v1/chat/completions"),
        ("openrouter", "https://openrouter.ai/api/v1/chat/completions"),
        ("groq", "https://api.groq.com/openai/v1/chat/completions"),
        ("deepseek", "https://api.deepseek.com/chat/completions"),
        ("mistral", "https://api.mistral.ai/v1/chat/completions"),
        ("ollama", "http://127.0.0.1:11434/v1/chat/completions"),
        ("xai", "https://api.x.ai/v1/chat/completions"),
        ("together", "https://api.together.ai/v1/chat/completions"),
        ("fireworks", "https://api.fireworks.ai/inference/v1/chat/completions"),
        ("cerebras", "https://api.cerebras.ai/v1/chat/completions"),
        ("cohere", "https://api.cohere.ai/compatibility/v1/chat/completions"),
        ("nvidia", "https://integrate.api.nvidia.com/v1/chat/completions"),
        ("huggingface", "https://router.huggingface.co/v1/chat/completions"),
        ("github-models", "https://models.github.ai/inference/chat/completions"),
    ] {
        assert_eq!(url(name, None, "m", None), expected);
    }
}

#[test]
fn a_base_url_is_what_an_sdk_would_take_and_a_bare_host_gets_the_usual_path() {
    for (base, expected) in [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions"),
        ("https://x.example/llm/api", "https://x.example/llm/api/chat/completions"),
        ("https://x.example/v1/chat/completions", "https://x.example/v1/chat/completions"),
    ] {
        assert_eq!(url("vllm", Some(base), "m", None), expected);
    }
    let missing = provider("openai-compatible").unwrap().chat_url(None, "m", None);
    assert_eq!(missing, Err(UrlError::NoBase { provider: "openai-compatible" }));
}

#[test]
fn azure_has_deployments_in_the_path_with_an_api_version_and_v1_without() {
    let base = Some("https://corp.openai.azure.com/");
    assert_eq!(
        url("azure", base, "gpt 4o/eu", Some("2024-10-21")),
        "https://corp.openai.azure.com/openai/deployments/gpt%204o%2Feu/chat/completions?api-version=2024-10-21"
    );
    let v1 = "https://corp.openai.azure.com/openai/v1/chat/completions";
    assert_eq!(url("azure", base, "gpt-4o", None), v1);
    assert_eq!(
        url("azure", Some("https://corp.openai.azure.com/openai/v1"), "gpt-4o", Some("2024-10-21")),
        v1
    );
}

#[test]
fn a_key_goes_into_the_header_that_the_provider_reads() {
    let azure = provider("azure").unwrap().auth;
    assert_eq!((azure.header(), azure.prefix()), ("api-key", ""));
    let anthropic = provider("anthropic").unwrap().auth;
    assert_eq!((anthropic.header(), anthropic.prefix()), ("x-api-key", ""));
    let google = provider("gemini").unwrap().auth;
    assert_eq!((google.header(), google.prefix()), ("x-goog-api-key", ""));
    let own = ["azure", "anthropic", "gemini"];
    for other in providers().iter().filter(|provider| !own.contains(&provider.name)) {
        assert_eq!(other.auth, AuthScheme::Bearer, "{}", other.name);
        assert_eq!((other.auth.header(), other.auth.prefix()), ("authorization", "Bearer "));
    }
}

#[test]
fn messages_go_where_anthropics_sdk_would_send_them() {
    let url = |name: &str, base: Option<&str>| {
        provider(name).unwrap().url(Dialect::Messages, base, "claude-opus-5-5", None).unwrap()
    };
    let public = "https://api.anthropic.com/v1/messages";
    assert_eq!(url("anthropic", None), public);
    for base in ["https://api.anthropic.com", "https://api.anthropic.com/v1/", public] {
        assert_eq!(url("anthropic", Some(base)), public, "{base}");
    }
    // Its SDKs add the version to whatever path the base has.
    assert_eq!(
        url("anthropic", Some("https://x.example/anthropic")),
        "https://x.example/anthropic/v1/messages"
    );
    for (base, expected) in [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/messages"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/messages"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1/messages"),
    ] {
        assert_eq!(url("vllm", Some(base)), expected);
    }
    assert_eq!(url("ollama", None), "http://127.0.0.1:11434/v1/messages");
    assert_eq!(url("fireworks", None), "https://api.fireworks.ai/inference/v1/messages");
    let perplexity = provider("perplexity").unwrap().url(Dialect::Responses, None, "sonar", None);
    assert_eq!(perplexity.unwrap(), "https://api.perplexity.ai/v1/responses");
}

#[test]
fn a_gemini_call_has_its_model_in_its_path_wherever_the_base_ends() {
    let url = |base: Option<&str>, model: &str| {
        provider("gemini").unwrap().url(Dialect::Gemini, base, model, None).unwrap()
    };
    let public = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:generateContent";
    assert_eq!(url(None, "gemini-3-pro"), public);
    let host = "https://generativelanguage.googleapis.com";
    for path in
        ["", "/", "/v1beta", "/v1beta/", "/v1beta/models", "/v1beta/models/x:streamGenerateContent?alt=sse"]
    {
        assert_eq!(url(Some(&format!("{host}{path}")), "models/gemini-3-pro"), public, "{path}");
    }
    let older = "http://h:1/p/v1/models/a%2Fb%3Ac:generateContent";
    assert_eq!(url(Some("http://h:1/p/v1"), "a/b:c"), older);
    let tuned = "http://h:1/v1beta/tunedModels/mine:generateContent";
    assert_eq!(url(Some("http://h:1"), "tunedModels/mine"), tuned);
}

#[test]
fn a_gemini_stream_is_asked_for_in_the_path() {
    let path = |path: &str| Dialect::Gemini.stream_path(path.to_owned());
    assert_eq!(path("/v1beta/models/m:generateContent"), "/v1beta/models/m:streamGenerateContent?alt=sse");
    let chat = "/v1/chat/completions";
    assert_eq!(Dialect::Chat.stream_path(chat.to_owned()), chat);
}

#[test]
fn a_dialect_that_a_provider_does_not_speak_has_no_url() {
    for (name, dialect) in [
        ("anthropic", Dialect::Chat),
        ("openai", Dialect::Messages),
        ("azure", Dialect::Messages),
        ("gemini", Dialect::Chat),
    ] {
        let refused = provider(name).unwrap().url(dialect, Some("https://x.example"), "m", None);
        let dialect = dialect.name();
        assert_eq!(refused, Err(UrlError::Dialect { provider: provider(name).unwrap().name, dialect }));
    }
    let speakers: Vec<&str> = providers()
        .iter()
        .filter(|provider| provider.speaks(Dialect::Messages))
        .map(|provider| provider.name)
        .collect();
    assert_eq!(speakers, ["vllm", "llama-cpp", "sglang", "ollama", "anthropic", "fireworks", "lm-studio"]);
}

#[test]
fn anthropic_wants_a_version_and_gets_the_one_that_takes_everything_if_the_client_names_none() {
    assert_eq!(provider("anthropic").unwrap().required_headers, [("anthropic-version", "2023-06-01")]);
    assert!(provider("openai").unwrap().required_headers.is_empty());
}

#[test]
fn other_endpoints_lie_beside_a_conversations() {
    let url = |name: &str, endpoint: Endpoint, base: Option<&str>, version: Option<&str>| {
        provider(name).unwrap().endpoint_url(endpoint, base, "my model", version).unwrap()
    };
    for (name, endpoint, base, expected) in [
        ("openai", Endpoint::Embeddings, None, "https://api.openai.com/v1/embeddings"),
        ("openai", Endpoint::ImageGenerations, None, "https://api.openai.com/v1/images/generations"),
        ("vllm", Endpoint::Rerank, Some("http://127.0.0.1:8000"), "http://127.0.0.1:8000/v1/rerank"),
        (
            "vllm",
            Endpoint::Completions,
            Some("http://127.0.0.1:8000/v1/chat/completions"),
            "http://127.0.0.1:8000/v1/completions",
        ),
    ] {
        assert_eq!(url(name, endpoint, base, None), expected);
    }
    let base = Some("https://corp.openai.azure.com");
    assert_eq!(
        url("azure", Endpoint::Embeddings, base, Some("2024-10-21")),
        "https://corp.openai.azure.com/openai/deployments/my%20model/embeddings?api-version=2024-10-21"
    );
    assert_eq!(
        url("azure", Endpoint::Embeddings, base, None),
        "https://corp.openai.azure.com/openai/v1/embeddings"
    );
}

#[test]
fn an_endpoint_that_a_provider_does_not_have_has_no_url() {
    let refused = provider("anthropic").unwrap().endpoint_url(Endpoint::Embeddings, None, "m", None);
    assert_eq!(refused, Err(UrlError::Endpoint { provider: "anthropic", endpoint: "embeddings" }));
    let has = |endpoint| {
        let all = providers().iter().filter(|provider| provider.has(endpoint));
        all.map(|provider| provider.name).collect::<Vec<_>>()
    };
    for name in ["openai", "azure", "vllm", "mistral", "ollama", "together", "cohere", "nvidia"] {
        assert!(has(Endpoint::Embeddings).contains(&name), "{name}");
    }
    assert!(has(Endpoint::Transcriptions).contains(&"groq") && has(Endpoint::Speech).contains(&"groq"));
    for name in ["anthropic", "deepseek", "groq", "cerebras", "huggingface", "xai"] {
        assert!(!has(Endpoint::Embeddings).contains(&name), "{name}");
    }
    assert!(!has(Endpoint::Moderations).contains(&"azure"));
    assert!(!has(Endpoint::Rerank).contains(&"openai"));
    // Nothing is known of it: nothing is ruled out but what is asked in dialects that it does not speak.
    for endpoint in Endpoint::OTHERS.into_iter().filter(|endpoint| !endpoint.counts()) {
        assert!(has(endpoint).contains(&"openai-compatible"));
    }
}

/// Anthropic, "Count tokens in a Message"; OpenAI, "Get input token counts"; Google, "countTokens"; the routes of vLLM's and
/// llama.cpp's servers.
#[test]
fn tokens_are_counted_where_the_dialects_own_provider_does() {
    let count = |name: &str, endpoint| provider(name).unwrap().endpoint_url(endpoint, None, "m", None);
    let url = count("anthropic", Endpoint::CountTokens).unwrap();
    assert_eq!(url, "https://api.anthropic.com/v1/messages/count_tokens");
    let url = count("openai", Endpoint::InputTokens).unwrap();
    assert_eq!(url, "https://api.openai.com/v1/responses/input_tokens");
    let url = count("gemini", Endpoint::GeminiCount).unwrap();
    assert_eq!(url, "https://generativelanguage.googleapis.com/v1beta/models/m:countTokens");
    for name in ["vllm", "llama-cpp", "fireworks"] {
        assert!(provider(name).unwrap().has(Endpoint::CountTokens), "{name}");
    }
    for (name, endpoint) in [
        ("openai", Endpoint::CountTokens),
        ("openai-compatible", Endpoint::CountTokens),
        ("anthropic", Endpoint::InputTokens),
        ("groq", Endpoint::GeminiCount),
    ] {
        assert!(!provider(name).unwrap().has(endpoint), "{name}");
        assert!(count(name, endpoint).is_err(), "{name}");
    }
}

#[test]
fn azure_has_responses_beside_its_deployments() {
    let azure = provider("azure").unwrap();
    let url = |base, version| azure.url(Dialect::Responses, Some(base), "my-gpt", version).unwrap();
    assert_eq!(
        url("https://r.openai.azure.com", Some("2026-05-01")),
        "https://r.openai.azure.com/openai/responses?api-version=2026-05-01"
    );
    assert_eq!(url("https://r.openai.azure.com", None), "https://r.openai.azure.com/openai/v1/responses");
}

/// The paths of `botocore` for the same models.
#[test]
fn a_bedrock_call_has_its_model_in_its_path_with_every_sign_escaped() {
    let bedrock = provider("bedrock").unwrap();
    let base = Some("https://bedrock-runtime.us-east-1.amazonaws.com/");
    let url = |model: &str| bedrock.url(Dialect::Bedrock, base, model, None).unwrap();
    assert_eq!(
        url("anthropic.claude-opus-4-1-20250805-v1:0"),
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-opus-4-1-20250805-v1%3A0/converse"
    );
    assert_eq!(
        url("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"),
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse"
    );
    assert_eq!(
        Dialect::Bedrock.stream_path("/model/a%3A0/converse".to_owned()),
        "/model/a%3A0/converse-stream"
    );
    assert_eq!(
        bedrock.url(Dialect::Bedrock, None, "m", None),
        Err(UrlError::NoBase { provider: "bedrock" }),
        "each region has an address of its own"
    );
}
