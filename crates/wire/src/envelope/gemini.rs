//! What a Gemini request holds, where it stands elsewhere than in the other dialects.

use super::media::Seen;
use super::read::{count_of, member_of};
use super::{EnvelopeError, Needs, Structured};
use crate::json::{Scan, Scanner, camel, is_falsy, text};

/// Passes over the contents: a list, or by the habit of Google's examples a single one.
pub(super) fn read_contents(scanner: &mut Scanner<'_>) -> Scan<Seen> {
    let mut seen = Seen::default();
    each(scanner, &mut |scanner| {
        seen.count += 1;
        seen.assistant_last = false;
        read_content(scanner, &mut seen)
    })?;
    Ok(seen)
}

/// Passes over a list of objects, or one of them; what is no object is nothing.
fn each(scanner: &mut Scanner<'_>, one: &mut dyn FnMut(&mut Scanner<'_>) -> Scan<()>) -> Scan<()> {
    if scanner.peek()? != b'[' {
        return object(scanner, one);
    }
    let mut first = true;
    scanner.open_array()?;
    while scanner.next_element(&mut first)? {
        object(scanner, one)?;
    }
    Ok(())
}

fn object(scanner: &mut Scanner<'_>, one: &mut dyn FnMut(&mut Scanner<'_>) -> Scan<()>) -> Scan<()> {
    if scanner.peek()? == b'{' { one(scanner) } else { scanner.skip_value().map(drop) }
}

fn read_content(scanner: &mut Scanner<'_>, seen: &mut Seen) -> Scan<()> {
    let mut first = true;
    scanner.open_object()?;
    while let Some(key) = scanner.next_key(&mut first)? {
        match text(scanner.slice(&key)).unwrap_or_default().as_ref() {
            "parts" => each(scanner, &mut |scanner| read_part(scanner, seen, true))?,
            "role" => {
                let role = scanner.skip_value()?;
                seen.assistant_last = text(scanner.slice(&role)).is_some_and(|role| role == "model");
            }
            _ => {
                scanner.skip_value()?;
            }
        }
    }
    Ok(())
}

/// Passes over a part. `nested`: the result of a function may hold parts of its own, one level deep.
fn read_part(scanner: &mut Scanner<'_>, seen: &mut Seen, nested: bool) -> Scan<()> {
    let mut first = true;
    scanner.open_object()?;
    while let Some(key) = scanner.next_key(&mut first)? {
        let key = text(scanner.slice(&key)).unwrap_or_default();
        let object = scanner.peek()? == b'{';
        match camel(&key).as_ref() {
            "inlineData" | "fileData" => {
                let medium = scanner.skip_value()?;
                note(scanner.slice(&medium), seen);
            }
            "functionResponse" if nested && object => read_result(scanner, seen)?,
            _ => {
                scanner.skip_value()?;
            }
        }
    }
    Ok(())
}

fn read_result(scanner: &mut Scanner<'_>, seen: &mut Seen) -> Scan<()> {
    let mut first = true;
    scanner.open_object()?;
    while let Some(key) = scanner.next_key(&mut first)? {
        if text(scanner.slice(&key)).is_some_and(|key| key == "parts") {
            each(scanner, &mut |scanner| read_part(scanner, seen, false))?;
        } else {
            scanner.skip_value()?;
        }
    }
    Ok(())
}

/// Notes a medium by its type.
fn note(json: &[u8], seen: &mut Seen) {
    let kind = either(json, "mimeType", "mime_type").and_then(text).unwrap_or_default();
    let need = match kind.split('/').next() {
        Some("image") => &mut seen.images,
        Some("audio") => &mut seen.audio,
        Some("video") => &mut seen.video,
        _ => &mut seen.files,
    };
    *need = true;
    seen.media_parts += 1;
    seen.media_bytes += json.len() as u64;
}

fn either<'j>(json: &'j [u8], camel: &str, snake: &str) -> Option<&'j [u8]> {
    member_of(json, camel).or_else(|| member_of(json, snake)).filter(|value| *value != b"null")
}

/// Reads `generationConfig`; gives the limit on output tokens.
pub(super) fn needs_of(json: &[u8], needs: &mut Needs) -> Result<Option<u64>, EnvelopeError> {
    if !json.starts_with(b"{") {
        return Err(EnvelopeError::WrongType { field: "generationConfig", expected: "an object" });
    }
    let says = |value: Option<&[u8]>| {
        value.is_some_and(|value| std::str::from_utf8(value).is_ok_and(|value| !is_falsy(value)))
    };
    if let Some(n) = either(json, "candidateCount", "candidate_count") {
        const FIELD: &str = "generationConfig.candidateCount";
        let n = count_of(FIELD, n)?.and_then(|n| u32::try_from(n).ok());
        needs.n = n.ok_or(EnvelopeError::WrongType { field: FIELD, expected: "a whole number" })?;
    }
    let schema = says(either(json, "responseJsonSchema", "response_json_schema"))
        || says(either(json, "responseSchema", "response_schema"));
    let json_asked = either(json, "responseMimeType", "response_mime_type")
        .and_then(text)
        .is_some_and(|kind| kind == "application/json");
    needs.structured = match (schema, json_asked) {
        (true, _) => Some(Structured::JsonSchema),
        (false, true) => Some(Structured::JsonObject),
        (false, false) => None,
    };
    if let Some(thinking) = either(json, "thinkingConfig", "thinking_config") {
        let budget = either(thinking, "thinkingBudget", "thinking_budget");
        let level = either(thinking, "thinkingLevel", "thinking_level");
        needs.reasoning |= level.is_some() || budget.is_some_and(|budget| budget != b"0");
    }
    needs.logprobs |= says(either(json, "responseLogprobs", "response_logprobs"))
        || says(either(json, "logprobs", "logprobs"));
    if let Some(modalities) = either(json, "responseModalities", "response_modalities") {
        let words = serde_json::from_slice::<Vec<String>>(modalities).unwrap_or_default();
        needs.audio_out |= words.iter().any(|word| word.eq_ignore_ascii_case("audio"));
    }
    match either(json, "maxOutputTokens", "max_output_tokens") {
        Some(count) => count_of("generationConfig.maxOutputTokens", count),
        None => Ok(None),
    }
}
