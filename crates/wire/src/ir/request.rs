//! What is asked.

use serde_json::Number;

use super::{Json, Opaque, Text, Untranslatable};
use crate::dialect::Dialect;

/// A request for one answer. What it is sent to and whether it streams is decided for each attempt, and not here.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// The conversation, oldest first; instructions are turns of [`Role::System`].
    pub turns: Vec<Turn<'a>>,
    /// The tools that the client offers.
    pub tools: Vec<Tool<'a>>,
    /// Which of them may or must be called.
    pub tool_choice: Option<ToolChoice<'a>>,
    /// Whether several may be called at once.
    pub parallel_tools: Option<bool>,
    /// The most tokens that the answer may have.
    pub max_output: Option<u64>,
    /// Randomness.
    pub temperature: Option<Number>,
    /// Nucleus sampling.
    pub top_p: Option<Number>,
    /// Only so many of the likeliest tokens.
    pub top_k: Option<Number>,
    /// Texts at which the answer ends.
    pub stop: Vec<Text<'a>>,
    /// The form that the answer must have.
    pub format: Option<Format<'a>>,
    /// How much it shall reason.
    pub reasoning: Option<Reasoning>,
    /// Who asks, as the client calls them.
    pub user: Option<Text<'a>>,
    /// Parameters that several dialects have, and that mean the same in each.
    pub common: Vec<Common<'a>>,
    /// What only the client's dialect has.
    pub opaque: Vec<Opaque<'a>>,
    /// Where the client's dialect has what a loss may have to name.
    pub places: Places,
}

impl<'a> Request<'a> {
    /// The value of a parameter that several dialects have, as the client wrote it.
    pub(crate) fn common(&self, name: CommonName) -> Option<&Json<'a>> {
        self.common.iter().find(|common| common.name == name).map(|common| &common.json)
    }

    /// The tools that are offered: all, or those that a list of allowed ones leaves.
    ///
    /// # Errors
    /// [`Untranslatable`] if it leaves none.
    pub(crate) fn offered(&self) -> Result<Vec<&Tool<'a>>, Untranslatable> {
        let Some(ToolChoice::Among { names, .. }) = &self.tool_choice else {
            return Ok(self.tools.iter().collect());
        };
        let offered: Vec<_> = self.tools.iter().filter(|tool| names.contains(&tool.name)).collect();
        if offered.is_empty() {
            return Err(Untranslatable::at("/tool_choice", "allows none of the tools that can be sent"));
        }
        Ok(offered)
    }
}

/// A parameter that several dialects have, with the same values, under one name or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommonName {
    /// What keeps requests with the same beginning on the same cache (`prompt_cache_key`).
    CacheKey,
    /// How prompts are cached (`prompt_cache_options`).
    CacheOptions,
    /// `frequency_penalty`.
    FrequencyPenalty,
    /// The client's own labels, a flat object of texts (`metadata`).
    Metadata,
    /// `presence_penalty`.
    PresencePenalty,
    /// What makes sampling repeatable (`seed`).
    Seed,
    /// How fast and how dear (`service_tier`).
    ServiceTier,
    /// How many words the model makes (`verbosity`: low, medium, high).
    Verbosity,
}

/// A parameter that several dialects have. A request means the same without it.
#[derive(Debug, Clone)]
pub struct Common<'a> {
    /// Which.
    pub name: CommonName,
    /// Its place in the client's request.
    pub pointer: String,
    /// Its value.
    pub json: Json<'a>,
}

/// Where a dialect has a parameter, as a JSON pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Places {
    /// [`Request::format`].
    pub format: &'static str,
    /// The name of a schema, where the dialect has one.
    pub format_name: &'static str,
    /// [`Request::max_output`].
    pub max_output: &'static str,
    /// That one tool at most is called at a time.
    pub parallel: &'static str,
    /// [`Request::reasoning`].
    pub reasoning: &'static str,
    /// [`Request::stop`].
    pub stop: &'static str,
    /// [`Request::temperature`].
    pub temperature: &'static str,
    /// [`Request::top_k`].
    pub top_k: &'static str,
    /// [`Request::top_p`].
    pub top_p: &'static str,
    /// [`Request::user`].
    pub user: &'static str,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The model.
    Assistant,
    /// Whoever wrote the application (`system`, `developer`).
    System,
    /// The person, and the results of tools.
    User,
}

/// What one of them says.
#[derive(Debug, Clone)]
pub struct Turn<'a> {
    /// Who.
    pub role: Role,
    /// What, in order.
    pub blocks: Vec<Block<'a>>,
    /// Its place in the client's request.
    pub pointer: String,
}

/// A mark up to which the provider shall cache the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMark {
    /// For the provider's shorter time (five minutes with Anthropic, thirty with OpenAI).
    Short,
    /// For the longer one (an hour, twelve hours).
    Long,
}

/// A part of a turn.
#[derive(Debug, Clone)]
pub enum Block<'a> {
    /// An image, a document, a recording.
    Media(Media<'a>),
    /// What only one dialect has.
    Opaque(Opaque<'a>),
    /// What the model thought.
    Reasoning {
        /// The thoughts, or a summary; may be empty.
        text: Text<'a>,
        /// The provider's seal on them.
        signature: Option<Signature<'a>>,
    },
    /// The model's words of refusal.
    Refusal(Text<'a>),
    /// Text.
    Text {
        /// The text.
        text: Text<'a>,
        /// A cache mark behind it.
        cache: Option<CacheMark>,
    },
    /// The model calls a tool.
    ToolCall(ToolCall<'a>),
    /// What a tool said.
    ToolResult(ToolResult<'a>),
}

/// A provider's seal on what its model thought: of use at its origin only.
///
/// Where a dialect seals a tool call itself (Gemini), the seal stands in a block of reasoning right before the call, whose
/// text may be empty.
#[derive(Debug, Clone)]
pub struct Signature<'a> {
    /// The dialect that it came in.
    pub dialect: Dialect,
    /// The target that made it, as [`Destination::origin`](crate::translate::Destination::origin) names it. `None` for one
    /// that a provider has just made, or that a client of its own dialect hands back.
    pub origin: Option<Text<'a>>,
    /// The seal.
    pub value: Text<'a>,
}

impl Signature<'_> {
    /// Whether it may go to this target.
    pub(crate) fn is_of(&self, dialect: Dialect, origin: &str) -> bool {
        self.dialect == dialect && self.origin.as_deref() == Some(origin) && !self.value.is_empty()
    }
}

/// What a medium is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// A recording.
    Audio,
    /// A PDF or a text file.
    Document,
    /// A picture.
    Image,
}

/// Where a medium's bytes are.
#[derive(Debug, Clone)]
pub enum Source<'a> {
    /// Here, as base64.
    Data {
        /// `image/png`, say.
        media_type: Text<'a>,
        /// The bytes.
        base64: Text<'a>,
    },
    /// In the provider's own store: of use in one account only.
    File(Text<'a>),
    /// Here, as plain text.
    Plain(Text<'a>),
    /// At this address.
    Url(Text<'a>),
}

/// An image, a document, a recording.
#[derive(Debug, Clone)]
pub struct Media<'a> {
    /// What it is.
    pub kind: MediaKind,
    /// Where its bytes are.
    pub source: Source<'a>,
    /// What it is called.
    pub title: Option<Text<'a>>,
    /// A cache mark behind it.
    pub cache: Option<CacheMark>,
    /// Its place in the client's request.
    pub pointer: String,
}

/// The model calls a tool.
#[derive(Debug, Clone)]
pub struct ToolCall<'a> {
    /// What the result refers to.
    pub id: Text<'a>,
    /// Which tool.
    pub name: Text<'a>,
    /// The group of tools that it belongs to, in dialects that have such.
    pub namespace: Option<Text<'a>>,
    /// What is handed to it is any text, and not JSON.
    pub custom: bool,
    /// What is handed to it: JSON text as the model wrote it, which may be empty or no JSON at all; for a custom tool any
    /// text.
    pub arguments: Text<'a>,
    /// A cache mark behind it.
    pub cache: Option<CacheMark>,
    /// Its place in the client's request.
    pub pointer: String,
}

/// What a tool said.
#[derive(Debug, Clone)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub call: Text<'a>,
    /// What it said: text and media.
    pub content: Vec<Block<'a>>,
    /// It failed.
    pub failed: bool,
    /// A cache mark behind it.
    pub cache: Option<CacheMark>,
    /// Its place in the client's request.
    pub pointer: String,
}

/// What a tool takes.
#[derive(Debug, Clone)]
pub enum ToolKind<'a> {
    /// Any text, of which a grammar may be given.
    Custom {
        /// `{"type": "text"}` or `{"type": "grammar", …}`.
        format: Option<Json<'a>>,
    },
    /// Arguments in JSON.
    Function,
}

/// A tool that the client offers.
#[derive(Debug, Clone)]
pub struct Tool<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// The group of tools that it belongs to, in dialects that have such.
    pub namespace: Option<Text<'a>>,
    /// What it takes.
    pub kind: ToolKind<'a>,
    /// What it is for.
    pub description: Option<Text<'a>>,
    /// JSON Schema of its arguments; none where it takes none.
    pub schema: Option<Json<'a>>,
    /// Whether arguments must fit the schema exactly.
    pub strict: Option<bool>,
    /// A cache mark behind it.
    pub cache: Option<CacheMark>,
    /// Its place in the client's request.
    pub pointer: String,
}

/// Whether a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// If the model likes.
    Auto,
    /// None.
    Never,
    /// One at least.
    Required,
}

impl Mode {
    /// Its name in OpenAI's dialects.
    pub(crate) const fn openai(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Never => "none",
            Self::Required => "required",
        }
    }
}

/// Which tools may or must be called.
#[derive(Debug, Clone)]
pub enum ToolChoice<'a> {
    /// Of these only.
    Among {
        /// Whether one must be.
        mode: Mode,
        /// Their names.
        names: Vec<Text<'a>>,
    },
    /// Of all.
    Any(Mode),
    /// This one.
    Named(Text<'a>),
}

/// The form that an answer must have.
#[derive(Debug, Clone)]
pub enum Format<'a> {
    /// Any JSON.
    Json,
    /// JSON that fits a schema.
    Schema {
        /// What the schema is called.
        name: Option<Text<'a>>,
        /// What it is for.
        description: Option<Text<'a>>,
        /// The JSON Schema.
        schema: Json<'a>,
        /// Whether the answer must fit exactly.
        strict: Option<bool>,
    },
}

/// How hard to think, from nothing to everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Not at all.
    None,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// Hard.
    High,
    /// Harder.
    XHigh,
    /// As hard as it can.
    Max,
}

impl Effort {
    /// All, from the least.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// Its name in every dialect that has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The effort of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.name() == name)
    }
}

/// How much a request shall reason: an effort, a budget, or both where a client says both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// How hard.
    pub effort: Option<Effort>,
    /// At most this many tokens.
    pub budget: Option<u64>,
    /// Whether the client wants to see it: `None` where it did not say.
    pub visible: Option<bool>,
}
