//! Pictures, documents and recordings: always an estimate, by each provider's documented rules.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Pictures, Sum};
use crate::ir::{Media, MediaKind, Source};

/// Where nothing is known of a picture (it stands at an address): a middling one.
const USUAL: (u64, u64) = (1024, 1024);
/// A page of a document, in tokens (Anthropic, "PDF support": 1,500 to 3,000), and in bytes.
const PAGE_TOKENS: u64 = 2_000;
const PAGE_BYTES: u64 = 64 * 1024;
/// A second of a recording, in tokens (Google, "Audio understanding"), and in bytes of a compressed one.
const SECOND_TOKENS: u64 = 32;
const SECOND_BYTES: u64 = 16 * 1024;
/// A picture's size stands within its first bytes, of base64; a photograph may have a small one of itself before that.
const HEAD: usize = 128 * 1024;

impl Sum {
    pub(super) fn media(&mut self, media: &Media<'_>) {
        self.guessed = true;
        let bytes = match &media.source {
            Source::Plain(text) => return self.text(text),
            Source::Data { base64, .. } => base64.len() as u64 / 4 * 3,
            Source::File(_) | Source::Url(_) => 0,
        };
        self.fixed += match media.kind {
            MediaKind::Image => self.family.pictures.tokens(size(&media.source).unwrap_or(USUAL)),
            MediaKind::Document => bytes.div_ceil(PAGE_BYTES).max(1) * PAGE_TOKENS,
            MediaKind::Audio => bytes.div_ceil(SECOND_BYTES).max(1) * SECOND_TOKENS,
        };
    }
}

impl Pictures {
    pub(super) fn tokens(self, (width, height): (u64, u64)) -> u64 {
        match self {
            Self::Tiles { base, tile } => {
                let (width, height) = within((width, height), 2048);
                let short = width.min(height).max(1);
                let fit = |side: u64| if short > 768 { side * 768 / short } else { side };
                base + tile * fit(width).div_ceil(512) * fit(height).div_ceil(512)
            }
            Self::Area => {
                let (width, height) = within((width, height), 1568);
                // Of long pictures no more is seen than of a square one.
                (width * height).div_ceil(750).clamp(1, 1_600)
            }
            Self::Squares if width <= 384 && height <= 384 => 258,
            Self::Squares => {
                let (width, height) = within((width, height), 3072);
                258 * width.div_ceil(768) * height.div_ceil(768)
            }
        }
    }
}

/// Scaled so that neither side is longer.
fn within((width, height): (u64, u64), longest: u64) -> (u64, u64) {
    let long = width.max(height);
    if long <= longest {
        return (width, height);
    }
    ((width * longest / long).max(1), (height * longest / long).max(1))
}

/// Width and height of a picture that is here, in pixels.
fn size(source: &Source<'_>) -> Option<(u64, u64)> {
    let Source::Data { base64, .. } = source else { return None };
    let head = base64.as_bytes().get(..base64.len().min(HEAD) / 4 * 4)?;
    size_of(&STANDARD.decode(head).ok()?)
}

/// PNG (RFC 2083), GIF (GIF89a), WebP (RFC 9649) and JPEG (ITU T.81) say their size in the beginning.
pub(super) fn size_of(bytes: &[u8]) -> Option<(u64, u64)> {
    let sides = |wide: u64, high: u64| (wide > 0 && high > 0).then_some((wide, high));
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return sides(big(bytes, 16, 4)?, big(bytes, 20, 4)?);
    }
    if bytes.starts_with(b"GIF8") {
        return sides(little(bytes, 6, 2)?, little(bytes, 8, 2)?);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12)? == b"WEBP" {
        return match bytes.get(12..16)? {
            b"VP8 " => sides(little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff),
            b"VP8L" => {
                let packed = little(bytes, 21, 4)?;
                sides((packed & 0x3fff) + 1, ((packed >> 14) & 0x3fff) + 1)
            }
            b"VP8X" => sides(little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1),
            _ => None,
        };
    }
    if bytes.starts_with(b"\xff\xd8") { jpeg(bytes) } else { None }
}

/// A frame's header is one of the segments, each of which says how long it is.
fn jpeg(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut at = 2;
    while *bytes.get(at)? == 0xff {
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xff => at += 1,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            _ => at += 2 + usize::try_from(big(bytes, at + 2, 2)?.max(2)).ok()?,
        }
    }
    None
}

fn big(bytes: &[u8], at: usize, many: usize) -> Option<u64> {
    Some(bytes.get(at..at + many)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn little(bytes: &[u8], at: usize, many: usize) -> Option<u64> {
    Some(bytes.get(at..at + many)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
