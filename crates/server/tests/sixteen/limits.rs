//! Scenarios 1 to 7: what happens before the primary's first output.

use std::time::{Duration, Instant};

use futures_util::future::join;
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::{Guidance, Script};

use crate::route::{
    ask, assert_fallback_answered, assert_primary_answered, calls, gaps, most_calls_within, world_where,
};
use crate::support::{Answer, World};

/// How long a provider that asks for two seconds is left alone at least, and a fallback may take at most.
const TWO_SECONDS: Duration = Duration::from_millis(1_800);
const SOON: Duration = Duration::from_secs(15);

/// A stream and a plain answer, each in a world of its own whose primary has this script.
async fn both_ways(script: Script) -> [(World, Answer, Duration); 2] {
    let one = async |stream: bool| {
        let world = world_where(script.clone()).await;
        let begun = Instant::now();
        let answer = world.post(&ask(stream)).await;
        (world, answer, begun.elapsed())
    };
    join(one(true), one(false)).await.into()
}

/// As [`both_ways`], and the primary is well after its first answer.
async fn both_ways_once(script: Script) -> [(World, Answer); 2] {
    let one = async |stream: bool| {
        let world = world_where(Script::healthy()).await;
        world.sim(0).enqueue([script.clone()]);
        let answer = world.post(&ask(stream)).await;
        (world, answer)
    };
    join(one(true), one(false)).await.into()
}

#[tokio::test]
async fn scenario_01_a_rate_limit_of_two_seconds_is_waited_out() {
    for (world, answer) in both_ways_once(Script::openai_rate_limit(2)).await {
        assert_primary_answered(&answer, "retry");
        assert_eq!(calls(&world), (2, 0));
        assert!(gaps(&world)[0] >= TWO_SECONDS, "{:?}", gaps(&world));
        world.assert_untouched("primary");
    }
}

#[tokio::test]
async fn scenario_02_a_rate_limit_for_ever_is_left_to_the_fallback() {
    for script in
        [Script::openai_rate_limit(1), Script::openai_rate_limit(30), Script::rate_limit(Guidance::Absent)]
    {
        for (world, answer, took) in both_ways(script.clone()).await {
            assert_fallback_answered(&answer);
            assert!(took < SOON, "{took:?}");
            assert_eq!(world.domain("primary", DomainKind::Rate).state, DomainState::Throttled);
            // Requests that follow do not ask the throttled primary at all.
            for stream in [true, false] {
                assert_fallback_answered(&world.post(&ask(stream)).await);
            }
            assert!(most_calls_within(&world, Duration::from_secs(3)) <= 4, "{:?}", gaps(&world));
            assert_eq!(world.domain("primary", DomainKind::Target).failures_in_a_row, 0);
        }
    }
}

#[tokio::test]
async fn scenario_03_one_500_is_retried_and_the_primary_answers() {
    for (world, answer) in both_ways_once(Script::server_error(500)).await {
        assert_primary_answered(&answer, "retry");
        assert_eq!(answer.header("x-pointsman-reason"), Some("primary:server_error>primary"));
        assert_eq!(calls(&world), (2, 0));
    }
}

#[tokio::test]
async fn scenario_04_a_503_for_ever_is_left_to_the_fallback_after_two_calls() {
    for script in [Script::status(503), Script::openai_overloaded()] {
        for (world, answer, took) in both_ways(script.clone()).await {
            assert_fallback_answered(&answer);
            assert_eq!(calls(&world), (2, 1));
            assert!(took < SOON, "{took:?}");
        }
    }
}

#[tokio::test]
async fn scenario_05_a_reset_before_headers_is_retried_once() {
    for (world, answer) in both_ways_once(Script::reset_before_headers()).await {
        assert_primary_answered(&answer, "retry");
        assert_eq!(calls(&world), (2, 0));
    }
    for (world, answer, _) in both_ways(Script::reset_before_headers()).await {
        assert_fallback_answered(&answer);
        assert_eq!(calls(&world), (2, 1));
        assert_eq!(world.entry(&answer).attempts[0].failure, Some("connect"));
    }
}

/// The primary was called once, and the fallback answered in time.
async fn assert_given_up_once(world: &World, answer: &Answer, took: Duration) {
    assert_fallback_answered(answer);
    assert_eq!(answer.header("x-pointsman-reason"), Some("primary:timeout>fallback"));
    assert_eq!(calls(world), (1, 1));
    assert!(took < SOON, "{took:?}");
    assert_eq!(world.domain("primary", DomainKind::Target).failures_in_a_row, 1);
    // What was given up is not left running.
    world.sim(0).wait_until(|sim| sim.active_requests() == 0).await.unwrap();
}

#[tokio::test]
async fn scenario_06_silence_is_asked_once_and_the_fallback_answers_within_15_s() {
    for (world, answer, took) in both_ways(Script::silence()).await {
        assert_given_up_once(&world, &answer, took).await;
    }
}

#[tokio::test]
async fn scenario_07_a_first_token_after_20_s_is_not_waited_for() {
    let script = Script::healthy().delay_first_token(Duration::from_secs(20));
    for (world, answer, took) in both_ways(script).await {
        assert_given_up_once(&world, &answer, took).await;
    }
}
