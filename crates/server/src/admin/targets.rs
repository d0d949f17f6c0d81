//! Targets: what is known of their health, and what an operator does to them.

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::fleet::{DomainView, Fleet};
use pointsman_core::target::Target;
use pointsman_core::time::Instant;
use serde_json::{Value, json};

use super::asked::InPath;
use super::error::AdminError;
use super::gate::Operator;
use super::{Admin, body, change};
use crate::app::App;
use crate::snapshot::Snapshot;

/// `GET /admin/v1/targets`.
pub(super) async fn list(State(admin): State<Admin>) -> Json<Value> {
    let snapshot = admin.app.snapshot.load_full();
    let now = admin.app.clock.now();
    let targets = admin.app.with_fleet(|fleet| {
        fleet.settle(now);
        snapshot.config.catalog.targets.iter().map(|t| view(fleet, t, now)).collect::<Vec<_>>()
    });
    Json(json!({ "targets": targets }))
}

/// `GET /admin/v1/targets/{id}`.
pub(super) async fn one(
    State(admin): State<Admin>,
    InPath(id): InPath<String>,
) -> Result<Json<Value>, AdminError> {
    let snapshot = admin.app.snapshot.load_full();
    let target = find(&snapshot, &id)?;
    Ok(Json(now(&admin.app, target)))
}

/// `POST /admin/v1/targets/{id}/{kill|revive|isolate|reset}`: answers with the target as it is then.
pub(super) async fn act(
    State(admin): State<Admin>,
    Extension(operator): Extension<Operator>,
    InPath((id, action)): InPath<(String, String)>,
    body: Body,
) -> Result<Json<Value>, AdminError> {
    body::nothing(body).await?;
    let snapshot = admin.app.snapshot.load_full();
    let target = find(&snapshot, &id)?;
    let now_is = admin.app.clock.now();
    let (name, act): (&str, Act) = match action.as_str() {
        "kill" => ("kill", |fleet, id, _| fleet.set_killed(id, true)),
        "revive" => ("revive", Fleet::revive),
        "isolate" => ("isolate", Fleet::isolate_target),
        "reset" => ("reset", Fleet::reset),
        _ => return Err(AdminError::unknown("action", &action, ACTIONS.into_iter())),
    };
    let done = admin.app.with_fleet(|fleet| act(fleet, &id, now_is));
    change::note(&admin.app, operator, name, format!("target/{id}"), done);
    if name == "kill" {
        // A kill is the target's, not a domain's: nothing else tells of it.
        admin.app.metrics.transition(DomainKind::Target.name(), &id, DomainState::Killed.name());
    }
    Ok(Json(now(&admin.app, target)))
}

/// Does something to the target of this name. Answers whether there is one.
type Act = fn(&mut Fleet, &str, Instant) -> bool;

/// What may be done to a target.
pub(super) const ACTIONS: [&str; 4] = ["kill", "revive", "isolate", "reset"];

fn find<'a>(snapshot: &'a Snapshot, id: &str) -> Result<&'a Target, AdminError> {
    let targets = &snapshot.config.catalog.targets;
    let names = targets.iter().map(|t| t.name.as_str());
    targets.iter().find(|t| t.name == id).ok_or_else(|| AdminError::unknown("target", id, names))
}

fn now(app: &App, target: &Target) -> Value {
    let now = app.clock.now();
    app.with_fleet(|fleet| {
        fleet.settle(now);
        view(fleet, target, now)
    })
}

/// A target as an operator sees it: never its credential.
fn view(fleet: &Fleet, target: &Target, now: Instant) -> Value {
    let domains = fleet.domains_of(&target.name, now);
    let state = fleet.target_state(&target.name);
    let own: Vec<&DomainView> = domains.iter().filter(|d| concerns_all(d, target)).collect();
    let gravest = own.iter().map(|d| d.state).max().unwrap_or(DomainState::Closed);
    let share = own.iter().map(|d| d.share).fold(1.0, f64::min);
    let first_token = state.and_then(|s| s.first_token.get());
    json!({
        "id": target.name,
        "provider": target.provider,
        "model": target.model,
        "upstream_model": target.upstream_model.as_ref().or(target.model.as_ref()),
        "endpoint": target.endpoint,
        "region": target.region,
        "tags": target.tags,
        "priority": target.priority,
        "weight": target.weight,
        "state": gravest.name(),
        "share": share,
        "killed": state.is_some_and(|s| s.killed),
        "in_flight": state.map_or(0, |s| s.in_flight),
        "first_token_ms": first_token.map(|t| t.as_secs_f64() * 1e3),
        "limits": {
            "rpm": target.limits.rpm,
            "tpm": target.limits.tpm,
            "concurrency": target.limits.concurrency,
        },
        "headroom": {
            "own": state.and_then(|s| s.own_headroom(now)),
            "provider": state.and_then(|s| s.headroom).map(|(share, _)| share),
        },
        "domains": domains.iter().map(|d| domain(d, now)).collect::<Vec<_>>(),
    })
}

/// Whether a domain is on the way of every request to the target: not one capability, nor one model of a wildcard.
fn concerns_all(domain: &DomainView, target: &Target) -> bool {
    match domain.kind {
        DomainKind::Account | DomainKind::Endpoint => true,
        DomainKind::Capability => false,
        DomainKind::Rate => target.model.is_some(),
        DomainKind::Target => domain.name == target.name,
    }
}

fn domain(domain: &DomainView, now: Instant) -> Value {
    let quiet = domain.state == DomainState::Closed && domain.share >= 1.0;
    let reason = match domain.state {
        DomainState::Killed => Some("switched off by an operator"),
        _ if quiet => None,
        _ => domain.cause,
    };
    let until_ms = domain.until.map(|at| millis(at, now));
    json!({
        "kind": domain.kind.name(),
        "name": domain.name,
        "state": domain.state.name(),
        "share": domain.share,
        "until_ms": until_ms.filter(|_| domain.state != DomainState::Killed),
        "failures_in_a_row": domain.failures_in_a_row,
        "reason": reason,
        "epoch": domain.epoch,
    })
}

/// From now until then, in milliseconds.
pub(super) fn millis(at: Instant, now: Instant) -> u64 {
    u64::try_from(at.since(now).as_millis()).unwrap_or(u64::MAX)
}
