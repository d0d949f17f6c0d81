//! The admin plane: a listener of its own for operators. What is here looks and switches; it decides nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::connection::{self, WriteGuard};
use crate::guard::Hosts;
use crate::listing;

mod asked;
mod body;
mod change;
mod error;
mod explain;
mod gate;
mod openapi;
mod requests;
mod routes;
mod targets;

pub use explain::{
    ExplainError, Explanation, FallbackView, FirstDecision, HealthView, Resolution, TargetRow,
};

/// Connections at once; more wait in the kernel's queue.
const CONNECTIONS: usize = 256;
/// Explanations at once: each may hold a body of [`body::EXPLAIN`].
const EXPLAINING: usize = 4;
/// A peer that takes nothing for this long is let go.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// What the handlers share.
#[derive(Clone, Debug)]
struct Admin {
    app: Arc<App>,
    hosts: Arc<Hosts>,
    explaining: Arc<Semaphore>,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
struct Peer(SocketAddr);

/// Serves the admin plane until everything ends.
pub(crate) async fn serve(
    listener: std::net::TcpListener,
    hosts: Hosts,
    app: Arc<App>,
    gone: CancellationToken,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin plane cannot be served"),
    };
    let admin = Admin { app, hosts: Arc::new(hosts), explaining: Arc::new(Semaphore::new(EXPLAINING)) };
    let router = router(admin.clone());
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = gone.cancelled() => return,
            accepted = next(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                let router = router.clone().layer(Extension(Peer(peer)));
                tokio::spawn(serve_connection(stream, router, admin.clone(), gone.clone(), place));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to the admin plane could not be accepted");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn next(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

async fn serve_connection(
    stream: TcpStream,
    router: Router,
    admin: Admin,
    gone: CancellationToken,
    _place: OwnedSemaphorePermit,
) {
    let max_header = admin.app.snapshot.load().config.server.max_header;
    let builder = connection::builder(max_header);
    let io = TokioIo::new(WriteGuard::new(stream, STALLED_AFTER));
    let connection = builder.serve_connection(io, TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = gone.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // The runtime ends soon, and with it whoever takes longer.
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the admin plane broke");
    }
}

/// Every path here stands in [`openapi::ENDPOINTS`] too; a test holds them together.
fn router(admin: Admin) -> Router {
    Router::new()
        .route("/", get(openapi::index))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/admin/v1/openapi.json", get(openapi::document))
        .route("/admin/v1/targets", get(targets::list))
        .route("/admin/v1/targets/{id}", get(targets::one))
        .route("/admin/v1/targets/{id}/{action}", post(targets::act))
        .route("/admin/v1/routes", get(routes::list))
        .route("/admin/v1/routes/{route}/fallback/{switch}", post(routes::switch))
        .route("/admin/v1/explain", post(explain::explain))
        .route("/admin/v1/requests", get(requests::list))
        .route("/admin/v1/requests/{id}", get(requests::one))
        .route("/admin/v1/audit", get(change::audit))
        .route("/admin/v1/reload", post(change::reload))
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::wrong_method)
        .layer(axum::middleware::from_fn_with_state(admin.clone(), gate::gate))
        .with_state(admin)
}

async fn healthz(State(admin): State<Admin>) -> Response {
    health(&admin, "/healthz")
}

async fn readyz(State(admin): State<Admin>) -> Response {
    health(&admin, "/readyz")
}

fn health(admin: &Admin, path: &str) -> Response {
    match listing::health(&admin.app, path) {
        Some(response) => response.map(axum::body::Body::new),
        None => error::AdminError::not_found("there is no such check").into_response(),
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let text = admin.app.metrics.render(&admin.app);
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}
