//! Attempts: what the simulated provider makes of a call, and when the controller hears of it.

use pointsman_core::controller::{Attempt, Event, Stop};
use pointsman_core::kind::Terminal;
use pointsman_core::request::Shape;
use pointsman_core::time::Duration;

use super::{Key, Live, Sender, Todo, World};
use crate::checker::{Invariant, Truth, Violation};
use crate::report::Ended;
use crate::seam::Seam;

impl<S: Seam> World<'_, S> {
    pub(super) fn begin(&mut self, key: Key, attempt: &Attempt) {
        let now = self.now;
        let Some(run) = self.runs.get_mut(key.place).and_then(Option::as_mut) else { return };
        let target = attempt.target.0;
        let Some(provider) = self.providers.get_mut(target) else { return };
        let meeting = provider.call(&run.ask, now).meet(&attempt.limits, run.ask.shape);
        run.live = Some(Live { target, begun: now, meeting });
        run.attempts += 1;
        let number = run.attempts;
        if matches!(run.sender, Sender::Client(_))
            && let Some(spec) = self.scenario.targets.get(target)
        {
            self.report.call(&spec.name, attempt.action);
        }
        if let Some(commit) = meeting.commit {
            self.plan(now.after(commit), Todo::Commit { run: key, attempt: number });
        }
        self.plan(now.after(meeting.end), Todo::End { run: key, attempt: number });
    }

    /// Does this for the attempt, if it still is under way.
    pub(super) fn on_attempt(
        &mut self,
        key: Key,
        attempt: u32,
        what: impl FnOnce(&mut Self, Key, Live) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let live = self.run(key).filter(|run| run.attempts == attempt).and_then(|run| run.live);
        live.map_or(Ok(()), |live| what(self, key, live))
    }

    pub(super) fn commit(&mut self, key: Key, live: Live) -> Result<(), Violation> {
        self.progress(key, &live);
        let Some(run) = self.run_mut(key) else { return Ok(()) };
        let first_token = live.meeting.first_token(run.ask.shape);
        self.tell(key, Event::Committed { first_token }, Truth::Committed { first_token }).map(drop)
    }

    pub(super) fn end(&mut self, key: Key, live: Live) -> Result<(), Violation> {
        self.progress(key, &live);
        let Some(shape) = self.run(key).map(|run| run.ask.shape) else { return Ok(()) };
        let Some(failed) = live.meeting.failed else {
            if shape != Shape::Streamed {
                // An answer that is released whole is committed when it is whole.
                let first_token = live.meeting.first_token(shape);
                self.tell(key, Event::Committed { first_token }, Truth::Committed { first_token })?;
            }
            self.over(key, &live, None);
            return self.tell(key, Event::Succeeded { tokens: None }, Truth::Succeeded).map(drop);
        };
        self.over(key, &live, Some(failed.kind.name()));
        let truth = Truth::Failed { failed, executed: live.meeting.executed };
        self.tell(key, Event::Failed(failed), truth).map(drop)
    }

    pub(super) fn leave(&mut self, key: Key) -> Result<(), Violation> {
        let Some(run) = self.run(key) else { return Ok(()) };
        if let Some(live) = run.live {
            self.progress(key, &live);
            self.over(key, &live, Some("left"));
        }
        self.tell(key, Event::ClientGone, Truth::Gone).map(drop)
    }

    /// Notes how far the attempt got, as the server does while it reads.
    fn progress(&mut self, key: Key, live: &Live) {
        let elapsed = self.now.since(live.begun);
        let (phase, status) = live.meeting.phase_at(elapsed);
        if let Some(run) = self.run_mut(key) {
            run.controller.reached(phase, status);
        }
    }

    /// The call is over, for the provider.
    fn over(&mut self, key: Key, live: &Live, failure: Option<&'static str>) {
        let now = self.now;
        if let Some(provider) = self.providers.get_mut(live.target) {
            provider.release(failure.is_none(), now);
        }
        let client = self.run(key).is_some_and(|run| matches!(run.sender, Sender::Client(_)));
        if let Some(spec) = self.scenario.targets.get(live.target).filter(|_| client) {
            self.report.call_ended(&spec.name, failure);
        }
        if let Some(run) = self.run_mut(key) {
            run.live = None;
        }
    }

    /// Whether a target that may serve a request, and was not asked, is well.
    fn might_have_been(&self, run: &super::Run) -> bool {
        let asked = |place| run.controller.attempts().iter().any(|a| a.candidate == place);
        let untried = run.controller.plan().candidates.iter().enumerate().filter(|(place, _)| !asked(*place));
        let mut providers = untried.filter_map(|(_, c)| self.providers.get(c.target.0));
        providers.any(|provider| provider.is_well(self.now))
    }

    pub(super) fn stop(&mut self, key: Key, stop: &Stop) -> Result<(), Violation> {
        let now = self.now;
        let Some(run) = self.runs.get_mut(key.place).and_then(Option::take) else { return Ok(()) };
        self.free.push(key.place);
        match run.sender {
            Sender::Client(client) => {
                let answered_by = run.controller.attempts().last().map_or(now, |a| a.started);
                let missed = stop.terminal == Terminal::Exhausted && self.might_have_been(&run);
                self.report.ended(&Ended {
                    missed,
                    terminal: stop.terminal,
                    cause: stop.cause,
                    own_fault: run.ask.typo || run.ask.refused || run.ask.too_long,
                    first_answered: run.attempts == 1,
                    added: answered_by.since(run.arrived),
                });
                if let Some(pause) = self.clients.pause_of(client) {
                    self.plan(now.after(pause.max(Duration::from_millis(1))), Todo::Arrive { client });
                }
                Ok(())
            }
            Sender::Visitor { target, last } if last && stop.terminal != Terminal::Success => {
                let name = self.scenario.targets.get(target).map_or("?", |t| t.name.as_str());
                let what = format!("{name} is well again and yet a request for it ends as {:?}", stop.cause);
                Err(Violation { invariant: Invariant::NoWedge, at: now, request: run.id, what })
            }
            Sender::Visitor { .. } => Ok(()),
        }
    }
}
