//! How many tokens a request has, where no provider says it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Response};
use pointsman_core::controller::{Cause, Stop};
use pointsman_core::kind::FailureKind;
use pointsman_core::plan::window_is_close;
use pointsman_core::request::Request;
use pointsman_wire::chat::Usage;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::Envelope;
use pointsman_wire::tokens::{self, Count, Family};
use tokio::sync::Semaphore;

use crate::answer::{ClientBody, answer, full};
use crate::attempt::JSON;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;

/// What is larger is counted where it holds up nobody, in bytes.
const LARGE: usize = 64 * 1024;

/// So many large texts are counted at once.
static LARGE_AT_ONCE: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)));

/// Something was counted before: the first time unpacks the vocabulary, which takes a fifth of a second.
static READY: AtomicBool = AtomicBool::new(false);

/// Whether the gateway's own estimate is the answer where this is the end: nobody can be asked, or nobody that was asked
/// could say it. What is the request's own fault stays one, and what is not allowed too.
pub(crate) fn may_estimate(exchange: &Exchange, stop: &Stop) -> bool {
    let lacks = || {
        let mut kinds = exchange.controller.attempts().iter().map(|attempt| attempt.kind);
        kinds.all(|kind| kind == Some(FailureKind::Unsupported))
    };
    exchange.inbound.envelope.endpoint().counts()
        && match stop.cause {
            Cause::Deadline
            | Cause::Exhausted
            | Cause::ExhaustedQuota
            | Cause::ExhaustedRateLimit
            | Cause::ExhaustedTimeout
            | Cause::NoCapableTarget
            | Cause::NothingHasRoom
            | Cause::NothingHealthy
            | Cause::QueueFull => true,
            Cause::RequestsOwn => lacks(),
            Cause::CallerKeyMissing
            | Cause::ClientGone
            | Cause::Committed
            | Cause::CostSpent
            | Cause::NoCompliantTarget
            | Cause::SideEffect
            | Cause::Success => false,
        }
}

/// Answers with an estimate, marked as one.
pub(crate) async fn estimated(mut exchange: Box<Exchange>) -> Response<ClientBody> {
    let envelope = &exchange.inbound.envelope;
    let (endpoint, dialect) = (envelope.endpoint(), envelope.dialect());
    let rough = envelope.estimated_prompt_tokens();
    let (family, body) =
        (family(exchange.controller.request(), &exchange.snapshot), exchange.inbound.body.clone());
    let count = apart(body.len(), move || tokens::asked(&family, dialect, &body, rough)).await;
    let count = count.unwrap_or(Count { tokens: rough, exact: false });
    exchange.estimated = true;
    exchange.settle();
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(http::header::CONTENT_TYPE, JSON);
    exchange.provenance().write(&mut headers, exchange.snapshot.config.server.expose);
    answer(headers, full(Bytes::from(tokens::told(endpoint, count.tokens))))
}

/// Counts a prompt by the vocabulary of the requested model where the rough estimate may exclude a target by its window, or
/// keep one that is too small.
pub(crate) async fn refine(request: &mut Request, snapshot: &Snapshot, envelope: &Envelope, body: &Bytes) {
    if !window_is_close(request, &snapshot.config.catalog) {
        return;
    }
    let (family, dialect, body) = (family(request, snapshot), envelope.dialect(), body.clone());
    let count = apart(body.len(), move || family.request(dialect, &body)).await;
    if let Some(Some(count)) = count {
        request.needs.prompt_tokens = count.tokens;
    }
}

/// Counts what a whole answer in this dialect took, where its provider does not tell: the request is still here.
pub(crate) async fn guess(exchange: &mut Exchange, answer: &Bytes, spoken: Dialect) {
    let envelope = &exchange.inbound.envelope;
    if exchange.usage.is_some() || envelope.endpoint() != Endpoint::Generation {
        return;
    }
    let (asked, rough) = (envelope.dialect(), envelope.estimated_prompt_tokens());
    let family = family(exchange.controller.request(), &exchange.snapshot);
    let (request, answer) = (exchange.inbound.body.clone(), answer.clone());
    let counted = apart(request.len() + answer.len(), move || {
        let input = family.request(asked, &request).map_or(rough, |count| count.tokens);
        let output = family.answer(spoken, &answer).map_or(0, |count| count.tokens);
        Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
    });
    exchange.guess = counted.await;
}

/// The family of the requested model, by its own name, else by what its first target's provider calls it.
fn family(request: &Request, snapshot: &Snapshot) -> Family {
    let choice = request.models.first();
    let catalog = &snapshot.config.catalog;
    let target = choice.and_then(|choice| catalog.target(*choice.targets.first()?));
    let upstream = choice.and_then(|choice| choice.upstream.as_deref());
    let names = [
        choice.map(|choice| choice.model.as_str()),
        upstream,
        target.and_then(|t| t.upstream_model.as_deref()),
    ];
    names.into_iter().flatten().find_map(Family::known).unwrap_or_default()
}

/// Does what takes long for large texts: beside the worker then. `None` if it broke.
pub(crate) async fn apart<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if bytes <= LARGE && READY.load(Ordering::Relaxed) {
        return Some(work());
    }
    let _permit = LARGE_AT_ONCE.acquire().await.ok()?;
    let done = tokio::task::spawn_blocking(work).await.ok();
    READY.store(true, Ordering::Relaxed);
    done
}
