//! A complete answer as the events of a stream or as one body, in the form that was asked for.

use serde_json::{Value, json};

use crate::answer::{Spoken, Voice};
use crate::envelope;
use crate::gemini::Generated;
use crate::message::Message;
use crate::request::{Ask, Form};
use crate::responses::Response;
use crate::script::Script;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What stands in its `event:` field.
    pub(crate) name: Option<&'static str>,
    /// Its data.
    pub(crate) json: String,
    /// The data are a piece of a body that is no event stream, and go out as they are.
    pub(crate) bare: bool,
}

impl Event {
    /// An event that is only data.
    pub(crate) fn plain(json: String) -> Self {
        Self { name: None, json, bare: false }
    }

    /// A piece of a body that is no event stream.
    pub(crate) fn bare(json: String) -> Self {
        Self { name: None, json, bare: true }
    }

    /// An event whose data begin with its name as `type`, as Anthropic's and OpenAI's do.
    pub(crate) fn typed(name: &'static str, fields: &Value) -> Self {
        let fields = fields.to_string();
        let rest = fields.strip_prefix('{').filter(|rest| *rest != "}").map(|rest| format!(",{rest}"));
        let json = format!("{{\"type\":\"{name}\"{}", rest.as_deref().unwrap_or("}"));
        Self { name: Some(name), json, bare: false }
    }
}

/// An answer in one of the forms.
#[derive(Clone, Debug)]
pub(crate) enum Speech {
    Chat(Spoken),
    Messages(Message),
    Responses(Response),
    Gemini(Generated),
}

impl Speech {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        match ask.form {
            Form::Chat => Self::Chat(Spoken::new(script, ask, voice)),
            Form::Messages => Self::Messages(Message::new(script, ask, voice)),
            Form::Responses => Self::Responses(Response::new(script, ask, voice)),
            Form::Gemini(carried) => Self::Gemini(Generated::new(script, ask, voice, carried)),
        }
    }

    /// Number of output events.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::Chat(spoken) => spoken.deltas.len(),
            Self::Messages(message) => message.outputs(),
            Self::Responses(response) => response.outputs(),
            Self::Gemini(generated) => generated.outputs(),
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
        }
    }

    /// The output event with this index, after whatever frames it; it is the last one.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        match self {
            Self::Chat(spoken) => vec![Event::plain(spoken.delta_chunk(index))],
            Self::Messages(message) => message.output(index),
            Self::Responses(response) => response.output(index),
            Self::Gemini(generated) => generated.output(index),
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
        }
    }

    /// What follows the finish reason, and the end marker if it is wanted.
    pub(crate) fn end(&self, done: bool) -> Vec<Event> {
        let usage = match self {
            Self::Chat(spoken) => spoken.usage_chunk().map(Event::plain),
            Self::Messages(_) | Self::Responses(_) | Self::Gemini(_) => None,
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
        }
    }

    /// The whole answer as one body.
    pub(crate) fn whole(&self) -> String {
        match self {
            Self::Chat(spoken) => spoken.completion(),
            Self::Messages(message) => message.whole(),
            Self::Responses(response) => response.whole(),
            Self::Gemini(generated) => generated.whole(),
        }
    }

    /// The error as events, and the end marker that follows it if it is wanted. `after` counts the outputs before it;
    /// without a count it stands in place of everything.
    pub(crate) fn failure(&self, error: &Value, after: Option<usize>, done: bool) -> Vec<Event> {
        let own = match self {
            Self::Responses(response) => return response.failure(error, after, done),
            // The error is the end.
            Self::Gemini(generated) => return vec![generated.failure(error, after)],
            Self::Chat(_) => Event::plain(envelope::in_general(error).to_string()),
            Self::Messages(_) => {
                Event { name: Some("error"), ..Event::plain(envelope::event(error).to_string()) }
            }
        };
        [own].into_iter().chain(done.then(|| self.done())).collect()
    }

    /// The error as the body of an answer that is not streamed.
    pub(crate) fn failed_whole(&self, error: &Value) -> String {
        match self {
            Self::Chat(_) => envelope::in_general(error).to_string(),
            Self::Messages(_) => envelope::event(error).to_string(),
            Self::Responses(response) => response.failed_whole(error),
            Self::Gemini(generated) => generated.failed_whole(error),
        }
    }

    /// What keeps a stream alive after so many outputs, or before anything; `None` is a comment.
    pub(crate) fn heartbeat(&self, outputs: Option<usize>) -> Option<Event> {
        match (self, outputs) {
            (Self::Gemini(generated), _) => generated.heartbeat(),
            (Self::Messages(_), Some(_)) => Some(Event::typed("ping", &json!({}))),
            (Self::Responses(response), Some(outputs)) => Some(response.keepalive(outputs)),
            (Self::Chat(_), _) | (_, None) => None,
        }
    }

    /// The content type of a stream.
    pub(crate) fn stream_type(&self) -> &'static str {
        match self {
            Self::Gemini(generated) => generated.stream_type(),
            Self::Chat(_) | Self::Messages(_) | Self::Responses(_) => "text/event-stream; charset=utf-8",
        }
    }
}
