//! What one request may do: bounded, in time, one voice, no second side effect, no silent substitution, an honest end.

use pointsman_core::controller::{Attempt, Command, Stop};
use pointsman_core::fleet::Availability;
use pointsman_core::kind::{Action, FailureKind, Onward, Outcome, Terminal};
use pointsman_core::policy::OnPolicy;
use pointsman_core::request::Reroute;
use pointsman_core::time::{Duration, Instant};

use super::watch::Tried;
use super::{Checked, Checker, Invariant, Step, Truth, Watch, broken};

/// What a rounding of time may cost.
const ROUNDING: Duration = Duration::from_millis(2);

impl Checker {
    pub(super) fn check_command(&self, watch: &Watch, step: &Step<'_>) -> Checked {
        match step.command {
            Command::Attempt(attempt) => self.check_attempt(watch, attempt, step.now),
            Command::Carry if watch.live.is_some() => Ok(()),
            Command::Carry => broken(Invariant::HonestEnd, "nothing is being done, and it is to go on"),
            Command::Stop(stop) => self.check_stop(watch, stop, step),
            Command::Wait { until } => self.check_wait(watch, *until, step),
        }
    }

    fn check_attempt(&self, watch: &Watch, attempt: &Attempt, now: Instant) -> Checked {
        if watch.gone {
            return broken(Invariant::InTime, "an attempt after the client has gone");
        }
        if watch.committed {
            return broken(Invariant::OneVoice, "an attempt after output went to the client");
        }
        if watch.live.is_some() {
            return broken(Invariant::OneVoice, "an attempt while another one is under way");
        }
        if !watch.facts.replay_safe && watch.tried.iter().any(|t| t.executed) {
            return broken(Invariant::NoSecondSideEffect, "it may have been executed, and is sent again");
        }
        if now.after(self.governance.budget.min_attempt) > watch.facts.deadline {
            let what = format!("an attempt at {now}, too late for the deadline {}", watch.facts.deadline);
            return broken(Invariant::InTime, what);
        }
        self.check_bounds(watch, attempt)?;
        self.check_model(watch, attempt)?;
        self.check_sense(watch, attempt)
    }

    fn check_bounds(&self, watch: &Watch, attempt: &Attempt) -> Checked {
        let budget = &self.governance.budget;
        let rejections = rejections(watch);
        let executed = watch.tried.len().saturating_sub(rejections);
        let same = watch.tried.iter().filter(|t| t.target == attempt.target.0).count();
        let over = |made: usize, most: u32| made >= most as usize;
        if over(executed, budget.max_attempts)
            || over(rejections, budget.max_rejections)
            || over(same, budget.max_same_target_attempts)
        {
            let what =
                format!("{executed} attempts, {rejections} rejections, {same} on this target, and one more");
            return broken(Invariant::Bounded, what);
        }
        Ok(())
    }

    fn check_model(&self, watch: &Watch, attempt: &Attempt) -> Checked {
        let wrong = |what: String| broken(Invariant::NoSilentSubstitution, what);
        let wanted = self.choices.get(watch.facts.choice).and_then(|c| c.get(attempt.choice));
        let target = self.catalog.target(attempt.target);
        let served = target.and_then(|t| t.model.as_ref());
        if wanted.is_none() || wanted != served {
            return wrong(format!("{wanted:?} was to be asked, and {served:?} answers"));
        }
        if attempt.choice > 0
            && !(self.governance.substitution.allowed && watch.facts.reroute == Reroute::Fallback)
        {
            return wrong("another model, though substitution is not allowed".into());
        }
        if watch.facts.only.is_some_and(|only| only != attempt.target.0) {
            return wrong("a target that the caller excluded".into());
        }
        let tools = served.and_then(|m| self.catalog.models.get(m)).and_then(|m| m.tools);
        if watch.facts.tools && tools == Some(false) {
            return wrong("a request with tools goes to a model that has none".into());
        }
        let honest = match watch.last() {
            None if attempt.choice == 0 => Action::Primary,
            None => Action::Fallback,
            Some(last) if last.target == attempt.target.0 => Action::Retry,
            Some(last) if last.choice == attempt.choice => Action::Failover,
            Some(_) => Action::Fallback,
        };
        if attempt.action != honest {
            return wrong(format!("what is called {} is a {}", attempt.action.name(), honest.name()));
        }
        if watch.tried.iter().any(|t| t.choice > attempt.choice) {
            return wrong("back to a model that was left".into());
        }
        Ok(())
    }

    /// The failure matrix: which attempt may follow which failure.
    fn check_sense(&self, watch: &Watch, attempt: &Attempt) -> Checked {
        let hopeless = |what: &str| broken(Invariant::NoHopelessAttempt, what);
        let Some(last) = watch.last() else { return Ok(()) };
        if watch.facts.reroute == Reroute::None {
            return hopeless("the request is bound to its target");
        }
        if attempt.action == Action::Retry {
            if watch.facts.sdk_retry {
                return hopeless("a retry, though the client's SDK retries by itself");
            }
            if last.kind.is_some_and(|kind| !kind.permits_retry()) {
                return hopeless("a retry after a failure that permits none");
            }
        } else if watch.tried.iter().any(|t| t.target == attempt.target.0) {
            return hopeless("back to a target that was left");
        }
        let excluded = watch.tried.iter().find(|tried| self.excludes(watch, tried, attempt));
        match excluded.and_then(|t| t.kind) {
            Some(kind) => hopeless(&format!("the same again after {kind}")),
            None => Ok(()),
        }
    }

    /// Whether what an earlier attempt met rules this one out.
    fn excludes(&self, watch: &Watch, tried: &Tried, attempt: &Attempt) -> bool {
        let Some(kind) = tried.kind else { return false };
        if kind == FailureKind::Policy {
            let lifted = self.governance.substitution.on_policy == OnPolicy::Fallback;
            return !lifted || tried.choice == attempt.choice;
        }
        let next = self.catalog.target(attempt.target);
        let window = |choice: usize| {
            let model = self.choices.get(watch.facts.choice).and_then(|c| c.get(choice));
            model.and_then(|m| self.catalog.models.get(m)).and_then(|m| m.context_window)
        };
        match kind.failover() {
            Onward::Any => false,
            Onward::No => true,
            Onward::OtherAccount => next.is_some_and(|t| t.account == tried.account),
            // Each target of the world has a provider of its own.
            Onward::OtherProvider => tried.target == attempt.target.0,
            Onward::LargerWindow => window(attempt.choice) <= window(tried.choice),
        }
    }

    fn check_wait(&self, watch: &Watch, until: Instant, step: &Step<'_>) -> Checked {
        if watch.gone || watch.committed || watch.live.is_some() {
            return broken(Invariant::OneVoice, "a wait where nothing is to be waited for");
        }
        if until <= step.now {
            return broken(Invariant::QueueBounded, "a wait that is over already: it would have no end");
        }
        if until.after(self.governance.budget.min_attempt) > watch.facts.deadline.after(ROUNDING) {
            return broken(Invariant::InTime, format!("a wait until {until}, too late for an attempt"));
        }
        if watch.tried.is_empty() {
            let own = watch.facts.arrived.after(self.governance.substitution.wait);
            let since = watch.waiting_since.unwrap_or(step.now);
            let queue = since.after(self.process.queue.max_wait);
            if until > own.max(queue).after(ROUNDING) {
                return broken(Invariant::QueueBounded, format!("a wait until {until}, since {since}"));
            }
        } else if until.since(step.now) > self.governance.retry.max.max(Duration::from_millis(1)) {
            return broken(Invariant::NoNeedlessSleep, format!("a backoff until {until}"));
        }
        self.check_sleep(watch, step)
    }

    /// Nobody sleeps while a healthy equivalent that was not tried has room.
    fn check_sleep(&self, watch: &Watch, step: &Step<'_>) -> Checked {
        let others_wait = step.fleet.queue.iter().map(|(_, n)| n).sum::<usize>() > 1;
        if watch.tried.is_empty() && others_wait {
            // What room there is may be that of those who came earlier.
            return Ok(());
        }
        let choice = watch.last().map_or(0, |t| t.choice);
        let request = step.controller.request();
        for candidate in &step.controller.plan().candidates {
            let equivalent = candidate.choice == choice
                && !watch.tried.iter().any(|t| t.target == candidate.target.0)
                && !watch.tried.iter().any(|t| self.rules_out(t, candidate.target.0));
            let call = candidate.call(request, false);
            if equivalent && matches!(step.fleet.availability(&call, step.now), Availability::Ready { .. }) {
                let what = format!("it sleeps, and target {} has room", candidate.target.0);
                return broken(Invariant::NoNeedlessSleep, what);
            }
        }
        Ok(())
    }

    /// Nobody gives up while a candidate that may follow has room, and attempts and time are left.
    fn check_surrender(&self, watch: &Watch, step: &Step<'_>) -> Checked {
        let budget = &self.governance.budget;
        let rejections = rejections(watch);
        let spent = watch.tried.len().saturating_sub(rejections) >= budget.max_attempts as usize
            || rejections >= budget.max_rejections as usize
            || step.now.after(budget.min_attempt) > watch.facts.deadline;
        if spent || step.fleet.queue.iter().next().is_some() {
            return Ok(());
        }
        let request = step.controller.request();
        for candidate in &step.controller.plan().candidates {
            let call = candidate.call(request, false);
            if self.may_follow(watch, candidate.target.0, candidate.choice)
                && matches!(step.fleet.availability(&call, step.now), Availability::Ready { .. })
            {
                let what = format!("it gives up, and target {} has room", candidate.target.0);
                return broken(Invariant::NoEarlySurrender, what);
            }
        }
        Ok(())
    }

    /// Whether a target that was not tried may be asked next.
    fn may_follow(&self, watch: &Watch, target: usize, choice: usize) -> bool {
        let untried = !watch.tried.iter().any(|t| t.target == target || self.rules_out(t, target));
        let in_reach = match (watch.last(), watch.facts.reroute) {
            (None, Reroute::Fallback) => true,
            (None, _) => choice == 0,
            (Some(_), Reroute::None) => false,
            (Some(last), Reroute::Failover) => choice == last.choice,
            (Some(last), Reroute::Fallback) => choice >= last.choice,
        };
        untried && in_reach
    }

    fn rules_out(&self, tried: &Tried, target: usize) -> bool {
        let Some(kind) = tried.kind else { return false };
        let account = self.catalog.targets.get(target).map(|t| &t.account);
        match kind.failover() {
            Onward::Any | Onward::OtherProvider => false,
            Onward::OtherAccount => account == Some(&tried.account),
            Onward::LargerWindow | Onward::No => true,
        }
    }

    fn check_stop(&self, watch: &Watch, stop: &Stop, step: &Step<'_>) -> Checked {
        if watch.live.is_some() {
            return broken(Invariant::Accounted, "a stop while an attempt is under way");
        }
        check_records(watch, step)?;
        let lacks_time = step.now.after(self.governance.budget.min_attempt) > watch.facts.deadline;
        let own_fault = watch.tried.iter().any(|t| t.kind.is_some_and(FailureKind::is_requests_own));
        let unclear = watch.tried.iter().any(|t| t.executed);
        let failed_after_commit = watch.committed && !matches!(step.truth, Truth::Succeeded | Truth::Gone);
        let honest = match stop.terminal {
            Terminal::Success => step.truth == Truth::Succeeded,
            Terminal::Cancelled => watch.gone,
            Terminal::Partial => failed_after_commit,
            Terminal::ReconciliationRequired => !watch.facts.replay_safe && unclear,
            Terminal::Deadline => lacks_time,
            Terminal::PolicyStop => watch.tried.iter().any(|t| t.kind == Some(FailureKind::Policy)),
            Terminal::Rejected => own_fault || watch.tried.is_empty(),
            Terminal::Exhausted => true,
        };
        let hides = (step.truth == Truth::Succeeded && stop.terminal != Terminal::Success)
            || (watch.gone && stop.terminal != Terminal::Cancelled)
            || (failed_after_commit && stop.terminal != Terminal::Partial);
        if !honest || hides {
            return broken(Invariant::HonestEnd, format!("{} after {:?}", stop.terminal.name(), step.truth));
        }
        if stop.terminal == Terminal::Exhausted {
            self.check_surrender(watch, step)?;
        }
        let late = !watch.committed && step.now > watch.facts.deadline.after(ROUNDING);
        if late {
            return broken(Invariant::InTime, format!("no output until {}", step.now));
        }
        Ok(())
    }
}

fn rejections(watch: &Watch) -> usize {
    watch.tried.iter().filter(|t| t.kind.is_some_and(FailureKind::is_rejection)).count()
}

/// The records of the attempts: as many as there were, each ended, and what may have been executed is never written down
/// as failed where that matters.
fn check_records(watch: &Watch, step: &Step<'_>) -> Checked {
    let records = step.controller.attempts();
    if records.len() != watch.tried.len() {
        let what = format!("{} attempts were made and {} recorded", watch.tried.len(), records.len());
        return broken(Invariant::Accounted, what);
    }
    for (record, tried) in records.iter().zip(&watch.tried) {
        let Some(outcome) = record.outcome.filter(|_| record.ended.is_some()) else {
            return broken(Invariant::Accounted, "an attempt without an end");
        };
        let unknown = !watch.facts.replay_safe && tried.executed && tried.kind.is_some();
        if unknown && outcome != Outcome::Unknown {
            return broken(Invariant::Accounted, format!("{:?} is written down as {outcome:?}", tried.kind));
        }
    }
    Ok(())
}
