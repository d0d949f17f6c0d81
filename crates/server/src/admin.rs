//! The admin plane: a listener of its own.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::guard::Hosts;

/// Serves the admin plane until everything ends.
pub(crate) async fn serve(
    listener: std::net::TcpListener,
    _hosts: Hosts,
    app: Arc<App>,
    gone: CancellationToken,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin plane cannot be served"),
    };
    let router = Router::new().route("/metrics", get(metrics)).with_state(app);
    let served = axum::serve(listener, router).with_graceful_shutdown(gone.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "the admin plane ended");
    }
}

async fn metrics(State(app): State<Arc<App>>) -> String {
    app.metrics.render(&app)
}
