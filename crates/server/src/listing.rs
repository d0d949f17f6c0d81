//! What may be asked of the gateway itself on the data plane: health, and the models that a key may use.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::{ClientBody, json as json_response};
use crate::app::App;
use crate::auth::Caller;
use crate::fail::ApiError;
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

/// The names that a caller may ask for.
pub(crate) fn granted(snapshot: &Snapshot, caller: &Caller) -> Vec<String> {
    let names = snapshot.config.catalog.names();
    names.into_iter().filter(|name| caller.may_use(std::slice::from_ref(name))).collect()
}

/// `GET /v1/models` and `GET /v1/models/{id}`.
pub(crate) fn models(
    snapshot: &Snapshot,
    caller: &Caller,
    path: &str,
) -> Result<Response<ClientBody>, Box<ApiError>> {
    let names = granted(snapshot, caller);
    let Some(wanted) = path.strip_prefix("/models/") else {
        let data: Vec<Value> = names.iter().map(|name| model(snapshot, name)).collect();
        return Ok(json_response(StatusCode::OK, &json!({ "object": "list", "data": data })));
    };
    // Ids may hold slashes, which SDKs escape.
    let wanted = wanted.replace("%2F", "/").replace("%2f", "/");
    if names.contains(&wanted) {
        return Ok(json_response(StatusCode::OK, &model(snapshot, &wanted)));
    }
    let close = pointsman_config::nearest(&wanted, names.iter().map(String::as_str));
    Err(ApiError::unknown_model(&wanted, &close))
}

fn model(snapshot: &Snapshot, name: &str) -> Value {
    let catalog = &snapshot.config.catalog;
    let owner = match catalog.targets.iter().find(|t| t.model.as_deref() == Some(name)) {
        Some(target) => target.provider.as_str(),
        None => "pointsman",
    };
    json!({ "id": name, "object": "model", "created": 0, "owned_by": owner })
}
