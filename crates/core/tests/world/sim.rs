//! Many clients in virtual time: an agenda of arrivals, answers and ticks around one [`World`].

use std::collections::BTreeMap;

use pointsman_core::controller::{Command, Event, Failed, Limit};
use pointsman_core::kind::{FailureKind, Terminal};
use pointsman_core::request::Request;
use pointsman_core::time::{Duration, Instant};

use super::{Run, World};

/// How an attempt on this target that begins now goes: after which time it ends, and how it fails, if it does.
pub(crate) type Fate<'a> = dyn FnMut(&str, Instant) -> (Duration, Option<Failed>) + 'a;

#[derive(Debug)]
enum Todo {
    Arrive(Box<Request>),
    End { run: usize, failed: Option<Failed>, first_token: Option<Duration> },
    Tick(usize),
}

/// How one request fared.
#[derive(Clone, Debug)]
pub(crate) struct Fared {
    pub(crate) id: u64,
    pub(crate) arrived: Instant,
    pub(crate) ended: Instant,
    pub(crate) terminal: Terminal,
    /// Which targets were tried, in order.
    pub(crate) tried: Vec<String>,
}

impl Fared {
    pub(crate) fn succeeded(&self) -> bool {
        self.terminal == Terminal::Success
    }

    pub(crate) fn served_by(&self) -> Option<&str> {
        self.tried.last().map(String::as_str).filter(|_| self.succeeded())
    }
}

/// What becomes of an attempt that says nothing for longer than it may.
fn in_time((took, failed): (Duration, Option<Failed>), limit: Limit) -> (Duration, Option<Failed>) {
    if took <= limit.within {
        return (took, failed);
    }
    (limit.within, Some(Failed { excused: !limit.own, ..super::failed(FailureKind::Timeout) }))
}

#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) world: World,
    /// Every attempt: when, on which target.
    pub(crate) calls: Vec<(Instant, String)>,
    pub(crate) fared: Vec<Fared>,
    agenda: BTreeMap<(Instant, u64), Todo>,
    sequence: u64,
    runs: BTreeMap<usize, (Instant, Run, Vec<String>)>,
    next_run: usize,
    /// Answers are streams whose first token is all there is.
    streams: bool,
}

impl Sim {
    pub(crate) fn new(world: World) -> Self {
        Self {
            world,
            calls: Vec::new(),
            fared: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            runs: BTreeMap::new(),
            next_run: 0,
            streams: false,
        }
    }

    /// Requests of the route that arrive in this rhythm for so long.
    pub(crate) fn traffic(&mut self, every: Duration, during: Duration) {
        self.traffic_of(every, during, |_| {});
    }

    pub(crate) fn traffic_of(&mut self, every: Duration, during: Duration, change: impl Fn(&mut Request)) {
        let end = self.world.now.after(during);
        let mut at = self.world.now;
        while at < end {
            let mut request = self.world.request();
            change(&mut request);
            self.plan(at, Todo::Arrive(Box::new(request)));
            at = at.after(every);
        }
    }

    /// Lets everything happen that is planned, until nothing is left.
    pub(crate) fn run(&mut self, fate: &mut Fate<'_>) {
        while let Some(((at, _), todo)) = self.agenda.pop_first() {
            self.world.now = at;
            self.happen(todo, fate);
        }
        assert_eq!(self.world.in_flight(), 0, "every ticket came back");
        assert_eq!(self.world.fleet.queue.iter().count(), 0, "nobody is left in the queue");
    }

    /// The same with answers that are streams: how long they take to begin is seen.
    pub(crate) fn run_streams(&mut self, fate: &mut Fate<'_>) {
        self.streams = true;
        self.run(fate);
    }

    fn happen(&mut self, todo: Todo, fate: &mut Fate<'_>) {
        let place = match todo {
            Todo::Arrive(request) => {
                let run = self.world.start(*request);
                self.next_run += 1;
                self.runs.insert(self.next_run, (self.world.now, run, Vec::new()));
                self.next_run
            }
            Todo::End { run, failed, first_token } => {
                let event = failed.map_or(Event::Succeeded { tokens: None }, Event::Failed);
                let (_, run_state, _) = self.runs.get_mut(&run).unwrap();
                if first_token.is_some() {
                    run_state.step(&mut self.world, Event::Committed { first_token });
                }
                run_state.step(&mut self.world, event);
                run
            }
            Todo::Tick(run) => {
                let (_, run_state, _) = self.runs.get_mut(&run).unwrap();
                run_state.step(&mut self.world, Event::Tick);
                run
            }
        };
        self.obey(place, fate);
    }

    fn obey(&mut self, place: usize, fate: &mut Fate<'_>) {
        let now = self.world.now;
        let (arrived, run, tried) = self.runs.get_mut(&place).unwrap();
        match run.command.clone() {
            Command::Attempt(attempt) => {
                let name = self.world.catalog.targets[attempt.target.0].name.clone();
                let (took, failed) = in_time(fate(&name, now), attempt.limits.first_output);
                tried.push(name.clone());
                self.calls.push((now, name));
                let first_token = Some(took).filter(|_| self.streams && failed.is_none());
                self.plan(now.after(took), Todo::End { run: place, failed, first_token });
            }
            Command::Wait { until } => {
                assert!(until > now, "a wait lies in the future");
                self.plan(until, Todo::Tick(place));
            }
            Command::Stop(stop) => {
                let id = run.controller.request().id;
                let (arrived, tried) = (*arrived, tried.clone());
                self.fared.push(Fared { id, arrived, ended: now, terminal: stop.terminal, tried });
                self.runs.remove(&place);
            }
            Command::Carry => panic!("nothing to carry on with"),
        }
    }

    fn plan(&mut self, at: Instant, todo: Todo) {
        self.sequence += 1;
        self.agenda.insert((at, self.sequence), todo);
    }
}
