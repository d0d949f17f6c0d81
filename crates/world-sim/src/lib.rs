//! Many clients, targets and replicas in virtual time around the real decision core.
//!
//! A [`scenario`] says who asks, what serves and what goes wrong; [`generate`] makes one from a seed. The [`world`] plays
//! it: an agenda of arrivals, answers, failures and departures, with the core's controllers and fleets in the middle,
//! driven as the server drives them. The [`checker`] verifies after every step that no promise of the product is broken,
//! against what really happened; [`shrink`] cuts a failing scenario down to what is needed.
//!
//! Nothing here knows a socket, a clock or a thread's timing: the same scenario gives the same world, to the last
//! decision.

pub mod checker;
pub mod generate;
pub mod provider;
pub mod random;
pub mod report;
pub mod scenario;
pub mod seam;
pub mod seeds;
pub mod shrink;
pub mod world;
