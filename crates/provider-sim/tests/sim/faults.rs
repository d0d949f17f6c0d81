//! Faults, streaming and not: which bytes come, and how it ends.

use std::time::Duration;

use pointsman_provider_sim::{BrokenEvent, Fault, Script, Sim};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::raw::{End, Seen, assert_silent, chat, events, exchange, exchange_until};
use crate::sim;

fn streaming() -> Vec<u8> {
    chat(json!({"model": "m", "stream": true}))
}

fn whole() -> Vec<u8> {
    chat(json!({"model": "m"}))
}

async fn stream_of(script: Script) -> Seen {
    exchange(sim(script).await.addr(), &streaming()).await
}

async fn body_of(script: Script) -> Seen {
    exchange(sim(script).await.addr(), &whole()).await
}

/// Output events among the complete events.
fn outputs(seen: &Seen) -> usize {
    let chunks =
        events(&seen.body).into_iter().filter_map(|event| serde_json::from_str::<Value>(&event).ok());
    chunks
        .filter(|chunk| !matches!(chunk["choices"][0]["delta"]["content"].as_str(), None | Some("")))
        .count()
}

fn length(seen: &Seen) -> usize {
    seen.header("content-length").unwrap().parse().unwrap()
}

async fn until(sim: &Sim, request: &[u8], enough: impl Fn(&Seen) -> bool) -> (Seen, TcpStream) {
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    let seen = exchange_until(&mut stream, request, enough).await;
    (seen, stream)
}

#[tokio::test]
async fn resets_and_closes_before_the_headers_leave_not_one_byte() {
    for (script, end, calls) in [
        (Script::reset_before_headers(), End::Reset, 1),
        (Script::close_after_read(), End::Closed, 1),
        (Script::reset_on_accept(), End::Reset, 0),
    ] {
        let sim = sim(script).await;
        let seen = exchange(sim.addr(), &streaming()).await;
        assert_eq!((seen.raw.len(), seen.end, sim.calls()), (0, end, calls));
        sim.wait_until(|sim| sim.open_connections() == 0).await.unwrap();
        assert_eq!(sim.aborted(), 0, "the provider ended it, not the client");
    }
}

#[tokio::test]
async fn reset_on_accept_for_one_model_resets_when_the_request_was_read() {
    let sim = sim(Script::healthy()).await;
    sim.set_for_model("bad", Script::reset_on_accept());
    assert_eq!(exchange(sim.addr(), &whole()).await.status, 200);
    assert_eq!(exchange(sim.addr(), &chat(json!({"model": "bad"}))).await.end, End::Reset);
    assert_eq!(sim.calls_for_model("bad"), 1);
}

#[tokio::test]
async fn silence_lasts_until_the_client_leaves_and_counts_as_aborted() {
    let sim = sim(Script::silence()).await;
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &whole()).await.unwrap();
    sim.wait_until(|sim| sim.active_requests() == 1).await.unwrap();
    assert_silent(&mut stream).await;
    drop(stream);
    sim.wait_until(|sim| sim.aborted() == 1 && sim.active_requests() == 0).await.unwrap();
    sim.wait_until(|sim| sim.open_connections() == 0).await.unwrap();
}

#[tokio::test]
async fn a_cut_ends_inside_an_http_chunk_after_the_outputs() {
    let seen = stream_of(Script::cut_after(3)).await;
    assert_eq!((seen.status, outputs(&seen), &seen.end), (200, 3, &End::Closed));
    assert_eq!(seen.chunks.len(), 1 + 3, "role and outputs are whole chunks");
    let whole_chunks: usize = seen.chunks.iter().sum();
    assert!(seen.body.len() > whole_chunks, "part of the next chunk came");
    assert!(!seen.text().contains("finish_reason\":\"stop") && !seen.text().contains("[DONE]"));
}

#[tokio::test]
async fn a_late_cut_still_has_all_its_outputs_before_it() {
    assert_eq!(outputs(&stream_of(Script::cut_after(40)).await), 40);
    let past_the_end = stream_of(Script::cut_after(40).tokens(5)).await;
    assert_eq!((outputs(&past_the_end), &past_the_end.end), (5, &End::Closed));
    assert!(!past_the_end.text().contains("[DONE]"));
}

#[tokio::test]
async fn a_reset_in_the_answer_is_a_reset() {
    let sim = sim(Script::reset_after(1)).await;
    let seen = exchange(sim.addr(), &streaming()).await;
    assert_eq!(seen.end, End::Reset);
    sim.wait_until(|sim| sim.open_connections() == 0).await.unwrap();
}

#[tokio::test]
async fn a_cut_tool_call_breaks_off_in_its_arguments() {
    let script = Script::cut_after(2).tool_call("weather", r#"{"city":"Zürich","days":3}"#);
    let seen = stream_of(script).await;
    let opened = events(&seen.body).iter().filter(|event| event.contains("tool_calls")).count();
    assert_eq!((opened, &seen.end), (2, &End::Closed));
}

#[tokio::test]
async fn a_clean_end_is_good_http_without_finish_and_done() {
    let seen = stream_of(Script::end_after(2)).await;
    assert_eq!((outputs(&seen), &seen.end), (2, &End::KeptAlive));
    assert!(!seen.text().contains("finish_reason\":\"stop") && !seen.text().contains("[DONE]"));
    let nothing = stream_of(Script::end_after(0)).await;
    assert_eq!(events(&nothing.body).len(), 1, "the role event alone");
}

#[tokio::test]
async fn stalls_and_role_only_streams_stay_open_and_silent() {
    for (script, expected) in [(Script::stall_after(2), 2), (Script::role_only_then_silence(), 0)] {
        let sim = sim(script).await;
        let (seen, mut stream) = until(&sim, &streaming(), |seen| seen.chunks.len() == expected + 1).await;
        assert_eq!((outputs(&seen), &seen.end), (expected, &End::Closed), "no end of the framing");
        assert_silent(&mut stream).await;
        drop(stream);
        sim.wait_until(|sim| sim.aborted() == 1).await.unwrap();
    }
}

#[tokio::test]
async fn an_unended_stream_has_its_finish_reason_and_no_end() {
    let sim = sim(Script::unended()).await;
    let (seen, mut stream) = until(&sim, &streaming(), |seen| seen.text().contains("\"stop\"")).await;
    assert!(!seen.text().contains("[DONE]"));
    assert_silent(&mut stream).await;
    drop(stream);
    sim.wait_until(|sim| sim.aborted() == 1).await.unwrap();
}

#[tokio::test]
async fn heartbeats_alone_are_comments_or_empty_lines() {
    let sim = sim(Script::heartbeats_only(Duration::from_millis(5))).await;
    let (seen, stream) = until(&sim, &streaming(), |seen| seen.chunks.len() >= 3).await;
    assert!(seen.text().starts_with(": keep-alive\n\n: keep-alive\n\n"));
    assert_eq!(events(&seen.body).len(), 0);
    drop(stream);
    sim.wait_until(|sim| sim.aborted() == 1).await.unwrap();
    let (seen, _stream) = until(&sim, &whole(), |seen| seen.chunks.len() >= 3).await;
    assert!(seen.body.iter().all(|byte| *byte == b'\n'));
}

#[tokio::test]
async fn a_waiting_stream_beats_until_its_first_output() {
    let script = Script::answer("late")
        .delay_first_token(Duration::from_millis(80))
        .heartbeat(Duration::from_millis(10));
    let seen = stream_of(script).await;
    let before_output = seen.text().split("late").next().unwrap().matches(": keep-alive\n\n").count();
    assert!((1..=8).contains(&before_output), "{before_output}");
    assert!(seen.text().ends_with("[DONE]\n\n"));
}

#[tokio::test]
async fn a_malformed_event_stands_in_for_one_output_and_the_rest_follows() {
    let seen = stream_of(Script::malformed_event_at(1).tokens(4)).await;
    let events = events(&seen.body);
    let broken: Vec<_> = (0..6).filter(|at| serde_json::from_str::<Value>(&events[*at]).is_err()).collect();
    assert_eq!(broken, [2], "after the role and one output");
    assert!(events[2].starts_with(r#"{"id":"chatcmpl-sim-1""#));
    assert_eq!((outputs(&seen), events.last().unwrap().as_str()), (3, "[DONE]"));
    let fault = |event| Script::healthy().fault(Fault::Malformed { after: 0, event });
    assert!(str::from_utf8(&stream_of(fault(BrokenEvent::InvalidUtf8)).await.body).is_err());
    assert!(stream_of(fault(BrokenEvent::Empty)).await.text().contains("\n\ndata: \n\n"));
}

#[tokio::test]
async fn error_events_come_first_or_after_output_and_end_the_stream() {
    let error = json!({"message": "Overloaded", "type": "overloaded_error", "param": null, "code": 529});
    let first = stream_of(Script::error_event_first(error.clone())).await;
    assert_eq!(events(&first.body), [json!({"error": error}).to_string()]);
    assert_eq!((first.status, &first.end), (200, &End::KeptAlive));
    let later = stream_of(Script::error_event_after(2, json!({"error": error}))).await;
    assert_eq!(outputs(&later), 2);
    assert_eq!(events(&later.body).last().unwrap(), &json!({"error": error}).to_string());
    let done = stream_of(Script::error_then_done(1, error.clone())).await;
    assert_eq!(events(&done.body)[2..], [json!({"error": error}).to_string(), "[DONE]".to_owned()]);
    let body = body_of(Script::error_event_first(error.clone())).await;
    assert_eq!((body.status, body.json()), (200, json!({"error": error})));
}

#[tokio::test]
async fn bodies_that_are_not_streams_break_in_the_same_ways() {
    for (script, end) in [(Script::cut_after(1), End::Closed), (Script::reset_after(1), End::Reset)] {
        let seen = body_of(script).await;
        assert_eq!(seen.end, end);
        if seen.status == 200 {
            assert!(seen.body.len() < length(&seen));
        }
    }
    let ended = body_of(Script::end_after(1)).await;
    assert_eq!((&ended.end, ended.header("transfer-encoding")), (&End::KeptAlive, Some("chunked")));
    assert!(serde_json::from_slice::<Value>(&ended.body).is_err());
    let malformed = body_of(Script::malformed_event_at(0)).await;
    assert_eq!(malformed.end, End::KeptAlive);
    assert!(serde_json::from_slice::<Value>(&malformed.body).is_err());
    let sim = sim(Script::stall_after(1)).await;
    let (seen, mut stream) = until(&sim, &whole(), |seen| seen.body.len() >= length(seen) / 2).await;
    assert_eq!((seen.status, &seen.end), (200, &End::Closed));
    assert_silent(&mut stream).await;
}

#[tokio::test]
async fn delays_hold_back_what_they_are_named_after() {
    let delay = Duration::from_millis(60);
    let begin = Instant::now();
    assert_eq!(stream_of(Script::slow_headers(delay)).await.status, 200);
    assert!(begin.elapsed() >= delay);

    let sim = sim(Script::answer("a b c").delay_first_token(delay).between_tokens(delay)).await;
    let begin = Instant::now();
    let (_, stream) = until(&sim, &streaming(), |seen| outputs(seen) == 1).await;
    assert!(begin.elapsed() >= delay);
    drop(stream);
    let begin = Instant::now();
    let (_, stream) = until(&sim, &streaming(), |seen| outputs(seen) == 3).await;
    assert!(begin.elapsed() >= 3 * delay);
    drop(stream);
    let begin = Instant::now();
    assert_eq!(exchange(sim.addr(), &whole()).await.status, 200);
    assert!(begin.elapsed() >= 3 * delay, "a body that is not streamed takes as long to make");
}

#[tokio::test]
async fn a_pause_ends_and_the_answer_goes_on() {
    let pause = Duration::from_millis(50);
    let begin = Instant::now();
    let seen = stream_of(Script::pause_after(2, pause).tokens(5)).await;
    assert!(begin.elapsed() >= pause);
    assert_eq!((outputs(&seen), &seen.end), (5, &End::KeptAlive));
    let body = body_of(Script::pause_after(2, pause)).await;
    assert_eq!(body.json()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_ends_the_answer() {
    let sim = sim(Script::healthy().tokens(100).between_tokens(Duration::from_secs(60))).await;
    let (_, stream) = until(&sim, &streaming(), |seen| outputs(seen) == 1).await;
    assert_eq!((sim.active_requests(), sim.open_connections()), (1, 1));
    drop(stream);
    sim.wait_until(|sim| (sim.aborted(), sim.active_requests(), sim.open_connections()) == (1, 0, 0))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_answer_back_and_may_leave() {
    let sim = sim(Script::healthy().tokens(100_000)).await;
    let (_, stream) = until(&sim, &streaming(), |seen| outputs(seen) >= 1).await;
    // 100,000 chunks are over 20 MB: far more than socket buffers take.
    assert_eq!(sim.active_requests(), 1);
    drop(stream);
    sim.wait_until(|sim| sim.aborted() == 1 && sim.open_connections() == 0).await.unwrap();
}

#[tokio::test]
async fn a_connection_closed_after_a_complete_answer_was_not_announced() {
    let sim = sim(Script::healthy().close_afterwards()).await;
    let (seen, mut stream) = until(&sim, &whole(), |_| false).await;
    assert_eq!(
        (seen.end, seen.headers.iter().any(|(name, _)| name == "connection")),
        (End::KeptAlive, false)
    );
    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await.unwrap();
    assert_eq!(read, 0);
}
