//! The rows themselves.

pub(super) mod anthropic;
pub(super) mod aws;
pub(super) mod azure;
pub(super) mod compatible;
pub(super) mod google;
pub(super) mod groq;
pub(super) mod hosted;
pub(super) mod openrouter;
pub(super) mod self_hosted;
pub(super) mod shared;
