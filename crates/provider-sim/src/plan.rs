//! From a script and a request to the steps on the socket: pure, so that every fault can be read off.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;

use crate::answer::{Spoken, Voice};
use crate::request::Ask;
use crate::script::{Connection, Fault, FixedReply, Pace, Script, Wire};
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
    let headers = Headers { script, voice, now };
    if let Some(reply) = &script.reply {
        return Box::new(pause(script.pace.headers).chain(fixed(&headers, reply)));
    }
    let spoken = Spoken::new(script, ask, voice);
    if ask.stream {
        let content_type = script.wire.content_type.as_deref().unwrap_or("text/event-stream; charset=utf-8");
        let head = headers.render(200, content_type, None);
        let events = Events { spoken, wire: script.wire.clone(), pace: script.pace };
        Box::new(pause(script.pace.headers).chain([head]).chain(events.steps(script.fault.clone())))
    } else {
        let outputs = u32::try_from(spoken.deltas.len()).unwrap_or(u32::MAX);
        let generating = script.pace.between_tokens.saturating_mul(outputs.saturating_sub(1));
        let delay = script.pace.headers.saturating_add(script.pace.first_token).saturating_add(generating);
        Box::new(pause(delay).chain(body(&headers, &spoken, script)))
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
}

impl Headers<'_> {
    /// A head; with a length, or else chunked.
    fn render(&self, status: u16, content_type: &str, length: Option<usize>) -> Step {
        let mut headers: Vec<(String, String)> = Vec::new();
        if !content_type.is_empty() {
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        headers.push(("x-request-id".to_owned(), format!("req_sim_{}", self.voice.call)));
        headers.push(("x-sim-name".to_owned(), self.voice.name.clone()));
        match length {
            Some(length) => headers.push(("content-length".to_owned(), length.to_string())),
            None => headers.push(("transfer-encoding".to_owned(), "chunked".to_owned())),
        }
        let dates =
            self.script.date_headers.iter().map(|(name, ms)| (name.clone(), http_date(self.now, *ms)));
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

fn fixed(headers: &Headers<'_>, reply: &FixedReply) -> std::array::IntoIter<Step, 2> {
    let content_type = headers.script.wire.content_type.as_deref().unwrap_or(&reply.content_type);
    let head = headers.render(reply.status, content_type, Some(reply.body.len()));
    [head, Step::Raw(reply.body.clone().into())].into_iter()
}

/// A non-streaming answer, or the equivalent of a stream's fault.
fn body(headers: &Headers<'_>, spoken: &Spoken, script: &Script) -> std::vec::IntoIter<Step> {
    let content_type = script.wire.content_type.as_deref().unwrap_or("application/json");
    let json = spoken.completion();
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
        Some(Fault::Error { event, .. }) => sized(event.to_string().into()),
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
    spoken: Spoken,
    wire: Wire,
    pace: Pace,
}

impl Events {
    fn steps(self, fault: Option<Fault>) -> Box<dyn Iterator<Item = Step> + Send> {
        match fault {
            Some(Fault::RoleOnly) => Box::new([self.opening(), self.hang()].into_iter()),
            Some(Fault::HeartbeatsOnly { every }) => {
                let beat = Heartbeat { every, bytes: sse::heartbeat(&self.wire) };
                Box::new([Step::Wait(None, Some(beat))].into_iter())
            }
            Some(Fault::Error { event, done, first: true, .. }) => {
                Box::new([self.error(&event.to_string(), done, true)].into_iter())
            }
            fault => self.outputs(fault),
        }
    }

    /// Opening events, output up to the fault, and then what the fault does or the rest of the answer.
    fn outputs(self, fault: Option<Fault>) -> Box<dyn Iterator<Item = Step> + Send> {
        let total = self.spoken.deltas.len();
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
        if self.wire.azure_preamble {
            bytes.extend(sse::event(&self.wire, &self.spoken.azure_chunk()));
        }
        bytes.extend(sse::event(&self.wire, &self.spoken.role_chunk()));
        Step::Chunk(bytes.into())
    }

    fn output(&self, index: usize) -> impl Iterator<Item = Step> + use<> {
        let delay = if index == 0 { self.pace.first_token } else { self.pace.between_tokens };
        let wait = (!delay.is_zero()).then(|| Step::Wait(Some(delay), self.heartbeat()));
        let event = sse::event(&self.wire, &self.spoken.delta_chunk(index));
        wait.into_iter().chain([Step::Chunk(event.into())])
    }

    fn closing(&self) -> Vec<Step> {
        let mut tail =
            self.spoken.usage_chunk().map_or_else(Vec::new, |chunk| sse::event(&self.wire, &chunk));
        if self.wire.done {
            // Together with the end of the body: a client that leaves at `[DONE]` has read a complete answer.
            tail.extend(sse::done(&self.wire));
        }
        vec![self.finish(), Step::LastChunk(tail.into())]
    }

    fn finish(&self) -> Step {
        Step::Chunk(sse::event(&self.wire, &self.spoken.finish_chunk()).into())
    }

    fn breaking(&self, fault: &Fault, at: usize) -> Vec<Step> {
        let next = || Bytes::from(sse::event(&self.wire, &self.next_json(at)));
        match fault {
            Fault::Cut { .. } => vec![Step::HalfChunk(next()), Step::Close],
            Fault::Reset { .. } => vec![Step::HalfChunk(next()), Step::Reset],
            Fault::End { .. } => vec![Step::LastChunk(Bytes::new())],
            Fault::Stall { .. } | Fault::RoleOnly => vec![self.hang()],
            Fault::Unended => vec![self.finish(), self.hang()],
            Fault::Pause { lasting, .. } => vec![Step::Wait(Some(*lasting), self.heartbeat())],
            Fault::Malformed { event, .. } => {
                vec![Step::Chunk(sse::broken_event(&self.wire, *event, &self.next_json(at)).into())]
            }
            Fault::Error { event, done, .. } => vec![self.error(&event.to_string(), *done, false)],
            Fault::HeartbeatsOnly { .. } => Vec::new(),
        }
    }

    /// The event that would come after `at` outputs.
    fn next_json(&self, at: usize) -> String {
        if at < self.spoken.deltas.len() { self.spoken.delta_chunk(at) } else { self.spoken.finish_chunk() }
    }

    fn error(&self, json: &str, done: bool, opens: bool) -> Step {
        let mut bytes = Vec::new();
        if opens && self.wire.bom {
            bytes.extend_from_slice(b"\xef\xbb\xbf");
        }
        bytes.extend(sse::event(&self.wire, json));
        if done {
            bytes.extend(sse::done(&self.wire));
        }
        Step::LastChunk(bytes.into())
    }

    fn hang(&self) -> Step {
        Step::Wait(None, self.heartbeat())
    }

    fn heartbeat(&self) -> Option<Heartbeat> {
        let every = self.pace.heartbeat;
        (!every.is_zero()).then(|| Heartbeat { every, bytes: sse::heartbeat(&self.wire) })
    }
}

#[cfg(test)]
mod tests;
