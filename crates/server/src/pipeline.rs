//! The way of a request, one function per step:
//!
//! ```text
//! accept → authenticate → read body and envelope → plan → loop { decide → attempt → classify } → relay → settle
//! ```
//!
//! [`serve`] is the door, [`generate`] the way up to the plan, [`until_released`] the loop, [`respond`] and
//! [`Relay`](crate::relay::Relay) the way back. Settling happens when the [`Exchange`] is dropped, on every exit.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use pointsman_config::{Expose, nearest};
use pointsman_core::controller::{Command, Event, Stop};
use pointsman_core::request::{Resolved, resolve};
use pointsman_core::rng::stable_hash;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::{Envelope, Limits};
use serde_json::json;
use tokio::time::timeout;

use crate::answer::{
    ClientBody, Provenance, answer, copy_rate_limits, event_stream_headers, full, in_pieces, piped, streamed,
};
use crate::app::App;
use crate::attempt::{self, AttemptEnd, Whole};
use crate::auth::{Caller, authenticate, caller_keys};
use crate::counting;
use crate::exchange::{Exchange, Inbound};
use crate::fail::ApiError;
use crate::formed;
use crate::gemini::{self, Called};
use crate::guard::{Hosts, refuse_compressed, refuse_long_headers, refuse_loops};
use crate::names::Names;
use crate::piped::{Pipe, Piped};
use crate::reading::Live;
use crate::relay::Relay;
use crate::run::Worker;
use crate::snapshot::Snapshot;
use crate::{ids, intake, listing, preferences};

/// Names of models are kept in records and as failure domains: they may be so long, in bytes.
const LONGEST_MODEL: usize = 256;
/// The nesting of a request's JSON may be so deep.
pub(crate) const MAX_DEPTH: usize = 128;

/// Answers one request, whatever it is.
pub(crate) async fn serve(
    app: Arc<App>,
    worker: Arc<Worker>,
    hosts: Arc<Hosts>,
    request: Request<Incoming>,
) -> Response<ClientBody> {
    let id = ids::request_id();
    let head = request.method() == Method::HEAD;
    let two = request.version() == http::Version::HTTP_2;
    let dialect = listing::dialect_of(request.uri().path(), request.headers());
    let mut response = match route(&app, &worker, &hosts, request, &id).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(
                request_id = id,
                cause = error.cause,
                status = error.status.as_u16(),
                "request refused"
            );
            let pointsman = json!({ "request_id": id, "terminal": "rejected", "reason": error.cause });
            let mut response = error.response(dialect, &id, &pointsman);
            Provenance::of(&id, dialect).write(response.headers_mut(), Expose::Minimal);
            response
        }
    };
    // HTTP/2 has no such header, and says it by itself.
    if app.is_draining() && !two {
        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    if head {
        *response.body_mut() = full(Bytes::new());
    }
    response
}

async fn route(
    app: &Arc<App>,
    worker: &Arc<Worker>,
    hosts: &Hosts,
    request: Request<Incoming>,
    id: &str,
) -> Result<Response<ClientBody>, Box<ApiError>> {
    let path = request.uri().path();
    if let Some(response) = listing::health(app, path) {
        return Ok(response);
    }
    hosts.check(request.headers(), request.uri().authority().map(http::uri::Authority::as_str))?;
    refuse_loops(request.headers(), &app.hop_id)?;
    // Whatever is asked for: who has no key does not even learn what there is.
    let snapshot = app.snapshot.load_full();
    let caller = authenticate(request.headers(), request.uri().query(), &snapshot)?;
    let bare = listing::bare(path);
    listing::refuse_sockets(bare, request.headers())?;
    if let Some(called) = gemini::called(bare, request.uri().query()) {
        if request.method() != Method::POST {
            return Err(ApiError::wrong_method(path, "POST"));
        }
        let door = Door { app, worker, snapshot, caller };
        let listed = called.listed;
        let endpoint = if called.counts { Endpoint::GeminiCount } else { Endpoint::Generation };
        let asked = (endpoint, Dialect::Gemini);
        let response = Box::pin(generate(asked, Some(called), door, request, id)).await?;
        return Ok(if listed { gemini::as_list(response) } else { response });
    }
    let asked = match bare {
        "/chat/completions" => Some((Endpoint::Generation, Dialect::Chat)),
        "/messages" => Some((Endpoint::Generation, Dialect::Messages)),
        "/responses" => Some((Endpoint::Generation, Dialect::Responses)),
        other => Endpoint::of_path(other).map(|e| (e, e.dialect().unwrap_or(Dialect::Chat))),
    };
    match (request.method(), asked, bare) {
        (&Method::POST, Some(asked), _) => {
            // Boxed: what is large must not be moved on the way out, nor be kept by an idle connection.
            Box::pin(generate(asked, None, Door { app, worker, snapshot, caller }, request, id)).await
        }
        (_, Some(_), _) => Err(ApiError::wrong_method(path, "POST")),
        (&Method::GET | &Method::HEAD, None, models)
            if models == "/models" || models.starts_with("/models/") =>
        {
            let dialect = listing::dialect_of(path, request.headers());
            listing::models(&snapshot, &caller, dialect, models)
        }
        (method, None, _) => Err(ApiError::unknown_path(method, path)),
    }
}

/// What a request has once it is let in.
struct Door<'a> {
    app: &'a Arc<App>,
    worker: &'a Arc<Worker>,
    snapshot: Arc<Snapshot>,
    caller: Caller,
}

/// `POST /v1/chat/completions`, `POST /v1/messages`, what is asked of a model by its path, and every other endpoint.
async fn generate(
    (endpoint, dialect): (Endpoint, Dialect),
    called: Option<Called>,
    Door { app, worker, snapshot, caller }: Door<'_>,
    request: Request<Incoming>,
    id: &str,
) -> Result<Response<ClientBody>, Box<ApiError>> {
    let (accepted, at_unix_ms) = (app.clock.now(), app.clock.unix_ms());
    if app.is_closed() {
        return Err(ApiError::unavailable("the gateway is shutting down", "draining", None));
    }
    let Some(in_flight) = app.admission.enter() else {
        app.metrics.limit_rejection("server", "max_in_flight");
        return Err(ApiError::unavailable("too many requests are in flight", "max_in_flight", None));
    };
    refuse_compressed(request.headers())?;
    refuse_long_headers(request.headers(), &Names::of(dialect).forwarded)?;
    let (parts, body) = request.into_parts();
    let mut claim = app.admission.claim();
    let body = intake::read(body, &snapshot.config.server, &mut claim, app).await?;
    let limits = Limits { max_bytes: snapshot.config.server.max_body, max_depth: MAX_DEPTH };
    let envelope = match (called, intake::form(endpoint, &parts.headers)) {
        (Some(Called { model, counts: true, .. }), _) => Envelope::read_gemini_count(&body, &model, &limits),
        (Some(Called { model, stream, .. }), _) => Envelope::read_gemini(&body, &model, stream, &limits),
        (None, Some(form)) => Envelope::read_form(endpoint, form, &body, &limits),
        (None, None) => Envelope::read_for(endpoint, dialect, &body, &limits),
    };
    let envelope = envelope.map_err(|e| intake::refusal(&e))?;
    let caller_keys = caller_keys(&parts.headers)?;
    let asked = Asked { caller: &caller, envelope: &envelope, headers: &parts.headers };
    let providers = caller_keys.keys().cloned().collect();
    let (route, mut request) = asked.understood(app, &snapshot, app.next_number(), providers)?;
    counting::refine(&mut request, &snapshot, &envelope, &body).await;
    let wanted = formed::wanted(&envelope, &body, request.governance.stream.buffer).await?;
    let inbound = Inbound {
        id: id.to_owned(),
        correlation_id: ids::correlation_id(&parts.headers),
        caller,
        caller_keys,
        route,
        envelope,
        wanted,
        body,
        headers: parts.headers,
        accepted,
        at_unix_ms,
        _in_flight: in_flight,
        claim,
    };
    let (exchange, command) = Exchange::start(app, worker, &snapshot, inbound, request);
    Ok(respond(exchange, command).await)
}

/// What a caller asks for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) envelope: &'a Envelope,
    pub(crate) headers: &'a HeaderMap,
}

impl Asked<'_> {
    /// The route as `name@version`, where it is one, and the request as the core sees it.
    pub(crate) fn understood(
        self,
        app: &App,
        snapshot: &Snapshot,
        number: u64,
        caller_keys: BTreeSet<String>,
    ) -> Result<(Option<String>, pointsman_core::request::Request), Box<ApiError>> {
        let mut resolved = permitted(snapshot, self.caller, self.envelope)?;
        app.switches.apply(&mut resolved);
        let route = resolved.route.as_ref().map(|(name, version)| format!("{name}@{version}"));
        let catalog = &snapshot.config.catalog;
        let mut request =
            preferences::request(number, resolved, self.envelope, self.headers, caller_keys, catalog)?;
        request.affinity = request.affinity.map(|affinity| self.own(affinity));
        Ok((route, request))
    }
}

impl Asked<'_> {
    /// What keeps a conversation on its target, told apart by key: two tenants may give theirs the same name.
    fn own(self, affinity: u64) -> u64 {
        let key = self.caller.key_name().unwrap_or_default();
        stable_hash(&[&affinity.to_le_bytes(), key.as_bytes()].concat())
    }
}

/// Leads the requested name to what may serve it, if the caller may use it: one resolver, asked once.
fn permitted(snapshot: &Snapshot, caller: &Caller, envelope: &Envelope) -> Result<Resolved, Box<ApiError>> {
    let catalog = &snapshot.config.catalog;
    let requested = envelope.model();
    if requested.len() > LONGEST_MODEL {
        let message = format!("`model` is longer than {LONGEST_MODEL} bytes");
        return Err(ApiError::bad_request(&message, Some("model")));
    }
    let Some(resolved) = resolve(catalog, requested) else {
        let names = listing::granted(snapshot, caller);
        let close = nearest(requested, names.iter().map(String::as_str));
        return Err(ApiError::unknown_model(requested, &close));
    };
    if !caller.may_use(&resolved.grants()) {
        return Err(ApiError::not_allowed(requested));
    }
    // What a body names as further models must be granted too; a route's own list is the operator's word.
    for name in envelope.preferences().models.iter().filter(|_| resolved.route.is_none()) {
        let granted = resolve(catalog, name).is_none_or(|r| r.route.is_none() && caller.may_use(&r.grants()));
        if !granted {
            return Err(ApiError::not_allowed(name));
        }
    }
    Ok(resolved)
}

/// What the loop came to.
enum Released {
    Live(Box<Live>),
    Stopped(Stop),
    Whole(Whole),
    Piped(Box<Piped>),
}

type Outcome = (Box<Exchange>, Released);
type Pending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The loop: the controller decides, this obeys, until something may go to the client or nothing will.
async fn until_released(mut exchange: Box<Exchange>, mut command: Command) -> Outcome {
    // When the drain is over nobody is left to wait for.
    let hard_stop = exchange.app.hard_stop.clone();
    loop {
        command = match command {
            Command::Attempt(attempt) => {
                let ended = {
                    let run = pin!(attempt::run(&mut exchange, &attempt));
                    hard_stop.run_until_cancelled(run).await
                };
                match ended {
                    Some(AttemptEnd::Failed(failure)) => exchange.fail(failure),
                    Some(AttemptEnd::Live(live)) => return (exchange, Released::Live(live)),
                    Some(AttemptEnd::Whole(whole)) => return (exchange, Released::Whole(whole)),
                    Some(AttemptEnd::Piped(piped)) => return (exchange, Released::Piped(piped)),
                    None => exchange.abandon(),
                }
            }
            Command::Wait { until } => {
                let wait = tokio::time::sleep(until.since(exchange.app.clock.now()));
                match hard_stop.run_until_cancelled(wait).await {
                    Some(()) => exchange.tell(Event::Tick),
                    None => exchange.abandon(),
                }
            }
            Command::Stop(stop) => return (exchange, Released::Stopped(stop)),
            // Only progress is answered so, and progress is not asked about here.
            Command::Carry => exchange.tell(Event::ClientGone),
        };
    }
}

/// The response: its status line waits for the first output, but a stream is not left silent for longer than the
/// heartbeat.
async fn respond(exchange: Box<Exchange>, command: Command) -> Response<ClientBody> {
    let streams = exchange.inbound.envelope.stream();
    let keepalive = exchange.snapshot.config.server.keepalive;
    let opening = streams.then(|| Opening::of(&exchange));
    let mut pending: Pending = Box::pin(until_released(exchange, command));
    let (exchange, released) = if let Some(opening) = opening {
        match timeout(keepalive, &mut pending).await {
            Ok(done) => done,
            Err(_) => return opening.early(pending, keepalive),
        }
    } else {
        pending.await
    };
    match released {
        // Who only wants to know how much it is is not turned away where it can be estimated.
        Released::Stopped(stop) if counting::may_estimate(&exchange, &stop) => {
            counting::estimated(exchange).await
        }
        released => finish(exchange, released),
    }
}

fn finish(mut exchange: Box<Exchange>, released: Released) -> Response<ClientBody> {
    let expose = exchange.snapshot.config.server.expose;
    match released {
        Released::Stopped(stop) => exchange.refuse(&stop),
        Released::Whole(whole) => {
            exchange.succeed();
            exchange.settle();
            let mut headers = HeaderMap::with_capacity(16);
            headers.insert(http::header::CONTENT_TYPE, whole.content_type);
            copy_rate_limits(exchange.inbound.envelope.dialect(), &whole.headers, &mut headers);
            exchange.provenance().write(&mut headers, expose);
            // Its place in flight and its claim on memory last until the client has taken the answer.
            answer(headers, in_pieces(whole.body, exchange))
        }
        Released::Piped(medium) => {
            let mut headers = HeaderMap::with_capacity(16);
            headers.insert(http::header::CONTENT_TYPE, medium.content_type());
            copy_rate_limits(exchange.inbound.envelope.dialect(), &medium.headers, &mut headers);
            exchange.provenance().write(&mut headers, expose);
            answer(headers, piped(Pipe::new(exchange, medium), Pipe::next))
        }
        Released::Live(live) => {
            let mut headers = event_stream_headers();
            copy_rate_limits(exchange.inbound.envelope.dialect(), &live.headers, &mut headers);
            exchange.provenance().write(&mut headers, expose);
            answer(headers, streamed(Relay::new(exchange, live), Relay::next))
        }
    }
}

/// What a stream that is opened early says before it is known who answers.
struct Opening {
    request_id: String,
    dialect: Dialect,
    route: Option<String>,
    expose: Expose,
}

/// The sign of life before the first event of a stream.
#[derive(Clone, Copy)]
struct Beat {
    every: Duration,
    sound: &'static [u8],
}

/// A stream that was opened early: heartbeats until the loop comes to something, then that.
enum Early {
    /// Headers went out; the first heartbeat follows at once, so that they are not held back on the way.
    Opened(Pending, Beat),
    Waiting(Pending, Beat),
    Relaying(Box<Relay>),
    Over,
}

impl Opening {
    fn of(exchange: &Exchange) -> Self {
        Self {
            request_id: exchange.inbound.id.clone(),
            dialect: exchange.inbound.envelope.dialect(),
            route: exchange.inbound.route.clone(),
            expose: exchange.snapshot.config.server.expose,
        }
    }

    fn early(self, pending: Pending, keepalive: Duration) -> Response<ClientBody> {
        let mut headers = event_stream_headers();
        let route = self.route.as_deref();
        let provenance = Provenance { route, early: true, ..Provenance::of(&self.request_id, self.dialect) };
        provenance.write(&mut headers, self.expose);
        let beat = Beat { every: keepalive, sound: self.dialect.heartbeat(false) };
        answer(headers, streamed(Early::Opened(pending, beat), Early::next))
    }
}

impl Early {
    async fn next(self) -> Option<(Bytes, Self)> {
        match self {
            Self::Opened(pending, beat) => {
                Some((Bytes::from_static(beat.sound), Self::Waiting(pending, beat)))
            }
            Self::Waiting(mut pending, beat) => match timeout(beat.every, &mut pending).await {
                Err(_) => Some((Bytes::from_static(beat.sound), Self::Waiting(pending, beat))),
                Ok((mut exchange, released)) => {
                    exchange.early = true;
                    match released {
                        Released::Live(live) => Self::relay(Relay::new(exchange, live)).await,
                        Released::Stopped(stop) => Some((exchange.event_of(&stop, None), Self::Over)),
                        // A request that wants a stream is never answered whole.
                        Released::Whole(_) | Released::Piped(_) => None,
                    }
                }
            },
            Self::Relaying(relay) => Self::relay(*relay).await,
            Self::Over => None,
        }
    }

    async fn relay(relay: Relay) -> Option<(Bytes, Self)> {
        relay.next().await.map(|(bytes, relay)| (bytes, Self::Relaying(Box::new(relay))))
    }
}
