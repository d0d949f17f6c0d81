//! Requests that are signed for AWS: the signature, and the credential that makes it, which is fetched off the path of
//! requests wherever one is at hand.

mod chain;
mod profile;
mod sign;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use pointsman_config::{AwsSource, ProcessEnv, Vars};
use secrecy::SecretString;
use tokio::sync::Notify;

use crate::clock::Clock;

use chain::Places;
pub(crate) use sign::Signable;

/// So long before it ends a credential is replaced. AWS's own are renewed by their source five minutes before at the latest
/// (Amazon EC2 User Guide, "Retrieve security credentials").
const RENEW_BEFORE_S: i64 = 5 * 60;
/// A credential that ends within this is not used: requests may take a moment to arrive.
const USELESS_BEFORE_S: i64 = 10;
/// After a failure nobody asks again for so long.
const PAUSE_S: i64 = 5;
/// One fetch takes no longer than this.
const FETCH_WITHIN: Duration = Duration::from_secs(10);

/// A credential that signs.
pub(crate) struct AwsKey {
    pub(crate) access_key_id: String,
    pub(crate) secret: SecretString,
    pub(crate) token: Option<SecretString>,
    /// When it ends, in seconds of Unix time; `None` for one that does not.
    pub(crate) expires_s: Option<i64>,
}

impl fmt::Debug for AwsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsKey").field("expires_s", &self.expires_s).finish_non_exhaustive()
    }
}

impl AwsKey {
    fn is_good(&self, now_s: i64, margin_s: i64) -> bool {
        self.expires_s.is_none_or(|end| now_s.saturating_add(margin_s) < end)
    }
}

/// Why there is no credential: one sentence that shows none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoCredential(pub(crate) String);

/// How the requests of one target are signed.
pub(crate) struct AwsAuth {
    region: String,
    service: &'static str,
    places: Places,
    clock: Clock,
    state: Mutex<State>,
    /// A fetch has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    key: Option<Arc<AwsKey>>,
    fetching: bool,
    /// The last failure, and until when nobody asks again.
    failed: Option<(NoCredential, i64)>,
}

impl fmt::Debug for AwsAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsAuth").field("region", &self.region).finish_non_exhaustive()
    }
}

impl AwsAuth {
    /// For a target in this region; `source` says where the credential comes from.
    pub(crate) fn new(region: String, service: &'static str, source: &AwsSource) -> Self {
        Self::with(region, service, source, Arc::new(ProcessEnv), Clock::default())
    }

    fn with(
        region: String,
        service: &'static str,
        source: &AwsSource,
        vars: Arc<dyn Vars + Send + Sync>,
        clock: Clock,
    ) -> Self {
        let key = match source {
            AwsSource::Static { access_key_id, secret_access_key, session_token } => Some(Arc::new(AwsKey {
                access_key_id: secrecy::ExposeSecret::expose_secret(access_key_id).to_owned(),
                secret: secret_access_key.clone(),
                token: session_token.clone(),
                expires_s: None,
            })),
            AwsSource::Chain | AwsSource::Profile(_) => None,
        };
        let places = Places::new(source, vars);
        let state = Mutex::new(State { key, ..State::default() });
        Self { region, service, places, clock, state, ended: Notify::new() }
    }

    /// A credential that is good now. One that ends soon is replaced meanwhile; where there is none, the fetch is waited for,
    /// and all that wait share one.
    ///
    /// # Errors
    /// [`NoCredential`] if there is none to be had.
    pub(crate) async fn key(self: &Arc<Self>) -> Result<Arc<AwsKey>, NoCredential> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no end of a fetch is missed.
            ended.as_mut().enable();
            if let Some(now) = self.at_hand() {
                return now;
            }
            ended.await;
        }
    }

    /// What can be said without waiting. Begins a fetch where one is due.
    fn at_hand(self: &Arc<Self>) -> Option<Result<Arc<AwsKey>, NoCredential>> {
        let now_s = self.now_s();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let good = state.key.clone().filter(|key| key.is_good(now_s, USELESS_BEFORE_S));
        let fresh = good.as_ref().is_some_and(|key| key.is_good(now_s, RENEW_BEFORE_S));
        let paused = state.failed.clone().filter(|(_, until)| now_s < *until);
        if !fresh && paused.is_none() && !state.fetching {
            state.fetching = true;
            let fetch = Fetch { auth: Arc::clone(self), told: false };
            tokio::spawn(async move { fetch.run().await });
        }
        match (good, paused) {
            (Some(key), _) => Some(Ok(key)),
            (None, Some((why, _))) => Some(Err(why)),
            (None, None) => None,
        }
    }

    /// The provider refuses this credential: the next request fetches another, where there is a place to fetch from.
    pub(crate) fn refused(&self, key: &Arc<AwsKey>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.places.can_change() && state.key.as_ref().is_some_and(|own| Arc::ptr_eq(own, key)) {
            state.key = None;
        }
    }

    /// Adds the signature to a request's headers.
    ///
    /// # Errors
    /// [`NoCredential`] if the credential holds what no header can carry.
    pub(crate) fn sign(
        &self,
        request: &Signable<'_>,
        key: &AwsKey,
        headers: &mut HeaderMap,
    ) -> Result<(), NoCredential> {
        sign::sign(request, (&self.region, self.service), key, self.now_s(), headers)
    }

    fn now_s(&self) -> i64 {
        self.clock.unix_ms() / 1_000
    }
}

/// The one fetch that is running; its end is told whatever becomes of it.
struct Fetch {
    auth: Arc<AwsAuth>,
    /// What came of it is in the state.
    told: bool,
}

impl Fetch {
    async fn run(mut self) {
        let fetched = tokio::time::timeout(FETCH_WITHIN, self.auth.places.fetch()).await;
        let late = || NoCredential("no source of AWS credentials answered in time".to_owned());
        let fetched = fetched.unwrap_or_else(|_| Err(late()));
        let now_s = self.auth.now_s();
        self.told = true;
        let mut state = self.auth.state.lock().unwrap_or_else(PoisonError::into_inner);
        match fetched {
            Ok(key) if key.is_good(now_s, USELESS_BEFORE_S) => {
                state.key = Some(Arc::new(key));
                state.failed = None;
            }
            Ok(_) => {
                let why = "the AWS credential that was found has ended".to_owned();
                state.failed = Some((NoCredential(why), now_s + PAUSE_S));
            }
            Err(why) => {
                tracing::warn!(reason = %why, "no AWS credential");
                state.failed = Some((why, now_s + PAUSE_S));
            }
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let mut state = self.auth.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.fetching = false;
        if !self.told {
            let why = NoCredential("the fetch of AWS credentials was broken off".to_owned());
            state.failed = Some((why, self.auth.now_s() + PAUSE_S));
        }
        drop(state);
        self.auth.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
