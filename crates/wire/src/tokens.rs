//! How many tokens a text or a request has: exact for the texts of OpenAI's models, an estimate for all others.
//!
//! Makers keep their vocabularies to themselves or change them with each model, but what one vocabulary of this size makes of
//! a text is near what another makes of it. So that others are counted as OpenAI's newest and scaled by family (the
//! deviation on samples stands in `docs/counting.md`).

mod media;
mod request;
#[cfg(test)]
mod tests;

use serde_json::json;

use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::translate;

/// At most this much of a request's text is counted, in bytes; the rest is scaled. A run of one letter takes the longest:
/// about half a second for all of it.
pub const COUNTED: usize = 1024 * 1024;

/// What makes tokens of a text.
pub trait Vocabulary: Sync {
    /// How many tokens this text has. What looks like a special token is text like any other.
    fn count(&self, text: &str) -> usize;
}

struct Bpe(&'static str);

impl Vocabulary for Bpe {
    fn count(&self, text: &str) -> usize {
        // It is always there: both vocabularies are built in.
        tiktoken::get_encoding(self.0).map_or_else(|| text.len().div_ceil(4), |encoding| encoding.count(text))
    }
}

static O200K: Bpe = Bpe("o200k_base");
static CL100K: Bpe = Bpe("cl100k_base");

/// How pictures are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pictures {
    /// OpenAI, "Images and vision": a base, and so much for each tile of 512 pixels.
    Tiles { base: u64, tile: u64 },
    /// Anthropic, "Vision": pixels / 750, at most 1,568 pixels a side.
    Area,
    /// Google, "Understand and count tokens": 258, and for more than 384 pixels a side as much for each tile of 768.
    Squares,
}

/// How the tokens of one family of models are counted.
#[derive(Clone, Copy)]
pub struct Family {
    vocabulary: &'static dyn Vocabulary,
    /// The vocabulary is the family's own.
    exact: bool,
    /// Tokens of the family for a thousand of the vocabulary.
    per_mille: u64,
    /// What stands around each message, in tokens.
    message: u64,
    /// What stands around each tool.
    tool: u64,
    pictures: Pictures,
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("exact", &self.exact).field("per_mille", &self.per_mille).finish()
    }
}

impl Default for Family {
    /// That of models of which nothing is known.
    fn default() -> Self {
        OTHER
    }
}

/// So many tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The tokens.
    pub tokens: u64,
    /// The texts were counted by the model's own vocabulary, to their end.
    pub exact: bool,
}

/// OpenAI's cookbook, "How to count tokens": three tokens around a message, seven (before `gpt-4o` ten) around a tool.
const NEW: Family = Family {
    vocabulary: &O200K,
    exact: true,
    per_mille: 1000,
    message: 3,
    tool: 7,
    pictures: Pictures::Tiles { base: 85, tile: 170 },
};
const OLD: Family = Family { vocabulary: &CL100K, tool: 10, ..NEW };
/// `gpt-5`, by the table of "Images and vision".
const FIVE: Family = Family { pictures: Pictures::Tiles { base: 70, tile: 140 }, ..NEW };
const MINI: Family = Family { pictures: Pictures::Tiles { base: 2833, tile: 5667 }, ..NEW };
const OTHER: Family = Family { exact: false, ..NEW };
/// Anthropic's glossary: a token is about three and a half English characters. Of English the vocabulary makes tokens of
/// about four and a third.
const CLAUDE: Family = Family { per_mille: 1230, message: 4, pictures: Pictures::Area, ..OTHER };
/// Google, "Understand and count tokens": a token is about four characters.
const GEMINI: Family = Family { per_mille: 1080, pictures: Pictures::Squares, ..OTHER };

/// What the name of a model begins with, its path left out; the first that fits holds.
const FAMILIES: [(&str, Family); 19] = [
    ("gpt-4o-mini", MINI),
    ("gpt-4o", NEW),
    ("chatgpt-4o", NEW),
    ("gpt-4.", NEW),
    ("gpt-4", OLD),
    ("gpt-3.5", OLD),
    ("gpt-35", OLD),
    ("gpt-5", FIVE),
    ("gpt-oss", NEW),
    ("o1", NEW),
    ("o3", NEW),
    ("o4", NEW),
    ("text-embedding-", OLD),
    ("claude", CLAUDE),
    ("gemini", GEMINI),
    ("gemma", GEMINI),
    ("mistral", Family { per_mille: 1070, ..OTHER }),
    ("codestral", Family { per_mille: 1070, ..OTHER }),
    ("deepseek", Family { per_mille: 1030, ..OTHER }),
];

impl Family {
    /// The family of a model, by what its provider calls it.
    #[must_use]
    pub fn of(model: &str) -> Self {
        Self::known(model).unwrap_or_default()
    }

    /// The same; `None` if it is none that is known.
    #[must_use]
    pub fn known(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let name = name.strip_prefix("ft:").unwrap_or(&name);
        // Bedrock's names begin with region and maker (`eu.anthropic.claude-…`).
        let name = name.find("claude").and_then(|at| name.get(at..)).unwrap_or(name);
        let found = FAMILIES.iter().find(|(start, _)| name.starts_with(start));
        found.map(|(_, family)| *family)
    }

    /// The tokens of a text.
    #[must_use]
    pub fn text(&self, text: &str) -> Count {
        let mut sum = Sum::new(*self);
        sum.text(text);
        sum.count()
    }

    /// The tokens of a request, with what stands around its messages and tools. `None` where it cannot be read as one of its
    /// dialect.
    #[must_use]
    pub fn request(&self, dialect: Dialect, body: &[u8]) -> Option<Count> {
        let request = translate::read(body, dialect).ok()?;
        let mut sum = Sum::new(*self);
        sum.request(&request);
        Some(sum.count())
    }

    /// The tokens of what an answer says. `None` where it cannot be read as one of its dialect.
    #[must_use]
    pub fn answer(&self, dialect: Dialect, body: &[u8]) -> Option<Count> {
        let answer = translate::read_answer(body, dialect).ok()?;
        let mut sum = Sum::new(*self);
        sum.blocks(&answer.blocks);
        Some(sum.count())
    }
}

/// The tokens of a request to an endpoint that counts (see [`Endpoint::counts`]), which may leave out what an answer would
/// need. `rough` where it cannot be read.
#[must_use]
pub fn asked(family: &Family, dialect: Dialect, body: &[u8], rough: u64) -> Count {
    let inner = (dialect == Dialect::Gemini).then(|| inner(body)).flatten();
    let count = family.request(dialect, inner.as_deref().unwrap_or(body));
    count.unwrap_or(Count { tokens: rough, exact: false })
}

/// Gemini's `countTokens` takes the contents, or a whole request (Gemini API reference, "countTokens").
fn inner(body: &[u8]) -> Option<Vec<u8>> {
    let mut body: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    let names = ["generateContentRequest", "generate_content_request"];
    let mut request =
        names.into_iter().find_map(|name| body.remove(name)).filter(serde_json::Value::is_object)?;
    request.as_object_mut()?.remove("model");
    serde_json::to_vec(&request).ok()
}

/// The answer of an endpoint that counts.
#[must_use]
pub fn told(endpoint: Endpoint, tokens: u64) -> Vec<u8> {
    let body = match endpoint {
        Endpoint::InputTokens => json!({ "object": "response.input_tokens", "input_tokens": tokens }),
        Endpoint::GeminiCount => json!({ "totalTokens": tokens }),
        _ => json!({ "input_tokens": tokens }),
    };
    body.to_string().into_bytes()
}

/// What has been counted so far.
struct Sum {
    family: Family,
    /// By the vocabulary.
    counted: u64,
    counted_bytes: usize,
    /// What was not counted, in bytes.
    beyond: usize,
    /// By the family's own rules.
    fixed: u64,
    guessed: bool,
}

impl Sum {
    fn new(family: Family) -> Self {
        Self { family, counted: 0, counted_bytes: 0, beyond: 0, fixed: 0, guessed: false }
    }

    fn text(&mut self, text: &str) {
        let room = COUNTED.saturating_sub(self.counted_bytes);
        let cut = (0..=text.len().min(room)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (now, beyond) = text.split_at_checked(cut).unwrap_or((text, ""));
        self.counted += self.family.vocabulary.count(now) as u64;
        self.counted_bytes += now.len();
        self.beyond += beyond.len();
    }

    fn count(&self) -> Count {
        let scaled = match self.counted_bytes {
            0 => 0,
            bytes => u128::from(self.counted) * self.beyond as u128 / bytes as u128,
        };
        let texts = (u128::from(self.counted) + scaled) * u128::from(self.family.per_mille);
        let texts = u64::try_from(texts.div_ceil(1000)).unwrap_or(u64::MAX);
        let exact = self.family.exact && self.beyond == 0 && !self.guessed;
        Count { tokens: texts.saturating_add(self.fixed), exact }
    }
}
