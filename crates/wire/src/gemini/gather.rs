//! A plain answer gathered from a provider's stream.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::stream::StreamDecoder;
use crate::chat::{GatherError, Usage};
use crate::dialect::ChunkKind;
use crate::json::{self, Members};

/// Collects a stream into one answer: the parts of all chunks one after the other, neighbouring texts as one, of everything
/// else what came last. What is unknown is kept.
#[derive(Debug)]
pub struct Gather {
    limit: usize,
    kept: usize,
    tap: StreamDecoder,
    answer: Fields,
    candidates: BTreeMap<u64, Candidate>,
}

/// Members that are kept as they were written, by their names.
type Fields = BTreeMap<String, Box<RawValue>>;

/// One candidate so far.
#[derive(Debug, Default)]
struct Candidate {
    fields: Fields,
    content: Fields,
    parts: Vec<Part>,
}

/// One part.
#[derive(Debug)]
enum Part {
    /// A text and nothing else, and whether it is a thought.
    Text { text: String, thought: bool },
    /// As it was written.
    Whole(Box<RawValue>),
}

/// More parts than this are no answer.
const MAX_PARTS: usize = 1 << 16;

impl Gather {
    /// Collects at most about `max_bytes` of answer.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            limit: max_bytes,
            kept: 0,
            tap: StreamDecoder::new(),
            answer: Fields::new(),
            candidates: BTreeMap::new(),
        }
    }

    /// The last token counts seen.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        self.tap.usage()
    }

    /// Takes the data of one event in.
    ///
    /// # Errors
    /// [`GatherError`]; the stream is then of no use.
    pub fn event(&mut self, data: &[u8]) -> Result<(), GatherError> {
        match self.tap.event(data).kind {
            ChunkKind::Done => return Ok(()),
            ChunkKind::Error(error) => return Err(GatherError::Upstream(error)),
            ChunkKind::Malformed => return Err(GatherError::Malformed),
            ChunkKind::Preamble | ChunkKind::Output | ChunkKind::Finish => {}
        }
        let mut chunk = Members::of_body(data).map_err(|_| GatherError::Malformed)?;
        for raw in chunk.take("candidates").and_then(json::list).unwrap_or_default() {
            let candidate = Members::of(raw, "").map_err(|_| GatherError::Malformed)?;
            self.candidate(candidate)?;
        }
        self.kept += put_all(&mut self.answer, chunk);
        if self.kept > self.limit { Err(GatherError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// The answer as JSON.
    ///
    /// # Errors
    /// [`GatherError::NoChoices`] or [`GatherError::Unfinished`].
    pub fn finish(self) -> Result<Bytes, GatherError> {
        if !self.tap.finished() {
            return Err(if self.candidates.is_empty() {
                GatherError::NoChoices
            } else {
                GatherError::Unfinished
            });
        }
        let candidates: Vec<_> = self.candidates.into_values().map(Candidate::whole).collect();
        let candidates = (!candidates.is_empty()).then_some(candidates);
        serde_json::to_vec(&Whole { candidates, rest: self.answer })
            .map(Bytes::from)
            .map_err(|_| GatherError::Malformed)
    }

    fn candidate(&mut self, mut members: Members<'_>) -> Result<(), GatherError> {
        let index = members.take("index");
        let number = index.and_then(|raw| raw.get().parse().ok()).unwrap_or(0);
        let candidate = self.candidates.entry(number).or_default();
        if let Some(mut content) = members.take_object("content").map_err(|_| GatherError::Malformed)? {
            for raw in content.take("parts").and_then(json::list).unwrap_or_default() {
                if candidate.parts.len() >= MAX_PARTS {
                    return Err(GatherError::TooLarge { limit: self.limit });
                }
                self.kept += raw.get().len();
                candidate.add(raw);
            }
            self.kept += put_all(&mut candidate.content, content);
        }
        self.kept += put_all(&mut candidate.fields, members);
        if let Some(index) = index {
            candidate.fields.insert("index".to_owned(), index.to_owned());
        }
        Ok(())
    }
}

impl Candidate {
    fn add(&mut self, raw: &RawValue) {
        let part = part(raw);
        match (self.parts.last_mut(), part) {
            (Some(Part::Text { text, thought }), Part::Text { text: more, thought: kind })
                if *thought == kind =>
            {
                text.push_str(&more);
            }
            (_, part) => self.parts.push(part),
        }
    }

    fn whole(self) -> WholeCandidate {
        // An empty text between others says nothing; the only one says that there is none.
        let several = self.parts.len() > 1;
        let says = |part: &Part| !matches!(part, Part::Text { text, .. } if several && text.is_empty());
        let parts: Vec<_> = self.parts.into_iter().filter(says).map(OutPart::from).collect();
        let content = (!parts.is_empty() || !self.content.is_empty())
            .then_some(Content { parts: (!parts.is_empty()).then_some(parts), rest: self.content });
        WholeCandidate { content, rest: self.fields }
    }
}

/// A part that is a text and nothing else can be joined with its neighbour.
fn part(raw: &RawValue) -> Part {
    let whole = || Part::Whole(raw.to_owned());
    let Ok(mut members) = Members::of(raw, "") else { return whole() };
    let thought = members.take("thought").is_some_and(|flag| flag.get() == "true");
    let text = members.take("text").and_then(|raw| json::lossy_text(raw.get().as_bytes()));
    match text {
        Some(text) if members.rest().next().is_none() => Part::Text { text: text.into_owned(), thought },
        _ => whole(),
    }
}

/// Lays an object's members over those that are there; gives about the bytes that are kept of it.
fn put_all(into: &mut Fields, from: Members<'_>) -> usize {
    from.rest()
        .map(|(_, name, raw)| {
            let kept = name.len() + raw.get().len() + 4;
            let before = into.insert(name, raw.to_owned());
            kept.saturating_sub(before.map_or(0, |before| before.get().len()))
        })
        .sum()
}

#[derive(Serialize)]
struct Whole {
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<Vec<WholeCandidate>>,
    #[serde(flatten)]
    rest: Fields,
}

#[derive(Serialize)]
struct WholeCandidate {
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
    #[serde(flatten)]
    rest: Fields,
}

#[derive(Serialize)]
struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<OutPart>>,
    #[serde(flatten)]
    rest: Fields,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OutPart {
    Text {
        text: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thought: bool,
    },
    Whole(Box<RawValue>),
}

impl From<Part> for OutPart {
    fn from(part: Part) -> Self {
        match part {
            Part::Text { text, thought } => Self::Text { text, thought },
            Part::Whole(raw) => Self::Whole(raw),
        }
    }
}
