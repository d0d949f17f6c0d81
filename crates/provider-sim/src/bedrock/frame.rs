//! AWS event-stream framing (`application/vnd.amazon.eventstream`): a prelude of two lengths with its checksum,
//! headers, the payload, and a checksum of it all.

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Event,
    /// A failure that the API describes.
    Exception,
    /// A failure that it does not: the payload is the sentence, and goes into a header.
    Error,
}

/// A message with this name (of the event, the exception or the error) and payload.
pub(crate) fn message(kind: Kind, name: &str, payload: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(payload);
    match kind {
        Kind::Event => framed(&[(":event-type", name), JSON, (":message-type", "event")], payload),
        Kind::Exception => {
            framed(&[(":exception-type", name), JSON, (":message-type", "exception")], payload)
        }
        Kind::Error => {
            framed(&[(":message-type", "error"), (":error-code", name), (":error-message", &text)], &[])
        }
    }
}

const JSON: (&str, &str) = (":content-type", "application/json");
/// The type of a header whose value is a text.
const TEXT: u8 = 7;

fn framed(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        block.extend_from_slice(name.as_bytes());
        block.push(TEXT);
        block.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        block.extend_from_slice(value.as_bytes());
    }
    // Prelude with its checksum, headers, payload, checksum.
    let total = 12 + block.len() + payload.len() + 4;
    let mut out = Vec::with_capacity(total);
    for length in [total, block.len()] {
        out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    out.extend_from_slice(&block);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32(&out).to_be_bytes());
    out
}

/// CRC-32 as in zip and Ethernet (reflected polynomial 0xEDB88320).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests;
