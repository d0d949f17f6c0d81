//! One call from its beginning to its end, and what becomes of it under the gateway's time limits.

use pointsman_core::controller::{AttemptLimits, Failed, Limit};
use pointsman_core::kind::{FailureKind, Phase};
use pointsman_core::request::Shape;
use pointsman_core::time::Duration;

use super::{Ask, Fault, failure};
use crate::random::seconds;

/// How a call would go if nobody stopped it. All times are since its beginning; `None` is never.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// The connection stands, and the request has left.
    pub connected: Option<Duration>,
    /// The first output.
    pub first: Option<Duration>,
    /// The last sign of life before the end.
    pub last: Duration,
    /// The end.
    pub end: Option<Duration>,
    /// How it fails, if it does.
    pub failed: Option<Failed>,
    /// Whether the provider executed the request, or may have.
    pub executed: bool,
}

/// A course as the gateway meets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meeting {
    connected: Duration,
    headers: Duration,
    first: Duration,
    /// When output goes to the client, before the end: only a stream does that.
    pub commit: Option<Duration>,
    /// The end.
    pub end: Duration,
    /// How it fails, if it does.
    pub failed: Option<Failed>,
    /// Whether the provider executed the request, or may have.
    pub executed: bool,
}

impl Course {
    /// A call that is answered well.
    pub fn answer(connected: Duration, first: Duration, end: Duration) -> Self {
        Self {
            connected: Some(connected),
            first: Some(first),
            last: end,
            end: Some(end),
            failed: None,
            executed: true,
        }
    }

    /// The same call, refused with this status instead, soon.
    pub fn refused(&self, kind: FailureKind, status: u16) -> Self {
        let connected = self.connected.unwrap_or_default();
        let at = connected + Duration::from_millis(20);
        let executed = matches!(status, 500 | 502 | 504);
        let failed = failure(kind, Phase::Headers, Some(status), false);
        Self { first: None, last: at, end: Some(at), failed: Some(failed), executed, ..*self }
    }

    /// The same call, refused for its rate.
    pub fn rate_limited(&self, guidance: Option<Duration>) -> Self {
        let mut course = self.refused(FailureKind::RateLimit, 429);
        if let Some(failed) = &mut course.failed {
            failed.retry_after = guidance;
        }
        course
    }

    /// The same call under this fault; `None` where the fault does not concern it.
    pub fn under(&self, fault: Fault, ask: &Ask) -> Option<Self> {
        use FailureKind::{
            Auth, ModelNotFound, Overloaded, Permission, QuotaExhausted, ServerError, Timeout, Unsupported,
        };
        Some(match fault {
            Fault::BadResponse => self.unreadable(),
            Fault::BrownOut { .. } | Fault::Killed | Fault::SlowStart { .. } => return None,
            Fault::Cut => self.broken_at(self.middle(), ask),
            Fault::DeadKey => self.refused(Auth, 401),
            Fault::Hang => Self { connected: None, first: None, end: None, executed: false, ..*self },
            Fault::ModelGone => self.refused(ModelNotFound, 404),
            Fault::Overloaded => self.refused(Overloaded, 529),
            Fault::Permission => self.refused(Permission, 403),
            Fault::Quota => self.refused(QuotaExhausted, 429),
            Fault::RateLimit { retry_after } => self.rate_limited(retry_after.map(seconds)),
            Fault::Refused => self.broken_at(Duration::from_millis(1), ask),
            Fault::Reset => {
                self.broken_at(self.connected.unwrap_or_default() + Duration::from_millis(5), ask)
            }
            Fault::Silence => Self { first: None, last: self.connected?, end: None, ..*self },
            Fault::Stall => Self { last: self.middle(), end: None, ..*self },
            Fault::Status { status: 504 } => self.refused(Timeout, 504),
            Fault::Status { status } => self.refused(ServerError, status),
            Fault::ToolsBroken if ask.tools => self.refused(ServerError, 500),
            Fault::ToolsBroken => return None,
            Fault::Unsupported => self.refused(Unsupported, 400),
        })
    }

    /// The same call, its connection lost at this moment.
    pub fn broken_at(&self, at: Duration, ask: &Ask) -> Self {
        let connected = self.connected.is_some_and(|c| c < at);
        let begun = self.first.is_some_and(|first| first <= at) && ask.shape != Shape::Plain;
        let mut failed = match (connected, begun) {
            (false, _) => failure(FailureKind::Connect, Phase::NotSent, None, false),
            (true, false) => failure(FailureKind::Connect, Phase::Sent, None, true),
            (true, true) if ask.shape == Shape::Streamed => {
                failure(FailureKind::PartialStream, Phase::Committed, None, true)
            }
            (true, true) => failure(FailureKind::BadResponse, Phase::Headers, None, true),
        };
        failed.excused = begun && ask.slow_reader && ask.shape == Shape::Streamed;
        let first = self.first.filter(|_| begun);
        Self {
            connected: self.connected.filter(|_| connected),
            first,
            last: at,
            end: Some(at),
            failed: Some(failed),
            executed: connected,
        }
    }

    fn unreadable(&self) -> Self {
        let failed = failure(FailureKind::BadResponse, Phase::Headers, Some(200), false);
        let at = self.first.unwrap_or_default();
        Self { first: None, last: at, end: Some(at), failed: Some(failed), ..*self }
    }

    /// Somewhere between the first output and the end.
    fn middle(&self) -> Duration {
        let first = self.first.unwrap_or_default();
        first + self.end.unwrap_or(first).saturating_sub(first) / 2
    }

    /// What becomes of it under these limits.
    pub fn meet(&self, limits: &AttemptLimits, shape: Shape) -> Meeting {
        let connected = self.connected.unwrap_or(Duration::MAX);
        let end = self.end.unwrap_or(Duration::MAX);
        let first = self.first.filter(|_| shape != Shape::Plain).unwrap_or(Duration::MAX);
        let headers = match (self.first, shape) {
            (None, _) if self.end.is_none() => Duration::MAX,
            (Some(first), Shape::Streamed | Shape::Gathered | Shape::Buffered) => {
                connected.saturating_add(first.saturating_sub(connected) / 3)
            }
            _ => end,
        };
        let meeting = Meeting {
            connected,
            headers,
            first,
            commit: Some(first).filter(|_| shape == Shape::Streamed && first < Duration::MAX),
            end,
            failed: self.failed,
            executed: self.executed,
        };
        match self.strike(limits, shape, first) {
            Some((at, own)) if at < end => meeting.struck(at, own),
            _ => meeting,
        }
    }

    /// The first limit that would strike, and whether it is the target's own.
    fn strike(&self, limits: &AttemptLimits, shape: Shape, first: Duration) -> Option<(Duration, bool)> {
        let connect = limits.connect;
        if self.connected.is_none_or(|at| at > connect.within)
            && self.end.is_none_or(|end| end > connect.within)
        {
            return Some((connect.within, connect.own));
        }
        let soonest = |a: Limit, b: Limit| if b.within < a.within { b } else { a };
        let silent = soonest(limits.first_output, limits.whole);
        let answered = first.min(self.end.unwrap_or(Duration::MAX));
        if answered > silent.within {
            return Some((silent.within, silent.own));
        }
        let idle = (self.last.saturating_add(limits.idle), true);
        let whole = (limits.whole.within, limits.whole.own);
        let stream = (limits.stream, false);
        match (first < Duration::MAX, shape) {
            (false, _) => None,
            (true, Shape::Streamed) => Some(idle.min(stream)),
            (true, _) => Some(idle.min(whole)),
        }
    }
}

impl Meeting {
    fn struck(mut self, at: Duration, own: bool) -> Self {
        let (phase, status) = self.phase_at(at);
        let lost = phase > Phase::NotSent;
        let kind = if phase >= Phase::Committed { FailureKind::PartialStream } else { FailureKind::Timeout };
        let failed = Failed { kind, phase, status, retry_after: None, lost, excused: !own };
        self.commit = self.commit.filter(|commit| *commit <= at);
        self.end = at;
        self.executed &= lost;
        self.failed = Some(failed);
        self
    }

    /// How far it has got after so long, and with which status.
    pub fn phase_at(&self, elapsed: Duration) -> (Phase, Option<u16>) {
        if self.commit.is_some_and(|at| at <= elapsed) {
            (Phase::Committed, Some(200))
        } else if self.headers <= elapsed && self.first < Duration::MAX {
            (Phase::Headers, Some(200))
        } else if self.connected <= elapsed {
            (Phase::Sent, None)
        } else {
            (Phase::NotSent, None)
        }
    }

    /// The time to first output that a stream shows.
    pub fn first_token(&self, shape: Shape) -> Option<Duration> {
        Some(self.first).filter(|first| *first < Duration::MAX && shape != Shape::Plain)
    }
}
