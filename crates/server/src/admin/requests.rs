//! Past requests.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use pointsman_core::kind::Terminal;
use pointsman_store::{Filter, RequestEntry};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Admin;
use super::asked::{InPath, InQuery};
use super::error::AdminError;

const LIMIT: usize = 100;
const MOST: usize = 1_000;
const TERMINALS: [Terminal; 8] = [
    Terminal::Success,
    Terminal::Exhausted,
    Terminal::Deadline,
    Terminal::Cancelled,
    Terminal::Partial,
    Terminal::Rejected,
    Terminal::PolicyStop,
    Terminal::ReconciliationRequired,
];

/// What is looked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    target: Option<String>,
    requested: Option<String>,
    terminal: Option<String>,
    key: Option<String>,
    limit: Option<usize>,
}

/// `GET /admin/v1/requests`: the newest first, without their traces.
pub(super) async fn list(
    State(admin): State<Admin>,
    InQuery(wanted): InQuery<Wanted>,
) -> Result<Json<Value>, AdminError> {
    let limit = wanted.limit.unwrap_or(LIMIT);
    if !(1..=MOST).contains(&limit) {
        return Err(AdminError::bad_request(format!("`limit` must be from 1 to {MOST}")));
    }
    if let Some(terminal) = &wanted.terminal
        && !TERMINALS.iter().any(|t| t.name() == terminal)
    {
        let names = TERMINALS.map(Terminal::name).join(", ");
        return Err(AdminError::bad_request(format!("`terminal` must be one of {names}")));
    }
    let Wanted { target, requested, terminal, key, .. } = wanted;
    let filter = Filter { target, requested, terminal, key, limit: limit + 1 };
    let found = admin.app.ledger.list(&filter);
    let more = found.len() > limit;
    let requests: Vec<Value> = found.iter().take(limit).map(short).collect();
    Ok(Json(json!({ "requests": requests, "more": more })))
}

/// `GET /admin/v1/requests/{id}`: the whole record.
pub(super) async fn one(
    State(admin): State<Admin>,
    InPath(id): InPath<String>,
) -> Result<Json<Value>, AdminError> {
    match admin.app.ledger.get(&id) {
        Some(entry) => Ok(Json(json!(*entry))),
        None => {
            Err(AdminError::not_found(format!("No request '{id}' is kept: it is older, or not over yet.")))
        }
    }
}

fn short(entry: &Arc<RequestEntry>) -> Value {
    let mut value = json!(**entry);
    if let Some(object) = value.as_object_mut() {
        object.remove("trace");
    }
    value
}
