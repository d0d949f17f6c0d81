//! A stream before its release: events are held until the first meaningful one is there (or enough of them, or all), so
//! that a failure before still fails over unseen.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use pointsman_core::controller::{Attempt, AttemptLimits, Limit};
use pointsman_core::kind::Phase;
use pointsman_core::request::Shape;
use pointsman_core::target::TargetIndex;
use pointsman_upstream::{Body, Response};
use pointsman_wire::chat::{BadCompletion, GatherError};
use pointsman_wire::dialect::{ChunkKind, Dialect, Gather, StreamTap};
use pointsman_wire::framing::EventDecoder;
use pointsman_wire::sse::SseEvent;
use tokio::time::{Instant, timeout_at};

use crate::attempt::{self, AttemptEnd, JSON, MAX_ANSWER, Way, Whole, in_band};
use crate::counting;
use crate::exchange::{AttemptFailure, Exchange};
use crate::formed;
use crate::relay::AFTER_FINISH;
use crate::verdict::{self, Struck};

/// One event may be so large, in bytes.
const MAX_EVENT: usize = 32 * 1024 * 1024;
/// A provider that sends more than this before its first output sends no answer, in bytes.
const MAX_PREAMBLE: usize = 1024 * 1024;

const NOT_STREAMED: &str = "the provider answered without the stream that was asked for";

/// A stream that is being read, and the events that are held back.
pub(crate) struct Reading {
    body: Body,
    decoder: EventDecoder,
    pub(crate) tap: StreamTap,
    target: TargetIndex,
    headers: HeaderMap,
    limits: AttemptLimits,
    started: Instant,
    first_output: Option<Instant>,
    /// When an event, or a part of one, last came.
    progress: Instant,
    held: Vec<SseEvent>,
    held_bytes: usize,
    tokens: u64,
    ended: bool,
    /// What came is no stream but one JSON value.
    json: Option<BytesMut>,
}

/// A stream whose first output is here: from now on nothing but this attempt may answer.
pub(crate) struct Live {
    /// The rest of the upstream's answer; taken when it is drained.
    pub(crate) body: Option<Body>,
    pub(crate) decoder: EventDecoder,
    pub(crate) tap: StreamTap,
    pub(crate) target: TargetIndex,
    pub(crate) headers: HeaderMap,
    pub(crate) limits: AttemptLimits,
    /// The events so far, in their order.
    pub(crate) held: Vec<SseEvent>,
    /// Everything is here already.
    pub(crate) ended: bool,
    pub(crate) started: Instant,
}

/// When what is held goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    AfterTokens(u64),
    WhenWhole,
}

impl Reading {
    pub(crate) fn new(tap: StreamTap, attempt: &Attempt, response: Response, started: Instant) -> Self {
        Self {
            body: response.body,
            decoder: EventDecoder::of(tap.dialect(), MAX_EVENT),
            tap,
            target: attempt.target,
            headers: response.headers,
            limits: attempt.limits,
            started,
            first_output: None,
            progress: started,
            held: Vec::new(),
            held_bytes: 0,
            tokens: 0,
            ended: false,
            json: None,
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<SseEvent>, AttemptFailure> {
        loop {
            let event = self.decoder.next_event();
            if let Some(event) =
                event.map_err(|e| verdict::bad_response(&e.to_string(), self.phase(), false))?
            {
                self.progress = Instant::now();
                return Ok(Some(event));
            }
            if self.decoder.in_event() {
                self.progress = Instant::now();
            }
            if self.ended {
                return Ok(None);
            }
            if self.json.as_ref().is_some_and(|json| json.len() > MAX_PREAMBLE) {
                return Err(verdict::bad_response(NOT_STREAMED, Phase::Headers, false));
            }
            let (until, which, limit) = self.deadline();
            match timeout_at(until, self.body.chunk()).await {
                Ok(Some(Ok(chunk))) => self.push(chunk),
                // The answer is complete: how its connection ends does not matter.
                Ok(Some(Err(_))) | Err(_) if self.tap.finished() => self.ended = true,
                Ok(Some(Err(error))) => {
                    return Err(verdict::cut(&error, self.phase()));
                }
                Ok(None) => {
                    self.ended = true;
                    let last = self.decoder.finish();
                    return last.map_err(|e| verdict::bad_response(&e.to_string(), self.phase(), false));
                }
                Err(_) => return Err(verdict::struck(which, limit, self.phase())),
            }
        }
    }

    /// No event begins with a brace: a provider that sends one has not taken notice of the wish for a stream.
    fn push(&mut self, chunk: Bytes) {
        let begins = !self.decoder.saw_bytes() && chunk.trim_ascii_start().starts_with(b"{");
        if let Some(json) = &mut self.json {
            json.extend_from_slice(&chunk);
            return;
        }
        if begins {
            self.json = Some(BytesMut::from(&chunk[..]));
        } else {
            self.decoder.push(chunk);
        }
    }

    /// Until the first output one limit holds, whatever comes in between; after it, the one between events.
    fn deadline(&self) -> (Instant, Struck, Limit) {
        let whole = self.started + self.limits.whole.within;
        let (until, which, limit) = match self.first_output {
            _ if self.tap.finished() => {
                let limit = Limit { within: self.limits.idle.min(AFTER_FINISH), own: true };
                (self.progress + limit.within, Struck::Idle, limit)
            }
            None => {
                let limit = self.limits.first_output;
                (self.started + limit.within, Struck::FirstToken, limit)
            }
            Some(_) => {
                let limit = Limit { within: self.limits.idle, own: true };
                (self.progress + limit.within, Struck::Idle, limit)
            }
        };
        if whole < until { (whole, Struck::Whole, self.limits.whole) } else { (until, which, limit) }
    }

    fn phase(&self) -> Phase {
        if self.held.is_empty() { Phase::Headers } else { Phase::Preamble }
    }

    fn into_live(self) -> AttemptEnd {
        AttemptEnd::Live(Box::new(Live {
            body: Some(self.body),
            decoder: self.decoder,
            tap: self.tap,
            target: self.target,
            headers: self.headers,
            limits: self.limits,
            held: self.held,
            ended: self.ended,
            started: self.started,
        }))
    }

    /// Whether the stream came to its end in good order.
    fn is_complete(&self) -> bool {
        self.tap.finished() || (self.tap.done() && self.first_output.is_some())
    }
}

/// Reads until the held events may go out, or the whole answer is there.
pub(crate) async fn until_released(
    exchange: &mut Exchange,
    attempt: &Attempt,
    mut reading: Reading,
    way: Way,
) -> Result<AttemptEnd, AttemptFailure> {
    let dialect = reading.tap.dialect();
    let mut gather = (way == Way::Gather).then(|| Gather::new(dialect, MAX_ANSWER));
    let release = release(exchange, way);
    while let Some(event) = reading.next().await? {
        let done = take(exchange, attempt, &mut reading, event, gather.as_mut())?;
        if done {
            break;
        }
        let enough = match release {
            Release::AfterTokens(tokens) => reading.first_output.is_some() && reading.tokens >= tokens,
            Release::WhenWhole => false,
        };
        // An answer with a finish reason and no output is an answer too.
        if enough || (reading.tap.finished() && release != Release::WhenWhole) {
            commit(exchange, &reading);
            return Ok(reading.into_live());
        }
    }
    if let Some(json) = reading.json.take() {
        return pin!(not_streamed(exchange, attempt, reading, json.freeze(), way)).await;
    }
    if !reading.is_complete() {
        let words = "the stream ended before its answer was complete";
        return Err(verdict::bad_response(words, reading.phase(), false));
    }
    exchange.usage = reading.tap.usage().copied();
    if let Some(gather) = gather {
        let body = gather.finish().map_err(|e| gathered_badly(exchange, &reading, e))?;
        formed::check(exchange, &body, dialect, reading.phase()).await?;
        let told = exchange.in_clients_dialect(body.clone())?;
        counting::guess(exchange, &body, dialect).await;
        commit(exchange, &reading);
        return Ok(AttemptEnd::Whole(Whole { headers: reading.headers, content_type: JSON, body: told }));
    }
    if exchange.inbound.wanted.is_some() {
        let body = gathered(&reading, dialect).map_err(|e| gathered_badly(exchange, &reading, e))?;
        formed::check(exchange, &body, dialect, reading.phase()).await?;
    }
    reading.ended = true;
    commit(exchange, &reading);
    Ok(reading.into_live())
}

/// What is held as one answer.
fn gathered(reading: &Reading, dialect: Dialect) -> Result<Bytes, GatherError> {
    let mut gather = Gather::new(dialect, MAX_ANSWER);
    for event in &reading.held {
        gather.event(event.event.as_deref(), &event.data)?;
    }
    gather.finish()
}

/// The provider answered with one JSON value: mostly an error, and for a client that wants no stream perhaps its answer.
async fn not_streamed(
    exchange: &mut Exchange,
    attempt: &Attempt,
    reading: Reading,
    body: Bytes,
    way: Way,
) -> Result<AttemptEnd, AttemptFailure> {
    if way == Way::Gather {
        return attempt::answered(exchange, attempt, reading.headers, body).await;
    }
    let endpoint = exchange.inbound.envelope.endpoint();
    Err(match endpoint.check_answer(reading.tap.dialect(), &body) {
        Err(BadCompletion::ErrorObject(error)) => in_band(exchange, attempt.target, &error, Phase::Headers),
        _ => verdict::bad_response(NOT_STREAMED, Phase::Headers, false),
    })
}

fn release(exchange: &Exchange, way: Way) -> Release {
    let request = exchange.controller.request();
    if way == Way::Gather || request.shape == Shape::Buffered {
        return Release::WhenWhole;
    }
    Release::AfterTokens(u64::from(request.governance.stream.hold))
}

fn commit(exchange: &mut Exchange, reading: &Reading) {
    let first = reading.first_output.unwrap_or_else(Instant::now);
    exchange.commit(Some(first.saturating_duration_since(reading.started)));
}

/// Looks at one event and holds it. Answers whether it was the end marker.
fn take(
    exchange: &mut Exchange,
    attempt: &Attempt,
    reading: &mut Reading,
    mut event: SseEvent,
    gather: Option<&mut Gather>,
) -> Result<bool, AttemptFailure> {
    let facts = reading.tap.event(event.event.as_deref(), &event.data);
    if let Some(amended) = facts.amended {
        event.data = amended;
    }
    match facts.kind {
        ChunkKind::Done => return Ok(true),
        ChunkKind::Error(error) => return Err(in_band(exchange, reading.target, &error, reading.phase())),
        ChunkKind::Malformed => {
            let html = reading.held.is_empty() && event.data.trim_ascii_start().starts_with(b"<");
            let words = if html { "the provider answered with HTML" } else { "an event cannot be read" };
            return Err(verdict::bad_response(words, reading.phase(), false));
        }
        ChunkKind::Output => {
            reading.first_output.get_or_insert_with(Instant::now);
        }
        ChunkKind::Preamble | ChunkKind::Finish => {}
    }
    if let Some(model) = facts.model {
        verdict::check_model(exchange, attempt, &model)?;
    }
    exchange.reached(Phase::Preamble, None);
    reading.tokens += u64::from(facts.output_tokens_estimate);
    // Who translates needs it, whoever asked for it.
    let unasked = !exchange.inbound.envelope.include_usage() && exchange.translation.is_none();
    let usage_unasked = facts.usage_only && unasked;
    match gather {
        Some(gather) => {
            gather
                .event(event.event.as_deref(), &event.data)
                .map_err(|e| gathered_badly(exchange, reading, e))?;
            reading.held_bytes += event.data.len();
            claim(exchange, reading)?;
        }
        None if usage_unasked => {}
        None => hold(exchange, reading, event)?,
    }
    Ok(false)
}

fn hold(exchange: &mut Exchange, reading: &mut Reading, event: SseEvent) -> Result<(), AttemptFailure> {
    reading.held_bytes += event.data.len();
    reading.held.push(event);
    let preamble = reading.first_output.is_none() && reading.held_bytes > MAX_PREAMBLE;
    if preamble || reading.held_bytes > MAX_ANSWER {
        return Err(verdict::bad_response("more had to be held back than is kept", reading.phase(), false));
    }
    claim(exchange, reading)
}

/// Claims memory for what is held back, beside the request's own body.
fn claim(exchange: &mut Exchange, reading: &Reading) -> Result<(), AttemptFailure> {
    let bytes = exchange.inbound.body.len() + reading.held_bytes;
    if exchange.inbound.claim.grow_to(bytes) { Ok(()) } else { Err(verdict::no_room(reading.phase())) }
}

fn gathered_badly(exchange: &Exchange, reading: &Reading, error: GatherError) -> AttemptFailure {
    match error {
        GatherError::Upstream(error) => in_band(exchange, reading.target, &error, reading.phase()),
        error => verdict::bad_response(&error.to_string(), reading.phase(), false),
    }
}
