//! Reading a request's body: bounded in size, memory and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use pointsman_config::ServerConfig;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::EnvelopeError;
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::fail::ApiError;
use crate::limits::Claim;

/// A client that sends nothing of its body for this long is let go.
const IDLE: Duration = Duration::from_secs(30);
/// The whole body, however it trickles.
const WHOLE: Duration = Duration::from_secs(300);
/// Room for a body grows in such steps as it comes in, in bytes.
const STEP: usize = 64 * 1024;

/// Reads the whole body.
pub(crate) async fn read(
    mut body: Incoming,
    config: &ServerConfig,
    claim: &mut Claim,
    app: &App,
) -> Result<Bytes, Box<ApiError>> {
    let most = config.max_body;
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > most {
        return Err(too_large(most));
    }
    let no_room = || {
        app.metrics.limit_rejection("server", "body_memory");
        ApiError::unavailable("the memory for request bodies is used up", "body_memory", None)
    };
    // Announced is not sent: whoever only promises a large body must not keep others' away.
    if !claim.has_room_for(announced) {
        return Err(no_room());
    }
    let until = Instant::now() + WHOLE;
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = next(&mut body, until).await? {
        let length = first.as_ref().map_or(0, Bytes::len).max(rest.len()) + frame.len();
        if length > most {
            return Err(too_large(most));
        }
        let at_most = if announced >= length { announced } else { most.max(length) };
        if !claim.grow_to(length.next_multiple_of(STEP).min(at_most)) {
            return Err(no_room());
        }
        // Most bodies come in one frame: that one is taken as it is.
        match (&first, rest.is_empty()) {
            (None, true) => first = Some(frame),
            (Some(head), true) => {
                rest.reserve(announced.max(length));
                rest.extend_from_slice(head);
                rest.extend_from_slice(&frame);
            }
            _ => rest.extend_from_slice(&frame),
        }
    }
    let length = first.as_ref().map_or(0, Bytes::len).max(rest.len());
    claim.shrink_to(length);
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

async fn next(body: &mut Incoming, until: Instant) -> Result<Option<Bytes>, Box<ApiError>> {
    loop {
        let frame = timeout_at(until.min(Instant::now() + IDLE), body.frame()).await;
        match frame.map_err(|_| ApiError::slow_body())? {
            None => return Ok(None),
            Some(Err(_)) => return Err(ApiError::bad_request("the request's body broke off", None)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

fn too_large(most: usize) -> Box<ApiError> {
    ApiError::too_large(&format!("the request's body is larger than the {most} bytes of server.max_body"))
}

/// The `content-type` of a request that is a form, where the endpoint takes one.
pub(crate) fn form(endpoint: Endpoint, headers: &HeaderMap) -> Option<&str> {
    let said = headers.get(http::header::CONTENT_TYPE)?.to_str().ok().filter(|said| said.len() <= 512)?;
    let multipart = said.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("multipart/"));
    (multipart && endpoint.takes_form()).then_some(said)
}

/// A body that cannot be read as a request.
pub(crate) fn refusal(error: &EnvelopeError) -> Box<ApiError> {
    if error.status() == 413 {
        return ApiError::too_large(&error.message());
    }
    ApiError::bad_request(&error.message(), error.param())
}
