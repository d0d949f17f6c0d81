//! A request that is a form (`multipart/form-data`, RFC 7578): where its parts lie. Nothing is copied, so that a file of
//! many megabytes costs one search for its end.

use memchr::memmem;

use super::{Envelope, EnvelopeError, Limits, Needs, Preferences};
use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::json::Span;

/// A form has at most so many parts: `/images/edits` takes 16 images and a dozen fields.
const MAX_PARTS: usize = 256;
/// The headers of one part, in bytes.
const MAX_PART_HEADERS: usize = 16 * 1024;
/// A field that is read may be so long, in bytes.
const MAX_FIELD: usize = 1024;

/// One part: its name and where its content lies.
struct Part<'a> {
    name: &'a str,
    content: Span,
}

/// Where the model stands in a form, and what else is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) model: Span,
}

pub(super) fn read(
    endpoint: Endpoint,
    content_type: &str,
    body: &[u8],
    limits: &Limits,
) -> Result<Envelope, EnvelopeError> {
    if body.len() > limits.max_bytes {
        return Err(EnvelopeError::TooLarge { limit: limits.max_bytes, actual: body.len() });
    }
    let boundary = boundary(content_type).ok_or(EnvelopeError::Form { problem: "has no usable boundary" })?;
    let mut found = Found::default();
    for part in parts(body, &boundary)? {
        found.take(&part, body)?;
    }
    found.into_envelope(endpoint)
}

/// The boundary of a form: 1 to 70 characters (RFC 2046, section 5.1.1), quoted or not.
fn boundary(content_type: &str) -> Option<String> {
    let (media, parameters) = content_type.split_once(';')?;
    if !media.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then_some(value.trim())
    })?;
    let value = value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value);
    let usable = (1..=70).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    usable.then(|| value.to_owned())
}

fn parts<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Part<'a>>, EnvelopeError> {
    let broken = |problem| EnvelopeError::Form { problem };
    let delimiter = format!("\r\n--{boundary}");
    let finder = memmem::Finder::new(delimiter.as_bytes());
    let opening = delimiter.as_bytes().strip_prefix(b"\r\n").unwrap_or_default();
    // What stands before the first delimiter is none of the parts.
    let mut at = match body.starts_with(opening) {
        true => opening.len(),
        false => finder.find(body).map(|at| at + delimiter.len()).ok_or_else(|| broken("has no parts"))?,
    };
    let mut parts = Vec::new();
    loop {
        let rest = body.get(at..).unwrap_or_default();
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        if parts.len() == MAX_PARTS {
            return Err(broken("has too many parts"));
        }
        let line = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(rest.len());
        let head = at + line;
        if !body.get(head..).is_some_and(|rest| rest.starts_with(b"\r\n")) {
            return Err(broken("has a delimiter that does not end its line"));
        }
        let within = body.get(head..body.len().min(head + MAX_PART_HEADERS)).unwrap_or_default();
        let headers = memmem::find(within, b"\r\n\r\n")
            .ok_or_else(|| broken("has a part without an end of its headers"))?;
        let start = head + headers + 4;
        // An empty content ends with the line end that closes the headers.
        let from = start - 2;
        let length = finder.find(body.get(from..).unwrap_or_default());
        let end = from + length.ok_or_else(|| broken("breaks off within a part"))?;
        let name = within.get(..headers).and_then(name_of).unwrap_or_default();
        parts.push(Part { name, content: start.min(end)..end });
        at = end + delimiter.len();
    }
}

/// The name in `content-disposition: form-data; name="…"`.
fn name_of(headers: &[u8]) -> Option<&str> {
    let headers = std::str::from_utf8(headers).ok()?;
    let disposition = headers.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let value = disposition.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("name").then_some(value.trim())
    })?;
    Some(value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value))
}

#[derive(Default)]
struct Found {
    model: Option<(String, Span)>,
    stream: Option<bool>,
    response_format: Option<String>,
    user: Option<String>,
}

impl Found {
    fn take(&mut self, part: &Part<'_>, body: &[u8]) -> Result<(), EnvelopeError> {
        let text = || {
            let content = body.get(part.content.clone()).filter(|content| content.len() <= MAX_FIELD)?;
            std::str::from_utf8(content).ok()
        };
        let wrong = |field, expected| EnvelopeError::WrongType { field, expected };
        match part.name {
            "model" => {
                let expected = "a non-empty string";
                let model = text().filter(|model| !model.is_empty() && !model.contains(char::is_control));
                let model = model.ok_or_else(|| wrong("model", expected))?.to_owned();
                if self.model.replace((model, part.content.clone())).is_some() {
                    return Err(EnvelopeError::DuplicateKey { key: "model" });
                }
            }
            "stream" => {
                let stream = match text() {
                    Some("true" | "True" | "1") => true,
                    Some("false" | "False" | "0" | "") => false,
                    _ => return Err(wrong("stream", "true or false")),
                };
                if self.stream.replace(stream).is_some() {
                    return Err(EnvelopeError::DuplicateKey { key: "stream" });
                }
            }
            "response_format" => {
                let format = text().ok_or_else(|| wrong("response_format", "a string"))?.to_owned();
                if self.response_format.replace(format).is_some() {
                    return Err(EnvelopeError::DuplicateKey { key: "response_format" });
                }
            }
            "user" => self.user = text().filter(|user| !user.is_empty()).map(str::to_owned),
            // Never passed over, never shown to a provider.
            "models" | "provider" => {
                let problem = "a form cannot carry it; use the headers x-pointsman-*".to_owned();
                return Err(EnvelopeError::Preference { field: part.name.to_owned(), problem });
            }
            _ => {}
        }
        Ok(())
    }

    fn into_envelope(self, endpoint: Endpoint) -> Result<Envelope, EnvelopeError> {
        let (model, span) = self.model.ok_or(EnvelopeError::Missing { field: "model" })?;
        Ok(Envelope {
            endpoint,
            dialect: Dialect::Chat,
            form: Some(Form { model: span }),
            members: Vec::new(),
            member_count: 0,
            inside: 0,
            stream_options: None,
            model,
            stream: self.stream.unwrap_or(false) && endpoint.may_stream(),
            response_format: self.response_format,
            include_usage: false,
            preferences: Preferences::default(),
            needs: Needs::default(),
            max_tokens: None,
            max_completion_tokens: None,
            estimated_prompt_tokens: 0,
            affinity: [None, None, self.user],
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::{EnvelopeError, Limits, boundary};
    use crate::endpoint::Endpoint;
    use crate::envelope::Envelope;
    use crate::passthrough::{Edits, render};

    const TYPE: &str = "multipart/form-data; boundary=xyz";

    fn read(body: &[u8]) -> Result<Envelope, EnvelopeError> {
        Envelope::read_form(Endpoint::Transcriptions, TYPE, body, &Limits::default())
    }

    fn part(name: &str, content: &str) -> String {
        format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
    }

    const FILE: &str = "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n--xy\r\n\0data\r\n";

    #[test]
    fn the_model_is_found_before_and_after_the_file_and_replaced_there() {
        for (first, last) in
            [(part("model", "whisper-1"), FILE.to_owned()), (FILE.to_owned(), part("model", "whisper-1"))]
        {
            let body = Bytes::from(format!("{first}{last}{}--xyz--\r\n", part("response_format", "text")));
            let envelope = read(&body).unwrap();
            assert_eq!((envelope.model(), envelope.stream(), envelope.is_form()), ("whisper-1", false, true));
            assert_eq!(render(&body, &envelope, &Edits::model("whisper-1")), body);
            let sent = render(&body, &envelope, &Edits::model("whisper-large-v3"));
            let expected = String::from_utf8(body.to_vec()).unwrap().replace("whisper-1", "whisper-large-v3");
            assert_eq!(sent, expected.as_bytes());
        }
    }

    #[test]
    fn a_boundary_stands_in_quotes_or_without_them_and_within_its_bounds() {
        for good in [
            "multipart/form-data; boundary=xyz",
            "Multipart/Form-Data; charset=utf-8; Boundary=\"xyz\"",
            "multipart/form-data;boundary=xyz",
        ] {
            assert_eq!(boundary(good).as_deref(), Some("xyz"), "{good}");
        }
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        for bad in
            ["multipart/form-data", "application/json; boundary=x", "multipart/form-data; boundary=", &long]
        {
            assert_eq!(boundary(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_form_is_said() {
        let missing = read(format!("{FILE}--xyz--\r\n").as_bytes()).unwrap_err();
        assert_eq!(missing, EnvelopeError::Missing { field: "model" });
        let twice = format!("{0}{0}--xyz--\r\n", part("model", "a"));
        assert_eq!(read(twice.as_bytes()).unwrap_err(), EnvelopeError::DuplicateKey { key: "model" });
        let empty = format!("{}--xyz--\r\n", part("model", ""));
        assert!(matches!(read(empty.as_bytes()), Err(EnvelopeError::WrongType { field: "model", .. })));
        let ours = format!("{}{}--xyz--\r\n", part("model", "a"), part("models", "[\"b\"]"));
        assert!(matches!(read(ours.as_bytes()), Err(EnvelopeError::Preference { .. })));
        for (body, problem) in [
            ("", "has no parts"),
            ("--xyz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na", "breaks off within a part"),
            ("--xyz\r\nContent-Disposition: form-data", "has a part without an end of its headers"),
            ("--xyzw\r\n\r\na\r\n--xyz--", "has a delimiter that does not end its line"),
        ] {
            assert_eq!(read(body.as_bytes()).unwrap_err(), EnvelopeError::Form { problem }, "{body}");
        }
    }

    #[test]
    fn parts_are_bounded_in_number() {
        let many = format!("{}{}--xyz--\r\n", part("x", "1").repeat(256), part("model", "a"));
        assert_eq!(read(many.as_bytes()).unwrap_err(), EnvelopeError::Form { problem: "has too many parts" });
    }

    #[test]
    fn a_stream_is_asked_for_in_words() {
        let asked =
            |word: &str| read(format!("{}{}--xyz--", part("stream", word), part("model", "a")).as_bytes());
        assert!(asked("true").unwrap().stream());
        assert!(!asked("false").unwrap().stream());
        assert!(asked("perhaps").is_err());
    }

    proptest! {
        /// Whatever a file holds, the model around it is found, and what is sent differs by the model alone.
        #[test]
        fn any_file_passes_untouched(file in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut body = b"--b0undary\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n".to_vec();
            body.extend_from_slice(&file);
            let after = b"\r\n--b0undary\r\ncontent-disposition: form-data; name=model\r\n\r\nm1\r\n--b0undary--\r\n";
            body.extend_from_slice(after);
            let body = Bytes::from(body);
            let content_type = "multipart/form-data; boundary=b0undary";
            let envelope = Envelope::read_form(Endpoint::ImageEdits, content_type, &body, &Limits::default()).unwrap();
            prop_assert_eq!(envelope.model(), "m1");
            let sent = render(&body, &envelope, &Edits::model("longer-model"));
            let start = body.len() - after.len();
            prop_assert_eq!(&sent[..start], &body[..start]);
            prop_assert!(sent.ends_with(b"\r\n\r\nlonger-model\r\n--b0undary--\r\n"));
        }

        /// No bytes make it panic.
        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(envelope) = read(&body) {
                prop_assert!(!envelope.model().is_empty());
            }
        }
    }
}
