//! Routes and the kill switch of their fallback.

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use pointsman_core::target::Route;
use serde_json::{Value, json};

use super::asked::InPath;
use super::error::AdminError;
use super::gate::Operator;
use super::{Admin, body, change};

/// `GET /admin/v1/routes`.
pub(super) async fn list(State(admin): State<Admin>) -> Json<Value> {
    let snapshot = admin.app.snapshot.load();
    let routes: Vec<Value> = snapshot.config.catalog.routes.values().map(|r| view(&admin, r)).collect();
    Json(json!({ "routes": routes }))
}

/// `POST /admin/v1/routes/{route}/fallback/{off|on}`: answers with the route as it is then.
pub(super) async fn switch(
    State(admin): State<Admin>,
    Extension(operator): Extension<Operator>,
    InPath((name, switch)): InPath<(String, String)>,
    body: Body,
) -> Result<Json<Value>, AdminError> {
    body::nothing(body).await?;
    let (on, action) = match switch.as_str() {
        "on" => (true, "fallback_on"),
        "off" => (false, "fallback_off"),
        _ => return Err(AdminError::not_found("A fallback is switched `off` or `on`.")),
    };
    let snapshot = admin.app.snapshot.load_full();
    let routes = &snapshot.config.catalog.routes;
    let Some(route) = routes.get(&name) else {
        return Err(AdminError::unknown("route", &name, routes.keys().map(String::as_str)));
    };
    let changed = admin.app.switches.set_fallback(&name, on);
    change::note(&admin.app, operator, action, format!("route/{name}"), changed);
    Ok(Json(view(&admin, route)))
}

fn view(admin: &Admin, route: &Route) -> Value {
    let allowed = route.governance.substitution.allowed;
    let off = admin.app.switches.is_fallback_off(&route.name);
    json!({
        "name": route.name,
        "version": route.version,
        "models": route.models,
        "strategy": super::explain::strategy_name(route.governance.strategy),
        "fallback": { "configured": allowed, "switched_off": off, "allowed": allowed && !off },
    })
}
