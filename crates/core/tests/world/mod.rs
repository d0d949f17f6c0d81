//! A small world for tests of the core: a catalog in one word, a clock that stands until it is moved, and requests that
//! are driven by hand.
//!
//! `"A,B|C"` is a route `route` over two models, `m0` served by the targets A and B, `m1` by C. Each target has an
//! endpoint, an account and a provider of its own.

// Every test file uses another part of it.
#![allow(dead_code)]

pub(crate) mod sim;

use std::collections::BTreeSet;

use pointsman_core::controller::{Attempt, Cause, Command, Controller, Event, Failed, Stop};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::fleet::{Bindings, DomainView, Failure, Fleet, Report};
use pointsman_core::kind::{FailureKind, Phase, Terminal};
use pointsman_core::plan::Planner;
use pointsman_core::policy::ProcessPolicy;
use pointsman_core::request::{Needs, Preferences, Request, Reroute, Shape, resolve};
use pointsman_core::rng::SplitMix64;
use pointsman_core::target::{Catalog, Model, Route, Target};
use pointsman_core::time::{Duration, Instant};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn target(name: &str, model: Option<&str>) -> Target {
    Target {
        name: name.into(),
        provider: format!("provider-{name}"),
        model: model.map(Into::into),
        upstream_model: None,
        endpoint: format!("https://{name}.example:443"),
        account: format!("account-{name}"),
        identity: format!("identity-{name}"),
        region: None,
        data: Default::default(),
        tags: BTreeSet::new(),
        priority: 1,
        weight: 1,
        limits: Default::default(),
        times: Default::default(),
        caller_key: false,
        dialects: Vec::new(),
        serves: None,
        stream_carries_everything: false,
        known: None,
    }
}

/// The catalog of a word like `"A,B|C"`; substitution is allowed where there is more than one model.
pub(crate) fn catalog(word: &str) -> Catalog {
    let mut catalog = Catalog::default();
    let mut route =
        Route { name: "route".into(), version: 1, models: Vec::new(), governance: Default::default() };
    for (place, names) in word.split('|').enumerate() {
        let model = format!("m{place}");
        catalog.models.insert(model.clone(), Model::default());
        catalog.targets.extend(names.split(',').map(|n| target(n, Some(&model))));
        route.models.push(model);
    }
    route.governance.substitution.allowed = route.models.len() > 1;
    catalog.routes.insert("route".into(), route);
    catalog
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) catalog: Catalog,
    pub(crate) bindings: Bindings,
    pub(crate) fleet: Fleet,
    pub(crate) now: Instant,
    pub(crate) rng: SplitMix64,
    next: u64,
}

impl World {
    pub(crate) fn new(word: &str) -> Self {
        Self::with(word, |_| {})
    }

    pub(crate) fn with(word: &str, change: impl FnOnce(&mut Catalog)) -> Self {
        let mut catalog = catalog(word);
        change(&mut catalog);
        let mut fleet = Fleet::new(ProcessPolicy::default());
        let bindings = fleet.bind(&catalog);
        // Not the epoch: nothing may depend on the process having just started.
        let now = Instant::ZERO.after(secs(1_000));
        Self { catalog, bindings, fleet, now, rng: SplitMix64::new(7), next: 0 }
    }

    /// Another configuration comes into force.
    pub(crate) fn reload(&mut self, change: impl FnOnce(&mut Catalog)) {
        change(&mut self.catalog);
        self.bindings = self.fleet.bind(&self.catalog);
    }

    pub(crate) fn pass(&mut self, by: Duration) {
        self.now = self.now.after(by);
    }

    /// A request for the route.
    pub(crate) fn request(&mut self) -> Request {
        self.request_for("route")
    }

    pub(crate) fn request_for(&mut self, name: &str) -> Request {
        self.next += 1;
        let resolved = resolve(&self.catalog, name).expect("the name leads somewhere");
        Request {
            id: self.next,
            models: resolved.models,
            governance: resolved.governance,
            needs: Needs::default(),
            preferences: Preferences::default(),
            caller_keys: BTreeSet::new(),
            caller_deadline: None,
            reroute: Reroute::Fallback,
            replay_safe: true,
            dialect: "chat",
            endpoint: None,
            sdk_retry: false,
            affinity: None,
            shape: Shape::Streamed,
        }
    }

    pub(crate) fn start(&mut self, request: Request) -> Run {
        let mut planner = Planner {
            now: self.now,
            catalog: &self.catalog,
            bindings: &self.bindings,
            fleet: &mut self.fleet,
        };
        let (controller, command) = Controller::start(request, &mut planner, &mut self.rng);
        let mut run = Run { controller, command, steps: Vec::new() };
        run.record(self);
        run
    }

    /// A fresh request for the route.
    pub(crate) fn go(&mut self) -> Run {
        let request = self.request();
        self.start(request)
    }

    /// A fresh request, driven to its end: `fate` says how each attempt on a target fails; `None` is success. Waits are
    /// waited out.
    pub(crate) fn play(&mut self, fate: impl FnMut(&str) -> Option<Failed>) -> Run {
        let request = self.request();
        self.play_request(request, fate)
    }

    pub(crate) fn play_request(&mut self, request: Request, fate: impl FnMut(&str) -> Option<Failed>) -> Run {
        let mut run = self.start(request);
        run.finish(self, fate);
        run
    }

    /// The view of a target's domain of this kind.
    pub(crate) fn view(&self, target: &str, kind: DomainKind) -> DomainView {
        let views = self.fleet.domains_of(target, self.now);
        views.into_iter().find(|v| v.kind == kind).expect("a domain of this kind")
    }

    pub(crate) fn state(&self, target: &str, kind: DomainKind) -> DomainState {
        self.view(target, kind).state
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.fleet.targets().map(|(_, s)| s.in_flight).sum()
    }

    /// One request that fails so on the first target that it meets, and then is given up by its client.
    pub(crate) fn hit(&mut self, failed: Failed) {
        let mut run = self.go();
        assert!(run.is_attempt(), "no attempt was made: {:?}", run.command);
        if failed.phase > Phase::NotSent {
            run.step(self, Event::Sent);
        }
        run.step(self, Event::Failed(failed));
        run.step(self, Event::ClientGone);
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) controller: Controller,
    pub(crate) command: Command,
    /// `"A primary"`, `"wait 500ms"`, …
    pub(crate) steps: Vec<String>,
}

impl Run {
    pub(crate) fn step(&mut self, world: &mut World, event: Event) -> &Command {
        let mut planner = Planner {
            now: world.now,
            catalog: &world.catalog,
            bindings: &world.bindings,
            fleet: &mut world.fleet,
        };
        let command = self.controller.step(event, &mut planner, &mut world.rng);
        if command != Command::Carry {
            self.command = command;
            self.record(world);
        }
        &self.command
    }

    pub(crate) fn fail(&mut self, world: &mut World, failed: Failed) -> &Command {
        self.step(world, Event::Failed(failed))
    }

    pub(crate) fn commit(&mut self, world: &mut World) {
        self.step(world, Event::Committed { first_token: Some(ms(200)) });
    }

    pub(crate) fn succeed(&mut self, world: &mut World) {
        self.step(world, Event::Succeeded { tokens: None });
    }

    pub(crate) fn finish(&mut self, world: &mut World, mut fate: impl FnMut(&str) -> Option<Failed>) {
        for _ in 0..1_000 {
            match self.command.clone() {
                Command::Attempt(attempt) => {
                    let name = world.catalog.targets[attempt.target.0].name.clone();
                    match fate(&name) {
                        Some(failed) => self.step(world, Event::Failed(failed)),
                        None => self.step(world, Event::Succeeded { tokens: None }),
                    };
                }
                Command::Wait { until } => {
                    world.now = world.now.max(until);
                    self.step(world, Event::Tick);
                }
                Command::Stop(_) => return,
                Command::Carry => panic!("nothing to carry on with"),
            }
        }
        panic!("it does not end: {:?}", self.steps);
    }

    pub(crate) fn attempt(&self) -> &Attempt {
        match &self.command {
            Command::Attempt(attempt) => attempt,
            other => panic!("an attempt was expected, not {other:?}"),
        }
    }

    pub(crate) fn is_attempt(&self) -> bool {
        matches!(self.command, Command::Attempt(_))
    }

    pub(crate) fn is_wait(&self) -> bool {
        matches!(self.command, Command::Wait { .. })
    }

    pub(crate) fn wait(&self) -> Instant {
        match self.command {
            Command::Wait { until } => until,
            ref other => panic!("a wait was expected, not {other:?}"),
        }
    }

    pub(crate) fn stop(&self) -> &Stop {
        match &self.command {
            Command::Stop(stop) => stop,
            other => panic!("a stop was expected, not {other:?}"),
        }
    }

    pub(crate) fn ending(&self) -> (Terminal, Cause) {
        (self.stop().terminal, self.stop().cause)
    }

    /// The attempts alone: `"A primary, B failover"`.
    pub(crate) fn attempts(&self) -> String {
        let attempts = self.steps.iter().filter(|s| !s.starts_with("wait") && !s.starts_with("stop"));
        attempts.cloned().collect::<Vec<_>>().join(", ")
    }

    /// The name of the target whose error is shown.
    pub(crate) fn shown(&self, world: &World) -> Option<String> {
        let record = self.controller.attempts().get(self.stop().shown?)?;
        let candidate = self.controller.candidate(record.candidate)?;
        Some(world.catalog.target(candidate.target)?.name.clone())
    }

    fn record(&mut self, world: &World) {
        self.steps.push(match &self.command {
            Command::Attempt(a) => {
                format!("{} {}", world.catalog.targets[a.target.0].name, a.action.name())
            }
            Command::Wait { until } => format!("wait {:?}", until.since(world.now)),
            Command::Stop(stop) => format!("stop {}", stop.terminal.name()),
            Command::Carry => "carry".into(),
        });
    }
}

/// A failure as a provider would typically cause it: `connect` before anything was sent, `partial_stream` after commit,
/// the rest as an answer with a status.
pub(crate) fn failed(kind: FailureKind) -> Failed {
    let (phase, status) = match kind {
        FailureKind::Connect => (Phase::NotSent, None),
        FailureKind::Timeout => (Phase::Sent, None),
        FailureKind::RateLimit => (Phase::Headers, Some(429)),
        FailureKind::QuotaExhausted => (Phase::Headers, Some(402)),
        FailureKind::Overloaded => (Phase::Headers, Some(529)),
        FailureKind::ServerError => (Phase::Headers, Some(500)),
        FailureKind::BadResponse | FailureKind::SchemaInvalid => (Phase::Headers, Some(200)),
        FailureKind::Auth => (Phase::Headers, Some(401)),
        FailureKind::Permission => (Phase::Headers, Some(403)),
        FailureKind::ModelNotFound => (Phase::Headers, Some(404)),
        FailureKind::PartialStream => (Phase::Committed, Some(200)),
        FailureKind::Cancelled => (Phase::Sent, None),
        FailureKind::Unknown => (Phase::Headers, Some(418)),
        FailureKind::Unsupported
        | FailureKind::ContextOverflow
        | FailureKind::InvalidRequest
        | FailureKind::Policy => (Phase::Headers, Some(400)),
    };
    let lost = kind == FailureKind::Timeout;
    Failed { kind, phase, status, retry_after: None, lost, excused: false }
}

pub(crate) fn rate_limit(retry_after: Duration) -> Failed {
    Failed { retry_after: Some(retry_after), ..failed(FailureKind::RateLimit) }
}

pub(crate) fn overloaded() -> Failed {
    failed(FailureKind::Overloaded)
}

/// The same as far as a fleet is concerned.
pub(crate) fn report(failed: Failed) -> Report {
    Report::Failed(Failure {
        kind: failed.kind,
        phase: failed.phase,
        retry_after: failed.retry_after,
        excused: failed.excused,
    })
}
