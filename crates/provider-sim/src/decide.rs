//! What answers a request: a script's plan, or a refusal that no script decides.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::catalogue;
use crate::connection::Request;
use crate::envelope;
use crate::names::script_from_text;
use crate::plan::{Plan, plan};
use crate::request::{Ask, Form, Head, Received, header};
use crate::responses;
use crate::script::{FixedReply, Script};
use crate::state::State;

pub(crate) enum Decision {
    Script(Plan),
    Reply(u16, String),
}

/// Remembers and counts the request, and finds what answers it.
pub(crate) fn decide(request: &Request, connection: u64, state: &State) -> Decision {
    let head = &request.head;
    let (path, _query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let form = form(path);
    let mut ask = Ask::read(form, &request.body);
    if let Some(ask) = &mut ask {
        ask.model = ask.model.take().or_else(|| deployment(path).map(str::to_owned));
    }
    state.remember(Received {
        method: head.method.clone(),
        path: head.target.clone(),
        headers: head.headers.clone(),
        body: request.body.clone(),
        at: Instant::now(),
        model: ask.as_ref().and_then(|ask| ask.model.clone()),
        stream: ask.as_ref().is_some_and(|ask| ask.stream),
        connection,
    });
    if let Some(key) = &state.config.api_key
        && !presents_key(&head.headers, key)
    {
        return refused(form, 401, catalogue::INVALID_API_KEY.to_owned(), state);
    }
    match (head.method.as_str(), path) {
        ("POST", path) if path.ends_with("/chat/completions") || form != Form::Chat => {
            call(head, form, ask, state)
        }
        ("GET", path) if path.ends_with("/models") => {
            Decision::Reply(200, catalogue::models(&state.config.models))
        }
        (method, path) => Decision::Reply(404, catalogue::unknown_url(method, path)),
    }
}

/// Whose API a path belongs to.
fn form(path: &str) -> Form {
    if path.ends_with("/messages") {
        Form::Messages
    } else if path.ends_with("/responses") {
        Form::Responses
    } else {
        Form::Chat
    }
}

/// An answer that no script decides, in the words of the form.
fn refused(form: Form, status: u16, body: String, state: &State) -> Decision {
    let reply = FixedReply { status, content_type: "application/json".to_owned(), body };
    let reply = envelope::reply(form, &reply, &state.voice());
    Decision::Reply(reply.status, reply.body)
}

fn call(head: &Head, form: Form, ask: Option<Ask>, state: &State) -> Decision {
    let model = ask.as_ref().and_then(|ask| ask.model.clone()).unwrap_or_default();
    let voice = state.count_call(&model);
    let Some(ask) = ask else { return refused(form, 400, catalogue::INVALID_JSON.to_owned(), state) };
    if ask.model.is_none() {
        return refused(form, 400, catalogue::MISSING_MODEL.to_owned(), state);
    }
    let served = &state.config.models;
    if !served.is_empty() && !served.contains(&model) {
        return refused(form, 404, catalogue::model_not_found(&model), state);
    }
    if form == Form::Responses
        && let Err(wrong) = responses::check(&ask.request, &voice.name)
    {
        return Decision::Reply(wrong.status, wrong.body());
    }
    let own: Option<Result<Script, _>> = header(&head.headers, "x-sim-script").map(script_from_text);
    let script = match own {
        Some(Ok(script)) => script,
        Some(Err(error)) => return Decision::Reply(400, catalogue::refused(&error.to_string())),
        None => state.choose(&model),
    };
    Decision::Script(plan(script, &ask, &voice, SystemTime::now()))
}

/// Azure's classic path names the model: `/openai/deployments/{deployment}/chat/completions`.
fn deployment(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/deployments/")?;
    rest.split('/').next()
}

fn presents_key(headers: &[(String, String)], key: &str) -> bool {
    let bearer = header(headers, "authorization").and_then(|value| value.strip_prefix("Bearer "));
    bearer == Some(key) || ["api-key", "x-api-key"].iter().any(|name| header(headers, name) == Some(key))
}
