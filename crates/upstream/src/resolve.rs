//! Host names to addresses, with the answer kept for a short time.
//!
//! The system's resolver blocks a thread and tells no lifetime. So a lookup runs once per name, however many requests
//! wait for it, and a resolver that hangs holds up one thread per name; and while it fails, the last answer serves on,
//! since a provider's addresses change more rarely than a resolver breaks.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long an answer is taken without asking again.
const FRESH_FOR: Duration = Duration::from_secs(30);
/// How long an older answer is taken if asking again fails or takes longer than [`PATIENCE`].
const USABLE_FOR: Duration = Duration::from_secs(600);
/// How long a new answer is waited for while an older one would do.
const PATIENCE: Duration = Duration::from_millis(500);
/// Names remembered. Names come from the configuration, so this is only a fence.
const MAX_NAMES: usize = 4096;

type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
type Lookup = dyn Fn(String) -> Looking + Send + Sync;

/// Looks names up.
#[derive(Clone)]
pub(crate) struct Resolver {
    fixed: Arc<HashMap<String, Vec<IpAddr>>>,
    lookup: Arc<Lookup>,
    names: Arc<Mutex<HashMap<String, Name>>>,
}

#[derive(Default)]
struct Name {
    answer: Option<Answer>,
    looking: Option<watch::Receiver<bool>>,
}

#[derive(Clone)]
struct Answer {
    addresses: Vec<IpAddr>,
    since: Instant,
    doubted: bool,
}

impl Resolver {
    /// Names in `fixed` have these addresses; others are looked up by the system.
    pub(crate) fn new(fixed: HashMap<String, Vec<IpAddr>>) -> Self {
        Self::with_lookup(fixed, |host| Box::pin(ask_system(host)))
    }

    fn with_lookup(
        fixed: HashMap<String, Vec<IpAddr>>,
        lookup: impl Fn(String) -> Looking + Send + Sync + 'static,
    ) -> Self {
        Self { fixed: Arc::new(fixed), lookup: Arc::new(lookup), names: Arc::default() }
    }

    /// Addresses of `host` in the resolver's order (RFC 6724); empty if there are none.
    pub(crate) async fn resolve(&self, host: &str, port: u16) -> Vec<SocketAddr> {
        let addresses = match (host.parse::<IpAddr>(), self.fixed.get(host)) {
            (Ok(ip), _) => vec![ip],
            (_, Some(fixed)) => fixed.clone(),
            _ => self.look_up(host).await,
        };
        addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// None of the addresses of `host` could be reached: the next request asks anew.
    pub(crate) fn doubt(&self, host: &str) {
        if let Some(answer) = self.lock().get_mut(host).and_then(|name| name.answer.as_mut()) {
            answer.doubted = true;
        }
    }

    async fn look_up(&self, host: &str) -> Vec<IpAddr> {
        let (known, mut looking) = {
            let mut names = self.lock();
            if names.len() >= MAX_NAMES && !names.contains_key(host) {
                names.retain(|_, name| name.looking.is_some());
            }
            let name = names.entry(host.to_owned()).or_default();
            let known = name.answer.clone().filter(|answer| answer.since.elapsed() < USABLE_FOR);
            if let Some(fresh) = known.as_ref().filter(|answer| answer.is_fresh()) {
                return fresh.addresses.clone();
            }
            (known, name.looking.get_or_insert_with(|| self.start(host)).clone())
        };
        // An error means that the lookup was given up with its runtime; then there is no new answer either.
        let finished = async { looking.wait_for(|done| *done).await.is_ok() };
        let patience = if known.is_some() { PATIENCE } else { Duration::MAX };
        let answered = timeout(patience, finished).await == Ok(true);
        let new = if answered { self.fresh(host) } else { None };
        new.or_else(|| known.map(|answer| answer.addresses)).unwrap_or_default()
    }

    /// Asks in a task of its own, so that the answer comes even if the request that asked is gone.
    fn start(&self, host: &str) -> watch::Receiver<bool> {
        let (done, looking) = watch::channel(false);
        let (resolver, host) = (self.clone(), host.to_owned());
        tokio::spawn(async move {
            let _unless_finished = Forget { resolver: resolver.clone(), host: host.clone() };
            if let Ok(addresses) = (resolver.lookup)(host.clone()).await
                && let Some(name) = resolver.lock().get_mut(&host)
            {
                name.answer = Some(Answer { addresses, since: Instant::now(), doubted: false });
            }
            done.send_replace(true);
        });
        looking
    }

    fn fresh(&self, host: &str) -> Option<Vec<IpAddr>> {
        let names = self.lock();
        let answer = names.get(host)?.answer.as_ref().filter(|answer| answer.is_fresh())?;
        Some(answer.addresses.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    fn is_fresh(&self) -> bool {
        !self.doubted && self.since.elapsed() < FRESH_FOR
    }
}

/// Ends a lookup, however it ends.
struct Forget {
    resolver: Resolver,
    host: String,
}

impl Drop for Forget {
    fn drop(&mut self) {
        let mut names = self.resolver.lock();
        if let Some(name) = names.get_mut(&self.host) {
            name.looking = None;
            if name.answer.is_none() {
                names.remove(&self.host);
            }
        }
    }
}

async fn ask_system(host: String) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
    Ok(found.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::advance;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[derive(Clone)]
    enum Answers {
        With(IpAddr),
        Fails,
        Hangs,
    }

    /// A resolver whose answer the test sets, and the count of its lookups.
    fn resolver(first: Answers) -> (Resolver, Arc<Mutex<Answers>>, Arc<AtomicUsize>) {
        let answer = Arc::new(Mutex::new(first));
        let count = Arc::new(AtomicUsize::new(0));
        let (current, counted) = (Arc::clone(&answer), Arc::clone(&count));
        let resolver = Resolver::with_lookup(HashMap::new(), move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = current.lock().unwrap().clone();
            Box::pin(async move {
                tokio::task::yield_now().await;
                match answer {
                    Answers::With(ip) => Ok(vec![ip]),
                    Answers::Fails => Err(io::ErrorKind::Other.into()),
                    Answers::Hangs => std::future::pending().await,
                }
            })
        });
        (resolver, answer, count)
    }

    async fn ip(resolver: &Resolver) -> Option<IpAddr> {
        resolver.resolve("api.test", 443).await.first().map(SocketAddr::ip)
    }

    #[tokio::test(start_paused = true)]
    async fn many_requests_at_once_ask_once() {
        let (resolver, _, count) = resolver(Answers::With(ONE));
        let mut asking = JoinSet::new();
        for _ in 0..50 {
            let resolver = resolver.clone();
            asking.spawn(async move { ip(&resolver).await });
        }
        assert!(asking.join_all().await.iter().all(|answer| *answer == Some(ONE)));
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_30_seconds_and_then_asked_for_again() {
        let (resolver, answer, _) = resolver(Answers::With(ONE));
        assert_eq!(ip(&resolver).await, Some(ONE));
        *answer.lock().unwrap() = Answers::With(TWO);
        advance(Duration::from_secs(29)).await;
        assert_eq!(ip(&resolver).await, Some(ONE));
        advance(Duration::from_secs(2)).await;
        assert_eq!(ip(&resolver).await, Some(TWO));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_that_could_not_be_reached_are_asked_for_again_at_once() {
        let (resolver, answer, _) = resolver(Answers::With(ONE));
        assert_eq!(ip(&resolver).await, Some(ONE));
        *answer.lock().unwrap() = Answers::With(TWO);
        resolver.doubt("api.test");
        assert_eq!(ip(&resolver).await, Some(TWO));
    }

    #[tokio::test(start_paused = true)]
    async fn while_lookups_fail_or_hang_the_last_answer_serves_for_ten_minutes() {
        for trouble in [Answers::Fails, Answers::Hangs] {
            let (resolver, answer, _) = resolver(Answers::With(ONE));
            assert_eq!(ip(&resolver).await, Some(ONE));
            *answer.lock().unwrap() = trouble.clone();
            advance(Duration::from_secs(590)).await;
            let started = Instant::now();
            assert_eq!(ip(&resolver).await, Some(ONE));
            assert!(started.elapsed() <= Duration::from_secs(1));
            advance(Duration::from_secs(20)).await;
            let later = timeout(Duration::from_secs(5), ip(&resolver)).await;
            let expected = if matches!(trouble, Answers::Hangs) { None } else { Some(None) };
            assert_eq!(later.ok(), expected, "after ten minutes the answer is too old");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_lookup_is_not_remembered() {
        let (resolver, answer, count) = resolver(Answers::Fails);
        assert_eq!(ip(&resolver).await, None);
        *answer.lock().unwrap() = Answers::With(ONE);
        assert_eq!(ip(&resolver).await, Some(ONE));
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gives_up_does_not_end_the_lookup_of_the_others() {
        let (resolver, _, count) = resolver(Answers::With(ONE));
        let first = tokio::spawn({
            let resolver = resolver.clone();
            async move { ip(&resolver).await }
        });
        tokio::task::yield_now().await;
        first.abort();
        assert_eq!(ip(&resolver).await, Some(ONE));
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
