//! One attempt: render for this target, send, read until it is clear what came.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method};
use pointsman_core::controller::{Attempt, AttemptLimits, Failed, Limit};
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_core::request::Shape;
use pointsman_core::target::TargetIndex;
use pointsman_upstream::{
    Body, Request, Response, SendLimits, TransportError, TransportErrorKind, TransportPhase,
};
use pointsman_wire::chat::BadCompletion;
use pointsman_wire::classify::{Classified, classify, classify_error};
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::Wants;
use pointsman_wire::error::{MAX_ERROR_BODY, UpstreamError};
use pointsman_wire::guidance::rate_headroom;
use pointsman_wire::passthrough::{Edits, ProviderField};
use secrecy::ExposeSecret;
use tokio::time::{Instant, timeout_at};

use crate::answer::copy_rate_limits;
use crate::aws::{AwsKey, Signable};
use crate::counting;
use crate::exchange::{AttemptFailure, AttemptNote, Exchange};
use crate::formed;
use crate::names::{self, Names};
use crate::piped::{self, Piped};
use crate::reading::{self, Live, Reading};
use crate::snapshot::{Auth, Upstream, credential_header};
use crate::translation;
use crate::verdict::{self, HeaderLookup, Struck};

/// A plain answer is read up to this size, in bytes.
pub(crate) const MAX_ANSWER: usize = 64 * 1024 * 1024;
/// How long an error's body is waited for: its status says most already.
const ERROR_BODY_WITHIN: Duration = Duration::from_secs(10);
/// Between the end of connecting and that of the attempt: timers are exact to a millisecond.
const CONNECT_MARGIN: Duration = Duration::from_millis(5);

/// What an attempt came to.
pub(crate) enum AttemptEnd {
    /// It failed before anything went to the client.
    Failed(AttemptFailure),
    /// A stream whose first output is here.
    Live(Box<Live>),
    /// A whole answer.
    Whole(Whole),
    /// A medium whose first bytes are here.
    Piped(Box<Piped>),
}

/// A whole answer for a client that wants no stream.
pub(crate) struct Whole {
    pub(crate) headers: HeaderMap,
    pub(crate) content_type: HeaderValue,
    pub(crate) body: Bytes,
}

/// What an answer is that is not due as text for people.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How the answer is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    Gather,
    Stream,
    /// Bytes are passed on as they come.
    Pipe,
}

impl Way {
    /// Whether the provider is asked for a stream of events.
    const fn streams(self) -> bool {
        matches!(self, Self::Gather | Self::Stream)
    }
}

/// Makes one call and reads until it is clear what came.
pub(crate) async fn run(exchange: &mut Exchange, attempt: &Attempt) -> AttemptEnd {
    exchange.notes.push(AttemptNote::default());
    // What an earlier attempt reported says nothing of this one.
    (exchange.usage, exchange.guess, exchange.model_mismatch) = (None, None, None);
    (exchange.translation, exchange.losses) = (None, None);
    let started = Instant::now();
    // Pinned here, as below: a future that is awaited where it is made is moved there whole, and these are large.
    let call = pin!(call(exchange, attempt, started));
    match call.await {
        Ok(end) => end,
        Err(failure) => AttemptEnd::Failed(failure),
    }
}

async fn call(
    exchange: &mut Exchange,
    attempt: &Attempt,
    started: Instant,
) -> Result<AttemptEnd, AttemptFailure> {
    let snapshot = exchange.snapshot.clone();
    let upstream = snapshot.upstream(attempt.target).ok_or_else(|| verdict::broken("the target is gone"))?;
    let way = way(exchange, upstream);
    let spoken = translation::spoken(exchange, attempt);
    let key = aws_key(attempt, upstream, started).await?;
    let request = prepare(exchange, attempt, upstream, way, spoken)?;
    let request = signed(request, upstream, key.as_ref())?;
    let client = exchange.worker.client(&exchange.app, &upstream.ca_file);
    let client = client.ok_or_else(|| verdict::broken("there is no client for this target"))?;
    let limits = &attempt.limits;
    // Headers come within the limit of the first output, unless they have one of their own.
    let headers =
        limits.headers.filter(|h| h.within < limits.first_output.within).unwrap_or(limits.first_output);
    let whole = started + limits.whole.within;
    // Whoever is still connecting when the time is over has sent nothing: that limit must be the first to say so.
    let connect = whole.saturating_duration_since(Instant::now()).saturating_sub(CONNECT_MARGIN);
    let connect = limits.connect.within.min(connect);
    let send = SendLimits { connect, headers: Some(headers.within), write: limits.write };
    let sending = pin!(client.send(request, &send));
    let response = match timeout_at(whole, sending).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(transport(error, limits, headers)),
        Err(_) => return Err(verdict::struck(Struck::Whole, limits.whole, Phase::Sent)),
    };
    exchange.reached(Phase::Headers, Some(response.status.as_u16()));
    note_headers(exchange, attempt, &response.headers);
    if let Some(note) = exchange.notes.last_mut() {
        note.stale_replaced = response.timing.stale_replaced;
    }
    if !response.status.is_success() {
        note_limits(exchange, &response.headers);
        let failure = refused(exchange, upstream, response, whole).await;
        if let (Auth::Aws(aws), Some(key), FailureKind::Auth) = (&upstream.auth, &key, failure.failed.kind) {
            aws.refused(key);
        }
        return Err(failure);
    }
    let end = match way {
        Way::Plain => pin!(plain(exchange, attempt, response, started)).await?,
        Way::Pipe => pin!(piped::until_first(exchange, attempt, response, started)).await?,
        Way::Gather | Way::Stream => {
            let envelope = &exchange.inbound.envelope;
            let tap = envelope.endpoint().tap(spoken).with_named_tool(envelope.needs().named_tool);
            let reading = Reading::new(tap, attempt, response, started);
            pin!(reading::until_released(exchange, attempt, reading, way)).await?
        }
    };
    Ok(end)
}

/// A plain answer is gathered only from a stream that carries everything that this request asks for.
fn way(exchange: &Exchange, upstream: &Upstream) -> Way {
    let needs = exchange.inbound.envelope.needs();
    let everything = upstream.provider.stream_carries_everything
        && needs.n <= 1
        && !needs.logprobs
        && !needs.audio_out
        && !needs.unknown_fields;
    match exchange.controller.request().shape {
        Shape::Plain if exchange.inbound.envelope.wants() == Wants::Bytes => Way::Pipe,
        Shape::Streamed | Shape::Buffered => Way::Stream,
        Shape::Gathered if everything => Way::Gather,
        Shape::Gathered | Shape::Plain => Way::Plain,
    }
}

fn prepare(
    exchange: &mut Exchange,
    attempt: &Attempt,
    upstream: &Upstream,
    way: Way,
    spoken: Dialect,
) -> Result<Request, AttemptFailure> {
    let streams = way.streams();
    let provider = upstream.provider;
    let endpoint = exchange.inbound.envelope.endpoint();
    let edits = Edits {
        model: &attempt.upstream_model,
        stream: Some(streams),
        // Usage is always asked for: the ledger wants it whether the client does or not.
        include_usage: (streams && provider.stream_usage && endpoint.takes_stream_options()).then_some(true),
        strip_models: !provider.takes_preferences,
        provider: if provider.takes_preferences { ProviderField::Keep } else { ProviderField::Strip },
        max_tokens_name: provider.max_tokens_name,
    };
    let path = upstream.path(endpoint, spoken, &attempt.upstream_model);
    let path = path.map(|path| if streams { spoken.stream_path(path) } else { path });
    Ok(Request {
        origin: upstream.origin.clone(),
        method: Method::POST,
        path_and_query: path.ok_or_else(|| verdict::broken("the target's URL cannot be made"))?,
        headers: upstream_headers(exchange, upstream, streams, spoken)?,
        body: translation::body(exchange, attempt, spoken, &edits)?,
        http: upstream.http,
        replay_on_stale: exchange.controller.request().replay_safe,
    })
}

/// The credential that signs, where requests to this target are signed. It is mostly at hand.
async fn aws_key(
    attempt: &Attempt,
    upstream: &Upstream,
    started: Instant,
) -> Result<Option<Arc<AwsKey>>, AttemptFailure> {
    let Auth::Aws(aws) = &upstream.auth else { return Ok(None) };
    let until = started + attempt.limits.whole.within.min(attempt.limits.first_output.within);
    match timeout_at(until, aws.key()).await {
        Ok(Ok(key)) => Ok(Some(key)),
        Ok(Err(why)) => Err(verdict::unsigned(&why.to_string())),
        Err(_) => Err(verdict::unsigned("there was no AWS credential in time")),
    }
}

/// The request with its signature, where it needs one.
fn signed(
    mut request: Request,
    upstream: &Upstream,
    key: Option<&Arc<AwsKey>>,
) -> Result<Request, AttemptFailure> {
    if let (Auth::Aws(aws), Some(key)) = (&upstream.auth, key) {
        let signable = Signable {
            host: request.origin.host_header().to_str().unwrap_or_default(),
            path: &request.path_and_query,
            body: &request.body,
        };
        aws.sign(&signable, key, &mut request.headers).map_err(|why| verdict::unsigned(&why.to_string()))?;
    }
    Ok(request)
}

/// Headers are made afresh from an allow-list: nothing of the client's credentials or cookies gets through, and nothing
/// of another attempt.
fn upstream_headers(
    exchange: &Exchange,
    upstream: &Upstream,
    streams: bool,
    spoken: Dialect,
) -> Result<HeaderMap, AttemptFailure> {
    let mut headers = HeaderMap::with_capacity(8);
    let envelope = &exchange.inbound.envelope;
    // The boundary of a form stands in it.
    let own = exchange.inbound.headers.get(http::header::CONTENT_TYPE).filter(|_| envelope.is_form());
    headers.insert(http::header::CONTENT_TYPE, own.cloned().unwrap_or(JSON));
    let accept = match envelope.wants() {
        _ if streams => spoken.stream_type(),
        Wants::Json => "application/json",
        Wants::Text | Wants::Bytes => "*/*",
    };
    headers.insert(http::header::ACCEPT, HeaderValue::from_static(accept));
    let asked = exchange.inbound.envelope.dialect();
    // What a client says to its own dialect's providers is not said to others.
    for name in Names::of(asked).forwarded.iter().filter(|_| asked == spoken) {
        for value in exchange.inbound.headers.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    for (name, value) in &upstream.required_headers {
        headers.entry(name).or_insert_with(|| value.clone());
    }
    let passed = exchange.inbound.headers.get_all(&names::HOP).iter().filter_map(|v| v.to_str().ok());
    let hops: Vec<&str> = passed.chain([exchange.app.hop_id.as_str()]).collect();
    if let Ok(value) = HeaderValue::from_str(&hops.join(",")) {
        headers.insert(&names::HOP, value);
    }
    let auth = match &upstream.auth {
        // The signature comes last.
        Auth::None | Auth::Aws(_) => None,
        Auth::Header(name, value) => Some((name.clone(), value.clone())),
        Auth::Caller => {
            let secret = exchange.inbound.caller_keys.get(upstream.provider.name);
            let header = secret.and_then(|s| credential_header(upstream.provider, s.expose_secret()));
            Some(header.ok_or_else(|| verdict::broken("the caller's own credential is not usable"))?)
        }
    };
    headers.extend(
        auth.map(|(name, value)| (Some(name), value)).into_iter().flat_map(|(n, v)| n.map(|n| (n, v))),
    );
    Ok(headers)
}

/// Keeps the provider's id of the call, and its word on how much of the rate limit is left.
fn note_headers(exchange: &mut Exchange, attempt: &Attempt, headers: &HeaderMap) {
    let dialect = exchange.spoken();
    let id = Names::of(dialect).upstream_request_ids.iter().find_map(|name| headers.get(name)?.to_str().ok());
    if let (Some(id), Some(note)) = (id.filter(|id| id.len() <= 256), exchange.notes.last_mut()) {
        note.upstream_request_id = Some(id.to_owned());
    }
    // Few say anything of it, and to look for each name would cost every answer.
    if !headers.keys().any(|name| dialect.copies_header(name.as_str())) {
        return;
    }
    // What is left to the account that a caller brought along says nothing of what is left to others.
    let callers = exchange.snapshot.upstream(attempt.target).is_some_and(Upstream::is_callers);
    let Some(share) = rate_headroom(&HeaderLookup(headers)).filter(|_| !callers) else { return };
    let now = exchange.app.clock.now();
    let lane = exchange.controller.candidate(attempt.candidate).map(|c| c.lane);
    exchange.app.with_fleet(|fleet| lane.map(|lane| fleet.observe_headroom(lane, share, now)));
}

/// Keeps what a provider says of its limits where it refuses: a client that is turned away may be told.
fn note_limits(exchange: &mut Exchange, headers: &HeaderMap) {
    let dialect = exchange.inbound.envelope.dialect();
    if let Some(note) = exchange.notes.last_mut() {
        copy_rate_limits(dialect, headers, &mut note.limits);
    }
}

fn transport(error: TransportError, limits: &AttemptLimits, headers: Limit) -> AttemptFailure {
    let phase = match error.phase {
        TransportPhase::NotSent => Phase::NotSent,
        TransportPhase::Sent => Phase::Sent,
        TransportPhase::Headers => Phase::Headers,
    };
    let (kind, own) = match error.kind {
        TransportErrorKind::ConnectTimeout => (FailureKind::Timeout, limits.connect.own),
        TransportErrorKind::HeadersTimeout => (FailureKind::Timeout, headers.own),
        TransportErrorKind::WriteStall => (FailureKind::Timeout, true),
        // No file descriptor or port left: that is this machine's trouble, not the target's.
        TransportErrorKind::TooManyConnections => (FailureKind::Connect, false),
        TransportErrorKind::Protocol if phase > Phase::NotSent => (FailureKind::BadResponse, true),
        _ => (FailureKind::Connect, true),
    };
    let failed = Failed {
        kind,
        phase,
        status: None,
        retry_after: None,
        lost: phase > Phase::NotSent,
        excused: !own || error.told,
    };
    AttemptFailure { failed, error: None, detail: error.to_string() }
}

/// An answer that is no success: its body says why.
async fn refused(
    exchange: &Exchange,
    upstream: &Upstream,
    response: Response,
    whole: Instant,
) -> AttemptFailure {
    let status = response.status.as_u16();
    let mut body = response.body;
    let mut bytes = BytesMut::new();
    let until = whole.min(Instant::now() + ERROR_BODY_WITHIN);
    while bytes.len() < MAX_ERROR_BODY {
        match timeout_at(until, body.chunk()).await {
            Ok(Some(Ok(chunk))) => bytes.extend_from_slice(&chunk),
            _ => break,
        }
    }
    let headers = HeaderLookup(&response.headers);
    let unix_ms = exchange.app.clock.unix_ms();
    let classified = classify(upstream.provider, Some(status), &headers, &bytes, unix_ms);
    let mut failure = failure(classified, Phase::Headers, Some(status), upstream);
    // What a provider dislikes of a translation may be of our making: whoever takes the client's own bytes may answer.
    if exchange.translation.is_some() && failure.failed.kind == FailureKind::InvalidRequest {
        failure.failed.kind = FailureKind::Unsupported;
    }
    // Who does not count may serve the model all the same.
    if exchange.inbound.envelope.endpoint().counts() && matches!(status, 404 | 405 | 501) {
        failure.failed.kind = FailureKind::Unsupported;
    }
    failure
}

/// A classified answer as a failure. What a caller's own credential meets is the caller's own affair: no domain that
/// others share is touched, and the provider's words reach the caller.
pub(crate) fn failure(
    classified: Classified,
    phase: Phase,
    status: Option<u16>,
    upstream: &Upstream,
) -> AttemptFailure {
    let kind = kind_at(upstream, &classified);
    let failed =
        Failed { kind, phase, status, retry_after: classified.retry_after, lost: false, excused: false };
    AttemptFailure { failed, error: classified.error.map(Box::new), detail: classified.rule.to_owned() }
}

/// An account without access to a model is told that there is none: with the caller's own account that too is the
/// caller's own affair.
fn kind_at(upstream: &Upstream, classified: &Classified) -> FailureKind {
    match verdict::kind_of(classified.class) {
        FailureKind::Auth
        | FailureKind::ModelNotFound
        | FailureKind::Permission
        | FailureKind::QuotaExhausted
        | FailureKind::RateLimit
            if upstream.is_callers() =>
        {
            FailureKind::InvalidRequest
        }
        kind => kind,
    }
}

/// An error that came inside an answer with a success status.
pub(crate) fn in_band(
    exchange: &Exchange,
    target: TargetIndex,
    error: &UpstreamError,
    phase: Phase,
) -> AttemptFailure {
    let Some(upstream) = exchange.snapshot.upstream(target) else {
        return verdict::bad_response("the provider reported an error", phase, false);
    };
    let classified = classify_error(upstream.provider, error, exchange.app.clock.unix_ms());
    failure(classified, phase, error.status(), upstream)
}

async fn plain(
    exchange: &mut Exchange,
    attempt: &Attempt,
    response: Response,
    started: Instant,
) -> Result<AttemptEnd, AttemptFailure> {
    let body = pin!(read_whole(exchange, response.body, &attempt.limits, started)).await?;
    pin!(answered(exchange, attempt, response.headers, body)).await
}

/// A whole answer is here: is it one?
pub(crate) async fn answered(
    exchange: &mut Exchange,
    attempt: &Attempt,
    headers: HeaderMap,
    body: Bytes,
) -> Result<AttemptEnd, AttemptFailure> {
    if exchange.inbound.envelope.wants() == Wants::Text {
        return text(exchange, attempt, headers, body);
    }
    let endpoint = exchange.inbound.envelope.endpoint();
    let facts =
        endpoint.check_answer(exchange.spoken(), &body).map_err(|bad| none(exchange, attempt, bad))?;
    // A tool that the client chose by its name is no news to it.
    let named = exchange.inbound.envelope.needs().named_tool;
    let body = facts.amended.filter(|_| !named).unwrap_or(body);
    exchange.usage = facts.usage;
    if let Some(model) = facts.model {
        verdict::check_model(exchange, attempt, &model)?;
    }
    formed::check(exchange, &body, exchange.spoken(), Phase::Headers).await?;
    let told = exchange.in_clients_dialect(body.clone())?;
    counting::guess(exchange, &body, exchange.spoken()).await;
    exchange.commit(None);
    Ok(AttemptEnd::Whole(Whole { headers, content_type: JSON, body: told }))
}

/// A whole answer that is text for people: a transcript, subtitles.
fn text(
    exchange: &mut Exchange,
    attempt: &Attempt,
    headers: HeaderMap,
    body: Bytes,
) -> Result<AttemptEnd, AttemptFailure> {
    Endpoint::check_text(&body).map_err(|bad| none(exchange, attempt, bad))?;
    let said = headers.get(http::header::CONTENT_TYPE).cloned();
    let content_type = said.unwrap_or(HeaderValue::from_static("text/plain; charset=utf-8"));
    exchange.commit(None);
    Ok(AttemptEnd::Whole(Whole { headers, content_type, body }))
}

/// What came with a success status is no answer.
fn none(exchange: &Exchange, attempt: &Attempt, bad: BadCompletion) -> AttemptFailure {
    match bad {
        BadCompletion::ErrorObject(error) => in_band(exchange, attempt.target, &error, Phase::Headers),
        bad => verdict::bad_response(&bad.to_string(), Phase::Headers, false),
    }
}

/// Empty lines keep a connection alive (DeepSeek sends them while a request waits for its turn) and are no answer: until
/// something else comes the limit of the headers holds.
async fn read_whole(
    exchange: &mut Exchange,
    mut body: Body,
    limits: &AttemptLimits,
    started: Instant,
) -> Result<Bytes, AttemptFailure> {
    let mut bytes = BytesMut::new();
    let mut begun = false;
    loop {
        let (until, which, limit) = next_deadline(begun, limits, started);
        match timeout_at(until, body.chunk()).await {
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Ok(chunk))) => {
                begun |= !chunk.trim_ascii().is_empty();
                bytes.extend_from_slice(&chunk);
            }
            Ok(Some(Err(error))) => {
                return Err(verdict::cut(&error, Phase::Headers));
            }
            Err(_) => return Err(verdict::struck(which, limit, Phase::Headers)),
        }
        let held = exchange.inbound.body.len() + bytes.len();
        if bytes.len() > MAX_ANSWER {
            return Err(verdict::bad_response("the answer is too large", Phase::Headers, false));
        }
        if !exchange.inbound.claim.grow_to(held) {
            return Err(verdict::no_room(Phase::Headers));
        }
    }
}

/// Which limit is next to strike while a plain answer is read.
pub(crate) fn next_deadline(
    begun: bool,
    limits: &AttemptLimits,
    started: Instant,
) -> (Instant, Struck, Limit) {
    let idle = (Instant::now() + limits.idle, Struck::Idle, Limit { within: limits.idle, own: true });
    let first = limits.first_output;
    let whole = (started + limits.whole.within, Struck::Whole, limits.whole);
    let response = (started + first.within, Struck::Response, first);
    let mut next = if whole.0 < idle.0 { whole } else { idle };
    if !begun && response.0 < next.0 {
        next = response;
    }
    next
}
