//! What deciding costs: a whole request that succeeds at once, one that fails over, and the plan over few and many targets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pointsman_core::controller::Event;
use pointsman_core::plan::{Plan, Planner};
use world::{World, ms, overloaded};

#[path = "../tests/world/mod.rs"]
mod world;

fn names(count: usize) -> String {
    (0..count).map(|number| format!("t{number}")).collect::<Vec<_>>().join(",")
}

fn plans(c: &mut Criterion) {
    for count in [10, 1_000] {
        let mut world = World::new(&names(count));
        let request = world.request();
        c.bench_function(&format!("plan over {count} targets"), |b| {
            b.iter(|| {
                let World { now, catalog, bindings, fleet, rng, .. } = &mut world;
                Plan::make(black_box(&request), &mut Planner { now: *now, catalog, bindings, fleet }, rng)
            });
        });
    }
}

fn requests(c: &mut Criterion) {
    c.bench_function("decisions of a request that succeeds at once", |b| {
        let mut world = World::new("A,B|C");
        b.iter(|| {
            let request = world.request();
            let mut run = world.start(request);
            run.commit(&mut world);
            run.succeed(&mut world);
            world.pass(ms(1));
            run
        });
    });
    c.bench_function("decisions of a request that fails over", |b| {
        // A fresh world each time: else its breaker would soon be open.
        b.iter_batched(
            || World::new("A,B|C"),
            |mut world| {
                let mut run = world.go();
                run.fail(&mut world, overloaded());
                run.step(&mut world, Event::Tick);
                run.commit(&mut world);
                run.succeed(&mut world);
                (run, world)
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, plans, requests);
criterion_main!(benches);
