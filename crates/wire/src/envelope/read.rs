//! The forward pass.

use super::{
    Envelope, EnvelopeError, Field, Limits, Member, Needs, Preferences, StreamOptions, Structured, fields,
    gemini, media, preferences,
};
use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::json::{ScanError, Scanner, Span, text};

pub(super) fn read(
    endpoint: Endpoint,
    dialect: Dialect,
    body: &[u8],
    limits: &Limits,
) -> Result<Envelope, EnvelopeError> {
    read_with(endpoint, dialect, body, limits, Found::default())
}

/// The path has said the model and whether the answer streams.
pub(super) fn read_gemini(
    endpoint: Endpoint,
    body: &[u8],
    model: &str,
    stream: bool,
    limits: &Limits,
) -> Result<Envelope, EnvelopeError> {
    let model = Some(model.to_owned()).filter(|model| !model.is_empty());
    read_with(endpoint, Dialect::Gemini, body, limits, Found { model, stream, ..Found::default() })
}

fn read_with(
    endpoint: Endpoint,
    dialect: Dialect,
    body: &[u8],
    limits: &Limits,
    found: Found,
) -> Result<Envelope, EnvelopeError> {
    if body.len() > limits.max_bytes {
        return Err(EnvelopeError::TooLarge { limit: limits.max_bytes, actual: body.len() });
    }
    if let Err(error) = std::str::from_utf8(body) {
        return Err(EnvelopeError::InvalidUtf8 { offset: error.valid_up_to() });
    }
    let mut reader = Reader {
        endpoint,
        dialect,
        scanner: Scanner::new(body, limits.max_depth),
        max_depth: limits.max_depth,
        found,
    };
    let inside = reader.members()?;
    reader.found.into_envelope(endpoint, dialect, inside)
}

/// What the pass has found so far.
#[derive(Default)]
struct Found {
    members: Vec<Member>,
    count: usize,
    model: Option<String>,
    messages: bool,
    stream: bool,
    stream_options: Option<StreamOptions>,
    include_usage: bool,
    preferences: Preferences,
    needs: Needs,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    tokens: u64,
    affinity: [Option<String>; 3],
}

impl Found {
    fn into_envelope(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        inside: usize,
    ) -> Result<Envelope, EnvelopeError> {
        // Where a model is added something must stand behind it.
        let input = self.members.iter().any(|member| member.field == Field::Input);
        let model = match (self.model, endpoint.default_model()) {
            (Some(model), _) => model,
            (None, Some(model)) if input => model.to_owned(),
            (None, Some(_)) => return Err(EnvelopeError::Missing { field: "input" }),
            (None, None) => return Err(EnvelopeError::Missing { field: "model" }),
        };
        // What counts takes what it is given, but something must stand beside the model.
        let wanted = match endpoint {
            Endpoint::GeminiCount => !self.members.iter().any(|member| member.field == Field::WholeRequest),
            other => other == Endpoint::Generation || other == Endpoint::CountTokens,
        };
        if !self.messages && wanted {
            let field = match dialect {
                Dialect::Gemini => "contents",
                Dialect::Responses => "input",
                Dialect::Chat | Dialect::Messages | Dialect::Bedrock => "messages",
            };
            return Err(EnvelopeError::Missing { field });
        }
        Ok(Envelope {
            endpoint,
            dialect,
            form: None,
            response_format: None,
            members: self.members,
            member_count: self.count,
            inside,
            stream_options: self.stream_options,
            model,
            stream: self.stream,
            include_usage: self.include_usage,
            preferences: self.preferences,
            needs: self.needs,
            max_tokens: self.max_tokens,
            max_completion_tokens: self.max_completion_tokens,
            estimated_prompt_tokens: self.tokens,
            affinity: self.affinity,
        })
    }
}

struct Reader<'a> {
    endpoint: Endpoint,
    dialect: Dialect,
    scanner: Scanner<'a>,
    max_depth: usize,
    found: Found,
}

impl<'a> Reader<'a> {
    /// Reads all members; gives the offset just inside the opening brace.
    fn members(&mut self) -> Result<usize, EnvelopeError> {
        if self.scanner.peek().map_err(|error| self.scan(error))? != b'{' {
            self.skip()?;
            self.scanner.end().map_err(|error| self.scan(error))?;
            return Err(EnvelopeError::NotAnObject);
        }
        self.scanner.open_object().map_err(|error| self.scan(error))?;
        let inside = self.scanner.offset();
        let mut separator = inside;
        let mut first = true;
        while let Some(key) = self.scanner.next_key(&mut first).map_err(|error| self.scan(error))? {
            self.member(key, separator)?;
            separator = self.scanner.offset() + 1;
        }
        self.scanner.end().map_err(|error| self.scan(error))?;
        Ok(inside)
    }

    /// Reads one member. `separator` is where it begins, just after the brace or comma.
    fn member(&mut self, key: Span, separator: usize) -> Result<(), EnvelopeError> {
        let index = self.found.count;
        self.found.count += 1;
        let name = text(self.scanner.slice(&key)).ok_or(EnvelopeError::NotJson { offset: key.start })?;
        let Some(field) = Field::of(self.endpoint, self.dialect, &name) else {
            if let Some(meant) = Field::folded(self.endpoint, self.dialect, &name) {
                return Err(EnvelopeError::Misspelt { key: meant.name() });
            }
            self.found.needs.unknown_fields =
                self.found.needs.unknown_fields || !fields::is_passed(self.dialect, &name);
            self.skip()?;
            return self.reach_separator();
        };
        if self.found.members.iter().any(|member| member.field == field) {
            return Err(EnvelopeError::DuplicateKey { key: field.name() });
        }
        let value = self.value(field)?;
        self.reach_separator()?;
        let whole = separator..self.scanner.offset();
        self.found.members.push(Member { field, index, whole, key, value });
        Ok(())
    }

    /// Moves over white space, so that the scanner stands at the comma or brace.
    fn reach_separator(&mut self) -> Result<(), EnvelopeError> {
        self.scanner.peek().map(drop).map_err(|error| self.scan(error))
    }

    /// Reads the value of a routed field.
    fn value(&mut self, field: Field) -> Result<Span, EnvelopeError> {
        let kind = self.scanner.peek().map_err(|error| self.scan(error))?;
        match field {
            Field::Messages | Field::Contents => return self.messages(field, kind),
            Field::Items if kind == b'[' => return self.messages(field, kind),
            // The path says it; what a library writes here is left out.
            Field::Model if self.dialect == Dialect::Gemini => return self.skip(),
            Field::StreamOptions if kind == b'{' => return self.stream_options(),
            _ => {}
        }
        let span = self.skip()?;
        let json = self.scanner.slice(&span);
        if json != b"null" {
            self.take(field, json)?;
        } else if field == Field::Model {
            return Err(wrong_model());
        }
        Ok(span)
    }

    /// Takes in a value that is not null.
    fn take(&mut self, field: Field, json: &[u8]) -> Result<(), EnvelopeError> {
        let found = &mut self.found;
        match field {
            Field::Model => {
                let model = text(json).filter(|model| !model.is_empty()).ok_or_else(wrong_model)?;
                found.model = Some(model.into_owned());
            }
            Field::Stream => found.stream = boolean(field, json)?,
            Field::StreamFormat => found.stream = text(json).is_some_and(|format| format == "sse"),
            Field::StreamOptions => return Err(wrong(field, "an object")),
            Field::Models => preferences::read_models(json, &mut found.preferences)?,
            Field::Provider => preferences::read_provider(json, &mut found.preferences)?,
            Field::MaxTokens => found.max_tokens = count(field, json)?,
            Field::MaxOutputTokens => found.max_tokens = count(field, json)?,
            Field::MaxCompletionTokens => found.max_completion_tokens = count(field, json)?,
            Field::N => {
                let n = count(field, json)?.and_then(|n| u32::try_from(n).ok());
                found.needs.n = n.ok_or_else(|| wrong(field, "a whole number"))?;
            }
            Field::PromptCacheKey => found.affinity[0] = name(json),
            Field::SafetyIdentifier => found.affinity[1] = name(json),
            Field::User => found.affinity[2] = name(json),
            Field::Metadata => found.affinity[2] = word_in(json, "user_id").filter(|id| !id.is_empty()),
            _ => self.take_need(field, json)?,
        }
        Ok(())
    }

    fn take_need(&mut self, field: Field, json: &[u8]) -> Result<(), EnvelopeError> {
        let needs = &mut self.found.needs;
        match field {
            Field::Tools | Field::Functions => {
                let one = self.dialect == Dialect::Gemini && json.starts_with(b"{");
                if !json.starts_with(b"[") && !one {
                    return Err(wrong(field, "an array"));
                }
                needs.tools |= !is_empty_array(json);
                self.found.tokens += (json.len() as u64).div_ceil(4);
            }
            Field::ParallelToolCalls => needs.parallel_tools = Some(boolean(field, json)?),
            Field::ResponseFormat => needs.structured = structured(json)?,
            Field::ReasoningEffort => needs.reasoning |= text(json).is_some_and(|effort| effort != "none"),
            Field::Reasoning => needs.reasoning |= asks_for_reasoning(json),
            Field::Thinking => needs.reasoning |= asks_for_reasoning(json),
            Field::Logprobs => needs.logprobs |= json == b"true",
            Field::TopLogprobs => needs.logprobs |= json != b"0",
            Field::Modalities => needs.audio_out |= names_audio(json),
            Field::Audio => needs.audio_out = true,
            Field::System | Field::Instructions => {
                if !matches!(json.first(), Some(b'"' | b'[')) {
                    return Err(wrong(field, "a string or an array"));
                }
                self.found.tokens += (json.len() as u64).div_ceil(4);
            }
            Field::Input | Field::Prompt | Field::Query | Field::Documents => {
                self.found.tokens += (json.len() as u64).div_ceil(4);
            }
            // A list was looked at where it stands.
            Field::Items => {
                if !json.starts_with(b"\"") {
                    return Err(wrong(field, "a string or an array"));
                }
                needs.has_messages = true;
                self.found.messages = true;
                self.found.tokens += (json.len() as u64).div_ceil(4);
            }
            Field::Text => needs.structured = needs.structured.or_else(|| text_format(json)),
            Field::SystemInstruction | Field::WholeRequest => {
                self.found.tokens += (json.len() as u64).div_ceil(4)
            }
            Field::GenerationConfig => {
                self.found.max_tokens = gemini::needs_of(json, needs)?.or(self.found.max_tokens);
            }
            Field::OutputConfig => needs.structured = needs.structured.or_else(|| output_format(json)),
            Field::OutputFormat => needs.structured = needs.structured.or_else(|| format_of(json)),
            Field::ToolChoice => {
                needs.named_tool = names_tool(json);
                if forbids_parallel_tools(json) {
                    needs.parallel_tools = Some(false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn messages(&mut self, field: Field, kind: u8) -> Result<Span, EnvelopeError> {
        let start = self.scanner.offset();
        let seen = match (field, kind) {
            (Field::Contents, b'[' | b'{') => gemini::read_contents(&mut self.scanner),
            (_, b'[') => media::read_messages(&mut self.scanner),
            _ => {
                self.skip()?;
                return Err(wrong(field, "an array"));
            }
        };
        let seen = seen.map_err(|error| self.scan(error))?;
        let span = start..self.scanner.offset();
        let found = &mut self.found;
        found.messages = true;
        found.tokens += seen.tokens(span.len() as u64);
        found.needs.has_messages = seen.count > 0;
        found.needs.images = seen.images;
        found.needs.audio = seen.audio;
        found.needs.files = seen.files;
        found.needs.video = seen.video;
        found.needs.prefill = seen.assistant_last;
        Ok(span)
    }

    fn stream_options(&mut self) -> Result<Span, EnvelopeError> {
        const FIELD: &str = "stream_options.include_usage";
        let start = self.scanner.offset();
        self.scanner.open_object().map_err(|error| self.scan(error))?;
        let mut options = StreamOptions { inside: self.scanner.offset(), empty: true, include_usage: None };
        let mut first = true;
        while let Some(key) = self.scanner.next_key(&mut first).map_err(|error| self.scan(error))? {
            options.empty = false;
            let value = self.skip()?;
            if text(self.scanner.slice(&key)).is_none_or(|key| key != "include_usage") {
                continue;
            }
            if options.include_usage.is_some() {
                return Err(EnvelopeError::DuplicateKey { key: FIELD });
            }
            self.found.include_usage = match self.scanner.slice(&value) {
                b"true" => true,
                b"false" | b"null" => false,
                _ => return Err(EnvelopeError::WrongType { field: FIELD, expected: "true or false" }),
            };
            options.include_usage = Some(value);
        }
        self.found.stream_options = Some(options);
        Ok(start..self.scanner.offset())
    }

    fn skip(&mut self) -> Result<Span, EnvelopeError> {
        self.scanner.skip_value().map_err(|error| self.scan(error))
    }

    fn scan(&self, error: ScanError) -> EnvelopeError {
        match error {
            ScanError::Syntax { offset } => EnvelopeError::NotJson { offset },
            ScanError::TooDeep => EnvelopeError::TooDeep { limit: self.max_depth },
        }
    }
}

fn wrong(field: Field, expected: &'static str) -> EnvelopeError {
    EnvelopeError::WrongType { field: field.name(), expected }
}

fn wrong_model() -> EnvelopeError {
    wrong(Field::Model, "a non-empty string")
}

fn boolean(field: Field, json: &[u8]) -> Result<bool, EnvelopeError> {
    match json {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(wrong(field, "true or false")),
    }
}

fn count(field: Field, json: &[u8]) -> Result<Option<u64>, EnvelopeError> {
    count_of(field.name(), json)
}

/// A count; `None` for a negative one. `100.0` is a whole number too: several languages write it so.
pub(super) fn count_of(field: &'static str, json: &[u8]) -> Result<Option<u64>, EnvelopeError> {
    let expected = || EnvelopeError::WrongType { field, expected: "a whole number" };
    let number: f64 = serde_json::from_slice(json).map_err(|_| expected())?;
    if number.fract() != 0.0 || number > 9_007_199_254_740_992.0 {
        return Err(expected());
    }
    Ok((number >= 0.0).then_some(number as u64))
}

fn name(json: &[u8]) -> Option<String> {
    text(json).filter(|name| !name.is_empty()).map(std::borrow::Cow::into_owned)
}

fn is_empty_array(json: &[u8]) -> bool {
    matches!(json, [b'[', inner @ .., b']'] if inner.trim_ascii().is_empty())
}

fn structured(json: &[u8]) -> Result<Option<Structured>, EnvelopeError> {
    Ok(match word_in(json, "type").as_deref() {
        Some("json_object") => Some(Structured::JsonObject),
        Some("json_schema") => Some(Structured::JsonSchema),
        _ if !json.starts_with(b"{") => return Err(wrong(Field::ResponseFormat, "an object")),
        _ => None,
    })
}

/// `output_config`: the format in it. (A stricter reading is the provider's.)
fn output_format(json: &[u8]) -> Option<Structured> {
    member_of(json, "format").and_then(format_of)
}

/// `text` in Responses: the format in it.
fn text_format(json: &[u8]) -> Option<Structured> {
    match word_in(member_of(json, "format")?, "type").as_deref() {
        Some("json_object") => Some(Structured::JsonObject),
        Some("json_schema") => Some(Structured::JsonSchema),
        _ => None,
    }
}

fn format_of(json: &[u8]) -> Option<Structured> {
    word_in(json, "type").is_some_and(|kind| kind == "json_schema").then_some(Structured::JsonSchema)
}

/// `{"type": "function", …}` and `{"type": "custom", …}` in Chat Completions, `{"type": "tool", …}` in Messages.
fn names_tool(json: &[u8]) -> bool {
    word_in(json, "type").is_some_and(|kind| matches!(kind.as_ref(), "function" | "custom" | "tool"))
}

fn forbids_parallel_tools(json: &[u8]) -> bool {
    member_of(json, "disable_parallel_tool_use").is_some_and(|flag| flag == b"true")
}

/// The extras `reasoning` (`{enabled, effort, max_tokens}`) and `thinking` (`{type}`); other values ask for it.
fn asks_for_reasoning(json: &[u8]) -> bool {
    let off = json == b"false"
        || word_in(json, "effort").is_some_and(|effort| effort == "none")
        || word_in(json, "type").is_some_and(|kind| kind == "disabled")
        || member_of(json, "enabled").is_some_and(|enabled| enabled == b"false");
    !off
}

fn names_audio(json: &[u8]) -> bool {
    serde_json::from_slice::<Vec<String>>(json).is_ok_and(|list| list.iter().any(|name| name == "audio"))
}

fn word_in(json: &[u8], key: &str) -> Option<String> {
    member_of(json, key).and_then(text).map(std::borrow::Cow::into_owned)
}

/// The value of one key of an object that has been scanned before.
pub(super) fn member_of<'j>(json: &'j [u8], key: &str) -> Option<&'j [u8]> {
    let mut scanner = Scanner::new(json, usize::MAX);
    let mut first = true;
    scanner.open_object().ok()?;
    while let Some(name) = scanner.next_key(&mut first).ok()? {
        let value = scanner.skip_value().ok()?;
        if text(scanner.slice(&name)).is_some_and(|name| name == key) {
            return Some(scanner.slice(&value));
        }
    }
    None
}
