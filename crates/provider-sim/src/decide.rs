//! What answers a request: a script's plan, or a refusal that no script decides.

use std::time::SystemTime;

use serde_json::json;
use tokio::time::Instant;

use crate::answer::Voice;
use crate::bedrock;
use crate::catalogue;
use crate::connection::Request;
use crate::control::unescape;
use crate::gemini;
use crate::names::script_from_text;
use crate::plan::{Plan, plan};
use crate::request::{Ask, Carried, Form, Head, Received, header};
use crate::responses;
use crate::script::Script;
use crate::services::{self, Service};
use crate::state::State;

/// How the paths of Gemini's methods end.
const GENERATE: &str = ":generateContent";
const STREAM: &str = ":streamGenerateContent";
/// How the paths end at which the tokens of a request are counted, by whose API.
const COUNTS: [(&str, Form); 3] = [
    ("/messages/count_tokens", Form::Messages),
    ("/responses/input_tokens", Form::Responses),
    (":countTokens", Form::Gemini(Carried::Whole)),
];
/// How the paths of Bedrock's methods end.
const CONVERSE: &str = "/converse";
const CONVERSE_STREAM: &str = "/converse-stream";

pub(crate) enum Decision {
    Script(Plan),
    Reply(u16, String),
}

/// Remembers and counts the request, and finds what answers it.
pub(crate) fn decide(request: &Request, connection: u64, state: &State) -> Decision {
    let head = &request.head;
    let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
    let form = form(path, query);
    let said = head.header("content-type").filter(|_| matches!(form, Form::Service(_)));
    let fields = said.and_then(|said| services::form_as_json(said, &request.body));
    let mut ask = Ask::read(form, fields.as_deref().unwrap_or(&request.body));
    if let Some(ask) = &mut ask {
        ask.model = match form {
            Form::Gemini(_) => gemini_model(path),
            Form::Bedrock { .. } => bedrock_model(path),
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
        return refused(form, Script::invalid_api_key(), &state.voice());
    }
    match (head.method.as_str(), path) {
        ("POST", path) if counts(path).is_some() => count(head, form, ask, state),
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
    if let Some(form) = counts(path) {
        form
    } else if path.ends_with(STREAM) {
        let events = query.split('&').any(|pair| pair == "alt=sse");
        Form::Gemini(if events { Carried::Events } else { Carried::Array })
    } else if path.ends_with(GENERATE) || (path.contains("/v1beta/models") && !path.contains("/openai/")) {
        Form::Gemini(Carried::Whole)
    } else if path.contains("/model/") && path.ends_with(CONVERSE_STREAM) {
        Form::Bedrock { stream: true }
    } else if path.contains("/model/") && path.ends_with(CONVERSE) {
        Form::Bedrock { stream: false }
    } else if path.ends_with("/messages") {
        Form::Messages
    } else if path.ends_with("/responses") {
        Form::Responses
    } else {
        Service::of(path).map_or(Form::Chat, Form::Service)
    }
}

fn counts(path: &str) -> Option<Form> {
    COUNTS.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, form)| form)
}

fn generates(path: &str, form: Form) -> bool {
    match form {
        Form::Chat => path.ends_with("/chat/completions"),
        Form::Messages | Form::Responses | Form::Bedrock { .. } | Form::Service(_) => true,
        Form::Gemini(_) => path.ends_with(GENERATE) || path.ends_with(STREAM),
    }
}

/// The model in `/v1beta/models/{model}:generateContent`.
fn gemini_model(path: &str) -> Option<String> {
    let (model, _method) = path.rsplit_once("/models/")?.1.rsplit_once(':')?;
    unescape(model).ok().filter(|model| !model.is_empty())
}

/// The model in `/model/{model}/converse`, which may be an ARN with all its colons and slashes.
fn bedrock_model(path: &str) -> Option<String> {
    let (model, _method) = path.split_once("/model/")?.1.rsplit_once('/')?;
    unescape(model).ok().filter(|model| !model.is_empty())
}

/// An answer that the request's script does not decide, in the words of the form.
fn refused(form: Form, script: Script, voice: &Voice) -> Decision {
    Decision::Script(plan(script, &Ask { form, ..Ask::default() }, voice, SystemTime::now()))
}

fn whole(status: u16, body: &str) -> Script {
    Script::fixed(status, "application/json", body)
}

fn call(head: &Head, form: Form, ask: Option<Ask>, state: &State) -> Decision {
    let model = ask.as_ref().and_then(|ask| ask.model.clone()).unwrap_or_default();
    let voice = state.count_call(&model);
    let Some(ask) = ask else { return refused(form, whole(400, catalogue::INVALID_JSON), &voice) };
    if ask.model.is_none() {
        return refused(form, whole(400, catalogue::MISSING_MODEL), &voice);
    }
    let served = &state.config.models;
    if !served.is_empty() && !served.contains(&model) {
        let not_found = match form {
            Form::Gemini(carried) => whole(404, &gemini::in_list(carried, gemini::model_not_found(&model))),
            _ => Script::model_not_found(&model),
        };
        return refused(form, not_found, &voice);
    }
    if let Some(script) = unacceptable(&ask, &model, &voice.name) {
        return refused(form, script, &voice);
    }
    match chosen(head, &model, state) {
        Ok(script) => Decision::Script(plan(script, &ask, &voice, SystemTime::now())),
        Err(refusal) => refusal,
    }
}

fn chosen(head: &Head, model: &str, state: &State) -> Result<Script, Decision> {
    match header(&head.headers, "x-sim-script").map(script_from_text) {
        Some(Ok(script)) => Ok(script),
        Some(Err(error)) => Err(Decision::Reply(400, catalogue::refused(&error.to_string()))),
        None => Ok(state.choose(model)),
    }
}

/// What the script decides, but where it would generate an answer the number of tokens.
fn count(head: &Head, form: Form, ask: Option<Ask>, state: &State) -> Decision {
    let model = ask.as_ref().and_then(|ask| ask.model.clone()).unwrap_or_default();
    let voice = state.count_call(&model);
    let Some(ask) = ask else { return refused(form, whole(400, catalogue::INVALID_JSON), &voice) };
    let mut script = match chosen(head, &model, state) {
        Ok(script) => script,
        Err(refusal) => return refusal,
    };
    if script.reply.is_none() {
        let tokens = ask.prompt_tokens;
        let body = match form {
            Form::Responses => json!({"object": "response.input_tokens", "input_tokens": tokens}),
            Form::Gemini(_) => json!({"totalTokens": tokens}),
            _ => json!({"input_tokens": tokens}),
        };
        script.reply = whole(200, &body.to_string()).reply;
    }
    Decision::Script(plan(script, &ask, &voice, SystemTime::now()))
}

/// What the provider refuses of a request whatever the script.
fn unacceptable(ask: &Ask, model: &str, name: &str) -> Option<Script> {
    match ask.form {
        Form::Chat | Form::Messages | Form::Service(_) => None,
        Form::Responses => {
            let wrong = responses::check(&ask.request, name).err()?;
            Some(whole(wrong.status, &wrong.body()))
        }
        Form::Gemini(carried) => {
            let wrong = gemini::check(&ask.request, model, name).err()?;
            Some(whole(wrong.status, &gemini::in_list(carried, wrong.body)))
        }
        Form::Bedrock { .. } => {
            let wrong = bedrock::check(&ask.request).err()?;
            Some(bedrock::error(400, "ValidationException", &wrong))
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
    // Of AWS's signature (version 4) only whose it is.
    let signed = header(headers, "authorization")
        .and_then(|value| value.strip_prefix("AWS4-HMAC-SHA256 Credential="))
        .and_then(|rest| rest.split('/').next());
    bearer.into_iter().chain(signed).chain(named).chain(in_query).any(|presented| presented == key)
}
