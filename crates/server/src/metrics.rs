//! Counters and histograms under the names that outside tools rely on. Label sets are bounded: names of targets,
//! routes and models come from the configuration, never from a request.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use pointsman_store::UsageEntry;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::app::App;

mod known;

use known::Known;

macro_rules! labels {
    ($name:ident { $($field:ident),* }) => {
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        struct $name { $($field: String),* }
    };
}

labels!(RequestLabels { route, dialect, terminal, action });
labels!(RouteTarget { route, target });
labels!(AttemptLabels { target, action, outcome, kind });
labels!(Route { route });
labels!(Target { target });
labels!(Model { model });
labels!(Domain { domain, name });
labels!(DomainTo { domain, name, to });
labels!(Tokens { model, target, kind });
labels!(Scope { scope, name });
labels!(Outcome { outcome });
labels!(Version { version });

/// From 1 ms to about 9 minutes.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 20))
}

fn few() -> Histogram {
    Histogram::new((1..=12).map(f64::from))
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
type FloatGauge = Gauge<f64, AtomicU64>;

/// See the module.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    duration: Histograms<RouteTarget>,
    first_token: Histograms<RouteTarget>,
    attempts: Family<AttemptLabels, Counter>,
    attempts_per_request: Histograms<Route>,
    success_raw: Family<Route, Counter>,
    success_after_failover: Family<Route, Counter>,
    domain_state: Family<Domain, Gauge>,
    transitions: Family<DomainTo, Counter>,
    in_flight: Family<Target, Gauge>,
    queue_waiting: Family<Model, Gauge>,
    retry_budget: FloatGauge,
    open_streams: Gauge,
    streams: AtomicI64,
    tokens: Family<Tokens, Counter>,
    cost: Family<Tokens, Counter<f64, AtomicU64>>,
    unpriced: Family<Target, Counter>,
    malformed: Family<Target, Counter>,
    losses: Family<Target, Counter>,
    unknown: Family<Target, Counter>,
    limit_rejections: Family<Scope, Counter>,
    reloads: Family<Outcome, Counter>,
    build: Family<Version, Gauge>,
    registry: Mutex<Registry>,
    known_attempts: Known<Counter>,
    known_answers: Known<Answers>,
    known_ends: Known<Ends>,
}

/// What the answers of one model on one target add to. A series is there from the first time that it counts something.
#[derive(Debug, Default)]
struct Answers {
    tokens: [OnceLock<Counter>; 4],
    cost: OnceLock<Counter<f64, AtomicU64>>,
    unpriced: OnceLock<Counter>,
}

/// What requests that ended alike add to.
#[derive(Debug)]
struct Ends {
    requests: Counter,
    attempts: Histogram,
    duration: Histogram,
    first_token: OnceLock<Histogram>,
    succeeded: OnceLock<Counter>,
    succeeded_at_once: OnceLock<Counter>,
}

/// What a finished request adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished<'a> {
    pub(crate) route: &'a str,
    pub(crate) dialect: &'a str,
    pub(crate) target: &'a str,
    pub(crate) terminal: &'a str,
    pub(crate) action: &'a str,
    pub(crate) attempts: usize,
    pub(crate) duration: f64,
    pub(crate) first_token: Option<f64>,
    pub(crate) succeeded: bool,
    pub(crate) first_attempt_succeeded: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(seconds),
            first_token: Family::new_with_constructor(seconds),
            attempts: Family::default(),
            attempts_per_request: Family::new_with_constructor(few),
            success_raw: Family::default(),
            success_after_failover: Family::default(),
            domain_state: Family::default(),
            transitions: Family::default(),
            in_flight: Family::default(),
            queue_waiting: Family::default(),
            retry_budget: FloatGauge::default(),
            open_streams: Gauge::default(),
            streams: AtomicI64::new(0),
            tokens: Family::default(),
            cost: Family::default(),
            unpriced: Family::default(),
            malformed: Family::default(),
            losses: Family::default(),
            unknown: Family::default(),
            limit_rejections: Family::default(),
            reloads: Family::default(),
            build: Family::default(),
            registry: Mutex::new(Registry::with_prefix("pointsman")),
            known_attempts: Known::default(),
            known_answers: Known::default(),
            known_ends: Known::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let r = &mut *registry;
        // Counters get their `_total` from the text format.
        r.register("requests", "Requests by how they ended", self.requests.clone());
        r.register("request_duration_seconds", "From acceptance to the end", self.duration.clone());
        r.register(
            "time_to_first_token_seconds",
            "From acceptance to the first output",
            self.first_token.clone(),
        );
        r.register("attempts", "Calls to targets", self.attempts.clone());
        r.register("attempts_per_request", "Attempts that a request took", self.attempts_per_request.clone());
        r.register("success_raw", "Requests whose first attempt succeeded", self.success_raw.clone());
        r.register("success_after_failover", "Requests that succeeded", self.success_after_failover.clone());
        r.register(
            "domain_state",
            "0 closed, 1 half-open, 2 open, 3 cooldown, 4 throttled, 5 isolated, 6 killed",
            self.domain_state.clone(),
        );
        r.register("breaker_transitions", "Changes of a domain's state", self.transitions.clone());
        r.register("in_flight", "Requests in flight", self.in_flight.clone());
        r.register("queue_waiting", "Requests that wait for a recovery", self.queue_waiting.clone());
        r.register("open_streams", "Streams that are open to clients", self.open_streams.clone());
        r.register(
            "retry_budget_remaining_ratio",
            "Share of the same-target retries that is left",
            self.retry_budget.clone(),
        );
        r.register("tokens", "Tokens of answers", self.tokens.clone());
        r.register("cost_usd", "Cost of answers by the prices that are known", self.cost.clone());
        r.register("unpriced_requests", "Answers whose price is unknown", self.unpriced.clone());
        r.register("losses", "What requests lost in translation", self.losses.clone());
        r.register("malformed_events", "Stream events dropped as unreadable", self.malformed.clone());
        r.register("unknown_failures", "Failures of unknown kind", self.unknown.clone());
        r.register("limit_rejections", "Requests refused by a limit", self.limit_rejections.clone());
        r.register("config_reloads", "Reloads of the configuration", self.reloads.clone());
        r.register("build_info", "The running version", self.build.clone());
        self.build.get_or_create(&Version { version: env!("CARGO_PKG_VERSION").into() }).set(1);
    }

    /// A reload was tried.
    pub(crate) fn reloaded(&self, well: bool) {
        let outcome = if well { "success" } else { "failure" };
        self.reloads.get_or_create(&Outcome { outcome: outcome.into() }).inc();
    }

    /// A domain changed its state.
    pub(crate) fn transition(&self, domain: &str, name: &str, to: &str) {
        let labels = DomainTo { domain: domain.into(), name: name.into(), to: to.into() };
        self.transitions.get_or_create(&labels).inc();
    }

    /// A call to a target ended.
    pub(crate) fn attempt(&self, target: &str, action: &str, outcome: &str, kind: &str) {
        let attempts = self.known_attempts.get(&[target, action, outcome, kind], || {
            let labels = AttemptLabels {
                target: target.into(),
                action: action.into(),
                outcome: outcome.into(),
                kind: kind.into(),
            };
            self.attempts.get_or_create_owned(&labels)
        });
        attempts.inc();
        if kind == "unknown" {
            self.unknown.get_or_create(&Target { target: target.into() }).inc();
        }
    }

    /// Stream events of a target could not be read and were dropped.
    pub(crate) fn malformed(&self, target: &str, events: u64) {
        if events > 0 {
            self.malformed.get_or_create(&Target { target: target.into() }).inc_by(events);
        }
    }

    /// What a request to a target lost in translation.
    pub(crate) fn losses(&self, target: &str, losses: usize) {
        if losses > 0 {
            self.losses.get_or_create(&Target { target: target.into() }).inc_by(losses as u64);
        }
    }

    /// An answer's tokens and what it cost, in millionths of a US dollar; an unknown price is never zero.
    pub(crate) fn answered(
        &self,
        model: &str,
        target: &str,
        usage: &UsageEntry,
        cost_micro_usd: Option<u64>,
    ) {
        let labels = |kind: &str| Tokens { model: model.into(), target: target.into(), kind: kind.into() };
        let answers = self.known_answers.get(&[model, target], Answers::default);
        let amounts = [
            ("input", usage.input_tokens),
            ("cached", usage.cached_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ];
        for ((kind, amount), tokens) in amounts.into_iter().zip(&answers.tokens).filter(|((_, n), _)| *n > 0)
        {
            tokens.get_or_init(|| self.tokens.get_or_create_owned(&labels(kind))).inc_by(amount);
        }
        match cost_micro_usd {
            Some(cost) => {
                let all = answers.cost.get_or_init(|| self.cost.get_or_create_owned(&labels("answer")));
                all.inc_by(cost as f64 / 1e6);
            }
            None => {
                let unpriced = || self.unpriced.get_or_create_owned(&Target { target: target.into() });
                answers.unpriced.get_or_init(unpriced).inc();
            }
        }
    }

    /// A limit of ours refused a request.
    pub(crate) fn limit_rejection(&self, scope: &str, name: &str) {
        self.limit_rejections.get_or_create(&Scope { scope: scope.into(), name: name.into() }).inc();
    }

    /// A request ended.
    pub(crate) fn finished(&self, f: &Finished<'_>) {
        let route = || Route { route: f.route.into() };
        let both = || RouteTarget { route: f.route.into(), target: f.target.into() };
        let ends = self.known_ends.get(&[f.route, f.dialect, f.terminal, f.action, f.target], || {
            let labels = RequestLabels {
                route: f.route.into(),
                dialect: f.dialect.into(),
                terminal: f.terminal.into(),
                action: f.action.into(),
            };
            Ends {
                requests: self.requests.get_or_create_owned(&labels),
                attempts: self.attempts_per_request.get_or_create_owned(&route()),
                duration: self.duration.get_or_create_owned(&both()),
                first_token: OnceLock::new(),
                succeeded: OnceLock::new(),
                succeeded_at_once: OnceLock::new(),
            }
        });
        ends.requests.inc();
        ends.attempts.observe(f.attempts as f64);
        ends.duration.observe(f.duration);
        if let Some(first_token) = f.first_token {
            let all = ends.first_token.get_or_init(|| self.first_token.get_or_create_owned(&both()));
            all.observe(first_token);
        }
        if f.succeeded {
            let all = || self.success_after_failover.get_or_create_owned(&route());
            ends.succeeded.get_or_init(all).inc();
        }
        if f.first_attempt_succeeded {
            let all = || self.success_raw.get_or_create_owned(&route());
            ends.succeeded_at_once.get_or_init(all).inc();
        }
    }

    pub(crate) fn stream_opened(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream_closed(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Streams that are open to clients.
    pub fn open_streams(&self) -> i64 {
        self.streams.load(Ordering::Relaxed)
    }

    /// Everything in the Prometheus text format, with the state of `app` as it is now.
    pub fn render(&self, app: &App) -> String {
        let mut text = String::new();
        // Taken first: what one scrape reads is what it writes.
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.read(app);
        if encode(&mut text, &registry).is_err() {
            // Writing to a string cannot fail; a scrape must not either.
            text.push_str(
                "# the metrics could not be written
",
            );
        }
        text
    }

    fn read(&self, app: &App) {
        let now = app.clock.now();
        self.open_streams.set(self.open_streams());
        // Looked at under the lock that every request needs, told outside of it.
        let (domains, targets, queue, retries) = app.with_fleet(|fleet| {
            fleet.settle(now);
            let targets =
                fleet.targets().map(|(name, state)| (name.to_owned(), state.in_flight, state.killed));
            let queue = fleet.queue.iter().map(|(model, waiting)| (model.to_owned(), waiting));
            let retries = fleet.retry_budget.remaining_ratio(&fleet.policy.retry_budget, now);
            (fleet.domains(now), targets.collect::<Vec<_>>(), queue.collect::<Vec<_>>(), retries)
        });
        // A target that a reload took out is not shown as it was last.
        self.domain_state.clear();
        self.in_flight.clear();
        self.queue_waiting.clear();
        for domain in domains {
            let labels = Domain { domain: domain.kind.name().into(), name: domain.name };
            self.domain_state.get_or_create(&labels).set(domain.state.gauge());
        }
        for (name, in_flight, killed) in targets {
            if killed {
                let labels = Domain { domain: "target".into(), name: name.clone() };
                self.domain_state.get_or_create(&labels).set(6);
            }
            self.in_flight.get_or_create(&Target { target: name }).set(i64::from(in_flight));
        }
        for (model, waiting) in queue {
            let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
            self.queue_waiting.get_or_create(&Model { model }).set(waiting);
        }
        self.retry_budget.set(retries);
    }
}
