//! Errors of the admin plane: always JSON, always one sentence and a code.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::fail::ApiError;

/// What an operator is told.
#[derive(Clone, Debug)]
pub(super) struct AdminError {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
    /// All that is wrong, where it is more than one thing.
    pub(super) problems: Vec<String>,
}

impl AdminError {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into(), problems: Vec::new() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// There is no `what` of this name; those that are close are named.
    pub(super) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let close = pointsman_config::nearest(name, known);
        let hint = match close.as_slice() {
            [] => String::new(),
            names => format!(" Close names: {}.", names.join(", ")),
        };
        Self::not_found(format!("There is no {what} '{name}'.{hint}"))
    }
}

impl From<Box<ApiError>> for AdminError {
    fn from(error: Box<ApiError>) -> Self {
        let code = error.code.unwrap_or_else(|| error.cause.to_owned());
        Self { status: error.status, code, message: error.message, problems: Vec::new() }
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": { "message": self.message, "code": self.code } });
        if let Some(object) = body.as_object_mut().filter(|_| !self.problems.is_empty()) {
            object.insert("problems".into(), Value::from(self.problems));
        }
        (self.status, Json(body)).into_response()
    }
}

pub(super) async fn no_such_path(method: Method, uri: Uri) -> AdminError {
    AdminError::not_found(format!("There is no {method} {} here: GET / names what there is.", uri.path()))
}

pub(super) async fn wrong_method(method: Method, uri: Uri) -> AdminError {
    let message = format!("{} does not take {method}: GET / names what there is.", uri.path());
    AdminError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
