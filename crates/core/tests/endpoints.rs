//! APIs of their own (embeddings and others) beside the conversation: who has them, whose health they touch, and that
//! vectors of different models do not mix.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::Cause;
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::fleet::DomainView;
use pointsman_core::kind::FailureKind::{self, *};
use pointsman_core::kind::Terminal;
use pointsman_core::plan::Exclusion;
use pointsman_core::request::{Needs, Request, Shape};
use pointsman_core::target::Model;
use world::{World, failed, target};

fn embeddings(world: &mut World) -> Request {
    let needs = Needs { same_model: true, ..Needs::default() };
    Request { endpoint: Some("embeddings"), needs, shape: Shape::Plain, ..world.request() }
}

/// Every attempt on A fails so, all others succeed.
fn meet(world: &mut World, kind: FailureKind) -> String {
    let request = embeddings(world);
    world.play_request(request, |name| (name == "A").then_some(failed(kind))).attempts()
}

fn target_domain(world: &World, name: &str) -> DomainView {
    let views = world.fleet.domains_of("A", world.now);
    views.into_iter().find(|v| v.kind == DomainKind::Target && v.name == name).expect(name)
}

#[test]
fn only_who_has_the_api_is_asked() {
    let mut world = World::with("A,B,C", |c| {
        c.targets[0].serves = Some(vec!["moderations"]);
        c.targets[1].serves = Some(Vec::new());
        c.targets[2].serves = Some(vec!["moderations", "embeddings"]);
    });
    let request = embeddings(&mut world);
    let run = world.play_request(request, |_| None);
    assert_eq!(run.attempts(), "C primary");
    let why: Vec<_> = run.controller.plan().excluded.iter().map(|e| e.why.clone()).collect();
    assert_eq!(why, [Exclusion::Endpoint("embeddings"), Exclusion::Endpoint("embeddings")]);
    assert_eq!(why[0].to_string(), "its provider has no endpoint for embeddings");
}

#[test]
fn who_has_no_such_api_may_still_hold_a_conversation() {
    let mut world = World::with("A", |c| c.targets[0].serves = Some(Vec::new()));
    assert_eq!(world.play(|_| None).attempts(), "A primary");
    let request = embeddings(&mut world);
    let run = world.play_request(request, |_| None);
    assert_eq!(run.ending(), (Terminal::Rejected, Cause::NoCapableTarget));
}

/// A dialect is how a conversation is held; an API of its own has one form.
#[test]
fn the_dialects_of_a_target_do_not_keep_it_from_other_apis() {
    let mut world = World::with("A", |c| c.targets[0].dialects = vec!["messages".into()]);
    let request = embeddings(&mut world);
    assert_eq!(world.play_request(request, |_| None).attempts(), "A primary");
}

#[test]
fn another_target_of_the_same_model_takes_over() {
    let mut world = World::new("A,B");
    assert_eq!(meet(&mut world, ServerError), "A primary, B failover");
}

#[test]
fn a_list_of_models_alone_lets_no_other_model_make_vectors() {
    let mut world = World::new("A|B");
    let request = embeddings(&mut world);
    let run = world.play_request(request, |_| Some(failed(Auth)));
    assert_eq!(run.attempts(), "A primary");
    let excluded = &run.controller.plan().excluded;
    assert_eq!(excluded[0].why, Exclusion::SubstitutionNotWritten);
    assert_eq!(world.play(|name| (name == "A").then_some(failed(Auth))).attempts(), "A primary, B fallback");
}

#[test]
fn a_route_that_says_so_lets_another_model_make_vectors() {
    let written = |c: &mut pointsman_core::target::Catalog| {
        c.routes.get_mut("route").unwrap().governance.substitution.written = true;
    };
    let mut world = World::with("A|B", written);
    assert_eq!(meet(&mut world, ServerError), "A primary, A retry, B fallback");
}

#[test]
fn an_api_that_fails_takes_no_conversation_from_its_target() {
    let mut world = World::new("A");
    for _ in 0..2 {
        meet(&mut world, BadResponse);
        world.pass(world::secs(2));
    }
    meet(&mut world, BadResponse);
    assert_eq!(target_domain(&world, "A (embeddings)").state, DomainState::Open);
    assert_eq!(target_domain(&world, "A").state, DomainState::Closed);
    assert_eq!(world.play(|_| None).attempts(), "A primary");
}

/// A chat model that is asked for vectors answers 403 or 404: whoever talks with it must not notice.
#[test]
fn a_model_that_is_asked_for_what_it_is_not_made_for_is_not_lost_to_others() {
    for kind in [ModelNotFound, Permission] {
        let mut world = World::new("A");
        meet(&mut world, kind);
        assert_eq!(target_domain(&world, "A (embeddings)").state, DomainState::Isolated, "{kind}");
        assert_eq!(world.play(|_| None).attempts(), "A primary");
        assert_eq!(target_domain(&world, "A").state, DomainState::Closed);
    }
}

#[test]
fn an_account_and_a_rate_limit_are_shared_by_all_apis() {
    let mut world = World::new("A,B");
    meet(&mut world, QuotaExhausted);
    assert_eq!(world.state("A", DomainKind::Account), DomainState::Isolated);
    assert_eq!(world.play(|_| None).attempts(), "B primary");
    let mut world = World::new("A,B");
    meet(&mut world, RateLimit);
    assert_eq!(world.play(|_| None).attempts(), "B primary");
}

#[test]
fn an_operators_word_holds_for_every_api_also_one_that_was_not_asked_for_before() {
    let mut world = World::new("A,B");
    assert!(world.fleet.isolate_target("A", world.now));
    let request = embeddings(&mut world);
    assert_eq!(world.play_request(request, |_| None).attempts(), "B primary");
    assert!(world.fleet.reset("A", world.now));
    let request = embeddings(&mut world);
    assert_eq!(world.play_request(request, |_| None).attempts(), "A primary");
}

/// A wildcard target has a lane for each model and API.
#[test]
fn models_of_a_wildcard_target_are_told_apart_by_api_too() {
    let mut world = World::with("A", |c| {
        c.targets[0] = target("A", None);
        c.targets[0].provider = "openai".into();
        c.routes.clear();
    });
    let mut request = world.request_for("openai/text-embedding-3-small");
    request.endpoint = Some("embeddings");
    world.play_request(request, |_| Some(failed(ModelNotFound)));
    let isolated = target_domain(&world, "A/text-embedding-3-small (embeddings)");
    assert_eq!(isolated.state, DomainState::Isolated);
    let request = world.request_for("openai/text-embedding-3-small");
    assert_eq!(world.play_request(request, |_| None).attempts(), "A primary");
}

/// The window is that of one text, and a request may hold two thousand.
#[test]
fn many_texts_need_not_fit_into_one_window() {
    let mut world = World::with("A", |c| {
        c.models.insert("m0".into(), Model { context_window: Some(8_192), ..Model::default() });
    });
    let mut request = embeddings(&mut world);
    request.needs.prompt_tokens = 300_000;
    let run = world.play_request(request, |_| None);
    assert_eq!(run.attempts(), "A primary");
    assert!(run.controller.plan().excluded.is_empty());
}

#[test]
fn the_health_of_an_api_is_kept_over_a_reload() {
    let mut world = World::new("A");
    meet(&mut world, ModelNotFound);
    world.reload(|_| {});
    assert_eq!(target_domain(&world, "A (embeddings)").state, DomainState::Isolated);
}
