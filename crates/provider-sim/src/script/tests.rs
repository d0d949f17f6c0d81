use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn status_at(schedule: &Schedule, elapsed: Duration) -> Option<u16> {
    schedule.at(elapsed).and_then(|script| script.reply.as_ref()).map(|reply| reply.status)
}

#[test]
fn a_repeating_schedule_begins_again_and_a_single_one_stays_in_its_last_phase() {
    let phases = || [(2 * SECOND, Script::status(201)), (SECOND, Script::status(500))];
    let flapping = Schedule::repeating(phases());
    let seen: Vec<_> = (0..7).map(|second| status_at(&flapping, second * SECOND).unwrap()).collect();
    assert_eq!(seen, [201, 201, 500, 201, 201, 500, 201]);
    assert_eq!(status_at(&flapping, 2 * SECOND - Duration::from_nanos(1)), Some(201));
    let once = Schedule::once(phases());
    assert_eq!(status_at(&once, 100 * SECOND), Some(500));
}

#[test]
fn schedules_without_length_or_without_end_do_not_panic() {
    assert_eq!(Schedule::default().at(SECOND), None);
    let empty_phase = Schedule::repeating([(Duration::ZERO, Script::status(500))]);
    assert_eq!(status_at(&empty_phase, SECOND), Some(500));
    let endless =
        Schedule::repeating([(Duration::MAX, Script::status(500)), (Duration::MAX, Script::status(502))]);
    assert_eq!(status_at(&endless, SECOND), Some(500));
}

#[test]
fn an_empty_object_is_a_healthy_script_and_unknown_keys_are_refused() {
    assert_eq!(serde_json::from_str::<Script>("{}").unwrap(), Script::healthy());
    let delayed = r#"{"pace":{"headers_ms":250},"wire":{"line_end":"crlf","done":false}}"#;
    let expected = Script::healthy().delay_headers(SECOND / 4).crlf().no_done();
    assert_eq!(serde_json::from_str::<Script>(delayed).unwrap(), expected);
    for wrong in [r#"{"pase":{}}"#, r#"{"wire":{"crlf":true}}"#, r#"{"fault":{"cut":{"afterwards":1}}}"#] {
        assert!(serde_json::from_str::<Script>(wrong).is_err(), "{wrong}");
    }
}
