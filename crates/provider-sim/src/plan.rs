//! From a script and a request to the steps on the socket: pure, so that every fault can be read off.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;

use crate::answer::Voice;
use crate::envelope;
use crate::request::{Ask, Form};
use crate::script::{Connection, Fault, FixedReply, Pace, Script, Wire};
use crate::speech::{Beat, Event, Speech};
use crate::sse;

/// One thing to do on the socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Response head; goes out together with what follows it directly.
    Head(Bytes),
    /// Bytes of a body delimited by content length.
    Raw(Bytes),
    /// One HTTP chunk.
    Chunk(Bytes),
    /// One HTTP chunk (none if empty) and the terminator of the chunked body, in one write.
    LastChunk(Bytes),
    /// The size line of this HTTP chunk and the first half of its bytes.
    HalfChunk(Bytes),
    /// Waits so long (for ever, if `None`), with heartbeats as HTTP chunks.
    Wait(Option<Duration>, Option<Heartbeat>),
    /// Orderly close, at once.
    Close,
    /// TCP reset.
    Reset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    pub(crate) every: Duration,
    pub(crate) bytes: Bytes,
}

pub(crate) struct Plan {
    /// One byte per HTTP chunk and per write.
    pub(crate) split: bool,
    pub(crate) steps: Box<dyn Iterator<Item = Step> + Send>,
}

/// The steps that answer a request.
pub(crate) fn plan(script: Script, ask: &Ask, voice: &Voice, now: SystemTime) -> Plan {
    let script = envelope::spell(ask.form, script, voice);
    let split = script.wire.split_every_byte;
    let steps: Box<dyn Iterator<Item = Step> + Send> = match script.connection {
        Connection::ResetOnAccept | Connection::ResetBeforeHeaders => Box::new([Step::Reset].into_iter()),
        Connection::CloseAfterRead => Box::new([Step::Close].into_iter()),
        Connection::Silence => Box::new([Step::Wait(None, None)].into_iter()),
        Connection::Serve => serve(&script, ask, voice, now),
    };
    let steps: Box<dyn Iterator<Item = Step> + Send> =
        if script.close_afterwards { Box::new(steps.chain([Step::Close])) } else { steps };
    Plan { split, steps }
}

fn serve(
    script: &Script,
    ask: &Ask,
    voice: &Voice,
    now: SystemTime,
) -> Box<dyn Iterator<Item = Step> + Send> {
    let headers = Headers { script, voice, now, form: ask.form };
    if let Some(reply) = &script.reply {
        return Box::new(pause(script.pace.headers).chain(fixed(&headers, reply)));
    }
    let speech = Speech::new(script, ask, voice);
    if let Some(parts) = speech.medium().filter(|_| !ask.stream) {
        return Box::new(pause(script.pace.headers).chain(medium(&headers, parts, script)));
    }
    if ask.stream {
        let content_type = script.wire.content_type.as_deref().unwrap_or_else(|| speech.stream_type());
        let head = headers.render(200, content_type, None);
        let events = Events { speech, wire: script.wire.clone(), pace: script.pace };
        let steps = events.steps(script.fault.clone());
        // An HTTP chunk of no bytes would be the end of the body.
        let steps = steps.filter(|step| !matches!(step, Step::Chunk(bytes) if bytes.is_empty()));
        Box::new(pause(script.pace.headers).chain([head]).chain(steps))
    } else {
        let outputs = u32::try_from(speech.outputs()).unwrap_or(u32::MAX);
        let generating = script.pace.between_tokens.saturating_mul(outputs.saturating_sub(1));
        let delay = script.pace.headers.saturating_add(script.pace.first_token).saturating_add(generating);
        Box::new(pause(delay).chain(body(&headers, &speech, script)))
    }
}

fn pause(lasting: Duration) -> impl Iterator<Item = Step> + Send + use<> {
    (!lasting.is_zero()).then_some(Step::Wait(Some(lasting), None)).into_iter()
}

/// What a response head is made of.
struct Headers<'a> {
    script: &'a Script,
    voice: &'a Voice,
    now: SystemTime,
    form: Form,
}

impl Headers<'_> {
    /// A head; with a length, or else chunked.
    fn render(&self, status: u16, content_type: &str, length: Option<usize>) -> Step {
        let mut headers: Vec<(String, String)> = Vec::new();
        if !content_type.is_empty() {
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        let request_id = match self.form {
            Form::Chat | Form::Responses | Form::Service(_) => Some("x-request-id"),
            Form::Messages => Some("request-id"),
            Form::Gemini(_) => None,
            Form::Bedrock { .. } => Some("x-amzn-requestid"),
        };
        if let Some(name) = request_id {
            headers.push((name.to_owned(), format!("req_sim_{}", self.voice.call)));
        }
        headers.push(("x-sim-name".to_owned(), self.voice.name.clone()));
        match length {
            Some(length) => headers.push(("content-length".to_owned(), length.to_string())),
            None => headers.push(("transfer-encoding".to_owned(), "chunked".to_owned())),
        }
        let dates =
            self.script.date_headers.iter().map(|(name, ms)| (name.clone(), moment(name, self.now, *ms)));
        for (name, value) in self.script.headers.iter().cloned().chain(dates) {
            headers.retain(|(present, _)| !present.eq_ignore_ascii_case(&name));
            headers.push((name, value));
        }
        Step::Head(head_bytes(status, &headers))
    }
}

pub(crate) fn head_bytes(status: u16, headers: &[(String, String)]) -> Bytes {
    let reason =
        StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in headers {
        // A line break in a scripted header would be read as the end of the head.
        head.push_str(&format!("{name}: {value}").replace(['\r', '\n'], " "));
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    head.into()
}

fn http_date(now: SystemTime, ms: i64) -> String {
    // Years that an HTTP date can show: from 1970 on, with four digits.
    let distance = Duration::from_millis(ms.unsigned_abs()).min(Duration::from_secs(100 * 365 * 86_400));
    let moved = if ms < 0 { now.checked_sub(distance) } else { now.checked_add(distance) };
    httpdate::fmt_http_date(moved.unwrap_or(now).max(SystemTime::UNIX_EPOCH))
}

/// A moment as a header of this name tells it: Anthropic's resets in RFC 3339, all others as an HTTP date.
fn moment(name: &str, now: SystemTime, ms: i64) -> String {
    let date = http_date(now, ms);
    if !name.starts_with("anthropic-") {
        return date;
    }
    let fields: Vec<&str> = date.split(' ').collect();
    let [_, day, month, year, time, _] = fields.as_slice() else { return date };
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| name == month).map_or(1, |at| at + 1);
    format!("{year}-{month:02}-{day}T{time}Z")
}

fn fixed(headers: &Headers<'_>, reply: &FixedReply) -> std::array::IntoIter<Step, 2> {
    let content_type = headers.script.wire.content_type.as_deref().unwrap_or(&reply.content_type);
    let head = headers.render(reply.status, content_type, Some(reply.body.len()));
    [head, Step::Raw(reply.body.clone().into())].into_iter()
}

/// A medium in its parts, up to the fault.
fn medium(headers: &Headers<'_>, parts: &[String], script: &Script) -> std::vec::IntoIter<Step> {
    let content_type = script.wire.content_type.as_deref().unwrap_or("audio/mpeg");
    let mut steps = vec![headers.render(200, content_type, None)];
    let after = script.fault.as_ref().and_then(Fault::after).unwrap_or(parts.len());
    steps.extend(parts.iter().take(after).map(|part| Step::Chunk(part.clone().into())));
    let half = Step::HalfChunk(Bytes::from_static(b"half of it"));
    match &script.fault {
        Some(Fault::Cut { .. }) => steps.extend([half, Step::Close]),
        Some(Fault::Reset { .. }) => steps.extend([half, Step::Reset]),
        Some(Fault::Stall { .. } | Fault::RoleOnly) => steps.push(Step::Wait(None, None)),
        _ => steps.push(Step::LastChunk(Bytes::new())),
    }
    steps.into_iter()
}

/// A non-streaming answer, or the equivalent of a stream's fault.
fn body(headers: &Headers<'_>, speech: &Speech, script: &Script) -> std::vec::IntoIter<Step> {
    let text = speech.plain_text();
    let usual = if text.is_some() { "text/plain; charset=utf-8" } else { "application/json" };
    let content_type = script.wire.content_type.as_deref().unwrap_or(usual);
    let json = text.unwrap_or_else(|| speech.whole());
    let half = Bytes::copy_from_slice(json.as_bytes().get(..json.len() / 2).unwrap_or_default());
    let sized = |body: Bytes| vec![headers.render(200, content_type, Some(body.len())), Step::Raw(body)];
    let truncated =
        |end: Step| vec![headers.render(200, content_type, Some(json.len())), Step::Raw(half.clone()), end];
    let chunked = |then: Step| vec![headers.render(200, content_type, None), then];
    let steps = match &script.fault {
        None => sized(json.into()),
        Some(Fault::Cut { .. }) => truncated(Step::Close),
        Some(Fault::Reset { .. }) => truncated(Step::Reset),
        Some(Fault::Stall { .. }) => truncated(Step::Wait(None, None)),
        Some(Fault::End { .. }) => chunked(Step::LastChunk(half)),
        Some(Fault::Malformed { .. }) => sized(half),
        Some(Fault::Error { event, .. }) => sized(speech.failed_whole(event).into()),
        Some(Fault::Unended) => {
            let most = Bytes::copy_from_slice(json.as_bytes().get(..json.len() - 1).unwrap_or_default());
            vec![headers.render(200, content_type, Some(json.len())), Step::Raw(most), Step::Wait(None, None)]
        }
        Some(Fault::RoleOnly) => chunked(Step::Wait(None, None)),
        Some(Fault::HeartbeatsOnly { every }) => {
            // DeepSeek keeps a non-streaming request alive with empty lines.
            let beat = Heartbeat { every: *every, bytes: Bytes::from_static(b"\n") };
            chunked(Step::Wait(None, Some(beat)))
        }
        Some(Fault::Pause { lasting, .. }) => {
            let rest = Bytes::copy_from_slice(json.as_bytes().get(half.len()..).unwrap_or_default());
            let head = headers.render(200, content_type, Some(json.len()));
            vec![head, Step::Raw(half), Step::Wait(Some(*lasting), None), Step::Raw(rest)]
        }
    };
    steps.into_iter()
}

/// The events of a stream.
struct Events {
    speech: Speech,
    wire: Wire,
    pace: Pace,
}

impl Events {
    fn steps(self, fault: Option<Fault>) -> Box<dyn Iterator<Item = Step> + Send> {
        match fault {
            Some(Fault::RoleOnly) => Box::new([self.opening(), self.hang(0)].into_iter()),
            Some(Fault::HeartbeatsOnly { every }) => {
                let beat = self.beat(None).map(|bytes| Heartbeat { every, bytes });
                Box::new([Step::Wait(None, beat)].into_iter())
            }
            Some(Fault::Error { event, done, first: true, .. }) => {
                Box::new([self.error(&event, None, done)].into_iter())
            }
            fault => self.outputs(fault),
        }
    }

    /// Opening events, output up to the fault, and then what the fault does or the rest of the answer.
    fn outputs(self, fault: Option<Fault>) -> Box<dyn Iterator<Item = Step> + Send> {
        let total = self.speech.outputs();
        let at = fault.as_ref().and_then(Fault::after).unwrap_or(total).min(total);
        let opening = self.opening();
        let break_steps = fault.as_ref().map_or_else(Vec::new, |fault| self.breaking(fault, at));
        let goes_on = matches!(fault, None | Some(Fault::Malformed { .. } | Fault::Pause { .. }));
        let skipped = usize::from(matches!(fault, Some(Fault::Malformed { .. })) && at < total);
        let closing = if goes_on { self.closing() } else { Vec::new() };
        let events = Arc::new(self);
        let later = Arc::clone(&events);
        let before = (0..at).flat_map(move |index| events.output(index));
        let after =
            (at + skipped..if goes_on { total } else { 0 }).flat_map(move |index| later.output(index));
        Box::new([opening].into_iter().chain(before).chain(break_steps).chain(after).chain(closing))
    }

    fn opening(&self) -> Step {
        let mut bytes = Vec::new();
        if self.wire.bom {
            bytes.extend_from_slice(b"\xef\xbb\xbf");
        }
        bytes.extend(self.spelled(&self.speech.opening(self.wire.azure_preamble)));
        Step::Chunk(bytes.into())
    }

    fn output(&self, index: usize) -> impl Iterator<Item = Step> + use<> {
        let delay = if index == 0 { self.pace.first_token } else { self.pace.between_tokens };
        let wait = (!delay.is_zero()).then(|| Step::Wait(Some(delay), self.heartbeat(index)));
        let event = self.spelled(&self.speech.output(index));
        wait.into_iter().chain([Step::Chunk(event.into())])
    }

    fn closing(&self) -> Vec<Step> {
        // The end marker goes together with the end of the body: a client that leaves at it has read a complete
        // answer.
        let tail = self.spelled(&self.speech.end(self.wire.done));
        vec![self.finish(), Step::LastChunk(tail.into())]
    }

    fn finish(&self) -> Step {
        Step::Chunk(self.spelled(&self.speech.finish()).into())
    }

    fn spelled(&self, events: &[Event]) -> Vec<u8> {
        events.iter().flat_map(|event| sse::event(&self.wire, event)).collect()
    }

    fn breaking(&self, fault: &Fault, at: usize) -> Vec<Step> {
        match fault {
            Fault::Cut { .. } => self.half_of_next(at, Step::Close),
            Fault::Reset { .. } => self.half_of_next(at, Step::Reset),
            Fault::End { .. } => vec![Step::LastChunk(Bytes::new())],
            Fault::Stall { .. } | Fault::RoleOnly => vec![self.hang(at)],
            Fault::Unended => vec![self.finish(), self.hang(at)],
            Fault::Pause { lasting, .. } => vec![Step::Wait(Some(*lasting), self.heartbeat(at))],
            Fault::Malformed { event, .. } => {
                let (frame, last) = self.next_events(at);
                let broken = sse::broken_event(&self.wire, *event, &last);
                vec![Step::Chunk([self.spelled(&frame), broken].concat().into())]
            }
            Fault::Error { event, done, .. } => vec![self.error(event, Some(at), *done)],
            Fault::HeartbeatsOnly { .. } => Vec::new(),
        }
    }

    /// What frames the next event goes out whole, the event itself by half.
    fn half_of_next(&self, at: usize, end: Step) -> Vec<Step> {
        let (frame, last) = self.next_events(at);
        let whole = (!frame.is_empty()).then(|| Step::Chunk(self.spelled(&frame).into()));
        let half = Step::HalfChunk(sse::event(&self.wire, &last).into());
        whole.into_iter().chain([half, end]).collect()
    }

    /// The event that would come after `at` outputs, and what goes before it.
    fn next_events(&self, at: usize) -> (Vec<Event>, Event) {
        let mut events =
            if at < self.speech.outputs() { self.speech.output(at) } else { self.speech.finish() };
        let last = events.pop().unwrap_or_else(|| self.speech.done());
        (events, last)
    }

    fn error(&self, error: &serde_json::Value, after: Option<usize>, done: bool) -> Step {
        let mut bytes = Vec::new();
        if after.is_none() && self.wire.bom {
            bytes.extend_from_slice(b"\xef\xbb\xbf");
        }
        bytes.extend(self.spelled(&self.speech.failure(error, after, done)));
        Step::LastChunk(bytes.into())
    }

    fn hang(&self, outputs: usize) -> Step {
        Step::Wait(None, self.heartbeat(outputs))
    }

    /// What goes out while the stream waits after so many outputs.
    fn heartbeat(&self, outputs: usize) -> Option<Heartbeat> {
        let every = self.pace.heartbeat;
        let bytes = self.beat(Some(outputs)).filter(|_| !every.is_zero())?;
        Some(Heartbeat { every, bytes })
    }

    fn beat(&self, outputs: Option<usize>) -> Option<Bytes> {
        match self.speech.heartbeat(outputs) {
            Beat::Comment => Some(sse::heartbeat(&self.wire)),
            Beat::Event(event) => Some(sse::event(&self.wire, &event).into()),
            Beat::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests;
