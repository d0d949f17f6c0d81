//! Path and query of a call, refused in JSON where they cannot be read.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::AdminError;

/// What stands in the path.
pub(super) struct InPath<T>(pub(super) T);

/// What stands in the query. Types that it is read into deny unknown keys.
pub(super) struct InQuery<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AdminError> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(read)| Self(read)).map_err(|e| AdminError::bad_request(e.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for InQuery<T> {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AdminError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(read)| Self(read)).map_err(|e| AdminError::bad_request(e.body_text()))
    }
}
