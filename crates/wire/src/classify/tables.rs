//! One table per provider: its own rows, then those that all share.

use super::row::Row;
use super::rows::{anthropic, aws, azure, compatible, google, groq, hosted, openrouter, self_hosted, shared};

/// The rows of one provider, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Table(&'static [&'static [Row]]);

impl Table {
    /// All rows, from the top.
    pub(super) fn rows(self) -> impl Iterator<Item = &'static Row> {
        self.0.iter().copied().flatten()
    }
}

macro_rules! table {
    ($name:ident, $($own:path),*) => {
        pub(crate) const $name: Table =
            Table(&[$($own,)* shared::CODES, shared::PHRASES, shared::GENERAL_CODES, shared::STATUS]);
    };
}

table!(OPENAI,);
table!(AZURE, azure::ROWS);
// An unknown server: all the self-hosted ones' own words, which do not contradict each other.
table!(
    COMPATIBLE,
    self_hosted::LLAMA_CPP,
    self_hosted::VLLM,
    self_hosted::OLLAMA,
    self_hosted::TGI,
    self_hosted::LM_STUDIO,
    google::STATUS
);
table!(VLLM, self_hosted::VLLM);
table!(LLAMA_CPP, self_hosted::LLAMA_CPP);
table!(SGLANG, self_hosted::VLLM);
table!(OLLAMA, self_hosted::OLLAMA);
table!(OPENROUTER, openrouter::ROWS);
table!(GROQ, groq::ROWS);
table!(DEEPSEEK, hosted::DEEPSEEK);
table!(MISTRAL, hosted::MISTRAL);
table!(ANTHROPIC, anthropic::ROWS);
table!(GEMINI, google::ROWS, google::STATUS);
table!(BEDROCK, aws::ROWS);
table!(XAI, compatible::XAI);
table!(TOGETHER, compatible::TOGETHER, self_hosted::TGI);
table!(FIREWORKS, compatible::FIREWORKS);
table!(CEREBRAS, compatible::CEREBRAS);
table!(COHERE, compatible::COHERE);
table!(NVIDIA, compatible::NVIDIA, self_hosted::VLLM);
table!(HUGGING_FACE, compatible::HUGGING_FACE, self_hosted::TGI);
table!(LM_STUDIO, self_hosted::LM_STUDIO, self_hosted::LLAMA_CPP);
table!(TGI, self_hosted::TGI);
