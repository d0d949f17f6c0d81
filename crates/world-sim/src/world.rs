//! A world in virtual time: an agenda around the real controllers and fleets, driven as the server drives them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pointsman_core::controller::{Command, Controller, Event};
use pointsman_core::fleet::{Bindings, Fleet};
use pointsman_core::plan::Planner;
use pointsman_core::target::Catalog;
use pointsman_core::time::{Duration, Instant};

use crate::checker::{Checker, Facts, Step, Truth, Violation, Watch};
use crate::provider::{Ask, Meeting, Provider};
use crate::random::{Stream, seconds};
use crate::report::Report;
use crate::scenario::Scenario;
use crate::seam::{Faithful, Seam};

mod arrivals;
mod attempts;
mod finish;
mod operator;

use arrivals::Clients;

/// When worlds begin: not the epoch, since nothing may depend on a process having just started.
const EPOCH: Instant = Instant::from_millis(1_000_000);

/// What a world came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The numbers.
    pub report: Report,
    /// The first promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// A digest of every decision: the same scenario gives the same.
    pub digest: u64,
    /// How many requests had come when it ended.
    pub arrived: u64,
}

/// One gateway process.
#[derive(Debug)]
struct Replica {
    fleet: Fleet,
    bindings: Bindings,
    luck: Stream,
}

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Todo {
    /// A client's next request; `round` of a burst or a user is what follows it.
    Arrive { client: usize },
    /// An operator takes a target out, or brings it back.
    Operate { target: usize, kill: bool },
    /// Output of this attempt.
    Commit { run: Key, attempt: u32 },
    /// The end of this attempt.
    End { run: Key, attempt: u32 },
    /// The client leaves.
    Leave { run: Key },
    /// A request that looks whether a target is back.
    Visit { replica: usize, target: usize, tools: bool, last: bool },
    /// A wait is over.
    Tick { run: Key, wait: u32 },
}

/// Where a request is kept; the number says whether it still is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: usize,
    request: u64,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Client(usize),
    /// A look whether a target is back; whether it is the last one, which must be answered.
    Visitor {
        target: usize,
        last: bool,
    },
}

/// One request under way.
#[derive(Debug)]
struct Run {
    id: u64,
    sender: Sender,
    replica: usize,
    controller: Controller,
    ask: Ask,
    watch: Watch,
    arrived: Instant,
    patience: Option<Duration>,
    /// The attempt under way.
    live: Option<Live>,
    attempts: u32,
    waits: u32,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    target: usize,
    begun: Instant,
    meeting: Meeting,
}

/// See the module.
#[derive(Debug)]
pub struct World<'a, S> {
    scenario: &'a Scenario,
    seam: S,
    catalog: Catalog,
    replicas: Vec<Replica>,
    providers: Vec<Provider>,
    clients: Clients,
    checker: Checker,
    agenda: BinaryHeap<Reverse<(Instant, u64, Todo)>>,
    sequence: u64,
    runs: Vec<Option<Run>>,
    free: Vec<usize>,
    now: Instant,
    arrived: u64,
    report: Report,
    digest: u64,
}

/// Plays a scenario with the real core.
pub fn play(scenario: &Scenario) -> Outcome {
    World::new(scenario, Faithful).play()
}

impl<'a, S: Seam> World<'a, S> {
    /// The world of this scenario, before anything has happened.
    pub fn new(scenario: &'a Scenario, seam: S) -> Self {
        let catalog = scenario.catalog();
        let replicas = (0..scenario.replicas).map(|number| {
            let mut fleet = Fleet::new(scenario.process_policy());
            let bindings = fleet.bind(&catalog);
            Replica { fleet, bindings, luck: Stream::of(scenario.seed, &format!("replica {number}")) }
        });
        Self {
            replicas: replicas.collect(),
            providers: Provider::all_of(scenario, EPOCH),
            clients: Clients::of(scenario, &catalog),
            checker: Checker::new(scenario),
            agenda: BinaryHeap::new(),
            sequence: 0,
            runs: Vec::new(),
            free: Vec::new(),
            now: EPOCH,
            arrived: 0,
            report: Report::default(),
            digest: 0,
            scenario,
            seam,
            catalog,
        }
    }

    /// Plays it to its end, or to the first broken promise.
    pub fn play(mut self) -> Outcome {
        let violation = self.live().err();
        self.settle_report();
        Outcome { report: self.report, violation, digest: self.digest, arrived: self.arrived }
    }

    fn live(&mut self) -> Result<(), Violation> {
        for (client, at) in self.clients.beginnings(EPOCH) {
            self.plan(at, Todo::Arrive { client });
        }
        self.plan_operations();
        self.until_quiet()?;
        self.report.seconds = self.now.since(EPOCH).as_secs_f64();
        self.at_rest()?;
        self.come_back()
    }

    fn until_quiet(&mut self) -> Result<(), Violation> {
        while let Some(Reverse((at, _, todo))) = self.agenda.pop() {
            self.now = at;
            self.happen(todo)?;
        }
        Ok(())
    }

    fn happen(&mut self, todo: Todo) -> Result<(), Violation> {
        match todo {
            Todo::Arrive { client } => self.arrive(client),
            Todo::Operate { target, kill } => {
                self.operate(target, kill);
                Ok(())
            }
            Todo::Visit { replica, target, tools, last } => self.visit(replica, target, tools, last),
            Todo::Commit { run, attempt } => self.on_attempt(run, attempt, Self::commit),
            Todo::End { run, attempt } => self.on_attempt(run, attempt, Self::end),
            Todo::Leave { run } => self.leave(run),
            Todo::Tick { run, wait } => {
                let due = self.run(run).is_some_and(|r| r.waits == wait && r.live.is_none());
                if due { self.tell(run, Event::Tick, Truth::Ticked).map(drop) } else { Ok(()) }
            }
        }
    }

    /// Tells a request's controller what happened, checks its answer, and obeys. `true` if the request goes on.
    fn tell(&mut self, key: Key, event: Event, truth: Truth) -> Result<bool, Violation> {
        let Some(run) = self.runs.get_mut(key.place).and_then(Option::as_mut) else { return Ok(false) };
        let Some(replica) = self.replicas.get_mut(run.replica) else { return Ok(false) };
        let Replica { fleet, bindings, luck } = replica;
        let mut planner = Planner { now: self.now, catalog: &self.catalog, bindings, fleet };
        let command = self.seam.step(&mut run.controller, event, &mut planner, luck);
        self.answer(key, truth, &command)
    }

    /// Checks a command and obeys it.
    fn answer(&mut self, key: Key, truth: Truth, command: &Command) -> Result<bool, Violation> {
        self.digest_command(key.request, command);
        self.report.steps += 1;
        let Some(run) = self.runs.get_mut(key.place).and_then(Option::as_mut) else { return Ok(false) };
        let Some(replica) = self.replicas.get_mut(run.replica) else { return Ok(false) };
        let mut step = Step {
            now: self.now,
            replica: run.replica,
            fleet: &mut replica.fleet,
            controller: &run.controller,
            truth,
            command,
        };
        self.checker.step(&mut run.watch, &mut step)?;
        self.obey(key, command)
    }

    fn obey(&mut self, key: Key, command: &Command) -> Result<bool, Violation> {
        match command {
            Command::Attempt(attempt) => self.begin(key, attempt),
            Command::Wait { until } => {
                let Some(run) = self.run_mut(key) else { return Ok(false) };
                run.waits += 1;
                let wait = run.waits;
                self.plan(*until, Todo::Tick { run: key, wait });
            }
            Command::Stop(stop) => return self.stop(key, stop).map(|()| false),
            Command::Carry => {}
        }
        Ok(true)
    }

    fn run(&self, key: Key) -> Option<&Run> {
        self.runs.get(key.place)?.as_ref().filter(|run| run.id == key.request)
    }

    fn run_mut(&mut self, key: Key) -> Option<&mut Run> {
        self.runs.get_mut(key.place)?.as_mut().filter(|run| run.id == key.request)
    }

    fn plan(&mut self, at: Instant, todo: Todo) {
        self.sequence += 1;
        self.agenda.push(Reverse((at, self.sequence, todo)));
    }

    fn digest_command(&mut self, request: u64, command: &Command) {
        let word = match command {
            Command::Attempt(a) => 1 + ((a.target.0 as u64) << 8) + ((a.action as u64) << 4),
            Command::Carry => 2,
            Command::Stop(stop) => 3 + ((stop.terminal as u64) << 8) + ((stop.cause as u64) << 16),
            Command::Wait { until } => 4 + (until.as_nanos() << 3),
        };
        for part in [self.now.as_nanos(), request, word] {
            self.digest = (self.digest.rotate_left(5) ^ part).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    /// Puts a new request into the world and takes the first step.
    fn enter(&mut self, mut run: NewRun) -> Result<(), Violation> {
        let Some(replica) = self.replicas.get_mut(run.replica) else { return Ok(()) };
        let Replica { fleet, bindings, luck } = replica;
        let mut planner = Planner { now: self.now, catalog: &self.catalog, bindings, fleet };
        run.request.id = self.arrived;
        let (controller, command) = self.seam.start(run.request, &mut planner, luck);
        let facts = Facts { id: self.arrived, arrived: self.now, ..run.facts };
        let made = Run {
            id: self.arrived,
            sender: run.sender,
            replica: run.replica,
            controller,
            ask: run.ask,
            watch: Watch::new(facts),
            arrived: self.now,
            patience: run.patience,
            live: None,
            attempts: 0,
            waits: 0,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.runs.push(None);
            self.runs.len() - 1
        });
        let key = Key { place, request: made.id };
        let patience = made.patience;
        if let Some(slot) = self.runs.get_mut(place) {
            *slot = Some(made);
        }
        if let Some(patience) = patience {
            self.plan(self.now.after(patience), Todo::Leave { run: key });
        }
        self.answer(key, Truth::Arrived, &command).map(drop)
    }
}

/// A request that is about to come.
struct NewRun {
    sender: Sender,
    replica: usize,
    request: pointsman_core::request::Request,
    ask: Ask,
    facts: Facts,
    patience: Option<Duration>,
}
