//! Explaining a request without sending it: what its name leads to, who may serve it and why the others may not, and
//! what the first decision would be. It asks the planner and the controller themselves, on a copy of what is known of
//! health, so that it can neither change anything nor say anything else than what would happen.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use pointsman_core::controller::Controller;
use pointsman_core::plan::Planner;
use pointsman_core::policy::Strategy;
use pointsman_core::request::Request;
use pointsman_core::time::Instant;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::{Envelope, Limits};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::asked::InQuery;
use super::error::AdminError;
use super::{Admin, body};
use crate::app::App;
use crate::auth::{Caller, caller_keys};
use crate::clock::Entropy;
use crate::fail::ApiError;
use crate::intake;
use crate::listing::dialect_of;
use crate::pipeline::{Asked, MAX_DEPTH};
use crate::snapshot::Snapshot;

mod first;
mod rows;
mod words;

pub use first::FirstDecision;
pub use rows::{HealthView, TargetRow};

/// What the gateway would do with a request. It holds facts of the request, never its content.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The name that was asked for.
    pub requested: String,
    /// What it leads to.
    pub resolved: Resolution,
    /// How targets of one model and priority are ordered.
    pub strategy: &'static str,
    /// Whether another model may answer.
    pub fallback: FallbackView,
    /// Every target of each model: candidates in their order, then those that are out.
    pub targets: Vec<TargetRow>,
    /// What the first decision would be now.
    pub first: FirstDecision,
    /// All of this for people, a line each.
    pub words: Vec<String>,
}

/// What a requested name leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resolution {
    /// The route as `name@version`, where it is one.
    pub route: Option<String>,
    /// The models in order; the first is the requested one.
    pub models: Vec<String>,
}

/// Whether another model may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FallbackView {
    /// As things stand now.
    pub allowed: bool,
    /// An operator switched the route's fallback off.
    pub switched_off: bool,
}

/// Why a request cannot be explained: it would be refused before anything is decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExplainError {
    /// The status that a client would get.
    pub status: u16,
    /// The code that a client would get.
    pub code: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl From<Box<ApiError>> for ExplainError {
    fn from(error: Box<ApiError>) -> Self {
        AdminError::from(error).into()
    }
}

impl From<AdminError> for ExplainError {
    fn from(error: AdminError) -> Self {
        Self { status: error.status.as_u16(), code: error.code, message: error.message }
    }
}

impl App {
    /// Explains a request; with the header `anthropic-version` it is one in the messages dialect, with an `input` and no
    /// `messages` one of Responses, with `contents` one of Gemini, whose model stands in its path: here in a `model`
    /// beside them. `endpoint` is the name of another one than a conversation's (`embeddings`). `route` is asked for
    /// instead of its `model`; `key` is the name of the gateway key that it would come with; `headers` count as on the
    /// data plane.
    ///
    /// # Errors
    /// [`ExplainError`] if the request would be refused before anything is decided.
    pub fn explain(
        &self,
        request: &[u8],
        endpoint: Option<&str>,
        route: Option<&str>,
        key: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Explanation, ExplainError> {
        let endpoint = endpoint.map_or(Ok(Endpoint::Generation), named)?;
        let snapshot = self.snapshot.load_full();
        let body = asked_for(request, route, &snapshot)?;
        let limits = Limits { max_bytes: snapshot.config.server.max_body, max_depth: MAX_DEPTH };
        let envelope = match dialect(endpoint, headers, &body) {
            Dialect::Gemini => Envelope::read_gemini(&body, &model_beside(&body)?, false, &limits),
            dialect => Envelope::read_for(endpoint, dialect, &body, &limits),
        };
        let envelope = envelope.map_err(|e| intake::refusal(&e))?;
        let caller = caller(&snapshot, key)?;
        let providers = caller_keys(headers)?.into_keys().collect();
        let asked = Asked { caller: &caller, envelope: &envelope, headers };
        // No request of the data plane has this number.
        let (route, request) = asked.understood(self, &snapshot, 0, providers)?;
        Ok(self.rehearse(&snapshot, envelope.model(), route, request))
    }

    /// Plans and decides on a copy.
    fn rehearse(
        &self,
        snapshot: &Snapshot,
        requested: &str,
        route: Option<String>,
        request: Request,
    ) -> Explanation {
        let now = self.clock.now();
        let mut fleet = self.with_fleet(|fleet| {
            fleet.settle(now);
            fleet.clone()
        });
        let (catalog, bindings) = (&snapshot.config.catalog, &snapshot.bindings);
        let mut before = fleet.clone();
        let mut planner = Planner { now, catalog, bindings, fleet: &mut fleet };
        let (controller, command) = Controller::start(request, &mut planner, &mut Entropy::new());
        let targets = rows::rows(snapshot, &controller, &mut before, now);
        let first = first::first(snapshot, &controller, &command, now);
        let request = controller.request();
        let switched_off = route
            .as_deref()
            .and_then(|r| r.rsplit_once('@'))
            .is_some_and(|(name, _)| self.switches.is_fallback_off(name));
        let models = request.models.iter().map(|m| m.model.clone()).collect();
        let mut explanation = Explanation {
            requested: requested.to_owned(),
            resolved: Resolution { route, models },
            strategy: strategy_name(request.governance.strategy),
            fallback: FallbackView { allowed: request.may_substitute(), switched_off },
            targets,
            first,
            words: Vec::new(),
        };
        explanation.words = words::words(&explanation);
        explanation
    }
}

/// The name of a strategy in configuration and headers.
pub(super) fn strategy_name(strategy: Strategy) -> &'static str {
    Strategy::NAMES.iter().find(|(_, s)| *s == strategy).map_or("priority", |(name, _)| name)
}

/// The dialect of a request that came by no path which says so.
fn dialect(endpoint: Endpoint, headers: &HeaderMap, body: &[u8]) -> Dialect {
    #[derive(Deserialize)]
    struct Members {
        contents: Option<IgnoredAny>,
        input: Option<IgnoredAny>,
        messages: Option<IgnoredAny>,
    }
    let said = dialect_of("", headers);
    if endpoint != Endpoint::Generation || said != Dialect::Chat {
        return said;
    }
    match serde_json::from_slice(body) {
        Ok(Members { input: Some(_), messages: None, .. }) => Dialect::Responses,
        Ok(Members { contents: Some(_), messages: None, .. }) => Dialect::Gemini,
        _ => said,
    }
}

/// The model of a Gemini request, which has it in its path, and here in a member of its own.
fn model_beside(body: &[u8]) -> Result<String, ExplainError> {
    #[derive(Deserialize)]
    struct Named {
        model: Option<String>,
    }
    let named = serde_json::from_slice::<Named>(body).ok().and_then(|named| named.model);
    let bare = |name: String| name.strip_prefix("models/").unwrap_or(&name).to_owned();
    named.map(bare).ok_or_else(|| {
        let words = "a request of Gemini has its model in its path: say here which one in `?route=` or in a `model` beside its `contents`";
        ApiError::bad_request(words, Some("model")).into()
    })
}

fn named(name: &str) -> Result<Endpoint, ExplainError> {
    Endpoint::named(name).ok_or_else(|| {
        let names = Endpoint::OTHERS.into_iter().filter_map(Endpoint::name);
        AdminError::unknown("endpoint", name, names).into()
    })
}

fn caller(snapshot: &Snapshot, key: Option<&str>) -> Result<Caller, ExplainError> {
    let Some(name) = key else { return Ok(Caller::Anyone) };
    match snapshot.keys.values().find(|k| k.name == name) {
        Some(key) => Ok(Caller::Key(key.clone())),
        None => {
            let names = snapshot.config.keys.iter().map(|k| k.name.as_str());
            Err(AdminError::unknown("key", name, names).into())
        }
    }
}

/// The body with the name that is asked for in `model`. A `route` in the body itself counts if there is one of this
/// name: OpenRouter's clients send a field of this name that means something else.
fn asked_for<'a>(
    body: &'a [u8],
    route: Option<&str>,
    snapshot: &Snapshot,
) -> Result<Cow<'a, [u8]>, ExplainError> {
    #[derive(Deserialize)]
    struct Named {
        route: Option<String>,
    }

    let named = serde_json::from_slice::<Named>(body).ok().and_then(|n| n.route);
    let known = named.filter(|name| snapshot.config.catalog.routes.contains_key(name));
    let Some(wanted) = route.map(str::to_owned).or(known) else { return Ok(Cow::Borrowed(body)) };
    let Ok(mut fields) = serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(body) else {
        // Whoever reads it next says what is wrong with it.
        return Ok(Cow::Borrowed(body));
    };
    let failed = |_| ExplainError::from(ApiError::bad_request("the route's name cannot be written", None));
    let name = serde_json::value::to_raw_value(&wanted).map_err(failed)?;
    fields.remove("route");
    fields.insert("model".to_owned(), name);
    Ok(Cow::Owned(serde_json::to_vec(&fields).map_err(failed)?))
}

/// The query of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    endpoint: Option<String>,
    route: Option<String>,
    key: Option<String>,
}

/// `POST /admin/v1/explain`.
pub(super) async fn explain(
    State(admin): State<Admin>,
    InQuery(how): InQuery<How>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Explanation>, AdminError> {
    let busy = || {
        let message = "too many explanations are under way: ask again in a moment";
        AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    };
    let place = std::sync::Arc::clone(&admin.explaining).try_acquire_owned().map_err(|_| busy())?;
    let bytes: Bytes = body::read(body, body::EXPLAIN).await?;
    // Reading a large body takes a while, and connections of clients are accepted on this thread.
    let explained = tokio::task::spawn_blocking(move || {
        let _place = place;
        let (endpoint, route, key) = (how.endpoint.as_deref(), how.route.as_deref(), how.key.as_deref());
        admin.app.explain(&bytes, endpoint, route, key, &headers)
    });
    match explained.await {
        Ok(Ok(explanation)) => Ok(Json(explanation)),
        Ok(Err(error)) => Err(AdminError::new(
            StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST),
            &error.code,
            error.message,
        )),
        Err(_) => {
            let message = "the explanation broke off; the gateway's log says why";
            Err(AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
        }
    }
}

/// From now until then, in milliseconds.
fn millis(at: Instant, now: Instant) -> u64 {
    super::targets::millis(at, now)
}
