//! Failover before commit is invisible.

use pointsman_provider_sim::Script;

use crate::support::{chat, world};

#[tokio::test]
async fn a_healthy_primary_answers() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    for stream in [false, true] {
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("x-pointsman-target"), Some("a"));
        assert_eq!(answer.header("x-pointsman-action"), Some("primary"));
        assert_eq!(answer.header("x-pointsman-attempts"), Some("1"));
        assert!(answer.header("x-pointsman-substituted").is_none());
    }
    assert_eq!(world.sim(1).calls(), 0);
}

#[tokio::test]
async fn overloaded_primary_fails_over_to_equivalent_before_commit() {
    let world = world(&[("a", "gpt-4o"), ("b", "gpt-4o")], "").await;
    world.sim(0).set(Script::openai_overloaded());
    for stream in [false, true] {
        let answer = world.post(&chat("gpt-4o", stream)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("x-pointsman-target"), Some("b"));
        assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
        assert_eq!(answer.header("x-pointsman-reason"), Some("a:overloaded>b"));
        if stream {
            assert_eq!(answer.fingerprints(), ["fp_b"]);
            assert!(answer.is_done_once());
        }
    }
    assert_eq!(world.sim(0).calls(), 2);
    assert_eq!(world.sim(1).calls(), 2);
}
