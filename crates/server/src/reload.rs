//! Reading the configuration again without being asked over HTTP: on SIGHUP, and when the content of a watched file
//! changes.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Digest, SHA256, digest};
use pointsman_config::{Problem, Source};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::app::{App, AppError};
use crate::audit::{Change, Who};

/// How often a watched file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A file that changed must stay as it is for this long: one that is being written is not read.
const SETTLED_FOR: Duration = Duration::from_millis(250);
/// A configuration may not be larger; more of it is not looked at, in bytes.
const MOST: u64 = 4 << 20;

/// Reloads on signals and changes until everything ends. What a watched file holds at the call is what is in force.
pub(crate) fn follow(app: Arc<App>, gone: CancellationToken) -> impl Future<Output = ()> {
    let known = watched(&app).and_then(|path| digest_of(&path));
    async move {
        tokio::select! {
            biased;
            () = gone.cancelled() => {}
            ((), ()) = async { tokio::join!(on_signal(&app), on_change(&app, known)) } => {}
        }
    }
}

/// Reloads on a thread that may block: it reads files, and connections are accepted on this one.
pub(crate) async fn reload(app: &Arc<App>, who: Who, from: Option<IpAddr>) -> Result<Vec<Problem>, AppError> {
    let app = Arc::clone(app);
    // Noted there too: whoever asked may be gone before it is done.
    let reloading = tokio::task::spawn_blocking(move || {
        let outcome = app.reload();
        app.audit.note(Change {
            at_unix_ms: app.clock.unix_ms(),
            who,
            from,
            action: "reload",
            object: "configuration".into(),
            done: outcome.is_ok(),
        });
        outcome
    });
    reloading.await.unwrap_or_else(|error| Err(AppError::Worker(std::io::Error::other(error))))
}

/// What went wrong was logged, and the old configuration stays in force.
async fn reload_unasked(app: &Arc<App>, who: Who) {
    if let Ok(warnings) = reload(app, who, None).await {
        for warning in warnings {
            tracing::warn!("{warning}");
        }
    }
}

#[cfg(unix)]
async fn on_signal(app: &Arc<App>) {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return tracing::warn!(%error, "SIGHUP will not reload the configuration"),
    };
    while hangups.recv().await.is_some() {
        reload_unasked(app, Who::Signal).await;
    }
}

#[cfg(not(unix))]
async fn on_signal(_app: &Arc<App>) {}

async fn on_change(app: &Arc<App>, mut known: Option<Digest>) {
    loop {
        sleep(LOOK_EVERY).await;
        let seen = watched_digest(app).await;
        // A file that cannot be read now is not a change: editors replace files by moving others over them.
        if seen.is_none() || same(&seen, &known) {
            continue;
        }
        sleep(SETTLED_FOR).await;
        if !same(&watched_digest(app).await, &seen) {
            continue;
        }
        // Nothing was known before it was watched: then what is there is what is in force.
        if known.is_some() {
            reload_unasked(app, Who::Watch).await;
        }
        known = seen;
    }
}

fn same(a: &Option<Digest>, b: &Option<Digest>) -> bool {
    a.as_ref().map(Digest::as_ref) == b.as_ref().map(Digest::as_ref)
}

/// The digest of the watched file's content; `None` if none is watched or it cannot be read.
async fn watched_digest(app: &App) -> Option<Digest> {
    let path = watched(app)?;
    tokio::task::spawn_blocking(move || digest_of(&path)).await.ok().flatten()
}

fn watched(app: &App) -> Option<PathBuf> {
    let snapshot = app.snapshot.load();
    match (&snapshot.config.source, snapshot.config.watch) {
        (Source::File(path), true) => Some(path.clone()),
        _ => None,
    }
}

fn digest_of(path: &Path) -> Option<Digest> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MOST + 1).read_to_end(&mut bytes).ok()?;
    Some(digest(&SHA256, &bytes))
}
