//! The failure matrix, row by row: what each kind of failure permits, in each phase, and whom it counts against.
//!
//! The expected values are the documented table's, written down by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod world;

use pointsman_core::controller::Failed;
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::fleet::DomainView;
use pointsman_core::kind::FailureKind::{self, *};
use pointsman_core::kind::{Phase, Terminal};
use pointsman_core::policy::{OnPolicy, RetryOrder};
use pointsman_core::request::Request;
use world::{World, failed, secs};

/// What becomes of a request whose first attempt, on A, failed: with `[A]` alone, with `[A, B]`, with `[A | C]`.
struct Row {
    kind: FailureKind,
    retry: bool,
    failover: bool,
    fallback: bool,
    /// How a request ends that has nowhere to go.
    end: Terminal,
}

const fn row(kind: FailureKind, retry: bool, failover: bool, fallback: bool, end: Terminal) -> Row {
    Row { kind, retry, failover, fallback, end }
}

/// For a target of another provider and account, with a larger window, on a route without `on_policy: fallback`.
const MATRIX: [Row; 18] = [
    row(Connect, true, true, true, Terminal::Exhausted),
    row(Timeout, false, true, true, Terminal::Exhausted),
    // Only with guidance: see `a_rate_limit_is_retried_only_on_the_providers_word`.
    row(RateLimit, false, true, true, Terminal::Exhausted),
    row(QuotaExhausted, false, true, true, Terminal::Exhausted),
    row(Overloaded, true, true, true, Terminal::Exhausted),
    row(ServerError, true, true, true, Terminal::Exhausted),
    row(BadResponse, false, true, true, Terminal::Exhausted),
    row(SchemaInvalid, false, true, true, Terminal::Exhausted),
    row(Auth, false, true, true, Terminal::Exhausted),
    row(Permission, false, true, true, Terminal::Exhausted),
    row(ModelNotFound, false, true, true, Terminal::Exhausted),
    row(Unsupported, false, true, true, Terminal::Rejected),
    // A target of the same model has the same window: only another model can have a larger one.
    row(ContextOverflow, false, false, true, Terminal::Rejected),
    row(InvalidRequest, false, false, false, Terminal::Rejected),
    row(Policy, false, false, false, Terminal::PolicyStop),
    row(PartialStream, false, false, false, Terminal::Partial),
    row(Cancelled, false, false, false, Terminal::Deadline),
    row(Unknown, false, false, false, Terminal::Exhausted),
];

fn world(word: &str) -> World {
    World::with(word, |catalog| {
        for (model, window) in [("m0", 8_000), ("m1", 32_000)] {
            if let Some(model) = catalog.models.get_mut(model) {
                model.context_window = Some(window);
            }
        }
    })
}

/// The attempts of a request whose attempts on A fail so; all others succeed.
fn attempts(word: &str, failure: Failed) -> (String, Terminal) {
    let mut world = world(word);
    let mut run = world.go();
    if failure.phase == Phase::Committed {
        run.commit(&mut world);
    }
    run.finish(&mut world, |name| (name == "A").then_some(failure));
    assert_eq!(world.in_flight(), 0);
    (run.attempts(), run.stop().terminal)
}

#[test]
fn the_matrix_has_a_row_for_every_kind() {
    let rows: Vec<FailureKind> = MATRIX.iter().map(|r| r.kind).collect();
    assert_eq!(rows, FailureKind::ALL);
}

#[test]
fn a_target_that_is_alone_is_retried_only_where_the_kind_permits_it() {
    for row in &MATRIX {
        let expected = if row.retry { "A primary, A retry" } else { "A primary" };
        assert_eq!(attempts("A", failed(row.kind)), (expected.into(), row.end), "{}", row.kind);
    }
}

#[test]
fn an_equivalent_takes_over_only_where_the_kind_permits_it() {
    for row in &MATRIX {
        let expected = match row.failover {
            true => ("A primary, B failover".into(), Terminal::Success),
            false => ("A primary".into(), row.end),
        };
        assert_eq!(attempts("A,B", failed(row.kind)), expected, "{}", row.kind);
    }
}

#[test]
fn another_model_answers_only_where_the_kind_permits_it() {
    for row in &MATRIX {
        let expected = match (row.retry, row.fallback) {
            (true, _) => ("A primary, A retry, C fallback".into(), Terminal::Success),
            (false, true) => ("A primary, C fallback".into(), Terminal::Success),
            (false, false) => ("A primary".into(), row.end),
        };
        assert_eq!(attempts("A|C", failed(row.kind)), expected, "{}", row.kind);
    }
}

#[test]
fn no_kind_in_no_phase_leads_on_after_commit() {
    for kind in FailureKind::ALL {
        for word in ["A", "A,B", "A|C"] {
            let mut world = world(word);
            let mut run = world.go();
            run.commit(&mut world);
            // Whatever phase the failure claims: output went out.
            for phase in [Phase::NotSent, Phase::Sent, Phase::Headers, Phase::Preamble, Phase::Committed] {
                run.fail(&mut world, Failed { phase, ..failed(kind) });
                assert_eq!(run.stop().terminal, Terminal::Partial, "{kind} {phase:?}");
            }
            assert_eq!(run.attempts(), "A primary");
        }
    }
}

#[test]
fn a_failure_that_says_committed_is_committed_even_if_nothing_said_so_before() {
    for kind in FailureKind::ALL {
        let got = attempts("A,B", Failed { phase: Phase::Committed, ..failed(kind) });
        assert_eq!(got, ("A primary".into(), Terminal::Partial), "{kind}");
    }
}

#[test]
fn before_commit_the_phase_changes_nothing_about_where_a_replay_safe_request_may_go() {
    for row in MATRIX.iter().filter(|r| r.kind != PartialStream) {
        for phase in [Phase::NotSent, Phase::Sent, Phase::Headers, Phase::Preamble] {
            for (word, goes) in [("A,B", row.failover), ("A|C", row.fallback)] {
                let (_, terminal) = attempts(word, Failed { phase, lost: false, ..failed(row.kind) });
                let expected = if goes { Terminal::Success } else { row.end };
                assert_eq!(terminal, expected, "{} {phase:?} {word}", row.kind);
            }
        }
    }
}

#[test]
fn a_rate_limit_is_retried_only_on_the_providers_word() {
    let limit = |s| Failed { retry_after: Some(secs(s)), ..failed(RateLimit) };
    assert_eq!(attempts("A", limit(2)).0, "A primary, A retry");
    assert_eq!(attempts("A", failed(RateLimit)).0, "A primary");
    assert_eq!(attempts("A,B", limit(2)).0, "A primary, B failover", "never asleep while B has room");
}

#[test]
fn with_retry_first_a_rate_limit_still_goes_to_the_equivalent_that_has_room() {
    let mut world = World::with("A,B", |c| {
        c.routes.get_mut("route").unwrap().governance.retry.order = RetryOrder::RetryFirst;
    });
    let run = world.play(|name| (name == "A").then_some(world::rate_limit(secs(0))));
    assert_eq!(run.attempts(), "A primary, B failover");
}

#[test]
fn a_connection_is_retried_once_however_many_attempts_a_target_may_have() {
    let mut world = World::with("A", |c| {
        c.routes.get_mut("route").unwrap().governance.budget.max_same_target_attempts = 4;
    });
    let run = world.play(|_| Some(failed(Connect)));
    assert_eq!(run.attempts(), "A primary, A retry");
}

#[test]
fn quota_and_auth_lead_only_to_another_account() {
    for kind in [QuotaExhausted, Auth] {
        let mut world = World::with("A,B,C", |c| c.targets[1].account = "account-A".into());
        let run = world.play(|name| (name == "A").then_some(failed(kind)));
        assert_eq!(run.attempts(), "A primary, C failover", "{kind}");
    }
}

#[test]
fn what_a_target_does_not_support_leads_only_to_another_provider() {
    for kind in [Unsupported, SchemaInvalid] {
        let mut world = World::with("A,B,C", |c| c.targets[1].provider = "provider-A".into());
        let run = world.play(|name| (name == "A").then_some(failed(kind)));
        assert_eq!(run.attempts(), "A primary, C failover", "{kind}");
    }
}

#[test]
fn an_overflow_leads_only_to_a_window_that_is_known_to_be_larger() {
    for (window, expected) in [
        (Some(8_001), "A primary, C fallback"),
        (Some(8_000), "A primary"),
        (Some(4_000), "A primary"),
        (None, "A primary"),
    ] {
        let mut world = world("A|C");
        world.catalog.models.get_mut("m1").unwrap().context_window = window;
        let run = world.play(|name| (name == "A").then_some(failed(ContextOverflow)));
        assert_eq!(run.attempts(), expected, "{window:?}");
    }
}

#[test]
fn a_policy_refusal_leads_to_another_model_only_where_the_route_says_so() {
    let mut world = World::with("A,B|C", |c| {
        c.routes.get_mut("route").unwrap().governance.substitution.on_policy = OnPolicy::Fallback;
    });
    let run = world.play(|name| (name == "A").then_some(failed(Policy)));
    assert_eq!(run.attempts(), "A primary, C fallback", "never to another target of the same model");
    let run = world.play(|_| Some(failed(Policy)));
    assert_eq!(run.ending().0, Terminal::PolicyStop);
}

/// Which domains of A differ from new ones after this failure: `"target:1"` is one counted failure in a row.
fn touched(failure: Failed, change: impl Fn(&mut Request)) -> Vec<String> {
    let mut world = world("A");
    for _ in 0..2 {
        // Two different requests: the second refusal of a credential isolates.
        let mut request = world.request();
        request.sdk_retry = true;
        change(&mut request);
        world.pass(secs(5));
        let mut run = world.start(request);
        if failure.phase == Phase::Committed {
            run.commit(&mut world);
        }
        run.fail(&mut world, failure);
        if failure.kind != Auth {
            break;
        }
    }
    world.fleet.domains_of("A", world.now).iter().filter_map(mark).collect()
}

fn mark(view: &DomainView) -> Option<String> {
    let name = view.name.rsplit('/').next().unwrap();
    let name = if view.kind == DomainKind::Capability { name } else { view.kind.name() };
    match (view.state, view.failures_in_a_row) {
        (DomainState::Closed, 0) => None,
        (DomainState::Closed, n) => Some(format!("{name}:{n}")),
        (state, _) => Some(format!("{name} {}", state.name())),
    }
}

#[test]
fn each_kind_counts_against_what_is_to_blame_and_nothing_else() {
    let expected: [(FailureKind, &[&str]); 18] = [
        (Connect, &["endpoint:1"]),
        (Timeout, &["target:1"]),
        (RateLimit, &["rate throttled"]),
        (QuotaExhausted, &["account isolated"]),
        (Overloaded, &["target:1"]),
        (ServerError, &["target:1"]),
        (BadResponse, &["target:1"]),
        // Of a request without structured output it would be nobody's.
        (SchemaInvalid, &[]),
        (Auth, &["account isolated"]),
        (Permission, &["target isolated"]),
        (ModelNotFound, &["target isolated"]),
        (Unsupported, &[]),
        (ContextOverflow, &[]),
        (InvalidRequest, &[]),
        (Policy, &[]),
        (PartialStream, &["target:1"]),
        (Cancelled, &[]),
        (Unknown, &[]),
    ];
    for (kind, domains) in expected {
        assert_eq!(touched(failed(kind), |_| {}), domains, "{kind}");
    }
}

#[test]
fn what_was_not_sent_counts_on_the_endpoint_and_what_was_sent_on_the_target() {
    for kind in [Connect, Timeout] {
        for (phase, domain) in [
            (Phase::NotSent, "endpoint:1"),
            (Phase::Sent, "target:1"),
            (Phase::Headers, "target:1"),
            (Phase::Preamble, "target:1"),
        ] {
            assert_eq!(touched(Failed { phase, ..failed(kind) }, |_| {}), [domain], "{kind} {phase:?}");
        }
    }
}

#[test]
fn what_is_excused_counts_against_nobody() {
    for kind in [Connect, Timeout, PartialStream] {
        assert_eq!(touched(Failed { excused: true, ..failed(kind) }, |_| {}), [""; 0], "{kind}");
    }
}

#[test]
fn a_schema_failure_counts_against_structured_output_and_not_against_the_target() {
    let structured = |r: &mut Request| {
        r.needs.structured_output = Some(pointsman_core::target::StructuredOutput::JsonSchema);
    };
    assert_eq!(touched(failed(SchemaInvalid), structured), ["structured:1"]);
}

#[test]
fn a_failure_after_commit_is_a_partial_stream_whatever_it_was_called() {
    for kind in [ServerError, Overloaded, Timeout, BadResponse, Connect, RateLimit, QuotaExhausted] {
        let failure = Failed { phase: Phase::Committed, ..failed(kind) };
        assert_eq!(touched(failure, |_| {}), ["target:1"], "{kind}");
    }
    assert_eq!(touched(Failed { phase: Phase::Committed, ..failed(Cancelled) }, |_| {}), [""; 0]);
}
