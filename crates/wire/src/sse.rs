//! Server-sent events: framing as in WHATWG HTML, "9.2 Server-sent events", in both directions.
//!
//! The decoder works on bytes, never on text, so that a split inside a character, a line or a line end changes
//! nothing. Each byte is looked at once.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

#[cfg(test)]
mod tests;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event with data. Fields that do not matter to a relay (`id`, `retry`) are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's name, if the stream gave one.
    pub event: Option<Bytes>,
    /// The data. A slice of the pushed chunk where the event has one data line that lies in one chunk; several
    /// data lines are joined by `\n`. Never empty.
    pub data: Bytes,
}

/// Why a stream cannot be decoded any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event (or one line) is larger than allowed. The decoder stays in this state.
    #[error("an event of the stream is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit in bytes that was given to [`SseDecoder::new`].
        limit: usize,
    },
}

/// An incremental decoder: push chunks as they come, take events until there are none.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// Chunks that were pushed and not read to their end; the front one is being read.
    input: VecDeque<Bytes>,
    /// The beginning of a line whose end has not come yet.
    line: BytesMut,
    /// The last line ended with CR at the end of what we have: an LF that follows belongs to it.
    skip_line_feed: bool,
    first_line: bool,
    name: Option<Bytes>,
    data: Data,
    comments: u64,
    bytes: u64,
    failed: bool,
}

/// The data of the event that is being read.
#[derive(Debug)]
enum Data {
    None,
    One(Bytes),
    Joined(BytesMut),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(data) => data.len(),
            Self::Joined(data) => data.len(),
        }
    }

    /// How long it is with this line added, with the line feed between them.
    fn len_with(&self, line: &[u8]) -> usize {
        let joint = usize::from(!matches!(self, Self::None));
        self.len() + joint + line.len()
    }

    fn add(&mut self, line: Bytes) {
        *self = match std::mem::replace(self, Self::None) {
            Self::None => Self::One(line),
            Self::One(first) => {
                let mut joined = BytesMut::with_capacity(first.len() + 1 + line.len());
                joined.extend_from_slice(&first);
                joined.put_u8(b'\n');
                joined.extend_from_slice(&line);
                Self::Joined(joined)
            }
            Self::Joined(mut joined) => {
                joined.put_u8(b'\n');
                joined.extend_from_slice(&line);
                Self::Joined(joined)
            }
        };
    }

    fn take(&mut self) -> Bytes {
        match std::mem::replace(self, Self::None) {
            Self::None => Bytes::new(),
            Self::One(data) => data,
            Self::Joined(data) => data.freeze(),
        }
    }
}

impl SseDecoder {
    /// A decoder that refuses an event, or a single line, of more than `max_event_bytes`.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            limit: max_event_bytes,
            input: VecDeque::new(),
            line: BytesMut::new(),
            skip_line_feed: false,
            first_line: true,
            name: None,
            data: Data::None,
            comments: 0,
            bytes: 0,
            failed: false,
        }
    }

    /// Adds bytes of the stream. Take the events out before the next push, to keep memory at one event.
    pub fn push(&mut self, chunk: Bytes) {
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        if !chunk.is_empty() && !self.failed {
            self.input.push_back(chunk);
        }
    }

    /// The next complete event; `None` means that more bytes are needed.
    ///
    /// Comments, `id:`, `retry:`, unknown fields and events without data (or with empty data, which official
    /// SDKs cannot read) are dropped; [`Self::saw_bytes`] and [`Self::comments`] tell that something came.
    ///
    /// # Errors
    /// [`SseError::EventTooLarge`], now and at every later call.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, SseError> {
        while let Some(line) = self.next_line()? {
            if let Some(event) = self.accept(line)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// End of input: the last event is delivered even without its blank line or line end.
    ///
    /// The specification discards an unfinished event. Providers exist that close right after the last data
    /// line, and official SDKs accept it; so does this decoder. Call it once, after [`Self::next_event`] gave
    /// `None`; a second call gives `None`.
    ///
    /// # Errors
    /// [`SseError::EventTooLarge`].
    pub fn finish(&mut self) -> Result<Option<SseEvent>, SseError> {
        if let Some(event) = self.next_event()? {
            return Ok(Some(event));
        }
        if !self.line.is_empty() {
            let line = self.take_line();
            if let Some(event) = self.accept(line)? {
                return Ok(Some(event));
            }
        }
        Ok(self.dispatch())
    }

    /// How many comment lines were seen.
    #[must_use]
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// Whether any byte was pushed at all: tells an empty stream from one without events.
    #[must_use]
    pub fn saw_bytes(&self) -> bool {
        self.bytes > 0
    }

    /// Whether the beginning of an event is here and its end is not: bytes that are more than a comment.
    #[must_use]
    pub fn in_event(&self) -> bool {
        self.data.len() > 0 || self.line.first().is_some_and(|byte| *byte != b':')
    }

    /// The next whole line without its end, from the front of the input.
    fn next_line(&mut self) -> Result<Option<Bytes>, SseError> {
        if self.failed {
            return Err(self.too_large());
        }
        while let Some(mut chunk) = self.input.pop_front() {
            if self.skip_line_feed {
                self.skip_line_feed = false;
                if chunk.first() == Some(&b'\n') {
                    drop(chunk.split_to(1));
                }
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', &chunk) else {
                self.keep_beginning(&chunk)?;
                continue;
            };
            let mut line = chunk.split_to(end);
            self.skip_line_feed = chunk.first() == Some(&b'\r');
            drop(chunk.split_to(1));
            if !chunk.is_empty() {
                self.input.push_front(chunk);
            }
            if self.line.is_empty() {
                self.check_room(line.len())?;
            } else {
                self.keep_beginning(&line)?;
                line = self.take_line();
            }
            return Ok(Some(line));
        }
        Ok(None)
    }

    fn keep_beginning(&mut self, part: &[u8]) -> Result<(), SseError> {
        self.check_room(part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Whether the line may have this many bytes more. Asked of lines in one piece too, so that chunks decide nothing.
    fn check_room(&mut self, more: usize) -> Result<(), SseError> {
        if self.line.len() + more + self.data.len() > self.limit.saturating_add(FIELD_SLACK) {
            return Err(self.too_large());
        }
        Ok(())
    }

    /// The kept line, with its whole buffer: what a large event needed is not kept for small ones.
    fn take_line(&mut self) -> Bytes {
        std::mem::take(&mut self.line).freeze()
    }

    /// Takes one line in; a blank one ends the event.
    fn accept(&mut self, mut line: Bytes) -> Result<Option<SseEvent>, SseError> {
        if std::mem::replace(&mut self.first_line, false) && line.starts_with(BYTE_ORDER_MARK) {
            drop(line.split_to(BYTE_ORDER_MARK.len()));
        }
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let colon = memchr::memchr(b':', &line);
        if colon == Some(0) {
            self.comments = self.comments.saturating_add(1);
            return Ok(None);
        }
        let field = line.split_to(colon.unwrap_or(line.len()));
        if line.starts_with(b": ") {
            drop(line.split_to(2));
        } else if !line.is_empty() {
            drop(line.split_to(1));
        }
        match &*field {
            b"data" => {
                if self.data.len_with(&line) > self.limit {
                    return Err(self.too_large());
                }
                self.data.add(line);
            }
            b"event" => self.name = Some(line),
            _ => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = self.name.take().filter(|name| !name.is_empty());
        let data = self.data.take();
        (!data.is_empty()).then_some(SseEvent { event, data })
    }

    fn too_large(&mut self) -> SseError {
        self.failed = true;
        self.input.clear();
        self.line = BytesMut::new();
        self.data = Data::None;
        SseError::EventTooLarge { limit: self.limit }
    }
}

/// Room for the field's name and the byte order mark in a line whose data is exactly as long as allowed.
const FIELD_SLACK: usize = 16;

/// Writes one event. Data with line ends becomes several `data:` lines, as the receiving side joins them again.
pub fn write_event(out: &mut BytesMut, event: Option<&[u8]>, data: &[u8]) {
    out.reserve(data.len() + event.map_or(0, <[u8]>::len) + 32);
    if let Some(name) = event {
        out.put_slice(b"event: ");
        put_one_line(out, name);
        out.put_u8(b'\n');
    }
    let mut rest = data;
    loop {
        let end = memchr::memchr2(b'\n', b'\r', rest);
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        out.put_slice(b"data: ");
        out.put_slice(line);
        out.put_u8(b'\n');
        rest = match after {
            [] => break,
            [b'\r', b'\n', more @ ..] | [_, more @ ..] => more,
        };
    }
    out.put_u8(b'\n');
}

/// Writes one comment, as a block of its own. Line ends in `text` become spaces.
pub fn write_comment(out: &mut BytesMut, text: &str) {
    out.put_slice(b": ");
    put_one_line(out, text.as_bytes());
    out.put_slice(b"\n\n");
}

fn put_one_line(out: &mut BytesMut, text: &[u8]) {
    out.extend(text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
}
