//! What there is on the admin plane, for people and for programs: one table, shown as an index and as OpenAPI.

use axum::Json;
use serde_json::{Map, Value, json};

/// Method, path, what it is for, and the keys of its query.
pub(super) type Endpoint = (&'static str, &'static str, &'static str, &'static [&'static str]);

pub(super) const ENDPOINTS: [Endpoint; 15] = [
    ("get", "/", "What there is", &[]),
    ("get", "/healthz", "Whether the process lives; needs no key", &[]),
    ("get", "/readyz", "Whether it takes requests; needs no key", &[]),
    ("get", "/metrics", "Metrics in the OpenMetrics text format", &[]),
    ("get", "/admin/v1/openapi.json", "This description", &[]),
    ("get", "/admin/v1/targets", "All targets and their health", &[]),
    ("get", "/admin/v1/targets/{id}", "One target and its health", &[]),
    (
        "post",
        "/admin/v1/targets/{id}/{action}",
        "kill, revive, isolate or reset a target; answers with the target as it is then",
        &[],
    ),
    ("get", "/admin/v1/routes", "All routes, and whether their fallback is switched off", &[]),
    (
        "post",
        "/admin/v1/routes/{route}/fallback/{switch}",
        "Switch the fallback of a route off or on; answers with the route as it is then",
        &[],
    ),
    (
        "post",
        "/admin/v1/explain",
        "What would be done with a Chat Completions request; nothing is sent or changed",
        &["endpoint", "route", "key"],
    ),
    (
        "get",
        "/admin/v1/requests",
        "Past requests, the newest first",
        &["target", "requested", "terminal", "key", "limit"],
    ),
    ("get", "/admin/v1/requests/{id}", "One past request with its attempts and its trace", &[]),
    ("get", "/admin/v1/audit", "The last changes by operators, the newest first", &[]),
    ("post", "/admin/v1/reload", "Read the configuration again; a bad one changes nothing", &[]),
];

/// `GET /`.
pub(super) async fn index() -> Json<Value> {
    let endpoints: Vec<Value> = ENDPOINTS
        .iter()
        .map(|(method, path, summary, _)| {
            json!({ "method": method.to_uppercase(), "path": path, "summary": summary })
        })
        .collect();
    Json(json!({ "name": "pointsman", "version": env!("CARGO_PKG_VERSION"), "endpoints": endpoints }))
}

/// `GET /admin/v1/openapi.json`.
pub(super) async fn document() -> Json<Value> {
    let mut paths = Map::new();
    for endpoint in &ENDPOINTS {
        let (method, path, ..) = endpoint;
        let entry = paths.entry(*path).or_insert_with(|| json!({}));
        if let Some(methods) = entry.as_object_mut() {
            methods.insert((*method).to_owned(), operation(endpoint));
        }
    }
    Json(json!({
        "openapi": "3.1.0",
        "info": { "title": "Pointsman admin API", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "securitySchemes": { "adminKey": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": error_schema() },
        },
    }))
}

fn operation(endpoint: &Endpoint) -> Value {
    let (method, path, summary, query) = endpoint;
    let in_path = path.split('/').filter_map(|p| p.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> =
        in_path.map(path_parameter).chain(query.iter().map(|name| query_parameter(name))).collect();
    let media = if *path == "/metrics" { "application/openmetrics-text" } else { "application/json" };
    let mut operation = json!({
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": { "description": "Done", "content": { media: {} } },
            "default": {
                "description": "Why not",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
            },
        },
    });
    if let Some(object) = operation.as_object_mut() {
        if !matches!(*path, "/healthz" | "/readyz") {
            // Without `admin.key` in the configuration no key is asked for.
            object.insert("security".into(), json!([{ "adminKey": [] }, {}]));
        }
        if *method == "post" {
            let required = *path == "/admin/v1/explain";
            let body = json!({ "required": required, "content": { "application/json": {} } });
            object.insert("requestBody".into(), body);
        }
    }
    operation
}

fn path_parameter(name: &str) -> Value {
    let schema = match name {
        "action" => json!({ "type": "string", "enum": super::targets::ACTIONS }),
        "switch" => json!({ "type": "string", "enum": ["off", "on"] }),
        _ => json!({ "type": "string" }),
    };
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

fn query_parameter(name: &str) -> Value {
    let schema = match name {
        "limit" => json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }),
        _ => json!({ "type": "string" }),
    };
    json!({ "name": name, "in": "query", "schema": schema })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "code"],
                "properties": { "message": { "type": "string" }, "code": { "type": "string" } },
            },
            "problems": { "type": "array", "items": { "type": "string" } },
        },
    })
}
