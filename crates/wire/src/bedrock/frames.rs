//! Frames of AWS's event stream (`application/vnd.amazon.eventstream`; AWS documentation, "Event stream encoding"): a prelude
//! of two lengths with its checksum, headers, the payload, and a checksum of it all.
//!
//! The length stands first, so that a frame that is too large is refused before any of it is kept. Each byte of a frame is
//! kept once and looked at by the checksum alone.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use crate::sse::SseEvent;

/// Two lengths and their checksum.
const PRELUDE: usize = 12;
/// The checksum at the end.
const CHECKSUM: usize = 4;
/// The type of a header whose value is a text.
const TEXT: u8 = 7;

/// The beginning of the name of an event that is an exception: a failure that the API describes.
pub const EXCEPTION: &str = "exception:";
/// The same for a failure that it does not describe.
pub const ERROR: &str = "error:";

/// Why a stream cannot be decoded any further. The decoder stays in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame says that it is larger than allowed.
    #[error("a frame of the stream is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes that was given to [`FrameDecoder::new`].
        limit: usize,
    },
    /// A checksum does not fit.
    #[error("a frame of the stream does not fit its checksum")]
    Checksum,
    /// Lengths that contradict each other, headers that are none.
    #[error("a frame of the stream cannot be read")]
    Malformed,
}

/// An incremental decoder: push chunks as they come, take events until there are none.
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    input: VecDeque<Bytes>,
    /// Bytes in `input`.
    waiting: usize,
    bytes: u64,
    failed: Option<FrameError>,
}

impl FrameDecoder {
    /// A decoder that refuses a frame of more than `max_frame_bytes`.
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        Self { limit: max_frame_bytes, input: VecDeque::new(), waiting: 0, bytes: 0, failed: None }
    }

    /// Adds bytes of the stream. Take the events out before the next push, to keep memory at one frame.
    pub fn push(&mut self, chunk: Bytes) {
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        if !chunk.is_empty() && self.failed.is_none() {
            self.waiting += chunk.len();
            self.input.push_back(chunk);
        }
    }

    /// The next event: its name is that of the event, or [`EXCEPTION`] or [`ERROR`] and what failed; its data is the payload,
    /// of an error `{"message": …}`. `None` means that more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError`], now and at every later call.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let event = self.frame();
        if let Err(error) = event {
            self.failed = Some(error);
            self.input.clear();
            self.waiting = 0;
        }
        event
    }

    /// Whether any byte was pushed at all.
    #[must_use]
    pub fn saw_bytes(&self) -> bool {
        self.bytes > 0
    }

    /// Whether the beginning of a frame is here and its end is not.
    #[must_use]
    pub fn in_event(&self) -> bool {
        self.waiting > 0
    }

    fn frame(&mut self) -> Result<Option<SseEvent>, FrameError> {
        while let Some(prelude) = self.peek_prelude() {
            let (total, headers) = lengths(prelude)?;
            if total > self.limit {
                return Err(FrameError::TooLarge { limit: self.limit });
            }
            let least = headers.checked_add(PRELUDE + CHECKSUM).ok_or(FrameError::Malformed)?;
            if total < least {
                return Err(FrameError::Malformed);
            }
            if self.waiting < total {
                return Ok(None);
            }
            let mut frame = self.take(total);
            let sum = frame.split_off(total - CHECKSUM);
            if crc32fast::hash(&frame).to_be_bytes()[..] != sum[..] {
                return Err(FrameError::Checksum);
            }
            let payload = frame.split_off(PRELUDE + headers);
            frame.advance(PRELUDE);
            // A kind of message that is not known yet says nothing.
            if let Some(event) = event(frame, payload)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn peek_prelude(&self) -> Option<[u8; PRELUDE]> {
        if self.waiting < PRELUDE {
            return None;
        }
        let mut prelude = [0; PRELUDE];
        let bytes = self.input.iter().flat_map(|chunk| chunk.iter());
        prelude.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        Some(prelude)
    }

    /// The first so many bytes, which are there: a slice of the pushed chunk where they lie in one.
    fn take(&mut self, length: usize) -> Bytes {
        self.waiting -= length.min(self.waiting);
        if let Some(first) = self.input.front_mut()
            && first.len() > length
        {
            return first.split_to(length);
        }
        let mut taken = self.input.pop_front().unwrap_or_default();
        if taken.len() < length {
            let mut joined = BytesMut::with_capacity(length);
            joined.extend_from_slice(&taken);
            while let Some(mut chunk) = self.input.pop_front() {
                let more = chunk.split_to(chunk.len().min(length - joined.len()));
                joined.extend_from_slice(&more);
                if !chunk.is_empty() {
                    self.input.push_front(chunk);
                }
                if joined.len() == length {
                    break;
                }
            }
            taken = joined.freeze();
        }
        taken
    }
}

/// The length of the frame and that of its headers.
fn lengths(mut prelude: [u8; PRELUDE]) -> Result<(usize, usize), FrameError> {
    let mut numbers = &mut prelude[..];
    let sum = crc32fast::hash(numbers.get(..8).unwrap_or_default());
    let length = |number: u32| usize::try_from(number).map_err(|_| FrameError::Malformed);
    let mut read = &*std::mem::take(&mut numbers);
    let (total, headers) = (length(read.get_u32())?, length(read.get_u32())?);
    if read.get_u32() == sum { Ok((total, headers)) } else { Err(FrameError::Checksum) }
}

/// What the headers say that matters here.
#[derive(Default)]
struct Headers {
    message: Bytes,
    event: Bytes,
    exception: Bytes,
    code: Bytes,
    words: Bytes,
}

fn event(headers: Bytes, payload: Bytes) -> Result<Option<SseEvent>, FrameError> {
    let headers = read(headers)?;
    let named = |prefix: &str, name: &Bytes| Bytes::from([prefix.as_bytes(), name].concat());
    let (name, data) = match &*headers.message {
        b"event" => (headers.event, payload),
        b"exception" => (named(EXCEPTION, &headers.exception), payload),
        b"error" => {
            let words = String::from_utf8_lossy(&headers.words);
            let data = serde_json::json!({ "message": words }).to_string();
            (named(ERROR, &headers.code), Bytes::from(data))
        }
        _ => return Ok(None),
    };
    let data = if data.is_empty() { Bytes::from_static(b"{}") } else { data };
    Ok(Some(SseEvent { event: Some(name), data }))
}

fn read(mut block: Bytes) -> Result<Headers, FrameError> {
    let mut headers = Headers::default();
    while !block.is_empty() {
        let length = usize::from(block.get_u8());
        let name = cut(&mut block, length)?;
        let value = value(&mut block)?;
        match &*name {
            b":message-type" => headers.message = value,
            b":event-type" => headers.event = value,
            b":exception-type" => headers.exception = value,
            b":error-code" => headers.code = value,
            b":error-message" => headers.words = value,
            _ => {}
        }
    }
    Ok(headers)
}

/// A header's value; of types other than texts nothing is used here.
fn value(block: &mut Bytes) -> Result<Bytes, FrameError> {
    let kind = cut(block, 1)?.get_u8();
    let length = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        6 | TEXT => usize::from(cut(block, 2)?.get_u16()),
        9 => 16,
        _ => return Err(FrameError::Malformed),
    };
    let value = cut(block, length)?;
    Ok(if kind == TEXT { value } else { Bytes::new() })
}

fn cut(block: &mut Bytes, length: usize) -> Result<Bytes, FrameError> {
    if block.len() < length { Err(FrameError::Malformed) } else { Ok(block.split_to(length)) }
}
