//! What goes into the controller and what comes out of it.

use alloc::string::String;

use crate::kind::{Action, FailureKind, Phase, Terminal};
use crate::target::TargetIndex;
use crate::time::{Duration, Instant};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The client is gone.
    ClientGone,
    /// The first meaningful output is about to go to the client.
    Committed {
        /// Time from the start of the attempt to the first output, where it was a stream.
        first_token: Option<Duration>,
    },
    /// The attempt failed.
    Failed(Failed),
    /// Response headers came.
    Headers {
        /// The provider's status.
        status: u16,
    },
    /// Events without meaning came.
    Preamble,
    /// The request, or part of it, has left.
    Sent,
    /// The answer is complete.
    Succeeded {
        /// Prompt and output tokens, if known.
        tokens: Option<u64>,
    },
    /// The time of a [`Command::Wait`] has come.
    Tick,
}

/// How an attempt failed, as I/O and classification saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failed {
    /// The normalised class.
    pub kind: FailureKind,
    /// How far it got.
    pub phase: Phase,
    /// The provider's status, if there was one.
    pub status: Option<u16>,
    /// The provider's guidance on when to come back.
    pub retry_after: Option<Duration>,
    /// The connection was lost, or a limit of ours struck: what the provider did with the request is not known.
    pub lost: bool,
    /// It says nothing against the target: the limit that struck was not the target's own ([`Limit::own`]), or the
    /// client had been slow for a second before a stream broke.
    pub excused: bool,
}

/// A time limit of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How long.
    pub within: Duration,
    /// Whether it is the target's own; one that was cut by the deadline, the reserve or the caller, or because others
    /// wait for the permit of a probe, says nothing about the target's health.
    pub own: bool,
}

/// The time limits of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptLimits {
    /// DNS, TCP, TLS and HTTP/2 handshake together.
    pub connect: Limit,
    /// Response headers of a stream, where wanted apart.
    pub headers: Option<Limit>,
    /// A stream: first meaningful output. A plain answer: response headers.
    pub first_output: Limit,
    /// Until commit for a stream, else until the whole answer is there.
    pub whole: Limit,
    /// Between two events, while reading.
    pub idle: Duration,
    /// A peer that takes nothing.
    pub write: Duration,
    /// A stream's whole life.
    pub stream: Duration,
}

/// One call to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// 1 for the first.
    pub number: usize,
    /// Which candidate of the plan.
    pub candidate: usize,
    /// Which target.
    pub target: TargetIndex,
    /// What the provider calls the model.
    pub upstream_model: String,
    /// Which of the request's models; 0 is the requested one.
    pub choice: usize,
    /// What brought it about.
    pub action: Action,
    /// Its time limits.
    pub limits: AttemptLimits,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Make this call.
    Attempt(Attempt),
    /// Go on with what is being done.
    Carry,
    /// The request is over.
    Stop(Stop),
    /// Do nothing until then, then say [`Event::Tick`].
    Wait {
        /// Until when.
        until: Instant,
    },
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    /// How it ended.
    pub terminal: Terminal,
    /// What the client is told.
    pub cause: Cause,
    /// The attempt whose error says most, as an index into the attempts.
    pub shown: Option<usize>,
    /// When it is worth coming back, if that is known.
    pub retry_after: Option<Duration>,
}

/// What brought a request to its end, as far as the answer to the client depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No candidate: all need a credential of the caller.
    CallerKeyMissing,
    /// The client is gone.
    ClientGone,
    /// The answer broke after commit.
    Committed,
    /// Whichever attempt is left would cost more than `max_cost`, or its price is unknown.
    CostSpent,
    /// The time is over.
    Deadline,
    /// Attempts were made; they failed for different reasons, or for reasons of ours and the providers'.
    Exhausted,
    /// Attempts were made; the quota is used up everywhere.
    ExhaustedQuota,
    /// Attempts were made; all met rate limits.
    ExhaustedRateLimit,
    /// Attempts were made; all ran out of time.
    ExhaustedTimeout,
    /// No candidate: none keeps what the request asks of data handling.
    NoCompliantTarget,
    /// No candidate: none can do what the request or the route needs.
    NoCapableTarget,
    /// Nothing was sent: all that is left is out of service.
    NothingHealthy,
    /// Nothing was sent: all that is left is at a limit.
    NothingHasRoom,
    /// The request's own fault.
    RequestsOwn,
    /// Too many wait already.
    QueueFull,
    /// A side effect may have happened.
    SideEffect,
    /// A complete answer.
    Success,
}
