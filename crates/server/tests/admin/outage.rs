//! An outage as targets and metrics tell of it, on a clock that the test puts forward.

use std::time::Duration;

use pointsman_provider_sim::Script;

use crate::support::{World, world};

const STATE_OF_A: &str = "pointsman_domain_state{domain=\"target\",name=\"a\"}";

fn transitions(to: &str) -> String {
    format!("pointsman_breaker_transitions_total{{domain=\"target\",name=\"a\",to=\"{to}\"}}")
}

async fn answered_by(world: &World, target: &str) {
    let answer = world.ask("gpt-4o").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-pointsman-target"), target);
}

/// Three failures in a row open its breaker for 30 s: the documented defaults.
async fn with_a_open() -> World {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    world.sims[0].set(Script::server_error(500));
    for _ in 0..3 {
        answered_by(&world, "b").await;
    }
    world
}

#[tokio::test]
async fn targets_and_metrics_follow_an_outage_from_closed_to_closed() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    assert_eq!(world.domain("a", "target").await["state"], "closed");
    assert_eq!(world.metric(STATE_OF_A).await, Some(0.0));

    world.sims[0].set(Script::server_error(500));
    answered_by(&world, "b").await;
    answered_by(&world, "b").await;
    let failing = world.domain("a", "target").await;
    assert_eq!(failing["state"], "closed");
    assert_eq!(failing["failures_in_a_row"], 2);
    answered_by(&world, "b").await;

    let open = world.domain("a", "target").await;
    assert_eq!(open["state"], "open");
    assert_eq!(open["reason"], "too many failures in a row");
    let until = open["until_ms"].as_u64().unwrap();
    assert!((20_000..=30_000).contains(&until), "open for 30 s: {until}");
    assert_eq!(world.metric(STATE_OF_A).await, Some(2.0));
    assert_eq!(world.metric(&transitions("open")).await, Some(1.0));
    assert_eq!(world.target("a").await["state"], "open");
    // Its endpoint took the requests and answered: it is not to blame.
    assert_eq!(world.domain("a", "endpoint").await["state"], "closed");
    assert_eq!(world.target("b").await["state"], "closed");

    answered_by(&world, "b").await;
    assert_eq!(world.sims[0].calls(), 3, "an open breaker fails fast, without a call");

    world.sims[0].set(Script::healthy());
    world.clock.advance(Duration::from_secs(31));
    let half_open = world.domain("a", "target").await;
    assert_eq!(half_open["state"], "half_open");
    assert_eq!(world.metric(STATE_OF_A).await, Some(1.0));
    assert_eq!(world.metric(&transitions("half_open")).await, Some(1.0));

    answered_by(&world, "a").await;
    assert_eq!(world.metric(STATE_OF_A).await, Some(1.0), "two probes must succeed");
    answered_by(&world, "a").await;
    let closed = world.domain("a", "target").await;
    assert_eq!(closed["state"], "closed");
    assert_eq!(closed["reason"], "enough probes succeeded");
    assert_eq!(world.metric(STATE_OF_A).await, Some(0.0));
    assert_eq!(world.metric(&transitions("closed")).await, Some(1.0));
    slow_start_ramps_up(&world).await;
}

/// From 10 % to 100 % over 30 s, in a straight line.
async fn slow_start_ramps_up(world: &World) {
    let share = async || world.domain("a", "target").await["share"].as_f64().unwrap();
    let at_first = share().await;
    assert!((0.1..0.3).contains(&at_first), "a slow start begins at 10 %: {at_first}");
    world.clock.advance(Duration::from_secs(15));
    let half_way = share().await;
    assert!((0.55..0.75).contains(&half_way), "after 15 of 30 s it has 55 %: {half_way}");
    assert!(world.target("a").await["share"].as_f64().unwrap() < 1.0);
    world.clock.advance(Duration::from_secs(16));
    let recovered = world.domain("a", "target").await;
    assert_eq!(recovered["share"], 1.0);
    assert_eq!(recovered["reason"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_probe_that_fails_opens_the_breaker_again() {
    let world = with_a_open().await;
    world.clock.advance(Duration::from_secs(31));
    answered_by(&world, "b").await;
    let open = world.domain("a", "target").await;
    assert_eq!(open["state"], "open");
    assert_eq!(open["reason"], "a probe failed");
    assert_eq!(world.metric(&transitions("open")).await, Some(2.0));
}

#[tokio::test]
async fn a_rate_limit_is_shown_as_throttled_until_its_end_and_not_as_a_failure() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    world.sims[0].enqueue([Script::openai_rate_limit(40)]);
    answered_by(&world, "b").await;
    let rate = world.domain("a", "rate").await;
    assert_eq!(rate["state"], "throttled");
    let until = rate["until_ms"].as_u64().unwrap();
    assert!((30_000..=40_000).contains(&until), "{until}");
    assert_eq!(world.target("a").await["state"], "throttled");
    assert_eq!(world.domain("a", "target").await["failures_in_a_row"], 0);
    world.clock.advance(Duration::from_secs(41));
    assert_eq!(world.target("a").await["state"], "closed");
    answered_by(&world, "a").await;
}

#[tokio::test]
async fn the_metrics_count_requests_attempts_and_who_answered() {
    let world = with_a_open().await;
    let text = world.get("/metrics").await;
    assert_eq!(text.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.text().ends_with("# EOF\n"));
    let failed =
        "pointsman_attempts_total{target=\"a\",action=\"primary\",outcome=\"failed\",kind=\"server_error\"}";
    assert_eq!(world.metric(failed).await, Some(3.0));
    let over =
        "pointsman_attempts_total{target=\"b\",action=\"failover\",outcome=\"succeeded\",kind=\"none\"}";
    assert_eq!(world.metric(over).await, Some(3.0));
    let requests = "pointsman_requests_total{route=\"gpt-4o\",dialect=\"chat\",terminal=\"success\",action=\"failover\"}";
    assert_eq!(world.metric(requests).await, Some(3.0));
    assert_eq!(world.metric("pointsman_success_raw_total{route=\"gpt-4o\"}").await, None);
    assert_eq!(world.metric("pointsman_success_after_failover_total{route=\"gpt-4o\"}").await, Some(3.0));
    assert_eq!(world.metric("pointsman_in_flight{target=\"b\"}").await, Some(0.0));
}

#[tokio::test]
async fn a_target_shows_its_limits_its_room_and_how_fast_it_is() {
    let (sims, _) = crate::support::providers(&[("a", "gpt-4o")]).await;
    let base = sims[0].base_url();
    let yaml = format!(
        "{}targets:\n  a: {{ provider: openai, base_url: \"{base}\", model: gpt-4o, upstream_model: gpt-4o-2024, \
         api_key: sk-x, priority: 3, weight: 2, region: eu, limits: {{ rpm: 4, concurrency: 9 }} }}\n",
        crate::support::HEAD
    );
    let world = crate::support::world_of(sims, &yaml);
    let mut body = crate::support::chat("gpt-4o");
    body["stream"] = true.into();
    assert_eq!(world.ask_for(&body).await.status, 200);
    let target = world.target("a").await;
    assert_eq!(target["provider"], "openai");
    assert_eq!(target["upstream_model"], "gpt-4o-2024");
    assert_eq!(target["priority"], 3);
    assert_eq!(target["weight"], 2);
    assert_eq!(target["region"], "eu");
    assert!(base.starts_with(target["endpoint"].as_str().unwrap()), "{target}");
    assert_eq!(target["limits"]["rpm"], 4);
    assert_eq!(target["limits"]["concurrency"], 9);
    assert_eq!(target["headroom"]["own"], 0.75, "one of four requests is used");
    assert!(target["first_token_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{target}");
    assert_eq!(target["in_flight"], 0);
}

#[tokio::test]
async fn what_is_in_flight_is_seen_while_it_is() {
    let world = world(&[("a", "gpt-4o")], "").await;
    world.sims[0].set(Script::pause_after(2, Duration::from_secs(1)));
    let mut body = crate::support::chat("gpt-4o");
    body["stream"] = true.into();
    let in_flight = "pointsman_in_flight{target=\"a\"}";
    let seen = async {
        world.sims[0].wait_until(|sim| sim.active_requests() == 1).await.unwrap();
        world.until(async || world.metric("pointsman_open_streams").await == Some(1.0)).await;
        assert_eq!(world.target("a").await["in_flight"], 1);
        assert_eq!(world.metric(in_flight).await, Some(1.0));
    };
    let (answer, ()) = tokio::join!(world.ask_for(&body), seen);
    assert_eq!(answer.status, 200);
    world.until(async || world.metric(in_flight).await == Some(0.0)).await;
    assert_eq!(world.metric("pointsman_open_streams").await, Some(0.0));
}

#[tokio::test]
async fn a_model_that_a_wildcard_target_does_not_have_is_out_alone() {
    let (sims, _) = crate::support::providers(&[("w", "any")]).await;
    let base = sims[0].base_url();
    let line =
        format!("targets:\n  w: {{ provider: openai, base_url: \"{base}\", model: \"*\", api_key: sk-x }}\n");
    let world = crate::support::world_of(sims, &format!("{}{line}", crate::support::HEAD));
    world.sims[0].set_for_model("nope", Script::model_not_found("nope"));
    assert_eq!(world.ask("openai/gpt-4o").await.status, 200);
    assert_ne!(world.ask("openai/nope").await.status, 200);

    let target = world.target("w").await;
    assert_eq!(target["state"], "closed", "all other models are served");
    let domains = target["domains"].as_array().unwrap();
    let state = |name: &str| {
        domains.iter().find(|d| d["kind"] == "target" && d["name"] == name).map(|d| d["state"].clone())
    };
    assert_eq!(state("w/nope").unwrap(), "isolated");
    assert_eq!(state("w/gpt-4o").unwrap(), "closed");
    let out = world.explain(&crate::support::chat("openai/nope")).await["targets"][0].clone();
    assert_eq!((out["in"].as_bool(), out["reason"].as_str()), (Some(false), Some("isolated")));
    let fine = world.explain(&crate::support::chat("openai/never-asked-for")).await["targets"][0].clone();
    assert_eq!(
        (fine["in"].as_bool(), fine["upstream_model"].as_str()),
        (Some(true), Some("never-asked-for"))
    );
    world.clock.advance(Duration::from_secs(61));
    let again = world.explain(&crate::support::chat("openai/nope")).await["targets"][0].clone();
    assert_eq!(again["reason"], "probe", "it is asked again after 60 s");
}
