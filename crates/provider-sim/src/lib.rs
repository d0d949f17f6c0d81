//! A simulated provider of Chat Completions, Messages, Responses, Gemini and Bedrock on real sockets, with scripted faults.
//!
//! [`Sim`] listens on a port and answers as an OpenAI-compatible provider does, on a path that ends in `/responses` as
//! OpenAI does there, on one that ends in `/messages` as Anthropic does, and on one that ends in `:generateContent` or
//! `:streamGenerateContent` as Gemini does, and on `/model/…/converse` and `/converse-stream` as Bedrock; a [`Script`]
//! says how the next request is answered, from a healthy stream to a connection reset before the headers. The HTTP/1.1 server side
//! is written by hand ([`Sim`] must be able to break HTTP in ways that a correct server library refuses to), the
//! rest is data:
//!
//! - [`Script`] describes one answer, and is also the JSON that the control endpoint takes;
//! - `decide` finds what answers a request;
//! - `plan` turns a script and a request into [steps](plan::Step): bytes to send, waits, the way it ends;
//! - `connection` runs the steps on a socket, and notices when the client leaves;
//! - `state` holds the rules (queue, per model, schedule, default), counts and what was received.
//!
//! Everything is deterministic: ids count up from 1, words come from the seed, delays use tokio's clock.
//!
//! ```
//! use pointsman_provider_sim::{Script, Sim, SimConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let sim = Sim::start(SimConfig::named("primary")).await?;
//! sim.enqueue([Script::openai_rate_limit(2), Script::cut_after(3).tokens(40)]);
//! // Two requests to sim.base_url() now get a 429 and a stream that breaks; all others are answered in full.
//! assert_eq!(sim.calls(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! Rules for a request, first match wins: its own header `x-sim-script`, the queue ([`Sim::enqueue`]), its model's
//! rule ([`Sim::set_for_model`]), the schedule ([`Sim::set_schedule`]), the default ([`Sim::set`]). A key or model that
//! is not served, a body that is not JSON, and in Responses, Gemini and Bedrock
//! what the provider would not take, are refused before any script.

mod answer;
mod bedrock;
mod blocks;
mod catalogue;
mod connection;
mod control;
mod decide;
mod envelope;
mod fields;
mod gemini;
mod message;
mod names;
mod plan;
mod prompt;
mod request;
mod responses;
mod script;
mod services;
mod sim;
mod speech;
mod sse;
mod state;

pub use catalogue::Guidance;
pub use names::{UnknownScript, script_from_name, script_names};
pub use request::Received;
pub use script::{
    Answer, BrokenEvent, Connection, Fault, FixedReply, LineEnd, Pace, Phase, Reasoning, ResponsesShape,
    Schedule, Script, ToolCall, UsageShape, Wire,
};
pub use sim::{Sim, SimConfig, WaitTimedOut};
