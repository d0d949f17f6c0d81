//! Clients: when their requests come, and what they ask.

use pointsman_core::request::{ModelChoice, Needs, Preferences, Request, Reroute, Shape, resolve};
use pointsman_core::target::{Catalog, Governance};
use pointsman_core::time::{Duration, Instant};

use super::{NewRun, Sender, Todo, World};
use crate::checker::{Facts, Violation};
use crate::provider::Ask;
use crate::random::{Stream, seconds};
use crate::scenario::{Arrival, ClientSpec, ROUTE, Scenario};
use crate::seam::Seam;

#[derive(Debug)]
struct Client {
    spec: ClientSpec,
    choice: usize,
    luck: Stream,
}

/// All clients of a world.
#[derive(Debug)]
pub(super) struct Clients {
    all: Vec<Client>,
    /// What the route and each model leads to.
    choices: Vec<Vec<ModelChoice>>,
    governance: Governance,
}

impl Clients {
    pub(super) fn of(scenario: &Scenario, catalog: &Catalog) -> Self {
        let names = std::iter::once(ROUTE).chain(scenario.models.iter().map(|m| m.name.as_str()));
        let choices = names.map(|name| resolve(catalog, name).map(|r| r.models).unwrap_or_default());
        let choice = |wanted: &Option<String>| {
            let place = scenario.models.iter().position(|m| Some(&m.name) == wanted.as_ref());
            place.map_or(0, |place| place + 1)
        };
        let all = scenario.clients.iter().map(|spec| Client {
            spec: spec.clone(),
            choice: choice(&spec.model),
            luck: Stream::of(scenario.seed, &format!("client {}", spec.name)),
        });
        Self { all: all.collect(), choices: choices.collect(), governance: catalog.defaults.clone() }
    }

    /// When the first requests come.
    pub(super) fn beginnings(&mut self, epoch: Instant) -> Vec<(usize, Instant)> {
        let mut beginnings = Vec::new();
        for (place, client) in self.all.iter_mut().enumerate() {
            let from = epoch.after(seconds(client.spec.from));
            let users = if let Arrival::Closed { users, .. } = client.spec.arrival { users } else { 1 };
            for _ in 0..users {
                let pause = client.pause();
                beginnings.push((place, from.after(pause)));
            }
        }
        beginnings
    }

    /// How long a user pauses before the next request; `None` where requests come by themselves.
    pub(super) fn pause_of(&mut self, client: usize) -> Option<Duration> {
        let client = self.all.get_mut(client)?;
        matches!(client.spec.arrival, Arrival::Closed { .. }).then(|| client.pause())
    }

    fn request(&self, choice: usize) -> Request {
        Request {
            id: 0,
            models: self.choices.get(choice).cloned().unwrap_or_default(),
            governance: self.governance.clone(),
            needs: Needs::default(),
            preferences: Preferences::default(),
            caller_keys: Default::default(),
            caller_deadline: None,
            reroute: Reroute::Fallback,
            replay_safe: true,
            sdk_retry: false,
            affinity: None,
            shape: Shape::Streamed,
            dialect: "chat",
            endpoint: None,
        }
    }
}

impl Client {
    fn pause(&mut self) -> Duration {
        match self.spec.arrival {
            Arrival::Bursts { every, .. } => seconds(every),
            Arrival::Closed { pause, .. } => self.luck.until_next(1.0 / pause),
            Arrival::Poisson { per_second } => self.luck.until_next(per_second),
        }
    }

    /// What it asks next.
    fn ask(&mut self) -> (Ask, Asked) {
        let spec = &self.spec;
        let luck = &mut self.luck;
        let shape = match (luck.chance(spec.streams), luck.chance(0.5)) {
            (true, _) => Shape::Streamed,
            (false, true) => Shape::Gathered,
            (false, false) => Shape::Plain,
        };
        let ask = Ask {
            shape,
            tools: luck.chance(spec.tools),
            typo: luck.chance(spec.typos),
            refused: luck.chance(spec.refused),
            too_long: luck.chance(spec.too_long),
            slow_reader: luck.chance(spec.slow_readers),
        };
        let bound = luck.unit();
        let reroute = if bound < spec.bound {
            Reroute::None
        } else if bound < 2.0 * spec.bound {
            Reroute::Failover
        } else {
            Reroute::Fallback
        };
        let asked = Asked {
            reroute,
            replay_safe: !luck.chance(spec.unsafe_share),
            sdk_retry: luck.chance(spec.sdk_retries),
            affinity: luck.whole(0, 20),
            prompt: luck.whole(50, 4_000),
            patience: spec.patience.map(|median| seconds(median * luck.log_normal(0.5))),
        };
        (ask, asked)
    }
}

/// The rest of what a client asks.
struct Asked {
    reroute: Reroute,
    replay_safe: bool,
    sdk_retry: bool,
    affinity: u64,
    prompt: u64,
    patience: Option<Duration>,
}

impl<S: Seam> World<'_, S> {
    pub(super) fn arrive(&mut self, place: usize) -> Result<(), Violation> {
        let Some(client) = self.clients.all.get_mut(place) else { return Ok(()) };
        let over = self.now >= super::EPOCH.after(seconds(client.spec.until));
        if over || self.arrived >= self.scenario.requests {
            return Ok(());
        }
        let (count, closed) = match client.spec.arrival {
            Arrival::Bursts { size, .. } => (size, false),
            Arrival::Closed { .. } => (1, true),
            Arrival::Poisson { .. } => (1, false),
        };
        if !closed {
            let pause = client.pause();
            self.plan(self.now.after(pause), Todo::Arrive { client: place });
        }
        for _ in 0..count {
            if self.arrived < self.scenario.requests {
                self.send(place)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, place: usize) -> Result<(), Violation> {
        let Some(client) = self.clients.all.get_mut(place) else { return Ok(()) };
        let (ask, asked) = client.ask();
        let last = u64::try_from(self.replicas.len()).unwrap_or(1).saturating_sub(1);
        let replica = usize::try_from(client.luck.whole(0, last)).unwrap_or(0);
        let (choice, own) = (client.choice, client.spec.deadline.map(seconds));
        let mut request = self.clients.request(choice);
        request.needs.tools = ask.tools;
        request.needs.prompt_tokens = asked.prompt;
        request.caller_deadline = own;
        request.reroute = asked.reroute;
        request.replay_safe = asked.replay_safe;
        request.sdk_retry = asked.sdk_retry;
        request.affinity = Some(asked.affinity);
        request.shape = ask.shape;
        let facts = self.facts(&request, &ask, choice);
        self.arrived += 1;
        self.enter(NewRun {
            sender: Sender::Client(place),
            replica,
            request,
            ask,
            facts,
            patience: asked.patience,
        })
    }

    /// What the checker goes by; made from what the client asked, before the core sees it.
    fn facts(&self, request: &Request, ask: &Ask, choice: usize) -> Facts {
        let own = request.governance.budget.deadline;
        // The caller's own limit, less min(5 %, 2 s): what arrives later helps nobody.
        let caller =
            request.caller_deadline.map(|d| d.saturating_sub(d.mul_f64(0.05).min(Duration::from_secs(2))));
        Facts {
            id: 0,
            choice,
            arrived: self.now,
            deadline: self.now.after(caller.map_or(own, |caller| caller.min(own))),
            replay_safe: request.replay_safe,
            reroute: request.reroute,
            sdk_retry: request.sdk_retry,
            only: None,
            tools: ask.tools,
            own_fault: ask.typo || ask.refused || ask.too_long,
        }
    }

    /// A request for one target, from somebody who wants to know whether it is back.
    pub(super) fn visit(
        &mut self,
        replica: usize,
        target: usize,
        tools: bool,
        last: bool,
    ) -> Result<(), Violation> {
        let Some(spec) = self.scenario.targets.get(target) else { return Ok(()) };
        let model = self.scenario.models.iter().position(|m| m.name == spec.model);
        let choice = model.map_or(0, |place| place + 1);
        let mut request = self.clients.request(choice);
        request.preferences.only.push(spec.name.clone());
        request.needs.tools = tools;
        let ask = Ask { shape: Shape::Streamed, tools, ..Ask::default() };
        let facts = Facts { only: Some(target), ..self.facts(&request, &ask, choice) };
        self.arrived += 1;
        self.enter(NewRun {
            sender: Sender::Visitor { target, last },
            replica,
            request,
            ask,
            facts,
            patience: None,
        })
    }
}
