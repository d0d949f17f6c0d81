//! Who may enter the admin plane: a known host, no foreign origin, and the key if there is one.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Extension, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::ExposeSecret;

use super::error::AdminError;
use super::{Admin, Peer};
use crate::audit::Who;

/// Who entered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operator {
    pub(super) who: Who,
    pub(super) from: IpAddr,
}

pub(super) async fn gate(
    State(admin): State<Admin>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match admitted(&admin, &request) {
        Ok(who) => {
            request.extensions_mut().insert(Operator { who, from: peer.ip() });
            next.run(request).await
        }
        Err(error) => refused(error),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn refused(error: AdminError) -> Response {
    tracing::debug!(code = error.code, "request to the admin plane refused");
    let unknown = error.status == StatusCode::UNAUTHORIZED;
    let mut response = error.into_response();
    if unknown {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn admitted(admin: &Admin, request: &Request) -> Result<Who, AdminError> {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    admin.hosts.check(request.headers(), authority)?;
    let open = matches!(request.uri().path(), "/healthz" | "/readyz");
    let who = if open { Who::Loopback } else { authenticated(admin, request.headers())? };
    if !matches!(*request.method(), Method::GET | Method::HEAD) && !is_json(request.headers()) {
        let message = "calls that change something, and explain, need `content-type: application/json`";
        return Err(AdminError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    Ok(who)
}

fn authenticated(admin: &Admin, headers: &HeaderMap) -> Result<Who, AdminError> {
    let snapshot = admin.app.snapshot.load();
    let Some(key) = &snapshot.config.admin.key else { return Ok(Who::Loopback) };
    let wrong = || {
        let message = "the admin key is missing or wrong: send it as `Authorization: Bearer …`";
        AdminError::new(StatusCode::UNAUTHORIZED, "invalid_admin_key", message)
    };
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (shown.next(), shown.next()) else { return Err(wrong()) };
    let (scheme, token) = value.to_str().ok().and_then(|v| v.split_once(' ')).ok_or_else(wrong)?;
    // Digests are compared: neither the key's content nor its length shows in the time that it takes.
    let [ours, theirs] = [key.expose_secret(), token.trim()].map(|k| digest(&SHA256, k.as_bytes()));
    let same = verify_slices_are_equal(ours.as_ref(), theirs.as_ref()).is_ok();
    if same && scheme.eq_ignore_ascii_case("bearer") { Ok(Who::AdminKey) } else { Err(wrong()) }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
