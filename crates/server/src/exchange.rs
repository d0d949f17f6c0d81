//! One request on its way: the controller, and what I/O and classification have to say to it.
//!
//! It gives everything back when it is dropped: the ticket in the fleet, the place in flight, the claim on memory; and
//! it leaves exactly one record in the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pointsman_core::controller::{Command, Controller, Event, Failed, Stop};
use pointsman_core::kind::Phase;
use pointsman_core::plan::Planner;
use pointsman_core::request::Request;
use pointsman_core::time::Instant;
use pointsman_wire::chat::Usage;
use pointsman_wire::dialect::{Dialect, StreamTap};
use pointsman_wire::envelope::Envelope;
use pointsman_wire::error::{UpstreamError, mask_credentials};
use secrecy::SecretString;

use crate::answer::Provenance;
use crate::app::App;
use crate::auth::Caller;
use crate::clock::Entropy;
use crate::formed::Wanted;
use crate::limits::{Claim, InFlight};
use crate::record;
use crate::run::Worker;
use crate::snapshot::Snapshot;
use crate::translation::Translation;

mod told;

/// What a client sent, and what is known of it before anything is decided.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) id: String,
    pub(crate) correlation_id: Option<String>,
    pub(crate) caller: Caller,
    pub(crate) caller_keys: BTreeMap<String, SecretString>,
    pub(crate) route: Option<String>,
    pub(crate) envelope: Envelope,
    /// The form that an answer must have before its release.
    pub(crate) wanted: Option<Wanted>,
    /// The client's own bytes: never changed, rendered afresh for each attempt.
    pub(crate) body: Bytes,
    pub(crate) headers: http::HeaderMap,
    pub(crate) accepted: Instant,
    pub(crate) at_unix_ms: i64,
    pub(crate) _in_flight: InFlight,
    pub(crate) claim: Claim,
}

/// What I/O and classification learned of one attempt, beside what the controller keeps.
#[derive(Debug, Default)]
pub(crate) struct AttemptNote {
    pub(crate) error: Option<Box<UpstreamError>>,
    /// What the provider said of its rate limits when it refused, as a client may see it.
    pub(crate) limits: http::HeaderMap,
    /// When the provider said to come back.
    pub(crate) retry_after: Option<std::time::Duration>,
    /// The classification's rule, or what the transport met.
    pub(crate) detail: Option<String>,
    pub(crate) upstream_request_id: Option<String>,
    /// The call was repeated on a fresh connection, see the transport.
    pub(crate) stale_replaced: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) app: Arc<App>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) inbound: Inbound,
    pub(crate) controller: Controller,
    pub(crate) notes: Vec<AttemptNote>,
    pub(crate) usage: Option<Usage>,
    /// What the answer took by estimate, in case that its provider tells no usage.
    pub(crate) guess: Option<Usage>,
    pub(crate) model_mismatch: Option<String>,
    /// How the answer of the present attempt is translated, if its target speaks another dialect than the client.
    pub(crate) translation: Option<Translation>,
    /// What the present attempt's request lost in translation, in words.
    pub(crate) losses: Option<String>,
    pub(crate) malformed: u64,
    pub(crate) first_token: Option<Instant>,
    pub(crate) early: bool,
    /// Nobody could be asked, and the gateway's own estimate is the answer.
    pub(crate) estimated: bool,
    /// The status that the client got.
    pub(crate) status: u16,
    entropy: Entropy,
    recorded: bool,
}

impl Exchange {
    /// Plans a request and takes the first decision.
    pub(crate) fn start(
        app: &Arc<App>,
        worker: &Arc<Worker>,
        snapshot: &Arc<Snapshot>,
        inbound: Inbound,
        request: Request,
    ) -> (Box<Self>, Command) {
        let mut entropy = Entropy::new();
        let now = app.clock.now();
        let (controller, command) = app.with_fleet(|fleet| {
            let (catalog, bindings) = (&snapshot.config.catalog, &snapshot.bindings);
            Controller::start(request, &mut Planner { now, catalog, bindings, fleet }, &mut entropy)
        });
        // Boxed: it is large, and passed on from step to step.
        let exchange = Box::new(Self {
            app: Arc::clone(app),
            worker: Arc::clone(worker),
            snapshot: Arc::clone(snapshot),
            inbound,
            controller,
            notes: Vec::new(),
            usage: None,
            guess: None,
            model_mismatch: None,
            translation: None,
            losses: None,
            malformed: 0,
            first_token: None,
            early: false,
            estimated: false,
            status: 200,
            entropy,
            recorded: false,
        });
        (exchange, command)
    }

    /// Tells the controller what happened and takes its answer.
    pub(crate) fn tell(&mut self, event: Event) -> Command {
        let now = self.app.clock.now();
        let Self { app, snapshot, controller, entropy, .. } = self;
        app.with_fleet(|fleet| {
            let (catalog, bindings) = (&snapshot.config.catalog, &snapshot.bindings);
            controller.step(event, &mut Planner { now, catalog, bindings, fleet }, entropy)
        })
    }

    /// The first meaningful output is about to go to the client; `after` the start of the attempt where it is a stream.
    pub(crate) fn commit(&mut self, after: Option<std::time::Duration>) {
        self.first_token.get_or_insert_with(|| self.app.clock.now());
        // No other attempt will need it: a stream may live for an hour, and its request's memory is for others.
        let body = std::mem::take(&mut self.inbound.body);
        self.inbound.claim.shrink_by(body.len());
        self.tell(Event::Committed { first_token: after });
    }

    /// What a stream told of its usage; where that is nothing, what it took by estimate: a quarter of the output's bytes.
    pub(crate) fn note_usage(&mut self, tap: &StreamTap) {
        self.usage = tap.usage().copied().or(self.usage);
        if self.usage.is_none() && self.inbound.envelope.endpoint().generates() {
            self.guess = Some(Usage {
                input_tokens: self.inbound.envelope.estimated_prompt_tokens(),
                output_tokens: tap.output_chars().div_ceil(4),
                ..Usage::default()
            });
        }
    }

    /// The answer is complete.
    pub(crate) fn succeed(&mut self) {
        let tokens = self.usage.map(|u| u.input_tokens.saturating_add(u.output_tokens));
        self.tell(Event::Succeeded { tokens });
    }

    /// The attempt failed.
    pub(crate) fn fail(&mut self, failure: AttemptFailure) -> Command {
        if let Some(note) = self.notes.last_mut() {
            note.error = failure.error;
            note.retry_after = failure.failed.retry_after;
            note.detail = Some(failure.detail);
        }
        self.tell(Event::Failed(failure.failed))
    }

    /// Nobody waits for the answer any more. A call that was under way may have arrived: whether the provider executed it
    /// is not known.
    pub(crate) fn abandon(&mut self) -> Command {
        self.reached(Phase::Sent, None);
        self.tell(Event::ClientGone)
    }

    pub(crate) fn reached(&mut self, phase: Phase, status: Option<u16>) {
        self.controller.reached(phase, status);
    }

    /// How it ended; until then, what would be the case if it ended now.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.controller.ended()
    }

    /// The name of the target of an attempt.
    pub(crate) fn target_of(&self, candidate: usize) -> &str {
        self.controller.candidate(candidate).map_or("", |c| self.snapshot.target_name(c.target))
    }

    /// The logical model of an attempt.
    pub(crate) fn model_of(&self, candidate: usize) -> &str {
        let choice = self.controller.candidate(candidate).map_or(0, |c| c.choice);
        self.controller.request().models.get(choice).map_or("", |m| m.model.as_str())
    }

    /// The dialect of the present attempt's answer.
    pub(crate) fn spoken(&self) -> Dialect {
        self.translation.as_ref().map_or_else(|| self.inbound.envelope.dialect(), Translation::spoken)
    }

    /// A whole answer of the present attempt in the client's dialect.
    pub(crate) fn in_clients_dialect(&self, body: Bytes) -> Result<Bytes, AttemptFailure> {
        match &self.translation {
            Some(translation) => translation.answer(&body),
            None => Ok(body),
        }
    }

    /// Who answered, and how it came about.
    pub(crate) fn provenance(&self) -> Provenance<'_> {
        let attempts = self.controller.attempts();
        let last = attempts.last().filter(|_| !self.estimated);
        let substituted =
            last.and_then(|a| self.controller.candidate(a.candidate)).is_some_and(|c| c.choice > 0);
        Provenance {
            request_id: &self.inbound.id,
            dialect: self.inbound.envelope.dialect(),
            target: last.map(|a| self.target_of(a.candidate)),
            model: last.map(|a| self.model_of(a.candidate)),
            route: self.inbound.route.as_deref(),
            action: last.map(|a| a.action.name()),
            attempts: attempts.len(),
            substituted,
            reason: self.reason(),
            upstream_request_id: self.notes.last().and_then(|n| n.upstream_request_id.as_deref()),
            losses: self.losses.as_deref(),
            early: false,
            estimated: self.estimated,
        }
    }

    /// Terse, as `openai-us:overloaded>azure-eu`; nothing where the first attempt answered.
    fn reason(&self) -> Option<String> {
        let attempts = self.controller.attempts();
        if attempts.len() < 2 && attempts.iter().all(|a| a.kind.is_none()) {
            return None;
        }
        let steps = attempts.iter().map(|a| match a.kind {
            Some(kind) => format!("{}:{}", self.target_of(a.candidate), kind.name()),
            None => self.target_of(a.candidate).to_owned(),
        });
        Some(steps.collect::<Vec<_>>().join(">"))
    }

    /// Leaves its record in the ledger and the metrics, once.
    pub(crate) fn settle(&mut self) {
        if !self.recorded {
            self.recorded = true;
            record::settle(self);
        }
    }
}

/// How an attempt failed, for the controller, the client and the ledger.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) failed: Failed,
    /// Boxed: failures travel through many results.
    pub(crate) error: Option<Box<UpstreamError>>,
    pub(crate) detail: String,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.controller.ended().is_none() {
            self.abandon();
            self.status = 499;
        }
        self.settle();
    }
}

/// A provider's message as the client may see it.
pub(crate) fn masked(error: &UpstreamError) -> String {
    mask_credentials(&error.message).into_owned()
}
