//! A complete answer as the events of a stream or as one body, in the form that was asked for.

use serde_json::{Value, json};

use crate::answer::{Spoken, Voice};
use crate::bedrock::{Conversed, frame};
use crate::envelope;
use crate::gemini::Generated;
use crate::message::Message;
use crate::request::{Ask, Form};
use crate::responses::Response;
use crate::script::Script;
use crate::services::Served;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What stands in its `event:` field.
    pub(crate) name: Option<&'static str>,
    /// Its data.
    pub(crate) json: String,
    pub(crate) carrier: Carrier,
}

/// How an event goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// As a server-sent event.
    Sse,
    /// Its data are a piece of a body that is no event stream, and go out as they are.
    Bare,
    /// As a message of AWS's event stream.
    Frame(frame::Kind),
}

impl Event {
    /// An event that is only data.
    pub(crate) fn plain(json: String) -> Self {
        Self { name: None, json, carrier: Carrier::Sse }
    }

    /// A piece of a body that is no event stream.
    pub(crate) fn bare(json: String) -> Self {
        Self { name: None, json, carrier: Carrier::Bare }
    }

    /// An event whose data begin with its name as `type`, as Anthropic's and OpenAI's do.
    pub(crate) fn typed(name: &'static str, fields: &Value) -> Self {
        let fields = fields.to_string();
        let rest = fields.strip_prefix('{').filter(|rest| *rest != "}").map(|rest| format!(",{rest}"));
        let json = format!("{{\"type\":\"{name}\"{}", rest.as_deref().unwrap_or("}"));
        Self { name: Some(name), json, carrier: Carrier::Sse }
    }

    /// A message of AWS's event stream.
    pub(crate) fn framed(kind: frame::Kind, name: &'static str, json: String) -> Self {
        Self { name: Some(name), json, carrier: Carrier::Frame(kind) }
    }
}

/// A heartbeat.
pub(crate) enum Beat {
    /// A comment of an event stream.
    Comment,
    Event(Event),
    /// The form has none.
    Nothing,
}

/// An answer in one of the forms.
#[derive(Clone, Debug)]
pub(crate) enum Speech {
    Chat(Spoken),
    Messages(Message),
    Responses(Response),
    Gemini(Generated),
    Bedrock(Conversed),
    Service(Served),
}

impl Speech {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        match ask.form {
            Form::Chat => Self::Chat(Spoken::new(script, ask, voice)),
            Form::Messages => Self::Messages(Message::new(script, ask, voice)),
            Form::Responses => Self::Responses(Response::new(script, ask, voice)),
            Form::Gemini(carried) => Self::Gemini(Generated::new(script, ask, voice, carried)),
            Form::Bedrock { .. } => Self::Bedrock(Conversed::new(script, ask, voice)),
            Form::Service(service) => Self::Service(Served::new(service, script, ask, voice)),
        }
    }

    /// Number of output events.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::Chat(spoken) => spoken.deltas.len(),
            Self::Messages(message) => message.outputs(),
            Self::Responses(response) => response.outputs(),
            Self::Gemini(generated) => generated.outputs(),
            Self::Bedrock(conversed) => conversed.outputs(),
            Self::Service(served) => served.outputs(),
        }
    }

    /// What comes before any output.
    pub(crate) fn opening(&self, azure: bool) -> Vec<Event> {
        match self {
            Self::Chat(spoken) => {
                let azure = azure.then(|| Event::plain(spoken.azure_chunk()));
                azure.into_iter().chain([Event::plain(spoken.role_chunk())]).collect()
            }
            Self::Messages(message) => message.opening(),
            Self::Responses(response) => response.opening(),
            Self::Gemini(_) => Vec::new(),
            Self::Bedrock(conversed) => conversed.opening(),
            Self::Service(served) => served.opening(),
        }
    }

    /// The output event with this index, after whatever frames it; it is the last one.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        match self {
            Self::Chat(spoken) => vec![Event::plain(spoken.delta_chunk(index))],
            Self::Messages(message) => message.output(index),
            Self::Responses(response) => response.output(index),
            Self::Gemini(generated) => generated.output(index),
            Self::Bedrock(conversed) => conversed.output(index),
            Self::Service(served) => served.output(index),
        }
    }

    /// The event with the finish reason, after whatever closes the output; it is the last one. None where the end marker
    /// has the reason.
    pub(crate) fn finish(&self) -> Vec<Event> {
        match self {
            Self::Chat(spoken) => vec![Event::plain(spoken.finish_chunk())],
            Self::Messages(message) => message.finish(),
            Self::Responses(response) => response.finish(),
            Self::Gemini(_) => Vec::new(),
            Self::Bedrock(conversed) => conversed.finish(),
            Self::Service(served) => served.finish(),
        }
    }

    /// What follows the finish reason, and the end marker if it is wanted.
    pub(crate) fn end(&self, done: bool) -> Vec<Event> {
        let usage = match self {
            Self::Chat(spoken) => spoken.usage_chunk().map(Event::plain),
            Self::Messages(_) | Self::Responses(_) | Self::Gemini(_) | Self::Bedrock(_) => None,
            Self::Service(served) => return served.end(done),
        };
        usage.into_iter().chain(done.then(|| self.done())).collect()
    }

    /// The end marker.
    pub(crate) fn done(&self) -> Event {
        match self {
            Self::Chat(_) => Event::plain("[DONE]".to_owned()),
            Self::Messages(_) => Event::typed("message_stop", &json!({})),
            Self::Responses(response) => response.done(),
            Self::Gemini(generated) => generated.done(),
            Self::Bedrock(conversed) => conversed.done(),
            Self::Service(served) => served.done(),
        }
    }

    /// The parts of a medium, where the answer is one.
    pub(crate) fn medium(&self) -> Option<&[String]> {
        match self {
            Self::Service(served) => served.medium(),
            _ => None,
        }
    }

    /// The whole answer where it is text for people.
    pub(crate) fn plain_text(&self) -> Option<String> {
        match self {
            Self::Service(served) => served.plain_text(),
            _ => None,
        }
    }

    /// The whole answer as one body.
    pub(crate) fn whole(&self) -> String {
        match self {
            Self::Chat(spoken) => spoken.completion(),
            Self::Messages(message) => message.whole(),
            Self::Responses(response) => response.whole(),
            Self::Gemini(generated) => generated.whole(),
            Self::Bedrock(conversed) => conversed.whole(),
            Self::Service(served) => served.whole(),
        }
    }

    /// The error as events, and the end marker that follows it if it is wanted. `after` counts the outputs before it;
    /// without a count it stands in place of everything.
    pub(crate) fn failure(&self, error: &Value, after: Option<usize>, done: bool) -> Vec<Event> {
        let own = match self {
            Self::Responses(response) => return response.failure(error, after, done),
            // The error is the end.
            Self::Gemini(generated) => return vec![generated.failure(error, after)],
            Self::Bedrock(conversed) => return vec![conversed.failure(error)],
            Self::Chat(_) | Self::Service(_) => Event::plain(envelope::in_general(error).to_string()),
            Self::Messages(_) => {
                Event { name: Some("error"), ..Event::plain(envelope::event(error).to_string()) }
            }
        };
        [own].into_iter().chain(done.then(|| self.done())).collect()
    }

    /// The error as the body of an answer that is not streamed.
    pub(crate) fn failed_whole(&self, error: &Value) -> String {
        match self {
            Self::Chat(_) | Self::Service(_) => envelope::in_general(error).to_string(),
            Self::Messages(_) => envelope::event(error).to_string(),
            Self::Responses(response) => response.failed_whole(error),
            Self::Gemini(generated) => generated.failed_whole(error),
            Self::Bedrock(conversed) => conversed.failed_whole(error),
        }
    }

    /// What keeps a stream alive after so many outputs, or before anything.
    pub(crate) fn heartbeat(&self, outputs: Option<usize>) -> Beat {
        match (self, outputs) {
            (Self::Bedrock(_), _) => Beat::Nothing,
            (Self::Gemini(generated), _) => generated.heartbeat().map_or(Beat::Comment, Beat::Event),
            (Self::Messages(_), Some(_)) => Beat::Event(Event::typed("ping", &json!({}))),
            (Self::Responses(response), Some(outputs)) => Beat::Event(response.keepalive(outputs)),
            (Self::Chat(_) | Self::Service(_), _) | (_, None) => Beat::Comment,
        }
    }

    /// The content type of a stream.
    pub(crate) fn stream_type(&self) -> &'static str {
        match self {
            Self::Gemini(generated) => generated.stream_type(),
            Self::Bedrock(_) => "application/vnd.amazon.eventstream",
            Self::Chat(_) | Self::Messages(_) | Self::Responses(_) | Self::Service(_) => {
                "text/event-stream; charset=utf-8"
            }
        }
    }
}
