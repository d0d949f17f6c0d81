//! A lane: the failure domains that a call to a target crosses.

use crate::domain::DomainIndex;
use crate::kind::Capability;
use crate::target::TargetIndex;
use crate::time::Instant;

/// A lane's place in the [`Fleet`](super::Fleet).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneIndex(pub(super) usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) endpoint: DomainIndex,
    pub(super) account: DomainIndex,
    pub(super) rate: DomainIndex,
    pub(super) target: DomainIndex,
    /// Tools, structured, vision.
    pub(super) capabilities: [DomainIndex; 3],
    pub(super) state: usize,
    pub(super) wildcard: bool,
    /// All models of a wildcard target: what one of them meets says nothing of the others.
    pub(super) any_model: bool,
    /// Its calls are for an API of its own: how long they take says nothing of a conversation's answers.
    pub(super) apart: bool,
}

/// What a lane is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Which target.
    pub target: TargetIndex,
    /// What the provider calls the model.
    pub upstream_model: &'a str,
    /// The API, see [`Request::endpoint`](crate::request::Request::endpoint).
    pub endpoint: Option<&'static str>,
}

/// The lane of one model of a wildcard target.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedLane {
    pub(super) lane: LaneIndex,
    /// When it was last asked for.
    pub(super) used: Instant,
}

impl Lane {
    pub(super) fn capability(&self, capability: Capability) -> Option<DomainIndex> {
        let [tools, structured, vision] = self.capabilities;
        match capability {
            Capability::Text => None,
            Capability::Tools => Some(tools),
            Capability::Structured => Some(structured),
            Capability::Vision => Some(vision),
        }
    }

    /// All of its domains, most general first.
    pub(super) fn domains(&self) -> impl Iterator<Item = DomainIndex> {
        [self.endpoint, self.account, self.rate, self.target].into_iter().chain(self.capabilities)
    }

    /// The domains whose breakers a call with this capability crosses.
    pub(super) fn breakers(&self, capability: Capability) -> impl Iterator<Item = DomainIndex> {
        [Some(self.endpoint), Some(self.target), self.capability(capability)].into_iter().flatten()
    }
}
