//! Choosing: the first attempt, waiting, and the last resort.

use super::{
    Action, Attempt, AttemptLimits, AttemptRecord, BlockReason, Candidate, Cause, Command, Controller,
    Decision, Duration, Instant, Limit, MicroUsd, Phase, Planner, Rule, Terminal, Then, Vec, Waiting,
};
use alloc::collections::BTreeSet;

use crate::domain::DomainKind;
use crate::fleet::{Availability, Block, Fleet, LaneIndex};
use crate::plan::Exclusion;
use crate::queue::Claim;
use crate::request::Shape;

/// A breaker that is due so soon is waited for; one that is due later is probed early instead.
const WORTH_WAITING_FOR_A_BREAKER: Duration = Duration::from_secs(1);
/// How soon the first in line looks again for room that may come at any moment.
const FIRST_LOOKS_AFTER: Duration = Duration::from_millis(10);
/// Nobody looks again sooner than this.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// How soon everybody does.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// What an answer is taken to be at most where neither the request nor the catalog says so, in tokens.
const UNKNOWN_OUTPUT: u64 = 4_096;

impl Controller {
    /// The first attempt of the plan: the requested model, else a permitted substitution, else waiting, else the last
    /// resort.
    pub(super) fn choose(&mut self, planner: &mut Planner<'_>) -> Command {
        if self.plan.candidates.is_empty() {
            return self.no_candidate(planner);
        }
        if self.remaining(planner.now) < self.request.governance.budget.min_attempt {
            return self.stop(Terminal::Deadline, Rule::TimeSpent, Cause::Deadline, planner);
        }
        if self.request.governance.budget.max_attempts == 0 {
            return self.stop(Terminal::Exhausted, Rule::AttemptsSpent, Cause::Exhausted, planner);
        }
        if !(0..self.plan.candidates.len()).any(|place| self.is_open_to(place, planner)) {
            return self.stop(Terminal::Exhausted, Rule::CostSpent, Cause::CostSpent, planner);
        }
        let claimed = self.claimed(planner);
        let mine = |c: &Candidate| c.choice == 0 && !claimed.contains(&c.lane);
        if let Some(command) = self.try_in_order(mine, Rule::Plan, planner) {
            return command;
        }
        if self
            .candidates_on(&claimed)
            .any(|place| self.is_open_to(place, planner) && self.is_ready(place, planner))
            && let Some(command) = self.wait_for_turn(planner)
        {
            return command;
        }
        if let Some(until) = self.wait_for_own_model(planner) {
            return self.wait(until, false, planner);
        }
        if self.request.may_substitute()
            && let Some(command) = self.try_in_order(|c| c.choice > 0, Rule::Fallback, planner)
        {
            return command;
        }
        self.wait_or_last_resort(&claimed, planner)
    }

    /// The lanes that earlier waiters are due to take.
    fn claimed(&self, planner: &Planner<'_>) -> BTreeSet<LaneIndex> {
        let Some(choice) = self.request.models.first() else { return BTreeSet::new() };
        if planner.fleet.queue.waiting(&choice.model) == 0 {
            return BTreeSet::new();
        }
        let wanted = self.plan.candidates.iter().filter(|c| c.choice == 0).map(|c| c.lane).collect();
        planner.fleet.queue.claimed(&choice.model, self.request.id, &wanted, planner.now)
    }

    /// The candidates of the requested model on these lanes.
    fn candidates_on(&self, lanes: &BTreeSet<LaneIndex>) -> impl Iterator<Item = usize> {
        let all = self.plan.candidates.iter().enumerate();
        all.filter(|(_, c)| c.choice == 0 && lanes.contains(&c.lane)).map(|(place, _)| place)
    }

    /// There is room, but those who came earlier are due to take it. `None` where a wait is not possible or comes to
    /// nothing.
    fn wait_for_turn(&mut self, planner: &mut Planner<'_>) -> Option<Command> {
        let since = *self.waiting_since.get_or_insert(planner.now);
        let until = self.look_again(planner);
        // After a wait that leaves no time for an attempt nothing could begin.
        let fits = self.fits(until, since.after(planner.fleet.policy.queue.max_wait));
        (fits && self.has_place(planner)).then(|| self.wait(until, true, planner))
    }

    /// Whether it waits already, or may.
    fn has_place(&self, planner: &Planner<'_>) -> bool {
        let Fleet { queue, policy, .. } = &*planner.fleet;
        let model = self.request.models.first().map_or("", |m| m.model.as_str());
        queue.has_place(model, self.request.id, &policy.queue)
    }

    /// When to look again for room that may come at any moment: the first in line soon, those behind it later.
    fn look_again(&self, planner: &Planner<'_>) -> Instant {
        let model = self.request.models.first().map_or("", |m| m.model.as_str());
        let ahead = u32::try_from(planner.fleet.queue.ahead_of(model, self.request.id)).unwrap_or(u32::MAX);
        planner.now.after(FIRST_LOOKS_AFTER.saturating_mul(ahead.saturating_add(1)).min(LOOK_AGAIN))
    }

    /// Begins an attempt on the first candidate that is wanted, permitted, affordable and takes a call.
    pub(super) fn try_in_order(
        &mut self,
        wanted: impl Fn(&Candidate) -> bool,
        rule: Rule,
        planner: &mut Planner<'_>,
    ) -> Option<Command> {
        for place in 0..self.plan.candidates.len() {
            if !self.plan.candidates.get(place).is_some_and(&wanted) || !self.is_open_to(place, planner) {
                continue;
            }
            match self.attempt(place, rule, false, planner) {
                Ok(command) => return Some(command),
                Err(block) => self.trace.note(planner.now, Decision::Skipped { candidate: place, block }),
            }
        }
        None
    }

    /// Begins an attempt, if the candidate's lane takes a call.
    pub(super) fn attempt(
        &mut self,
        place: usize,
        rule: Rule,
        last_resort: bool,
        planner: &mut Planner<'_>,
    ) -> Result<Command, Block> {
        let Some(candidate) = self.plan.candidates.get(place).cloned() else {
            return Err(Block { why: BlockReason::Killed, domain: None, until: None });
        };
        let call = candidate.call(&self.request, last_resort);
        let ticket = planner.fleet.begin(&call, planner.now)?;
        self.leave_queue(planner);
        // What is usual says nothing of a request that reasons.
        let reasons = candidate.reasons || self.request.needs.reasoning;
        let hurry = planner.fleet.hurry(&ticket, self.request.shape).filter(|_| !reasons);
        self.live = Some(ticket);
        let action = self.action_of(&candidate, place);
        self.trace.note(planner.now, Decision::Attempt { candidate: place, action, rule });
        self.attempts.push(AttemptRecord {
            candidate: place,
            action,
            started: planner.now,
            ended: None,
            phase: Phase::NotSent,
            outcome: None,
            kind: None,
            status: None,
            cost: self.cost_of(&candidate),
        });
        let limits = self.limits_for(place, &candidate, hurry, planner);
        Ok(Command::Attempt(Attempt {
            number: self.attempts.len(),
            candidate: place,
            target: candidate.target,
            upstream_model: candidate.upstream_model,
            choice: candidate.choice,
            action,
            limits,
        }))
    }

    fn action_of(&self, candidate: &Candidate, place: usize) -> Action {
        match self.attempts.last() {
            None if candidate.choice == 0 => Action::Primary,
            None => Action::Fallback,
            Some(last) if last.candidate == place => Action::Retry,
            Some(last) => {
                let same_model =
                    self.plan.candidates.get(last.candidate).is_some_and(|c| c.choice == candidate.choice);
                if same_model { Action::Failover } else { Action::Fallback }
            }
        }
    }

    /// Whether a candidate that was not tried yet is permitted and affordable; its health is another question.
    pub(super) fn is_open_to(&self, place: usize, planner: &Planner<'_>) -> bool {
        let Some(candidate) = self.plan.candidates.get(place) else { return false };
        let tried = self.attempts.iter().any(|a| a.candidate == place);
        !tried && self.keeps_constraints(place, planner) && self.is_affordable(candidate)
    }

    pub(super) fn is_ready(&self, place: usize, planner: &Planner<'_>) -> bool {
        let Some(candidate) = self.plan.candidates.get(place) else { return false };
        let call = candidate.call(&self.request, false);
        matches!(planner.fleet.availability(&call, planner.now), Availability::Ready { .. })
    }

    /// Why each candidate takes no call now.
    pub(super) fn blocks(&self, planner: &Planner<'_>) -> Vec<(usize, Block)> {
        let blocked = self.plan.candidates.iter().enumerate().filter_map(|(place, candidate)| match planner
            .fleet
            .availability(&candidate.call(&self.request, false), planner.now)
        {
            Availability::Blocked(block) => Some((place, block)),
            Availability::Ready { .. } => None,
        });
        blocked.collect()
    }

    pub(super) fn remaining(&self, now: Instant) -> Duration {
        self.deadline.since(now)
    }

    /// What one attempt may cost at most, by estimate.
    pub(super) fn cost_of(&self, candidate: &Candidate) -> Option<MicroUsd> {
        let price = candidate.price?;
        let needs = &self.request.needs;
        let output = needs.max_output.or(candidate.max_output).unwrap_or(UNKNOWN_OUTPUT);
        let input = u128::from(needs.prompt_tokens) * u128::from(price.input);
        let cost = input.saturating_add(u128::from(output) * u128::from(price.output));
        Some(MicroUsd(u64::try_from(cost.div_ceil(1_000_000)).unwrap_or(u64::MAX)))
    }

    pub(super) fn is_affordable(&self, candidate: &Candidate) -> bool {
        let Some(max) = self.request.governance.budget.max_cost else { return true };
        let Some(own) = self.cost_of(candidate) else { return false };
        let spent = self.attempts.iter().filter(|a| !a.kind.is_some_and(|k| k.is_rejection()));
        let spent = spent.filter_map(|a| a.cost).fold(MicroUsd(0), MicroUsd::plus);
        spent.plus(own) <= max
    }

    /// `hurry` shortens the time to first output where others could go nowhere else meanwhile.
    fn limits_for(
        &self,
        place: usize,
        candidate: &Candidate,
        hurry: Option<Duration>,
        planner: &Planner<'_>,
    ) -> AttemptLimits {
        let budget = &self.request.governance.budget;
        let times = planner.catalog.target(candidate.target).map(|t| budget.limits.with(&t.times));
        let times = times.unwrap_or_else(|| budget.limits.clone());
        let remaining = self.remaining(planner.now);
        let others = (0..self.plan.candidates.len()).any(|p| {
            p != place
                && self.may_follow(p, candidate.choice)
                && self.is_open_to(p, planner)
                && self.is_ready(p, planner)
        });
        let reserve = if others { budget.reserve_for_fallback.span(budget.deadline) } else { Duration::ZERO };
        let available = remaining.saturating_sub(reserve).max(budget.min_attempt).min(remaining);
        let until_output = hurry.filter(|_| !others).map_or(available, |hurry| hurry.min(available));
        let cut = |limit: Duration| Limit { within: limit.min(until_output), own: limit <= until_output };
        let reasons = candidate.reasons || self.request.needs.reasoning;
        let first_token = if reasons { times.first_token_reasoning } else { times.first_token };
        let streams = self.request.shape != Shape::Plain;
        AttemptLimits {
            connect: cut(times.connect),
            headers: times.headers.map(cut).filter(|_| streams),
            first_output: cut(if streams { first_token } else { times.response }),
            whole: Limit { within: available, own: false },
            idle: times.idle,
            write: times.write,
            stream: budget.stream,
        }
    }

    /// `substitution.wait`: how long to wait for the requested model before another may answer.
    fn wait_for_own_model(&self, planner: &Planner<'_>) -> Option<Instant> {
        let patience = self.request.governance.substitution.wait;
        let until = self.started.after(patience);
        // Whoever finds no place to wait is not turned away while another model may answer.
        if patience.is_zero() || planner.now >= until || !self.has_place(planner) {
            return None;
        }
        let own = |place: &usize| self.plan.candidates.get(*place).is_some_and(|c| c.choice == 0);
        let soonest =
            self.blocks(planner).iter().filter(|(p, _)| own(p)).filter_map(|(_, b)| b.until).min()?;
        (soonest <= until && self.leaves_time(soonest)).then_some(soonest)
    }

    fn fits(&self, at: Instant, patience_ends: Instant) -> bool {
        at <= patience_ends && self.leaves_time(at)
    }

    fn leaves_time(&self, at: Instant) -> bool {
        at.after(self.request.governance.budget.min_attempt) <= self.deadline
    }

    fn wait_or_last_resort(&mut self, claimed: &BTreeSet<LaneIndex>, planner: &mut Planner<'_>) -> Command {
        let now = planner.now;
        let since = *self.waiting_since.get_or_insert(now);
        let patience_ends = since.after(planner.fleet.policy.queue.max_wait);
        let blocks: Vec<(usize, Block)> =
            self.blocks(planner).into_iter().filter(|(p, _)| self.is_open_to(*p, planner)).collect();
        let dated = blocks.iter().filter_map(|(_, b)| Some((b.until?, b.why)));
        let soonest = dated.min_by_key(|(until, _)| *until);
        if let Some((until, why)) = soonest.filter(|(until, _)| self.fits(*until, patience_ends)) {
            let breaker = matches!(why, BlockReason::Open | BlockReason::Cooldown);
            if !breaker || until.since(now) <= WORTH_WAITING_FOR_A_BREAKER {
                let keen = why.is_momentary();
                let until = if keen { self.look_again(planner) } else { until };
                return self.wait(until, keen, planner);
            }
        }
        if let Some(command) = self.last_resort(&blocks, claimed, planner) {
            return command;
        }
        if self
            .candidates_on(claimed)
            .any(|place| self.is_open_to(place, planner) && self.may_probe(place, planner))
        {
            return match self.wait_for_turn(planner) {
                Some(command) => command,
                None => self.stop(Terminal::Exhausted, Rule::AllBlocked, Cause::QueueFull, planner),
            };
        }
        let rounds = blocks.iter().filter_map(|(place, _)| self.next_probe(*place, planner));
        let next = rounds.min().into_iter().chain(soonest.map(|(until, _)| until)).min();
        if let Some(until) = next.filter(|at| self.fits(*at, patience_ends)) {
            return self.wait(until, false, planner);
        }
        let limits = !blocks.is_empty() && blocks.iter().all(|(_, b)| b.why.is_limit());
        let cause = if limits { Cause::NothingHasRoom } else { Cause::NothingHealthy };
        self.stop(Terminal::Exhausted, Rule::AllBlocked, cause, planner)
    }

    /// Whether only requests of its kind (with tools, say) have no room there: such a request claims nothing, or it would
    /// keep all others from a target that serves them.
    fn waits_for_capability(&self, candidate: &Candidate, planner: &Planner<'_>) -> bool {
        let call = candidate.call(&self.request, false);
        let Availability::Blocked(block) = planner.fleet.availability(&call, planner.now) else {
            return false;
        };
        let domain = block.domain.and_then(|index| planner.fleet.domain(index));
        domain.is_some_and(|d| d.kind == DomainKind::Capability)
    }

    /// When the last resort may lead to this candidate, if not now: with the next early round, or when those who probe it
    /// now come back, which may be at any moment.
    fn next_probe(&self, place: usize, planner: &Planner<'_>) -> Option<Instant> {
        let call = self.plan.candidates.get(place)?.call(&self.request, true);
        let round = planner.fleet.next_early_round(&call, planner.now).filter(|at| *at > planner.now);
        round.or_else(|| match planner.fleet.availability(&call, planner.now) {
            Availability::Blocked(block) if block.why == BlockReason::HalfOpenFull => block.until,
            _ => None,
        })
    }

    /// Whether the last resort would lead to this candidate now.
    fn may_probe(&self, place: usize, planner: &Planner<'_>) -> bool {
        let Some(candidate) = self.plan.candidates.get(place) else { return false };
        let call = candidate.call(&self.request, true);
        let round = planner.fleet.next_early_round(&call, planner.now).is_some_and(|at| at <= planner.now);
        round || matches!(planner.fleet.availability(&call, planner.now), Availability::Ready { .. })
    }

    /// Candidates that an open breaker or a cooldown stops, soonest to recover first.
    fn last_resort(
        &mut self,
        blocks: &[(usize, Block)],
        claimed: &BTreeSet<LaneIndex>,
        planner: &mut Planner<'_>,
    ) -> Option<Command> {
        let free = |place: usize| self.plan.candidates.get(place).is_some_and(|c| !claimed.contains(&c.lane));
        let mut left: Vec<(usize, Option<Instant>)> = blocks
            .iter()
            .filter(|(place, _)| free(*place))
            .filter(|(_, b)| {
                matches!(b.why, BlockReason::Open | BlockReason::Cooldown | BlockReason::HalfOpenFull)
            })
            .map(|(place, b)| (*place, b.until))
            .collect();
        left.sort_by_key(|(_, until)| *until);
        left.into_iter().find_map(|(place, _)| self.attempt(place, Rule::LastResort, true, planner).ok())
    }

    fn wait(&mut self, until: Instant, keen: bool, planner: &mut Planner<'_>) -> Command {
        self.waiting_since.get_or_insert(planner.now);
        // A wait that is over already would be one without end.
        let until = until.max(planner.now.after(SHORTEST_WAIT));
        let Some(choice) = self.request.models.first() else { return Command::Carry };
        let policy = planner.fleet.policy.queue.clone();
        let mut lanes = Vec::new();
        for candidate in self.plan.candidates.iter().filter(|c| c.choice == 0) {
            if !self.waits_for_capability(candidate, planner) {
                lanes.push(candidate.lane);
            }
        }
        let claim = Claim { until, keen, lanes };
        if !planner.fleet.queue.wait(&choice.model, self.request.id, claim, &policy) {
            return self.stop(Terminal::Exhausted, Rule::AllBlocked, Cause::QueueFull, planner);
        }
        self.waiting = Some(Waiting { then: Then::Plan, until, queued: true });
        self.trace.note(planner.now, Decision::Wait { until, rule: Rule::Wait });
        Command::Wait { until }
    }

    fn no_candidate(&mut self, planner: &mut Planner<'_>) -> Command {
        let all = |which: fn(&Exclusion) -> bool| {
            let mut own = self.plan.excluded.iter().filter(|e| !e.why.is_substitution()).peekable();
            own.peek().is_some() && own.all(|e| which(&e.why))
        };
        let cause = if all(Exclusion::is_compliance) {
            Cause::NoCompliantTarget
        } else if all(|why| *why == Exclusion::CallerKeyMissing) {
            Cause::CallerKeyMissing
        } else {
            Cause::NoCapableTarget
        };
        self.stop(Terminal::Rejected, Rule::NothingLeft, cause, planner)
    }
}
