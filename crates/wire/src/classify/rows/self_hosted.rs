//! Servers that one runs oneself: what they say beside the common words, from their sources.

use crate::classify::FailureClass::{InvalidRequest, ModelNotFound, Overloaded, Unsupported};
use crate::classify::row::{Row, says};

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
