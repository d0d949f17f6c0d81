//! The control endpoint, on the same port under `/_sim/`: state, what was received, scripts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::catalogue;
use crate::names::{script_from_name, script_names};
use crate::request::Received;
use crate::script::{Connection, Schedule, Script};
use crate::state::State;

/// Paths that are not a provider's.
pub(crate) const PREFIX: &str = "/_sim/";

const ENDPOINTS: &str = "GET /_sim/state, GET /_sim/received, GET /_sim/scripts, PUT /_sim/script[?model=M], \
                         POST /_sim/enqueue, PUT /_sim/schedule, POST /_sim/reset";

/// Status and JSON body for a request to the control endpoint.
pub(crate) fn respond(state: &State, method: &str, target: &str, body: &[u8]) -> (u16, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let done = match (method, path.strip_prefix(PREFIX).unwrap_or_default()) {
        ("GET", "state") => Ok(snapshot(state)),
        ("GET", "received") => Ok(state.received().iter().map(received).collect()),
        ("GET", "scripts") => {
            Ok(script_names().iter().map(|(name, what)| json!({"name": name, "what": what})).collect())
        }
        ("PUT" | "POST", "script") => set(state, query, body),
        ("POST" | "PUT", "enqueue") => enqueue(state, body),
        ("PUT" | "POST", "schedule") => schedule(state, body),
        ("POST", "reset") => {
            state.set(state.config.default.clone());
            state.reset_counters();
            Ok(snapshot(state))
        }
        _ => {
            return (
                404,
                catalogue::refused(&format!("There is no {method} {path}; there are: {ENDPOINTS}")),
            );
        }
    };
    match done {
        Ok(value) => (200, value.to_string()),
        Err(message) => (400, catalogue::refused(&message)),
    }
}

fn snapshot(state: &State) -> Value {
    let rules = state.rules_now();
    let by_model: BTreeMap<_, _> = rules.by_model.into_iter().collect();
    let calls_by_model: BTreeMap<_, _> = state.calls_by_model().into_iter().collect();
    json!({
        "name": state.config.name,
        "models": state.config.models,
        "calls": state.calls(),
        "calls_by_model": calls_by_model,
        "active_requests": state.active_requests(),
        "open_connections": state.open_connections(),
        "accepted_connections": state.accepted(),
        "aborted": state.aborted(),
        "queued": rules.queued,
        "script": rules.general,
        "scripts_by_model": by_model,
    })
}

fn received(request: &Received) -> Value {
    let headers: Vec<[String; 2]> =
        request.headers.iter().map(|(name, value)| [name.clone(), shown(name, value)]).collect();
    let body =
        request.json().unwrap_or_else(|| Value::String(String::from_utf8_lossy(&request.body).into_owned()));
    json!({
        "method": request.method,
        "path": shown_path(&request.path),
        "headers": headers,
        "body": body,
        "bytes": request.body.len(),
        "model": request.model,
        "stream": request.stream,
        "connection": request.connection,
        "age_ms": u64::try_from(request.at.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// A path; of a key in the query only its last four characters.
fn shown_path(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| match pair.strip_prefix("key=") {
            Some(key) => format!("key={}", shown("authorization", key)),
            None => pair.to_owned(),
        })
        .collect();
    format!("{path}?{}", pairs.join("&"))
}

/// A header's value; of a credential only its last four characters, enough to tell two apart.
fn shown(name: &str, value: &str) -> String {
    let secret = [
        "authorization",
        "api-key",
        "x-api-key",
        "x-goog-api-key",
        "x-amz-security-token",
        "cookie",
        "proxy-authorization",
    ]
    .contains(&name);
    let from = value.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
    match (secret, value.get(from..)) {
        (true, Some(end)) if value.len() > 8 => format!("***{end}"),
        (true, _) => "***".to_owned(),
        (false, _) => value.to_owned(),
    }
}

fn set(state: &State, query: &str, body: &[u8]) -> Result<Value, String> {
    let script = script(parse(body)?)?;
    let model = query.split('&').find_map(|pair| pair.strip_prefix("model="));
    match model {
        Some(model) => state.set_for_model(&unescape(model)?, script),
        None if script.connection == Connection::ResetOnAccept => {
            return Err(
                "reset_on_accept for all connections would lock this endpoint out too; enqueue it".to_owned()
            );
        }
        None => state.set(script),
    }
    Ok(snapshot(state))
}

fn enqueue(state: &State, body: &[u8]) -> Result<Value, String> {
    let scripts: Vec<Script> = match parse(body)? {
        Value::Array(items) => items.into_iter().map(script).collect::<Result<_, _>>()?,
        one => vec![script(one)?],
    };
    state.enqueue(scripts);
    Ok(snapshot(state))
}

fn schedule(state: &State, body: &[u8]) -> Result<Value, String> {
    let mut value = parse(body)?;
    for phase in value.get_mut("phases").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(place) = phase.get_mut("script") {
            *place = json!(script(place.take())?);
        }
    }
    let schedule: Schedule =
        serde_json::from_value(value).map_err(|error| format!("Not a schedule: {error}"))?;
    if schedule.phases.iter().any(|phase| phase.script.connection == Connection::ResetOnAccept) {
        return Err("reset_on_accept in a schedule would lock this endpoint out too; enqueue it".to_owned());
    }
    state.set_schedule(schedule);
    Ok(snapshot(state))
}

/// The body as JSON; one that is none is taken as a short name.
fn parse(body: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = str::from_utf8(body).map_err(|_| "The body is not UTF-8".to_owned())?.trim();
    match text.starts_with(['{', '[', '"']) {
        true => Err("The body is not valid JSON".to_owned()),
        false => Ok(Value::String(text.to_owned())),
    }
}

/// A script from its JSON, or from its short name in a JSON string.
fn script(value: Value) -> Result<Script, String> {
    match value {
        Value::String(name) => script_from_name(&name).map_err(|error| error.to_string()),
        value => serde_json::from_value(value).map_err(|error| format!("Not a script: {error}")),
    }
}

/// Percent-decoding of a query value or a segment of a path.
pub(crate) fn unescape(text: &str) -> Result<String, String> {
    let unreadable = || "The model is not percent-encoded UTF-8".to_owned();
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err(unreadable());
        };
        out.push(u8::try_from(high * 16 + low).map_err(|_| unreadable())?);
    }
    String::from_utf8(out).map_err(|_| unreadable())
}
