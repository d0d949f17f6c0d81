//! A committed stream on its way to the client: event by event, as the client takes it.
//!
//! Nothing is spawned: the client's connection asks for the next frame, and only then is the upstream read. A client
//! that is slow slows the upstream; a client that is gone drops this, and with it the upstream connection.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use pointsman_core::controller::{Command, Failed, Limit};
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_wire::dialect::{ChunkKind, Dialect};
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::sse::SseEvent;
use pointsman_wire::translate::StreamTranslator;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::attempt::in_band;
use crate::exchange::{AttemptFailure, Exchange};
use crate::reading::Live;
use crate::translation::Translation;
use crate::verdict::{self, Struck};

/// A client that took nothing for this long may itself be why the upstream broke the stream.
pub(crate) const SLOW_CLIENT: Duration = Duration::from_secs(1);
/// Once an answer is finished, the end marker (and usage) is waited for no longer than this.
pub(crate) const AFTER_FINISH: Duration = Duration::from_secs(2);
/// After the end marker the upstream's connection is worth keeping if its body ends within this.
const DRAIN_WITHIN: Duration = Duration::from_millis(20);
const DRAIN_BYTES: usize = 16 * 1024;

const LIFE_OVER: &str = "the stream's whole time is over";

/// See the module.
pub(crate) struct Relay {
    // Boxed: the relay is moved with each event.
    exchange: Box<Exchange>,
    live: Box<Live>,
    /// Makes the client's dialect of the target's, where they differ.
    translator: Option<StreamTranslator>,
    state: State,
    /// The end marker, from when it is known until it is sent: as the last frame, by itself.
    end: BytesMut,
    /// When the client took the last frame.
    yielded: Option<Instant>,
    slow_for: Duration,
    /// For how long this has been reading since the last event. Comments are no events, and our own heartbeats not
    /// either.
    waited: Duration,
    /// Rings when something may be due. What is due moves on with each event; the timer follows when it rings.
    timer: Pin<Box<Sleep>>,
    /// Registered once: every stream waits for the same end.
    hard_stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

enum State {
    /// What is held goes first.
    Held,
    Reading,
    /// Nothing more is read.
    Over,
}

/// What reading came to.
enum Read {
    Beat,
    Chunk,
    Ended,
    Failed(AttemptFailure),
}

impl Relay {
    pub(crate) fn new(mut exchange: Box<Exchange>, live: Box<Live>) -> Self {
        exchange.app.metrics.stream_opened();
        let keepalive = exchange.snapshot.config.server.keepalive;
        Self {
            timer: Box::pin(sleep_until(Instant::now() + keepalive)),
            hard_stop: Box::pin(exchange.app.hard_stop.clone().cancelled_owned()),
            translator: exchange.translation.take().map(Translation::into_stream),
            exchange,
            live,
            state: State::Held,
            end: BytesMut::new(),
            yielded: None,
            slow_for: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }

    /// The next frame for the client; `None` when the stream is over.
    pub(crate) async fn next(mut self) -> Option<(Bytes, Self)> {
        if let Some(at) = self.yielded.take() {
            self.slow_for = self.slow_for.max(at.elapsed());
        }
        let frame = match self.state {
            State::Held => match self.held() {
                // What committed says nothing in the client's dialect.
                None if matches!(self.state, State::Reading) => self.read_on().await,
                frame => frame,
            },
            State::Reading => self.read_on().await,
            State::Over => None,
        };
        let frame = match frame {
            None => self.last().await,
            some => some,
        }?;
        self.yielded = Some(Instant::now());
        Some((frame, self))
    }

    fn held(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        let disclosure = self.exchange.early.then(|| {
            let expose = self.exchange.snapshot.config.server.expose;
            self.exchange.provenance().json(expose).to_string()
        });
        self.state = State::Reading;
        let held = std::mem::take(&mut self.live.held);
        if let Some(translator) = &mut self.translator {
            translator.disclose(disclosure);
            for event in &held {
                self.translate(event, &mut out);
                if !matches!(self.state, State::Reading) {
                    break;
                }
            }
        } else {
            self.write_held(&held, disclosure.as_deref(), &mut out);
        }
        if !matches!(self.state, State::Reading) {
            return Some(out.freeze());
        }
        // Where the event that finishes is the last one, nothing is waited for.
        if self.live.ended || self.live.tap.done() {
            self.at_the_end(&mut out);
        } else {
            // The chunk that brought the first output may hold more.
            self.take_events(&mut out);
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    /// Writes an event in the client's dialect. What the translation holds on to is memory like that of bodies.
    fn translate(&mut self, event: &SseEvent, out: &mut BytesMut) {
        let Some(translator) = &mut self.translator else { return };
        let failure = match translator.event(event.event.as_deref(), &event.data, out) {
            Err(error) => verdict::bad_response(&error.to_string(), Phase::Committed, false),
            Ok(()) if self.exchange.inbound.claim.grow_to(translator.held()) => return,
            Ok(()) => verdict::no_room(Phase::Committed),
        };
        self.break_off(failure, out);
    }

    fn write_held(&self, held: &[SseEvent], mut disclosure: Option<&str>, out: &mut BytesMut) {
        let (endpoint, dialect) = (self.endpoint(), self.dialect());
        for event in held {
            let disclosed = disclosure.and_then(|pointsman| dialect.disclosed(&event.data, pointsman));
            if disclosed.is_some() {
                disclosure = None;
            }
            let data = disclosed.as_ref().unwrap_or(&event.data);
            endpoint.write_event(dialect, out, event.event.as_deref(), data);
        }
    }

    async fn read_on(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        // Counted from the client's last frame: what the upstream says without meaning anything keeps no client waiting.
        let beat_at = Instant::now() + self.exchange.snapshot.config.server.keepalive;
        while out.is_empty() {
            let before = Instant::now();
            let read = self.read(beat_at).await;
            self.waited += before.elapsed();
            match read {
                Read::Beat => out.extend_from_slice(self.dialect().heartbeat(true)),
                Read::Chunk => self.take_events(&mut out),
                Read::Ended => self.ended(&mut out),
                Read::Failed(failure) => self.break_off(failure, &mut out),
            }
            if !matches!(self.state, State::Reading) {
                break;
            }
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    /// Waits for the next bytes of the upstream, within what the limits allow.
    async fn read(&mut self, beat_at: Instant) -> Read {
        let now = Instant::now();
        let finished = self.live.tap.finished();
        let idle = if finished { AFTER_FINISH.min(self.live.limits.idle) } else { self.live.limits.idle };
        let idle_at = now + idle.saturating_sub(self.waited);
        let life_at = self.live.started + self.live.limits.stream;
        let until = idle_at.min(life_at);
        // An upstream that always has something to say would never let the timer below speak.
        if now >= life_at {
            return if finished { Read::Ended } else { Read::Failed(given_up(LIFE_OVER)) };
        }
        let due = until.min(beat_at);
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        let Some(body) = &mut self.live.body else { return Read::Ended };
        loop {
            tokio::select! {
                biased;
                () = self.hard_stop.as_mut() => return Read::Failed(given_up("the gateway is shutting down")),
                chunk = body.chunk() => return match chunk {
                    Some(Ok(chunk)) => {
                        self.live.decoder.push(chunk);
                        Read::Chunk
                    }
                    Some(Err(_)) if finished => Read::Ended,
                    Some(Err(error)) => Read::Failed(verdict::cut(&error, Phase::Committed)),
                    None => Read::Ended,
                },
                () = self.timer.as_mut() => {}
            }
            let now = Instant::now();
            if now < due {
                self.timer.as_mut().reset(due);
            } else if now < until {
                return Read::Beat;
            } else if finished {
                return Read::Ended;
            } else if life_at <= idle_at {
                return Read::Failed(given_up(LIFE_OVER));
            } else {
                let limit = Limit { within: idle, own: true };
                return Read::Failed(verdict::struck(Struck::Idle, limit, Phase::Committed));
            }
        }
    }

    fn take_events(&mut self, out: &mut BytesMut) {
        loop {
            match self.live.decoder.next_event() {
                Ok(Some(event)) => {
                    self.waited = Duration::ZERO;
                    self.take(&event, out);
                }
                Ok(None) if self.live.decoder.in_event() => {
                    self.waited = Duration::ZERO;
                    return;
                }
                Ok(None) => return,
                Err(error) => {
                    let failure = verdict::bad_response(&error.to_string(), Phase::Committed, false);
                    return self.break_off(failure, out);
                }
            }
            if !matches!(self.state, State::Reading) {
                return;
            }
        }
    }

    fn take(&mut self, event: &SseEvent, out: &mut BytesMut) {
        let dialect = self.dialect();
        let facts = self.live.tap.event(event.event.as_deref(), &event.data);
        match facts.kind {
            // Where the end is an event with data, it is the provider's own; vLLM may send `[DONE]` there too.
            ChunkKind::Done if self.ends_with_data(event) => {
                dialect.write_event(&mut self.end, event.event.as_deref(), &event.data);
                self.finished();
            }
            ChunkKind::Done if self.translator.is_some() && self.live.tap.tool_call_open() => {
                let words = "the stream ended within a tool call";
                self.break_off(verdict::bad_response(words, Phase::Committed, false), out);
            }
            ChunkKind::Done => self.finish(),
            ChunkKind::Error(error) => {
                self.break_off(in_band(&self.exchange, self.live.target, &error, Phase::Committed), out);
            }
            ChunkKind::Malformed if self.may_drop(facts.expendable) => self.exchange.malformed += 1,
            ChunkKind::Malformed => {
                let words = "an event cannot be read, and what it said may matter";
                self.break_off(verdict::bad_response(words, Phase::Committed, false), out);
            }
            _ if self.translator.is_some() => {
                self.translate(event, out);
                self.at_the_last(out);
            }
            _ if facts.usage_only && !self.exchange.inbound.envelope.include_usage() => {}
            _ => {
                let data = facts.amended.as_ref().unwrap_or(&event.data);
                self.endpoint().write_event(dialect, out, event.event.as_deref(), data);
                self.at_the_last(out);
            }
        }
    }

    /// Where the event that finishes is the last one (Responses), nothing more is waited for.
    fn at_the_last(&mut self, out: &mut BytesMut) {
        if self.live.tap.done() && matches!(self.state, State::Reading) {
            self.at_the_end(out);
        }
    }

    /// In plain text and reasoning the rest is worth more than one lost event; a tool call or a structured answer with
    /// a hole in it is worth nothing.
    fn may_drop(&self, expendable: bool) -> bool {
        expendable && self.exchange.controller.request().needs.structured_output.is_none()
    }

    /// Whether this end is an event that reaches the client as it is.
    fn ends_with_data(&self, event: &SseEvent) -> bool {
        let data = event.data.trim_ascii().starts_with(b"{");
        self.translator.is_none() && self.dialect() == Dialect::Messages && data
    }

    /// What the client asked for.
    fn endpoint(&self) -> Endpoint {
        self.exchange.inbound.envelope.endpoint()
    }

    /// The client's dialect.
    fn dialect(&self) -> Dialect {
        self.exchange.inbound.envelope.dialect()
    }

    /// The upstream's stream ended.
    fn ended(&mut self, out: &mut BytesMut) {
        match self.live.decoder.finish() {
            Ok(Some(event)) => self.take(&event, out),
            Ok(None) => {}
            Err(error) => {
                let failure = verdict::bad_response(&error.to_string(), Phase::Committed, false);
                return self.break_off(failure, out);
            }
        }
        if matches!(self.state, State::Reading) {
            self.at_the_end(out);
        }
    }

    /// Nothing more comes: is the answer complete?
    fn at_the_end(&mut self, out: &mut BytesMut) {
        if self.live.tap.finished() || self.live.tap.done() {
            return self.finish();
        }
        let words = "the stream ended without a finish reason";
        self.break_off(verdict::bad_response(words, Phase::Committed, false), out);
    }

    fn finish(&mut self) {
        match &mut self.translator {
            Some(translator) => translator.end(&mut self.end),
            None => self.end.extend_from_slice(self.endpoint().end_event(self.dialect())),
        }
        self.finished();
    }

    fn finished(&mut self) {
        self.state = State::Over;
        self.exchange.note_usage(&self.live.tap);
        self.exchange.succeed();
    }

    /// One error in the client's dialect, and nothing after it.
    fn break_off(&mut self, failure: AttemptFailure, out: &mut BytesMut) {
        self.state = State::Over;
        self.exchange.note_usage(&self.live.tap);
        let excused = failure.failed.excused || self.slow_for >= SLOW_CLIENT;
        let failed =
            Failed { kind: FailureKind::PartialStream, phase: Phase::Committed, excused, ..failure.failed };
        let command = self.exchange.fail(AttemptFailure { failed, ..failure });
        if let Command::Stop(stop) = command {
            let frame =
                self.translator.as_ref().map_or_else(|| self.live.tap.frame(), StreamTranslator::frame);
            out.extend_from_slice(&self.exchange.event_of(&stop, frame.as_ref()));
        }
    }

    /// The end marker, once nothing more is expected of the upstream; `None` when it has been sent or there is none.
    ///
    /// Clients leave at the end marker, some without waiting for the end of the body. So both go out together, and what
    /// keeps the connections on both sides is done before: a client that left in between would take its own connection
    /// with it, and the upstream's. The record is written first: the client has its answer.
    async fn last(&mut self) -> Option<Bytes> {
        self.exchange.settle();
        if self.end.is_empty() {
            return None;
        }
        if let Some(body) = self.live.body.take() {
            body.drain(DRAIN_WITHIN, DRAIN_BYTES).await;
        }
        Some(std::mem::take(&mut self.end).freeze())
    }
}

/// An end that is nobody's failure.
fn given_up(detail: &str) -> AttemptFailure {
    let mut failure = verdict::bad_response(detail, Phase::Committed, true);
    failure.failed.excused = true;
    failure
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A client that left in the middle is charged for what the provider reported until then.
        self.exchange.note_usage(&self.live.tap);
        self.exchange.app.metrics.stream_closed();
    }
}
