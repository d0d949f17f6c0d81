//! Images, documents and recordings.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::outgoing::{OutBlock, OutMedia, OutSource};
use super::Writer;
use crate::ir::{Media, MediaKind, Source, Untranslatable};

/// Amazon Bedrock API Reference, "DocumentBlock": a name has 200 characters at most.
const MAX_NAME: usize = 200;

impl<'r> Writer<'r> {
    pub(super) fn media(&mut self, media: &'r Media<'_>) -> Result<OutBlock<'r>, Untranslatable> {
        let refuse = |note| Err(Untranslatable::at(media.pointer.clone(), note));
        let (format, bytes) = match &media.source {
            Source::Data { media_type, base64 } => match format(media.kind, media_type) {
                Some(format) => (format, Cow::Borrowed(base64.as_ref())),
                None => return refuse("Converse does not take data of this type"),
            },
            Source::Plain(text) => ("txt", Cow::Owned(STANDARD.encode(text.as_bytes()))),
            Source::File(_) => return refuse("a stored file is known to the account only that holds it"),
            Source::Url(_) => {
                return refuse(
                    "Converse takes a medium only with its bytes, and the gateway fetches nothing",
                );
            }
        };
        let source = OutSource { bytes };
        Ok(match media.kind {
            MediaKind::Image => OutBlock::Image(OutMedia { format, name: None, source }),
            MediaKind::Audio => OutBlock::Audio(OutMedia { format, name: None, source }),
            MediaKind::Document => {
                let name = Some(self.document_name(media.title.as_deref()));
                OutBlock::Document(OutMedia { format, name, source })
            }
        })
    }

    /// A document must have a name, of letters, digits, single spaces, hyphens, parentheses and brackets ("DocumentBlock"),
    /// and no two of a request have the same.
    fn document_name(&mut self, title: Option<&str>) -> String {
        let title = title.unwrap_or_default();
        let kept: String = title
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' })
            .take(MAX_NAME - 8)
            .collect();
        let name = kept.split_whitespace().collect::<Vec<_>>().join(" ");
        let name = if name.is_empty() { "document".to_owned() } else { name };
        let mut unique = name.clone();
        let mut number = 1;
        while !self.documents.insert(unique.clone()) {
            number += 1;
            unique = format!("{name} {number}");
        }
        unique
    }
}

/// The format as Converse calls it ("ImageBlock", "DocumentBlock", "AudioBlock").
fn format(kind: MediaKind, media_type: &str) -> Option<&'static str> {
    Some(match (kind, media_type) {
        (MediaKind::Image, "image/png") => "png",
        (MediaKind::Image, "image/jpeg" | "image/jpg") => "jpeg",
        (MediaKind::Image, "image/gif") => "gif",
        (MediaKind::Image, "image/webp") => "webp",
        (MediaKind::Document, "application/pdf") => "pdf",
        (MediaKind::Document, "text/csv") => "csv",
        (MediaKind::Document, "text/html") => "html",
        (MediaKind::Document, "text/plain") => "txt",
        (MediaKind::Document, "text/markdown") => "md",
        (MediaKind::Document, "application/msword") => "doc",
        (MediaKind::Document, "application/vnd.openxmlformats-officedocument.wordprocessingml.document") => {
            "docx"
        }
        (MediaKind::Document, "application/vnd.ms-excel") => "xls",
        (MediaKind::Document, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet") => "xlsx",
        (MediaKind::Audio, "audio/wav" | "audio/x-wav") => "wav",
        (MediaKind::Audio, "audio/mp3" | "audio/mpeg" | "audio/mpga") => "mp3",
        (MediaKind::Audio, "audio/flac") => "flac",
        (MediaKind::Audio, "audio/ogg") => "ogg",
        (MediaKind::Audio, "audio/aac") => "aac",
        _ => return None,
    })
}
