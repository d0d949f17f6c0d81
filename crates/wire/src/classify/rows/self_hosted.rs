//! Servers that one runs oneself: what they say beside the common words, from their sources.

use crate::classify::FailureClass::{
    ContextOverflow, InvalidRequest, ModelNotFound, Overloaded, ServerError, Unsupported,
};
use crate::classify::row::{Row, codes, says};

/// llama.cpp's server: `code` is the status as a number, `type` a word.
pub(in crate::classify) const LLAMA_CPP: &[Row] = &[
    // It answers a body that it cannot parse with 500, though the body is the client's.
    says(InvalidRequest, "llama.cpp: a body that it cannot parse", &["json.exception.parse_error"]),
    says(InvalidRequest, "llama.cpp: a field of the wrong type", &["json.exception.type_error"])
        .status(&[400, 500]),
    says(
        Unsupported,
        "llama.cpp: started without what the request needs",
        &[
            "requires --jinja",
            "image input is not supported",
            "audio input is not supported",
            "does not support multimodal",
        ],
    ),
];

/// vLLM and SGLang.
pub(in crate::classify) const VLLM: &[Row] = &[
    says(
        Unsupported,
        "vLLM: started without what the request needs",
        &[
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            "may be provided in one prompt",
            "is not a multimodal model",
        ],
    ),
    says(Overloaded, "SGLang: the queue is full", &["request queue is full"]),
];

/// Ollama.
pub(in crate::classify) const OLLAMA: &[Row] = &[
    says(ModelNotFound, "Ollama: the model is not pulled", &["try pulling it first"]),
    says(
        Unsupported,
        "Ollama: the model cannot do this",
        &["does not support tools", "does not support thinking"],
    ),
    says(Overloaded, "Ollama: too many pending requests", &["maximum pending requests exceeded"]),
];

/// Text Generation Inference: the word is in `error_type`, beside a text in `error`. Together and Hugging Face run it too.
pub(in crate::classify) const TGI: &[Row] = &[
    says(
        ContextOverflow,
        "TGI: the prompt and what is to come are too long",
        &["`inputs` tokens + `max_new_tokens` must be", "`inputs` must have less than"],
    )
    .status(&[400, 422]),
    codes(Overloaded, "TGI: too many requests at once", &["overloaded"]),
    // It answers with 424, as if the request were at fault.
    codes(
        ServerError,
        "TGI: the generation failed",
        &["generation", "incomplete_generation", "incomplete_generation_stream"],
    ),
    codes(
        Unsupported,
        "TGI: the model's template does not take the messages or tools",
        &["template_error", "tool_error", "missing_template_variable"],
    ),
];

/// LM Studio: its texts come with 400, or inside a 200.
pub(in crate::classify) const LM_STUDIO: &[Row] = &[says(
    ContextOverflow,
    "LM Studio: the prompt is longer than the context that was loaded",
    &[
        "trying to keep the first",
        "tokens to keep from the initial prompt is greater than the context length",
    ],
)];
