//! What the messages hold: roles and content parts, seen in passing.

use crate::json::{ScanError, Scanner, text};

/// The estimate for one image, audio, video or file part, in tokens: a large picture costs about this much.
const MEDIA_TOKENS: u64 = 800;

/// What was seen of `messages`.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) count: usize,
    pub(super) images: bool,
    pub(super) audio: bool,
    pub(super) files: bool,
    pub(super) video: bool,
    /// The last message is the assistant's.
    pub(super) assistant_last: bool,
    pub(super) media_bytes: u64,
    pub(super) media_parts: u64,
}

impl Seen {
    /// The estimate for messages that take `bytes` in the body.
    pub(super) fn tokens(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.media_bytes).div_ceil(4) + self.media_parts * MEDIA_TOKENS
    }
}

/// Passes over the array of messages.
pub(super) fn read_messages(scanner: &mut Scanner<'_>) -> Result<Seen, ScanError> {
    let mut seen = Seen::default();
    let mut first = true;
    scanner.open_array()?;
    while scanner.next_element(&mut first)? {
        seen.count += 1;
        seen.assistant_last = false;
        if scanner.peek()? == b'{' {
            read_message(scanner, &mut seen)?;
        } else {
            scanner.skip_value()?;
        }
    }
    Ok(seen)
}

fn read_message(scanner: &mut Scanner<'_>, seen: &mut Seen) -> Result<(), ScanError> {
    let mut first = true;
    scanner.open_object()?;
    while let Some(key) = scanner.next_key(&mut first)? {
        let key = text(scanner.slice(&key)).unwrap_or_default();
        let is_list = scanner.peek()? == b'[';
        match &*key {
            "content" | "output" if is_list => read_parts(scanner, seen, true)?,
            "role" => {
                let role = scanner.skip_value()?;
                seen.assistant_last = text(scanner.slice(&role)).is_some_and(|role| role == "assistant");
            }
            _ => {
                scanner.skip_value()?;
            }
        }
    }
    Ok(())
}

/// Passes over a list of content parts. `nested`: a part may hold a list of its own (Messages: the images and
/// documents of a `tool_result`), one level deep.
fn read_parts(scanner: &mut Scanner<'_>, seen: &mut Seen, nested: bool) -> Result<(), ScanError> {
    let mut first = true;
    scanner.open_array()?;
    while scanner.next_element(&mut first)? {
        if scanner.peek()? == b'{' {
            read_part(scanner, seen, nested)?;
        } else {
            scanner.skip_value()?;
        }
    }
    Ok(())
}

fn read_part(scanner: &mut Scanner<'_>, seen: &mut Seen, nested: bool) -> Result<(), ScanError> {
    let start = scanner.offset();
    let before = (seen.media_bytes, seen.media_parts);
    let mut first = true;
    let mut media = false;
    scanner.open_object()?;
    while let Some(key) = scanner.next_key(&mut first)? {
        let key = text(scanner.slice(&key)).unwrap_or_default();
        if nested && key == "content" && scanner.peek()? == b'[' {
            read_parts(scanner, seen, false)?;
            continue;
        }
        let value = scanner.skip_value()?;
        if key == "type" {
            media = note_kind(&text(scanner.slice(&value)).unwrap_or_default(), seen);
        }
    }
    if media {
        // What it holds is counted with it.
        (seen.media_bytes, seen.media_parts) = before;
        seen.media_parts += 1;
        seen.media_bytes += (scanner.offset() - start) as u64;
    }
    Ok(())
}

/// Notes the kind of a content part; whether it is media. The names of OpenAI and Anthropic, and
/// those of vLLM and OpenRouter.
fn note_kind(kind: &str, seen: &mut Seen) -> bool {
    let need = match kind {
        "image_url" | "image" | "input_image" => &mut seen.images,
        "input_audio" | "audio_url" | "audio" => &mut seen.audio,
        "file" | "input_file" | "document" | "document_url" => &mut seen.files,
        "video_url" | "input_video" | "video" => &mut seen.video,
        _ => return false,
    };
    *need = true;
    true
}
