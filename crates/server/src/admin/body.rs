//! Bodies of calls: bounded in size and time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use tokio::time::timeout;

use super::error::AdminError;

/// The largest request to explain, in bytes.
pub(super) const EXPLAIN: usize = 64 << 20;
/// The largest body of every other call, in bytes.
const OTHERS: usize = 64 << 10;
const WITHIN: Duration = Duration::from_secs(30);

/// Reads a whole body of at most `most` bytes.
pub(super) async fn read(body: Body, most: usize) -> Result<Bytes, AdminError> {
    match timeout(WITHIN, Limited::new(body, most).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {most} bytes");
            Err(AdminError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
        }
        Ok(Err(_)) => Err(AdminError::bad_request("the body broke off")),
        Err(_) => {
            let message = "the body did not arrive in time";
            Err(AdminError::new(StatusCode::REQUEST_TIMEOUT, "slow_body", message))
        }
    }
}

/// Nothing, or an empty object: what a call means stands in its path, and what is not understood is not ignored.
pub(super) async fn nothing(body: Body) -> Result<(), AdminError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    let bytes = read(body, OTHERS).await?;
    if bytes.trim_ascii().is_empty() || serde_json::from_slice::<Nothing>(&bytes).is_ok() {
        return Ok(());
    }
    Err(AdminError::bad_request("this call takes no body: send none, or an empty JSON object"))
}
