//! What answers a request: a script's plan, or a refusal that no script decides.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::catalogue;
use crate::connection::Request;
use crate::control::unescape;
use crate::envelope;
use crate::gemini;
use crate::names::script_from_text;
use crate::plan::{Plan, plan};
use crate::request::{Ask, Carried, Form, Head, Received, header};
use crate::responses;
use crate::script::{FixedReply, Script};
use crate::state::State;

/// How the paths of Gemini's methods end.
const GENERATE: &str = ":generateContent";
const STREAM: &str = ":streamGenerateContent";

pub(crate) enum Decision {
    Script(Plan),
    Reply(u16, String),
}

/// Remembers and counts the request, and finds what answers it.
pub(crate) fn decide(request: &Request, connection: u64, state: &State) -> Decision {
    let head = &request.head;
    let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let form = form(path, query);
    let mut ask = Ask::read(form, &request.body);
    if let Some(ask) = &mut ask {
        ask.model = match form {
            Form::Gemini(_) => gemini_model(path),
            _ => ask.model.take().or_else(|| deployment(path).map(str::to_owned)),
        };
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
        && !presents_key(&head.headers, query, key)
    {
        return refused(form, 401, catalogue::INVALID_API_KEY.to_owned(), state);
    }
    match (head.method.as_str(), path) {
        ("POST", path) if generates(path, form) => call(head, form, ask, state),
        ("GET", path) if path.ends_with("/models") => {
            // Google's SDKs ask on `/v1/models` too, and show by their key whose list they want.
            let googles = form != Form::Chat || head.header("x-goog-api-key").is_some();
            let list = if googles { gemini::models } else { catalogue::models };
            Decision::Reply(200, list(&state.config.models))
        }
        (method, path) => Decision::Reply(404, catalogue::unknown_url(method, path)),
    }
}

/// Whose API a path belongs to.
fn form(path: &str, query: &str) -> Form {
    if path.ends_with(STREAM) {
        let events = query.split('&').any(|pair| pair == "alt=sse");
        Form::Gemini(if events { Carried::Events } else { Carried::Array })
    } else if path.ends_with(GENERATE) || (path.contains("/v1beta/models") && !path.contains("/openai/")) {
        Form::Gemini(Carried::Whole)
    } else if path.ends_with("/messages") {
        Form::Messages
    } else if path.ends_with("/responses") {
        Form::Responses
    } else {
        Form::Chat
    }
}

fn generates(path: &str, form: Form) -> bool {
    match form {
        Form::Chat => path.ends_with("/chat/completions"),
        Form::Messages | Form::Responses => true,
        Form::Gemini(_) => path.ends_with(GENERATE) || path.ends_with(STREAM),
    }
}

/// The model in `/v1beta/models/{model}:generateContent`.
fn gemini_model(path: &str) -> Option<String> {
    let (model, _method) = path.rsplit_once("/models/")?.1.rsplit_once(':')?;
    unescape(model).ok().filter(|model| !model.is_empty())
}

/// An answer that no script decides, in the words of the form.
fn refused(form: Form, status: u16, body: String, state: &State) -> Decision {
    let reply = FixedReply { status, content_type: "application/json".to_owned(), body };
    let reply = envelope::reply(form, reply, &state.voice());
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
        return match form {
            Form::Gemini(carried) => {
                Decision::Reply(404, gemini::in_list(carried, gemini::model_not_found(&model)))
            }
            _ => refused(form, 404, catalogue::model_not_found(&model), state),
        };
    }
    if let Some(refused) = unacceptable(&ask, &model, &voice.name) {
        return refused;
    }
    let own: Option<Result<Script, _>> = header(&head.headers, "x-sim-script").map(script_from_text);
    let script = match own {
        Some(Ok(script)) => script,
        Some(Err(error)) => return Decision::Reply(400, catalogue::refused(&error.to_string())),
        None => state.choose(&model),
    };
    Decision::Script(plan(script, &ask, &voice, SystemTime::now()))
}

/// What the provider refuses of a request whatever the script.
fn unacceptable(ask: &Ask, model: &str, name: &str) -> Option<Decision> {
    match ask.form {
        Form::Chat | Form::Messages => None,
        Form::Responses => {
            let wrong = responses::check(&ask.request, name).err()?;
            Some(Decision::Reply(wrong.status, wrong.body()))
        }
        Form::Gemini(carried) => {
            let wrong = gemini::check(&ask.request, model, name).err()?;
            Some(Decision::Reply(wrong.status, gemini::in_list(carried, wrong.body)))
        }
    }
}

/// Azure's classic path names the model: `/openai/deployments/{deployment}/chat/completions`.
fn deployment(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/deployments/")?;
    rest.split('/').next()
}

fn presents_key(headers: &[(String, String)], query: &str, key: &str) -> bool {
    let bearer = header(headers, "authorization").and_then(|value| value.strip_prefix("Bearer "));
    let in_query = query.split('&').filter_map(|pair| pair.strip_prefix("key="));
    let named = ["api-key", "x-api-key", "x-goog-api-key"].iter().filter_map(|name| header(headers, name));
    bearer.into_iter().chain(named).chain(in_query).any(|presented| presented == key)
}
