//! What the configuration has to know of each provider: where it is, whether it wants a credential, how the environment
//! names it.

/// How a provider's base URLs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseForm {
    /// They end in the version: `…/v1`.
    WithVersion,
    /// The version belongs to what follows them.
    WithoutVersion,
    /// Azure's resources and deployments.
    Azure,
    /// There is no version in any path.
    Unversioned,
}

/// One provider, as a row of data.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    /// Where it is if `base_url` does not say.
    pub(crate) base_url: Option<&'static str>,
    /// The environment variable of its credential; `None` for servers that usually ask for none.
    pub(crate) key_variable: Option<&'static str>,
    /// What its base URLs look like.
    pub(crate) form: BaseForm,
    /// The wire formats that it speaks.
    pub(crate) dialects: &'static [&'static str],
    /// Whether its stream carries everything that a plain answer does.
    pub(crate) stream_carries_everything: bool,
    /// What became of its public service, if that is no more: the rest of a sentence that begins with its name. Whoever
    /// has the like at an address of their own can still use the row.
    pub(crate) ended: Option<&'static str>,
}

const CHAT: &[&str] = &["chat"];
const MESSAGES: &[&str] = &["messages"];
const GEMINI: &[&str] = &["gemini"];
const BEDROCK: &[&str] = &["bedrock"];
/// Self-hosted servers serve Anthropic's Messages beside Chat Completions.
const CHAT_AND_MESSAGES: &[&str] = &["chat", "messages"];
const RESPONSES: &[&str] = &["responses"];
const CHAT_AND_RESPONSES: &[&str] = &["chat", "responses"];
const ALL_OF_OPENAI_AND_MESSAGES: &[&str] = &["chat", "messages", "responses"];

const fn hosted(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Provider {
    Provider {
        name,
        base_url: Some(base_url),
        key_variable: Some(key_variable),
        form: BaseForm::WithVersion,
        dialects: CHAT,
        stream_carries_everything: true,
        ended: None,
    }
}

const fn local(name: &'static str, base_url: &'static str) -> Provider {
    Provider {
        name,
        base_url: Some(base_url),
        key_variable: None,
        form: BaseForm::WithVersion,
        dialects: CHAT_AND_MESSAGES,
        stream_carries_everything: true,
        ended: None,
    }
}

/// All rows. Addresses are those of each provider's API reference, ports of self-hosted servers their documented ones.
pub(crate) static PROVIDERS: [Provider; 25] = [
    Provider {
        dialects: CHAT_AND_RESPONSES,
        ..hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
    },
    Provider {
        base_url: None,
        form: BaseForm::Azure,
        dialects: CHAT_AND_RESPONSES,
        ..hosted("azure", "", "AZURE_OPENAI_API_KEY")
    },
    // Nothing is known of it, so nothing is promised for its streams.
    Provider {
        base_url: None,
        dialects: CHAT,
        stream_carries_everything: false,
        ..local("openai-compatible", "")
    },
    Provider { dialects: ALL_OF_OPENAI_AND_MESSAGES, ..local("vllm", "http://127.0.0.1:8000/v1") },
    local("llama-cpp", "http://127.0.0.1:8080/v1"),
    Provider { dialects: ALL_OF_OPENAI_AND_MESSAGES, ..local("sglang", "http://127.0.0.1:30000/v1") },
    local("ollama", "http://127.0.0.1:11434/v1"),
    hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    // Anthropic's own SDKs take an address without the version, and so does `base_url`.
    Provider {
        form: BaseForm::WithoutVersion,
        dialects: MESSAGES,
        ..hosted("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY")
    },
    // And so do Google's.
    Provider {
        form: BaseForm::WithoutVersion,
        dialects: GEMINI,
        ..hosted("gemini", "https://generativelanguage.googleapis.com", "GEMINI_API_KEY")
    },
    // Where it is depends on the region, and whoever has no key signs.
    Provider {
        base_url: None,
        form: BaseForm::Unversioned,
        dialects: BEDROCK,
        ..hosted("bedrock", "", "AWS_BEARER_TOKEN_BEDROCK")
    },
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    hosted("together", "https://api.together.ai/v1", "TOGETHER_API_KEY"),
    Provider {
        dialects: CHAT_AND_MESSAGES,
        ..hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY")
    },
    hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    Provider {
        stream_carries_everything: false,
        ..hosted("cohere", "https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY")
    },
    Provider {
        dialects: RESPONSES,
        stream_carries_everything: false,
        ..hosted("perplexity", "https://api.perplexity.ai/v1", "PERPLEXITY_API_KEY")
    },
    hosted("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    hosted("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    Provider {
        ended: Some("was retired by GitHub on 2026-07-30"),
        ..hosted("github-models", "https://models.github.ai/inference", "GITHUB_TOKEN")
    },
    local("lm-studio", "http://127.0.0.1:1234/v1"),
    Provider { dialects: CHAT, ..local("tgi", "http://127.0.0.1:3000/v1") },
];

/// Providers that the design names and this release refuses.
pub(crate) const NOT_BUILT: &[&str] = &["vertex"];

impl Provider {
    /// Whether it is Amazon Bedrock: its address has a region, and its credential may sign.
    pub(crate) fn is_aws(&self) -> bool {
        self.form == BaseForm::Unversioned
    }

    /// What it speaks, as the end of a sentence.
    pub(crate) fn speaks(&self) -> String {
        let names: Vec<String> = self.dialects.iter().map(|dialect| format!("`{dialect}`")).collect();
        format!("provider `{}` speaks {}", self.name, names.join(" and "))
    }
}

/// The row of this name.
pub(crate) fn named(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|row| row.name == name)
}
