//! A seam with holes: the core is the real one, and what goes into it or comes out of it is falsified on the way.

use std::collections::HashMap;

use pointsman_core::controller::{Attempt, Command, Controller, Event};
use pointsman_core::plan::Planner;
use pointsman_core::request::Request;
use pointsman_core::rng::Rng;
use pointsman_core::time::Instant;
use pointsman_world_sim::seam::Seam;

/// One step as a falsifier sees it.
pub(crate) struct Moment<'a> {
    pub(crate) event: Option<Event>,
    pub(crate) now: Instant,
    /// The last attempt that the core began for this request.
    pub(crate) last: Option<&'a Attempt>,
    /// The last attempt that it began for any.
    pub(crate) any: Option<&'a Attempt>,
}

/// See the module.
pub(crate) struct Broken {
    /// Falsifies a request and what it is planned with.
    pub(crate) start: fn(&mut Request, &mut Planner<'_>),
    /// Falsifies an event.
    pub(crate) event: fn(&Request, Event) -> Event,
    /// Answers an event in the core's place.
    pub(crate) instead: fn(&Moment<'_>) -> Option<Command>,
    /// Falsifies a command.
    pub(crate) command: fn(&Moment<'_>, Command) -> Command,
    /// The last attempts that the core began, by request and of all.
    pub(crate) attempts: HashMap<u64, Attempt>,
    pub(crate) any: Option<Attempt>,
}

impl Default for Broken {
    fn default() -> Self {
        Self {
            start: |_, _| {},
            event: |_, event| event,
            instead: |_| None,
            command: |_, command| command,
            attempts: HashMap::new(),
            any: None,
        }
    }
}

impl Broken {
    fn falsify(
        &mut self,
        request: &Request,
        event: Option<Event>,
        now: Instant,
        command: Command,
    ) -> Command {
        if let Command::Attempt(attempt) = &command {
            self.attempts.insert(request.id, attempt.clone());
            self.any = Some(attempt.clone());
        }
        let last = self.attempts.get(&request.id);
        (self.command)(&Moment { event, now, last, any: self.any.as_ref() }, command)
    }
}

impl Seam for Broken {
    fn start(
        &mut self,
        mut request: Request,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> (Controller, Command) {
        (self.start)(&mut request, planner);
        let (controller, command) = Controller::start(request, planner, rng);
        let command = self.falsify(controller.request(), None, planner.now, command);
        (controller, command)
    }

    fn step(
        &mut self,
        controller: &mut Controller,
        event: Event,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> Command {
        let (now, request) = (planner.now, controller.request());
        let last = self.attempts.get(&request.id);
        let moment = Moment { event: Some(event), now, last, any: self.any.as_ref() };
        if let Some(command) = (self.instead)(&moment) {
            return command;
        }
        let event = (self.event)(request, event);
        let command = controller.step(event, planner, rng);
        self.falsify(&controller.request().clone(), Some(event), now, command)
    }
}
