//! The JSON of answers that are no conversation: embeddings, moderations, rankings, images, and Completions (OpenAI API
//! reference; for rankings Jina's form, which vLLM and others took over).

use serde_json::{Map, Value, json};

use crate::answer::{Delta, Voice, deltas};
use crate::request::Ask;
use crate::script::{Script, UsageShape};
use crate::speech::Event;

/// Dimensions of a vector where the request does not say.
const DIMENSIONS: usize = 4;
/// The most that is generated, whatever a request asks for.
const MAX_DIMENSIONS: usize = 4_096;
const MAX_ITEMS: usize = 2_048;
/// One red pixel, as a PNG in base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4EIwDgKAABLOgP/yCk2cQAAAABJRU5ErkJggg==";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Completions,
    Embeddings,
    Moderations,
    Rerank,
    Images,
    ImageEdits,
    Speech,
    Transcriptions,
}

impl Service {
    /// The service that a path names.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let named = [
            ("/chat/completions", None),
            ("/completions", Some(Self::Completions)),
            ("/embeddings", Some(Self::Embeddings)),
            ("/moderations", Some(Self::Moderations)),
            ("/rerank", Some(Self::Rerank)),
            ("/images/generations", Some(Self::Images)),
            ("/images/edits", Some(Self::ImageEdits)),
            ("/images/variations", Some(Self::Images)),
            ("/audio/speech", Some(Self::Speech)),
            ("/audio/transcriptions", Some(Self::Transcriptions)),
            ("/audio/translations", Some(Self::Transcriptions)),
        ];
        named.into_iter().find(|(end, _)| path.ends_with(end)).and_then(|(_, service)| service)
    }
}

/// The fields of a form as the JSON that they would be; of a file only its size. `None` if it is no form.
pub(crate) fn form_as_json(content_type: &str, body: &[u8]) -> Option<Vec<u8>> {
    let (_, boundary) = content_type.strip_prefix("multipart/form-data")?.split_once("boundary=")?;
    let delimiter = format!("--{}", boundary.trim_matches('"'));
    let mut fields = Map::new();
    let mut rest = body;
    let mut parts = Vec::new();
    while let Some(at) = memchr::memmem::find(rest, delimiter.as_bytes()) {
        parts.push(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + delimiter.len()..).unwrap_or_default();
    }
    for part in parts.into_iter().skip(1) {
        let end = memchr::memmem::find(part, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(part.get(..end).unwrap_or_default()).into_owned();
        let content = part.get(end + 4..).unwrap_or_default();
        let content = content.strip_suffix(b"\r\n").unwrap_or(content);
        let name = head.split("name=\"").nth(1).and_then(|rest| rest.split('"').next())?;
        let value = match (head.contains("filename="), std::str::from_utf8(content)) {
            (false, Ok("true")) => json!(true),
            (false, Ok(text)) => json!(text),
            _ => json!({"bytes": content.len()}),
        };
        fields.insert(name.to_owned(), value);
    }
    serde_json::to_vec(&Value::Object(fields)).ok()
}

/// A complete answer.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    service: Service,
    /// Texts of Completions, one per output event.
    texts: Vec<String>,
    asked: Value,
    name: String,
    call: u64,
    model: String,
    finish: String,
    usage: UsageShape,
    include_usage: bool,
    empty: bool,
}

impl Served {
    pub(crate) fn new(service: Service, script: &Script, ask: &Ask, voice: &Voice) -> Self {
        let answer = &script.answer;
        let asked = ask.model.clone().unwrap_or_default();
        let texts = deltas(script, &asked, voice, false).into_iter().filter_map(|delta| match delta {
            Delta::Text(text) => Some(text),
            _ => None,
        });
        Self {
            service,
            texts: texts.collect(),
            asked: ask.request.clone(),
            name: voice.name.clone(),
            call: voice.call,
            model: answer.model.clone().unwrap_or(asked),
            finish: answer.finish.clone().unwrap_or_else(|| "stop".to_owned()),
            usage: answer.usage,
            include_usage: ask.include_usage,
            empty: answer.no_choices,
        }
    }

    /// Number of output events.
    pub(crate) fn outputs(&self) -> usize {
        match self.service {
            Service::Completions | Service::Speech | Service::Transcriptions => self.texts.len(),
            _ => 1,
        }
    }

    /// What comes before any output.
    pub(crate) fn opening(&self) -> Vec<Event> {
        match self.service {
            Service::Completions => vec![Event::plain(self.chunk("", None))],
            _ => Vec::new(),
        }
    }

    /// The output event with this index.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        match self.service {
            Service::Completions => {
                vec![Event::plain(self.chunk(self.text(index), None))]
            }
            Service::Speech => {
                vec![Event::typed(
                    "speech.audio.delta",
                    &json!({"audio": in_base64(self.text(index).as_bytes())}),
                )]
            }
            Service::Transcriptions => {
                vec![Event::typed("transcript.text.delta", &json!({"delta": self.text(index)}))]
            }
            Service::ImageEdits => {
                vec![self.image("image_edit.partial_image", json!({"partial_image_index": index}))]
            }
            _ => vec![self.image("image_generation.partial_image", json!({"partial_image_index": index}))],
        }
    }

    /// The last event of the answer.
    pub(crate) fn finish(&self) -> Vec<Event> {
        match self.service {
            Service::Completions => vec![Event::plain(self.chunk("", Some(&self.finish)))],
            Service::Speech => {
                vec![Event::typed("speech.audio.done", &json!({"usage": self.usage_json()}))]
            }
            Service::Transcriptions => {
                let done = json!({"text": self.texts.concat(), "usage": self.usage_json()});
                vec![Event::typed("transcript.text.done", &done)]
            }
            Service::ImageEdits => {
                vec![self.image("image_edit.completed", json!({"usage": self.usage_json()}))]
            }
            _ => vec![self.image("image_generation.completed", json!({"usage": self.usage_json()}))],
        }
    }

    /// What follows it. Typed events need no end marker.
    pub(crate) fn end(&self, done: bool) -> Vec<Event> {
        if self.service != Service::Completions {
            return Vec::new();
        }
        let mut usage = self.frame();
        usage.insert("choices".to_owned(), json!([]));
        usage.insert("usage".to_owned(), self.usage_json());
        let usage = self.include_usage.then(|| Event::plain(Value::Object(usage).to_string()));
        usage.into_iter().chain(done.then(|| self.done())).collect()
    }

    pub(crate) fn done(&self) -> Event {
        Event::plain("[DONE]".to_owned())
    }

    /// The whole answer as one body.
    pub(crate) fn whole(&self) -> String {
        let mut body = match self.service {
            Service::Completions => {
                let choice = self.choice(&self.texts.concat(), Some(&self.finish));
                self.listed("choices", vec![choice])
            }
            Service::Embeddings => {
                let texts = self.asked_items("input");
                let vectors = texts.iter().enumerate().map(|(index, text)| self.embedding(index, text));
                self.listed("data", vectors.collect())
            }
            Service::Moderations => {
                self.listed("results", self.asked_items("input").iter().map(moderation).collect())
            }
            Service::Rerank => self.listed("results", self.ranking()),
            // Speech has no such body: it is a medium.
            Service::Speech | Service::Transcriptions => {
                let mut body = self.frame();
                body.insert("text".to_owned(), json!(self.texts.concat()));
                body
            }
            Service::Images | Service::ImageEdits => {
                let wanted = self.asked.get("n").and_then(Value::as_u64).unwrap_or(1);
                let count = usize::try_from(wanted).unwrap_or(1).min(MAX_ITEMS);
                self.listed("data", vec![json!({"b64_json": PIXEL}); count])
            }
        };
        match self.usage {
            UsageShape::Missing => {}
            UsageShape::Null => drop(body.insert("usage".to_owned(), Value::Null)),
            _ => drop(body.insert("usage".to_owned(), self.usage_json())),
        }
        Value::Object(body).to_string()
    }

    fn text(&self, index: usize) -> &str {
        self.texts.get(index).map_or("", String::as_str)
    }

    /// The parts of a medium, where the answer is one.
    pub(crate) fn medium(&self) -> Option<&[String]> {
        (self.service == Service::Speech).then_some(self.texts.as_slice())
    }

    /// The content type of a whole answer, and its text where that is no JSON.
    pub(crate) fn plain_text(&self) -> Option<String> {
        let format = self.asked.get("response_format").and_then(Value::as_str);
        let text = self.service == Service::Transcriptions && matches!(format, Some("text" | "srt" | "vtt"));
        text.then(|| format!("{}\n", self.texts.concat()))
    }

    /// What each answer has, with the simulator's mark in it.
    fn frame(&self) -> Map<String, Value> {
        let (id, object) = match self.service {
            Service::Completions => ("cmpl", "text_completion"),
            Service::Moderations => ("modr", "moderation"),
            Service::Rerank => ("rerank", "rerank"),
            Service::Speech | Service::Transcriptions => ("transcript", "transcript"),
            Service::Embeddings | Service::Images | Service::ImageEdits => ("list", "list"),
        };
        let mut frame = Map::new();
        frame.insert("id".to_owned(), json!(format!("{id}-sim-{}", self.call)));
        frame.insert("object".to_owned(), json!(object));
        frame.insert("created".to_owned(), json!(1_700_000_000 + self.call));
        frame.insert("model".to_owned(), json!(self.model));
        frame.insert("system_fingerprint".to_owned(), json!(format!("fp_{}", self.name)));
        frame
    }

    fn listed(&self, name: &str, list: Vec<Value>) -> Map<String, Value> {
        let mut body = self.frame();
        body.insert(name.to_owned(), if self.empty { json!([]) } else { json!(list) });
        body
    }

    fn choice(&self, text: &str, finish: Option<&str>) -> Value {
        json!({"text": text, "index": 0, "logprobs": null, "finish_reason": finish})
    }

    fn chunk(&self, text: &str, finish: Option<&str>) -> String {
        Value::Object(self.listed("choices", vec![self.choice(text, finish)])).to_string()
    }

    fn image(&self, kind: &'static str, more: Value) -> Event {
        let mut event = json!({"type": kind, "b64_json": PIXEL, "created_at": 1_700_000_000 + self.call});
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        Event { name: Some(kind), ..Event::plain(event.to_string()) }
    }

    /// The texts of a field that is one text or a list; a list of numbers is one text in tokens.
    fn asked_items(&self, field: &str) -> Vec<Value> {
        match self.asked.get(field) {
            Some(Value::Array(list)) if !list.iter().all(Value::is_number) => {
                list.iter().take(MAX_ITEMS).cloned().collect()
            }
            Some(one) => vec![one.clone()],
            None => Vec::new(),
        }
    }

    /// The same vector for the same text and simulator, another for every other.
    fn embedding(&self, index: usize, text: &Value) -> Value {
        let asked = self.asked.get("dimensions").and_then(Value::as_u64);
        let dimensions =
            asked.and_then(|n| usize::try_from(n).ok()).unwrap_or(DIMENSIONS).min(MAX_DIMENSIONS);
        let mut seed = format!("{}{}{text}", self.name, self.model)
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let vector: Vec<f32> = (0..dimensions)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                f32::from(u16::try_from(seed >> 48).unwrap_or(0)) / 65_536.0 - 0.5
            })
            .collect();
        let base64 = self.asked.get("encoding_format").and_then(Value::as_str) == Some("base64");
        let vector = match base64 {
            true => json!(in_base64(&vector.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())),
            false => json!(vector),
        };
        json!({"object": "embedding", "index": index, "embedding": vector})
    }

    /// The documents, the last one first.
    fn ranking(&self) -> Vec<Value> {
        let count = self.asked.get("documents").and_then(Value::as_array).map_or(0, Vec::len).min(MAX_ITEMS);
        let best = self.asked.get("top_n").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let ranked = (0..count).rev().enumerate();
        let scored = ranked.map(|(place, index)| {
            let score = 1.0 / (1.0 + f64::from(u32::try_from(place).unwrap_or(u32::MAX)));
            json!({"index": index, "relevance_score": score})
        });
        scored.take(best.unwrap_or(count)).collect()
    }

    fn usage_json(&self) -> Value {
        let asked = self.asked.to_string().len() / 4;
        match self.service {
            Service::Completions => {
                let told = self.texts.len();
                json!({"prompt_tokens": asked, "completion_tokens": told, "total_tokens": asked + told})
            }
            Service::Images | Service::ImageEdits => {
                json!({"input_tokens": asked, "output_tokens": 272, "total_tokens": asked + 272})
            }
            Service::Speech | Service::Transcriptions => {
                let told = self.texts.len();
                json!({"type": "tokens", "input_tokens": asked, "output_tokens": told, "total_tokens": asked + told})
            }
            _ => json!({"prompt_tokens": asked, "total_tokens": asked}),
        }
    }
}

/// What the content policy says of a text: nothing, unless the text asks for it.
fn moderation(text: &Value) -> Value {
    let flagged = text.to_string().contains("kill");
    json!({
        "flagged": flagged,
        "categories": {"violence": flagged, "hate": false, "sexual": false, "self-harm": false},
        "category_scores": {"violence": if flagged { 0.9 } else { 0.01 }, "hate": 0.0, "sexual": 0.0, "self-harm": 0.0},
        "category_applied_input_types": {"violence": ["text"], "hate": ["text"], "sexual": ["text"], "self-harm": ["text"]},
    })
}

/// RFC 4648, section 4.
fn in_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let group =
            three.iter().chain([&0, &0]).take(3).fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        for place in 0..4 {
            let letter = LETTERS.get(group >> (18 - 6 * place) & 63).copied().unwrap_or(b'=');
            out.push(if place > three.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Service, in_base64};

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(in_base64(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_conversation_is_none_of_these() {
        assert_eq!(Service::of("/v1/chat/completions"), None);
        assert_eq!(Service::of("/v1/completions"), Some(Service::Completions));
        assert_eq!(Service::of("/openai/deployments/d/embeddings"), Some(Service::Embeddings));
        assert_eq!(Service::of("/v1/messages"), None);
    }
}
