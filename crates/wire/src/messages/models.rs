//! What the families of Claude models take: the rows of `catalog/claude.json`, where their source and date stand. The first
//! row whose word is in the model's name holds.

use std::sync::LazyLock;

use serde::Deserialize;

/// How a family of models thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Thinking {
    /// As much as it finds right, steered by an effort (`thinking.type: adaptive`, `output_config.effort`).
    Adaptive,
    /// As many tokens as it is given (`thinking.type: enabled`).
    Budget,
    /// Not at all.
    Never,
}

/// What a family of models takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Family {
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
    #[serde(skip)]
    known: bool,
}

impl Family {
    /// Whether it is one of the table.
    pub(crate) fn is_known(self) -> bool {
        self.known
    }
}

/// A server that only speaks the dialect: it takes what it knows and leaves the rest, and how much its model gives out is not
/// known.
const OTHER: Family = Family {
    sampling: true,
    may_not_think: true,
    thinking: Thinking::Budget,
    forced_tools: true,
    xhigh: false,
    formats: true,
    max_output: 8_192,
    known: false,
};

#[derive(Deserialize)]
struct Table {
    families: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    word: String,
    #[serde(flatten)]
    family: Family,
}

// The text is part of the build; that it can be read is tested, and nothing of it would be worth a panic.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let text = include_str!("../../../../catalog/claude.json");
    serde_json::from_str(text).map_or_else(|_| Vec::new(), |table: Table| table.families)
});

/// The family of a model, by the provider's name of it.
pub(crate) fn family(model: &str) -> Family {
    let row = TABLE.iter().find(|row| model.contains(&row.word));
    row.map_or(OTHER, |row| Family { known: true, ..row.family })
}

#[cfg(test)]
mod tests {
    use super::{OTHER, TABLE, Thinking, family};

    #[test]
    fn the_table_can_be_read_and_a_newer_family_comes_before_the_one_whose_name_is_its_beginning() {
        assert!(TABLE.len() >= 20, "{} rows are read", TABLE.len());
        for (place, row) in TABLE.iter().enumerate() {
            let hidden = TABLE.iter().take(place).find(|earlier| row.word.contains(&earlier.word));
            assert!(hidden.is_none(), "{} is never found", row.word);
        }
    }

    #[test]
    fn a_family_is_known_by_each_of_its_names() {
        let names = ["claude-opus-5-5", "anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5@20260922"];
        for name in names {
            let found = family(name);
            assert!(found.is_known() && !found.sampling && !found.forced_tools, "{name}");
            assert_eq!((found.thinking, found.max_output), (Thinking::Adaptive, 128_000));
        }
        assert_eq!(family("qwen3"), OTHER);
        assert!(!OTHER.is_known());
    }
}
