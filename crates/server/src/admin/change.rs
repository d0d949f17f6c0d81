//! Changes: noting them, and the one that is about the whole configuration.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::error::AdminError;
use super::gate::Operator;
use super::{Admin, body};
use crate::app::{App, AppError};
use crate::audit::{Change, KEPT};
use crate::reload;

/// Notes what an operator did, whether or not it took effect.
pub(super) fn note(app: &App, operator: Operator, action: &'static str, object: String, done: bool) {
    let (who, from) = (operator.who, Some(operator.from));
    app.audit.note(Change { at_unix_ms: app.clock.unix_ms(), who, from, action, object, done });
}

/// `GET /admin/v1/audit`.
pub(super) async fn audit(State(admin): State<Admin>) -> Json<Value> {
    Json(json!({ "changes": admin.app.audit.newest_first(), "kept": KEPT }))
}

/// `POST /admin/v1/reload`.
pub(super) async fn reload(
    State(admin): State<Admin>,
    Extension(operator): Extension<Operator>,
    body: Body,
) -> Result<Json<Value>, AdminError> {
    body::nothing(body).await?;
    let warnings = reload::reload(&admin.app, operator.who, Some(operator.from)).await.map_err(refusal)?;
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    Ok(Json(json!({ "reloaded": true, "warnings": warnings })))
}

fn refusal(error: AppError) -> AdminError {
    let code = match &error {
        AppError::NoFile => "nothing_to_reload",
        AppError::Restart(_) => "restart_needed",
        _ => "invalid_configuration",
    };
    let problems = match &error {
        AppError::Problems(problems) => problems.iter().map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    };
    let message = match problems.as_slice() {
        [one] => format!("The old configuration stays in force: {one}"),
        many => format!("The old configuration stays in force: the new one has {} problems.", many.len()),
    };
    AdminError { status: StatusCode::BAD_REQUEST, code: code.into(), message, problems }
}
