use bytes::Bytes;

use super::*;

fn received(bytes: usize) -> Received {
    Received {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers: Vec::new(),
        body: Bytes::from(vec![0; bytes]),
        at: Instant::now(),
        model: None,
        stream: false,
        connection: 1,
    }
}

#[test]
fn remembered_bodies_are_bounded_and_the_newest_is_always_there() {
    let state = State::new(SimConfig::default());
    let lengths =
        |state: &State| state.received().iter().map(|received| received.body.len()).collect::<Vec<_>>();
    let half = MAX_RECEIVED_BYTES / 2;
    for bytes in [1, half, half] {
        state.remember(received(bytes));
    }
    assert_eq!(lengths(&state), [half, half], "the oldest goes when there are too many bytes");
    state.remember(received(MAX_RECEIVED_BYTES + 1));
    assert_eq!(lengths(&state), [MAX_RECEIVED_BYTES + 1]);
}

#[test]
fn counts_by_model_are_bounded_because_clients_choose_the_names() {
    let state = State::new(SimConfig::default());
    for number in 0..MAX_MODELS + 5 {
        state.count_call(&number.to_string());
    }
    state.count_call("0");
    assert_eq!(state.calls_by_model().len(), MAX_MODELS);
    assert_eq!((state.calls_for_model("0"), state.calls()), (2, 1_006));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_follows_the_clock_below_the_rules_for_models_and_above_the_default() {
    let state = State::new(SimConfig::default());
    let second = std::time::Duration::from_secs(1);
    state.set_schedule(Schedule::repeating([(2 * second, Script::healthy()), (second, Script::status(500))]));
    state.set_for_model("own", Script::silence());
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(state.choose("m") == Script::status(500));
        tokio::time::advance(second).await;
    }
    assert_eq!(seen, [false, false, true, false, false, true]);
    assert_eq!(state.choose("own"), Script::silence());
}
