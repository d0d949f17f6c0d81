//! What the families of Claude models take (Anthropic documentation, "Models overview", "Extended thinking" and the migration
//! guides of 2026). A row of data for each family; the first whose word is in the model's name holds.

/// How a family of models thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// As much as it finds right, steered by an effort (`thinking.type: adaptive`, `output_config.effort`).
    Adaptive,
    /// As many tokens as it is given (`thinking.type: enabled`).
    Budget,
    /// Not at all.
    Never,
}

/// What a family of models takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family {
    word: &'static str,
    /// `temperature`, `top_p`, `top_k`.
    pub(crate) sampling: bool,
    /// `thinking.type: disabled`.
    pub(crate) may_not_think: bool,
    /// How it thinks.
    pub(crate) thinking: Thinking,
    /// `tool_choice` of `any` or `tool`.
    pub(crate) forced_tools: bool,
    /// The effort `xhigh`.
    pub(crate) xhigh: bool,
    /// `output_config.format`.
    pub(crate) formats: bool,
    /// The most tokens that it gives out.
    pub(crate) max_output: u64,
}

const NEWEST: Family = Family {
    word: "",
    sampling: false,
    may_not_think: false,
    thinking: Thinking::Adaptive,
    forced_tools: false,
    xhigh: true,
    formats: true,
    max_output: 128_000,
};

const CLASSIC: Family = Family {
    word: "",
    sampling: true,
    may_not_think: true,
    thinking: Thinking::Budget,
    forced_tools: true,
    xhigh: false,
    formats: true,
    max_output: 64_000,
};

static FAMILIES: &[Family] = &[
    Family { word: "opus-5-5", ..NEWEST },
    Family { word: "fable-5-1", ..NEWEST },
    Family { word: "fable-5-2", ..NEWEST },
    Family { word: "sonnet-5-5", ..NEWEST },
    Family { word: "haiku-5-5", may_not_think: true, forced_tools: true, ..NEWEST },
    Family { word: "fable-5", forced_tools: true, ..NEWEST },
    Family { word: "opus-5", may_not_think: true, forced_tools: true, ..NEWEST },
    Family { word: "opus-4-7", may_not_think: true, forced_tools: true, ..NEWEST },
    Family { word: "opus-4-8", may_not_think: true, forced_tools: true, ..NEWEST },
    Family { word: "sonnet-5", may_not_think: true, forced_tools: true, ..NEWEST },
    Family { word: "opus-4-6", thinking: Thinking::Adaptive, max_output: 128_000, ..CLASSIC },
    Family { word: "sonnet-4-6", thinking: Thinking::Adaptive, max_output: 128_000, ..CLASSIC },
    Family { word: "opus-4-5", ..CLASSIC },
    Family { word: "sonnet-4-5", ..CLASSIC },
    Family { word: "haiku-4-5", ..CLASSIC },
    Family { word: "opus-4-1", max_output: 32_000, ..CLASSIC },
    Family { word: "opus-4", max_output: 32_000, formats: false, ..CLASSIC },
    Family { word: "sonnet-4", formats: false, ..CLASSIC },
    Family { word: "claude-3", thinking: Thinking::Never, formats: false, max_output: 4_096, ..CLASSIC },
    Family { word: "claude-2", thinking: Thinking::Never, formats: false, max_output: 4_096, ..CLASSIC },
];

impl Family {
    /// Whether it is one of the table.
    pub(crate) fn is_known(self) -> bool {
        !self.word.is_empty()
    }
}

/// A server that only speaks the dialect: it takes what it knows and leaves the rest, and how much its model gives out is not
/// known.
const OTHER: Family = Family { max_output: 8_192, ..CLASSIC };

/// The family of a model, by the provider's name of it.
pub(crate) fn family(model: &str) -> Family {
    FAMILIES.iter().find(|family| model.contains(family.word)).copied().unwrap_or(OTHER)
}
