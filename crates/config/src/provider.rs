//! What the configuration has to know of each provider: where it is, whether it wants a credential, how the environment
//! names it.

/// One provider, as a row of data.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    /// Where it is if `base_url` does not say.
    pub(crate) base_url: Option<&'static str>,
    /// The environment variable of its credential; `None` for servers that usually ask for none.
    pub(crate) key_variable: Option<&'static str>,
    /// The wire formats that it speaks.
    pub(crate) dialects: &'static [&'static str],
    /// Whether its stream carries everything that a plain answer does.
    pub(crate) stream_carries_everything: bool,
}

const CHAT: &[&str] = &["chat"];
/// Self-hosted servers serve Anthropic's Messages beside Chat Completions.
const CHAT_AND_MESSAGES: &[&str] = &["chat", "messages"];

const fn hosted(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Provider {
    Provider {
        name,
        base_url: Some(base_url),
        key_variable: Some(key_variable),
        dialects: CHAT,
        stream_carries_everything: true,
    }
}

const fn local(name: &'static str, base_url: &'static str) -> Provider {
    Provider {
        name,
        base_url: Some(base_url),
        key_variable: None,
        dialects: CHAT_AND_MESSAGES,
        stream_carries_everything: true,
    }
}

/// All rows. Addresses are those of each provider's API reference, ports of self-hosted servers their documented ones.
pub(crate) static PROVIDERS: [Provider; 11] = [
    hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Provider {
        name: "azure",
        base_url: None,
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        dialects: CHAT,
        stream_carries_everything: true,
    },
    // Nothing is known of it, so nothing is promised for its streams.
    Provider {
        name: "openai-compatible",
        base_url: None,
        key_variable: None,
        dialects: CHAT,
        stream_carries_everything: false,
    },
    local("vllm", "http://127.0.0.1:8000/v1"),
    local("llama-cpp", "http://127.0.0.1:8080/v1"),
    local("sglang", "http://127.0.0.1:30000/v1"),
    local("ollama", "http://127.0.0.1:11434/v1"),
    hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
];

/// Providers that the design names and this release refuses.
pub(crate) const NOT_BUILT: &[&str] = &["anthropic", "gemini", "vertex", "bedrock"];

/// The row of this name.
pub(crate) fn named(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|row| row.name == name)
}
