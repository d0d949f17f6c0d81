//! A client's own bytes, with splices.
//!
//! Key order, number spelling, white space and unknown fields survive; a provider's prompt cache sees the same
//! prefix. Only the ranges that an edit names are touched.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::envelope::{Envelope, Field};
use crate::json::{Span, span_of};
use crate::{gemini, messages, responses};

/// What happens to the `provider` field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProviderField<'a> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It goes: it was meant for the gateway.
    Strip,
    /// It becomes this JSON (and is added if it is not there).
    Replace(&'a str),
}

/// The name under which a provider takes the limit on output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensName {
    /// `max_tokens`, the older name, the only one that several compatible servers know.
    MaxTokens,
    /// `max_completion_tokens`, the only one that OpenAI's reasoning models accept.
    MaxCompletionTokens,
}

/// How one attempt's body differs from the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edits<'a> {
    /// The model name for the provider.
    pub model: &'a str,
    /// Sets `stream`; turning it off also removes `stream_options`, which providers refuse without a stream.
    pub stream: Option<bool>,
    /// Sets `stream_options.include_usage`, merged into what is there; adding it is left out without a stream, and
    /// in Messages, whose streams always carry usage.
    pub include_usage: Option<bool>,
    /// Removes `models`.
    pub strip_models: bool,
    /// What happens to `provider`.
    pub provider: ProviderField<'a>,
    /// Renames the limit on output tokens, unless both names are there. Not in Messages, which has one name.
    pub max_tokens_name: Option<MaxTokensName>,
}

impl<'a> Edits<'a> {
    /// Edits that only name the model.
    #[must_use]
    pub fn model(model: &'a str) -> Self {
        Self {
            model,
            stream: None,
            include_usage: None,
            strip_models: false,
            provider: ProviderField::Keep,
            max_tokens_name: None,
        }
    }
}

/// The body for one attempt. `envelope` must have been read from this very `body`.
///
/// The result is a cheap clone of `body` when nothing changes.
///
/// ```
/// use bytes::Bytes;
/// use pointsman_wire::envelope::{Envelope, Limits};
/// use pointsman_wire::passthrough::{Edits, render};
///
/// let body = Bytes::from_static(br#"{"temperature": 1.0, "model": "my-route", "messages": []}"#);
/// let envelope = Envelope::read(&body, &Limits::default()).unwrap();
/// let sent = render(&body, &envelope, &Edits::model("gpt-4o"));
/// assert_eq!(sent, &br#"{"temperature": 1.0, "model": "gpt-4o", "messages": []}"#[..]);
/// ```
#[must_use]
pub fn render(body: &Bytes, envelope: &Envelope, edits: &Edits<'_>) -> Bytes {
    if let Some(form) = &envelope.form {
        return in_form(body, &form.model, envelope.model(), edits.model);
    }
    let mut plan = Plan { envelope, replaced: Vec::new(), removed: Vec::new(), added: Vec::new() };
    if envelope.dialect() == Dialect::Gemini {
        // Model and stream stand in the path.
        plan.remove(Field::Model);
        plan.inner_model(body, edits.model);
    } else {
        plan.model(edits.model);
        plan.stream(edits);
    }
    plan.provider(edits);
    if envelope.dialect() == Dialect::Chat {
        plan.stream_options(edits);
        // Completions have one name for it, and others no such limit.
        if envelope.endpoint() == Endpoint::Generation {
            plan.max_tokens(edits);
        }
    }
    let sent = plan.apply(body);
    match envelope.dialect() {
        // No client speaks the last one.
        Dialect::Chat | Dialect::Bedrock => sent,
        Dialect::Messages => messages::without_foreign(sent),
        Dialect::Responses => responses::without_foreign(sent),
        Dialect::Gemini => gemini::without_foreign(sent),
    }
}

/// A form has the model's name as it is; that is all that differs.
fn in_form(body: &Bytes, place: &Span, named: &str, model: &str) -> Bytes {
    if named == model {
        return body.clone();
    }
    let mut out = BytesMut::with_capacity(body.len() + model.len());
    out.put_slice(body.get(..place.start).unwrap_or_default());
    out.put_slice(model.as_bytes());
    out.put_slice(body.get(place.end..).unwrap_or_default());
    out.freeze()
}

/// The model that a request inside of a request names.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

struct Plan<'e> {
    envelope: &'e Envelope,
    replaced: Vec<(Span, String)>,
    removed: Vec<Field>,
    added: Vec<String>,
}

impl Plan<'_> {
    fn model(&mut self, model: &str) {
        let named = self.envelope.member(Field::Model).is_some();
        if model != self.envelope.model() || !named {
            self.set(Field::Model, &json_string(model));
        }
    }

    /// A whole request whose tokens are counted names its model again, as a resource (Gemini API reference, "countTokens").
    fn inner_model(&mut self, body: &[u8], model: &str) {
        let Some(member) = self.envelope.member(Field::WholeRequest) else { return };
        let whole = body.get(member.value.clone()).unwrap_or_default();
        let named = serde_json::from_slice::<Named<'_>>(whole).ok().and_then(|inner| inner.model);
        if let Some(place) = named.and_then(|named| span_of(body, named)) {
            let model = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
            self.replaced.push((place, json_string(&model)));
        }
    }

    fn stream(&mut self, edits: &Edits<'_>) {
        if let Some(stream) = edits.stream
            && stream != self.envelope.stream()
        {
            self.set(Field::Stream, if stream { "true" } else { "false" });
        }
    }

    fn stream_options(&mut self, edits: &Edits<'_>) {
        if edits.stream == Some(false) {
            self.remove(Field::StreamOptions);
            return;
        }
        let streams = edits.stream.unwrap_or_else(|| self.envelope.stream());
        match edits.include_usage {
            Some(true) if streams && !self.envelope.include_usage() => self.add_usage(),
            Some(false) if self.envelope.include_usage() => self.set_usage("false"),
            _ => {}
        }
    }

    fn add_usage(&mut self) {
        let Some(options) = &self.envelope.stream_options else {
            return self.set(Field::StreamOptions, "{\"include_usage\":true}");
        };
        if options.include_usage.is_some() {
            return self.set_usage("true");
        }
        let comma = if options.empty { "" } else { "," };
        self.replaced.push((options.inside..options.inside, format!("\"include_usage\":true{comma}")));
    }

    fn set_usage(&mut self, value: &str) {
        if let Some(span) =
            self.envelope.stream_options.as_ref().and_then(|options| options.include_usage.clone())
        {
            self.replaced.push((span, value.to_owned()));
        }
    }

    fn provider(&mut self, edits: &Edits<'_>) {
        if edits.strip_models {
            self.remove(Field::Models);
        }
        match edits.provider {
            ProviderField::Keep => {}
            ProviderField::Strip => self.remove(Field::Provider),
            ProviderField::Replace(json) => self.set(Field::Provider, json),
        }
    }

    fn max_tokens(&mut self, edits: &Edits<'_>) {
        let (from, to) = match edits.max_tokens_name {
            None => return,
            Some(MaxTokensName::MaxTokens) => (Field::MaxCompletionTokens, Field::MaxTokens),
            Some(MaxTokensName::MaxCompletionTokens) => (Field::MaxTokens, Field::MaxCompletionTokens),
        };
        if let (Some(member), None) = (self.envelope.member(from), self.envelope.member(to)) {
            self.replaced.push((member.key.clone(), json_string(to.name())));
        }
    }

    /// Gives a field a value, in its place or as a new member.
    fn set(&mut self, field: Field, json: &str) {
        match self.envelope.member(field) {
            Some(member) => self.replaced.push((member.value.clone(), json.to_owned())),
            None => self.added.push(format!("\"{}\":{json}", field.name())),
        }
    }

    fn remove(&mut self, field: Field) {
        if self.envelope.member(field).is_some() {
            self.removed.push(field);
        }
    }

    fn apply(mut self, body: &Bytes) -> Bytes {
        if self.replaced.is_empty() && self.removed.is_empty() && self.added.is_empty() {
            return body.clone();
        }
        self.plan_removals();
        self.plan_additions();
        // An insertion at the start of a removed range comes before it.
        self.replaced.sort_by_key(|(span, _)| (span.start, span.end));
        spliced(body, &self.replaced)
    }

    /// A member goes with the comma after it; members at the end go with the comma before the first of them.
    fn plan_removals(&mut self) {
        let mut members: Vec<_> =
            self.removed.iter().filter_map(|field| self.envelope.member(*field)).collect();
        members.sort_by_key(|member| member.index);
        let mut kept = self.envelope.member_count;
        while let Some(last) = members.pop_if(|member| member.index + 1 == kept) {
            kept = last.index;
            // `model`, or what it may be left out with (in Gemini `contents`), is required and never removed, so that
            // something stands before the comma.
            self.replaced.push((last.whole.start.saturating_sub(1)..last.whole.end, String::new()));
        }
        for member in members {
            self.replaced.push((member.whole.start..member.whole.end + 1, String::new()));
        }
    }

    /// New members stand at the front; there always is a member behind them.
    fn plan_additions(&mut self) {
        if !self.added.is_empty() {
            let text: String = self.added.iter().flat_map(|member| [member.as_str(), ","]).collect();
            self.replaced.push((self.envelope.inside..self.envelope.inside, text));
        }
    }
}

/// The bytes with other texts in these places, which stand in their order and do not overlap.
pub(crate) fn spliced(body: &[u8], places: &[(Span, String)]) -> Bytes {
    let grown: usize = places.iter().map(|(_, text)| text.len()).sum();
    let mut out = BytesMut::with_capacity(body.len() + grown);
    let mut done = 0;
    for (span, text) in places {
        out.put_slice(body.get(done..span.start).unwrap_or_default());
        out.put_slice(text.as_bytes());
        done = span.end;
    }
    out.put_slice(body.get(done..).unwrap_or_default());
    out.freeze()
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
