//! The decision core: who may serve a request, in which order, and what to do when it fails.
//!
//! Deterministic: no I/O, no clock, no async, no global state. Time and randomness are arguments, so the same seed and
//! the same events give the same decisions. Its types are plain data behind `&mut`; whoever drives it decides about
//! locks. It is `no_std` on purpose: clock, sockets, environment and threads are out of reach of the compiler.
//!
//! Read [`controller`] first (one request: a bounded state machine), then [`fleet`] (what all requests share: the
//! health of failure domains), then [`plan`] (the candidate chain and its reasons).
#![no_std]

extern crate alloc;

pub mod backoff;
pub mod breaker;
pub mod controller;
pub mod cooldown;
pub mod domain;
pub mod fleet;
pub mod kind;
pub mod latency;
pub mod limit;
pub mod plan;
pub mod policy;
pub mod queue;
pub mod request;
pub mod retry_budget;
pub mod rng;
pub mod strategy;
pub mod target;
pub mod throttle;
pub mod time;
pub mod trace;
