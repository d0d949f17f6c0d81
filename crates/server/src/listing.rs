//! What may be asked of the gateway itself on the data plane: health, and the models that a key may use.

use http::{Response, StatusCode};
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use serde_json::{Value, json};

use crate::answer::{ClientBody, json as json_response};
use crate::app::App;
use crate::auth::Caller;
use crate::fail::ApiError;
use crate::gemini;
use crate::names;
use crate::snapshot::Snapshot;

/// `/healthz` and `/readyz`. They never call a provider.
pub(crate) fn health(app: &App, path: &str) -> Option<Response<ClientBody>> {
    match path {
        "/healthz" => Some(json_response(StatusCode::OK, &json!({ "status": "ok" }))),
        "/readyz" if app.is_draining() => {
            Some(json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "draining" })))
        }
        "/readyz" => Some(json_response(StatusCode::OK, &json!({ "status": "ready" }))),
        _ => None,
    }
}

/// A path without the prefixes under which base URLs that people already use mount the API.
pub(crate) fn bare(path: &str) -> &str {
    let below = |prefix: &&str, then: &str| {
        path.strip_prefix(*prefix).filter(|rest| rest.is_empty() || rest.starts_with(then))
    };
    // Under Google's own there are models and what is asked of them.
    let googles = ["/gemini/v1beta", "/gemini/v1", "/gemini", "/v1beta"];
    let others = ["/openai/v1", "/anthropic/v1", "/v1"];
    let google = googles.iter().find_map(|prefix| below(prefix, "/models"));
    google.or_else(|| others.iter().find_map(|prefix| below(prefix, "/"))).unwrap_or(path)
}

/// A conversation on a socket is no request that could go elsewhere.
pub(crate) fn refuse_sockets(bare: &str, headers: &http::HeaderMap) -> Result<(), Box<ApiError>> {
    let upgrade = headers.get(http::header::UPGRADE).and_then(|value| value.to_str().ok());
    let socket =
        upgrade.is_some_and(|all| all.split(',').any(|one| one.trim().eq_ignore_ascii_case("websocket")));
    let realtime = bare == "/realtime" || bare.starts_with("/realtime/");
    if socket || realtime { Err(ApiError::not_built("WebSockets and the realtime API")) } else { Ok(()) }
}

/// The dialect that a client expects its errors in, also where nothing is there.
pub(crate) fn dialect_of(path: &str, headers: &http::HeaderMap) -> Dialect {
    if gemini::owns(path) {
        return Dialect::Gemini;
    }
    let bare = bare(path);
    // Google's SDKs list models under `/v1` too.
    if bare.starts_with("/models") && headers.contains_key(&names::X_GOOG_API_CLIENT) {
        return Dialect::Gemini;
    }
    // The header only tells where the path does not.
    let openai =
        bare.starts_with("/chat/") || bare.starts_with("/responses") || Endpoint::of_path(bare).is_some();
    let header = || !openai && headers.contains_key(&names::ANTHROPIC_VERSION);
    if bare.starts_with("/responses") {
        Dialect::Responses
    } else if bare.starts_with("/messages") || header() {
        Dialect::Messages
    } else {
        Dialect::Chat
    }
}

/// The names that a caller may ask for.
pub(crate) fn granted(snapshot: &Snapshot, caller: &Caller) -> Vec<String> {
    let names = snapshot.config.catalog.names();
    names.into_iter().filter(|name| caller.may_use(std::slice::from_ref(name))).collect()
}

/// `GET /v1/models` and `GET /v1/models/{id}`.
pub(crate) fn models(
    snapshot: &Snapshot,
    caller: &Caller,
    dialect: Dialect,
    path: &str,
) -> Result<Response<ClientBody>, Box<ApiError>> {
    let names = granted(snapshot, caller);
    let Some(wanted) = path.strip_prefix("/models/") else {
        let data: Vec<Value> = names.iter().map(|name| model(snapshot, dialect, name)).collect();
        return Ok(json_response(StatusCode::OK, &list(dialect, data)));
    };
    // Ids may hold slashes, which SDKs escape.
    let wanted = wanted.replace("%2F", "/").replace("%2f", "/");
    if names.contains(&wanted) {
        return Ok(json_response(StatusCode::OK, &model(snapshot, dialect, &wanted)));
    }
    let close = pointsman_config::nearest(&wanted, names.iter().map(String::as_str));
    Err(ApiError::unknown_model(&wanted, &close))
}

fn list(dialect: Dialect, data: Vec<Value>) -> Value {
    match dialect {
        Dialect::Chat | Dialect::Responses | Dialect::Bedrock => json!({ "object": "list", "data": data }),
        Dialect::Messages => {
            let id = |model: Option<&Value>| model.and_then(|m| m.get("id")).cloned().unwrap_or(Value::Null);
            let (first, last) = (id(data.first()), id(data.last()));
            json!({ "data": data, "has_more": false, "first_id": first, "last_id": last })
        }
        Dialect::Gemini => json!({ "models": data }),
    }
}

fn model(snapshot: &Snapshot, dialect: Dialect, name: &str) -> Value {
    if dialect == Dialect::Messages {
        // When a model was made is not known here; the field is required, and SDKs parse it as a date.
        let created = "1970-01-01T00:00:00Z";
        return json!({ "type": "model", "id": name, "display_name": name, "created_at": created });
    }
    if dialect == Dialect::Gemini {
        let ways = ["generateContent", "streamGenerateContent"];
        let full = format!("models/{name}");
        return json!({ "name": full, "displayName": name, "supportedGenerationMethods": ways });
    }
    let catalog = &snapshot.config.catalog;
    let owner = match catalog.targets.iter().find(|t| t.model.as_deref() == Some(name)) {
        Some(target) => target.provider.as_str(),
        None => "pointsman",
    };
    json!({ "id": name, "object": "model", "created": 0, "owned_by": owner })
}
