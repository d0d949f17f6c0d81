//! Where the world meets the core. The faithful seam passes everything on; tests put broken ones in its place and see
//! that the checker notices.

use pointsman_core::controller::{Command, Controller, Event};
use pointsman_core::plan::Planner;
use pointsman_core::request::Request;
use pointsman_core::rng::Rng;

/// Drives the core as the server does.
pub trait Seam {
    /// Begins a request.
    fn start(
        &mut self,
        request: Request,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> (Controller, Command) {
        Controller::start(request, planner, rng)
    }

    /// Tells a request's controller what happened.
    fn step(
        &mut self,
        controller: &mut Controller,
        event: Event,
        planner: &mut Planner<'_>,
        rng: &mut dyn Rng,
    ) -> Command {
        controller.step(event, planner, rng)
    }
}

/// The real core, unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faithful;

impl Seam for Faithful {}
