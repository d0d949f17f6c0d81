//! The dialect of one attempt: that of the client, or another that the target speaks, with a translation both ways.

use bytes::Bytes;
use pointsman_core::controller::{Attempt, Failed};
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_core::policy::OnLoss;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::error::UpstreamError;
use pointsman_wire::ir::{Loss, Losses};
use pointsman_wire::passthrough::{Edits, render};
use pointsman_wire::translate::{self, Back, Destination, Refused, StreamTranslator};

use crate::exchange::{AttemptFailure, Exchange};
use crate::verdict;

/// How the answer of an attempt becomes one in the client's dialect.
#[derive(Debug)]
pub(crate) struct Translation {
    spoken: Dialect,
    asked: Dialect,
    back: Back,
}

impl Translation {
    /// The target's dialect.
    pub(crate) fn spoken(&self) -> Dialect {
        self.spoken
    }

    /// A plain answer in the client's dialect.
    pub(crate) fn answer(&self, body: &Bytes) -> Result<Bytes, AttemptFailure> {
        translate::answer(body, self.spoken, self.asked, &self.back).map_err(|e| {
            verdict::bad_response(&format!("the answer cannot be translated: {e}"), Phase::Headers, false)
        })
    }

    /// What translates the stream of the attempt.
    pub(crate) fn into_stream(self) -> StreamTranslator {
        StreamTranslator::new(self.spoken, self.asked, self.back)
    }
}

/// The dialect in which a target is spoken to: the client's own wherever it can be.
pub(crate) fn spoken(exchange: &Exchange, attempt: &Attempt) -> Dialect {
    let asked = exchange.inbound.envelope.dialect();
    // Only conversations are held in dialects.
    if exchange.inbound.envelope.endpoint() != Endpoint::Generation {
        return asked;
    }
    let target = exchange.snapshot.config.catalog.target(attempt.target);
    let speaks = |dialect: Dialect| {
        target.is_none_or(|t| t.dialects.is_empty() || t.dialects.iter().any(|d| d == dialect.name()))
    };
    if speaks(asked) {
        return asked;
    }
    // What a model thought survives the turn in Responses alone.
    let reasons = exchange.controller.candidate(attempt.candidate).is_some_and(|c| c.reasons);
    let others =
        if reasons { [Dialect::Responses, Dialect::Chat] } else { [Dialect::Chat, Dialect::Responses] };
    others.into_iter().chain(Dialect::ALL).find(|d| speaks(*d)).unwrap_or(asked)
}

/// The client's request in the dialect of the attempt, rendered afresh. Notes what was lost, and how the answer must be
/// translated.
pub(crate) fn body(
    exchange: &mut Exchange,
    attempt: &Attempt,
    spoken: Dialect,
    edits: &Edits<'_>,
) -> Result<Bytes, AttemptFailure> {
    let asked = exchange.inbound.envelope.dialect();
    if spoken == asked {
        return Ok(render(&exchange.inbound.body, &exchange.inbound.envelope, edits));
    }
    let target = exchange.snapshot.config.catalog.target(attempt.target).map_or("", |t| t.name.as_str());
    let origin = translate::origin(target);
    let candidate = exchange.controller.candidate(attempt.candidate);
    let destination = Destination {
        model: edits.model,
        stream: edits.stream.unwrap_or(false),
        include_usage: edits.include_usage.unwrap_or(false),
        max_output: candidate.and_then(|c| c.max_output),
        reasons: candidate.is_some_and(|c| c.reasons),
        max_tokens_name: edits.max_tokens_name,
        origin: &origin,
        custom_tools: exchange.snapshot.upstream(attempt.target).is_some_and(|u| u.provider.custom_tools),
    };
    let written = translate::request(&exchange.inbound.body, asked, spoken, &destination).map_err(refused)?;
    let strict = exchange.controller.request().governance.on_loss == OnLoss::Reject;
    if let Some(loss) = written.losses.as_slice().first().filter(|_| strict) {
        let words = format!(
            "`{}` would be {}, and this route loses nothing: {}",
            loss.pointer,
            loss.kind.name(),
            loss.note
        );
        return Err(unsupported(words, &loss.pointer));
    }
    exchange.app.metrics.losses(target, written.losses.as_slice().len());
    exchange.losses = header(&written.losses);
    let back = Back {
        names: written.names,
        created_s: u64::try_from(exchange.inbound.at_unix_ms / 1_000).unwrap_or(0),
        include_usage: exchange.inbound.envelope.include_usage(),
        origin,
        echo: translate::echo(asked, &exchange.inbound.body),
        id: exchange.inbound.id.clone(),
        model: edits.model.to_owned(),
    };
    exchange.translation = Some(Translation { spoken, asked, back });
    Ok(written.body)
}

fn refused(why: Refused) -> AttemptFailure {
    match why {
        // A target that speaks the client's dialect may know more of it than is translated.
        Refused::Unreadable(at) => unsupported(at.to_string(), &at.pointer),
        Refused::Untranslatable(at) => unsupported(at.to_string(), &at.pointer),
    }
}

/// Nothing was sent: the target's dialect cannot say it.
fn unsupported(message: String, pointer: &str) -> AttemptFailure {
    let failed = Failed {
        kind: FailureKind::Unsupported,
        phase: Phase::NotSent,
        status: None,
        retry_after: None,
        lost: false,
        excused: true,
    };
    let error = UpstreamError {
        message,
        kind: Some("invalid_request_error".to_owned()),
        param: Some(pointer.trim_start_matches('/').replace('/', ".")),
        extra: details(pointer),
        ..UpstreamError::default()
    };
    AttemptFailure { failed, error: Some(Box::new(error)), detail: "not translated".to_owned() }
}

/// A thread is a conversation that the provider keeps. Anthropic's SDKs begin one by themselves (tool runners), and go on
/// without where they are told in Anthropic's words that there is none (Anthropic API, "Errors").
fn details(pointer: &str) -> serde_json::Map<String, serde_json::Value> {
    let mut extra = serde_json::Map::new();
    if pointer == "/thread" {
        let details = serde_json::json!({ "error_code": "thread_unsupported_request" });
        extra.insert("details".to_owned(), details);
    }
    extra
}

/// So many losses are named in a header.
const NAMED: usize = 8;

/// What was lost, as it stands in `x-pointsman-loss`: `seed dropped, temperature changed`. Never what stood there.
fn header(losses: &Losses) -> Option<String> {
    let (named, more) = losses.as_slice().split_at(losses.as_slice().len().min(NAMED));
    let mut words: Vec<String> = named.iter().map(one).collect();
    if !more.is_empty() {
        words.push(format!("{} more", more.len()));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// A field's name comes from the client: what a header cannot carry is left out of it.
fn one(loss: &Loss) -> String {
    let place = loss.pointer.trim_start_matches('/').replace('/', ".");
    let plain = place.chars().filter(|c| c.is_ascii_graphic() && *c != ',').take(100);
    format!("{} {}", plain.collect::<String>(), loss.kind.name())
}
