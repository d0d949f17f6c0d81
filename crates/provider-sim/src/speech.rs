//! A complete answer as the events of a stream or as one body, in the form that was asked for.

use crate::answer::{Spoken, Voice};
use crate::message::Message;
use crate::request::{Ask, Form};
use crate::script::Script;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What stands in its `event:` field.
    pub(crate) name: Option<&'static str>,
    /// Its data.
    pub(crate) json: String,
}

/// An answer in one of the forms.
#[derive(Clone, Debug)]
pub(crate) enum Speech {
    Chat(Spoken),
    Messages(Message),
}

impl Speech {
    pub(crate) fn new(script: &Script, ask: &Ask, voice: &Voice) -> Self {
        match ask.form {
            Form::Chat => Self::Chat(Spoken::new(script, ask, voice)),
            Form::Messages => Self::Messages(Message::new(script, ask, voice)),
        }
    }

    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Chat(_) => Form::Chat,
            Self::Messages(_) => Form::Messages,
        }
    }

    /// Number of output events.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::Chat(spoken) => spoken.deltas.len(),
            Self::Messages(message) => message.outputs(),
        }
    }

    /// What comes before any output.
    pub(crate) fn opening(&self, azure: bool) -> Vec<Event> {
        match self {
            Self::Chat(spoken) => {
                let azure = azure.then(|| plain(spoken.azure_chunk()));
                azure.into_iter().chain([plain(spoken.role_chunk())]).collect()
            }
            Self::Messages(message) => message.opening(),
        }
    }

    /// The output event with this index, after whatever frames it; it is the last one.
    pub(crate) fn output(&self, index: usize) -> Vec<Event> {
        match self {
            Self::Chat(spoken) => vec![plain(spoken.delta_chunk(index))],
            Self::Messages(message) => message.output(index),
        }
    }

    /// The event with the finish reason, after whatever closes the output; it is the last one.
    pub(crate) fn finish(&self) -> Vec<Event> {
        match self {
            Self::Chat(spoken) => vec![plain(spoken.finish_chunk())],
            Self::Messages(message) => message.finish(),
        }
    }

    /// What follows the finish reason, and the end marker if it is wanted.
    pub(crate) fn end(&self, done: bool) -> Vec<Event> {
        let usage = match self {
            Self::Chat(spoken) => spoken.usage_chunk().map(plain),
            Self::Messages(_) => None,
        };
        usage.into_iter().chain(done.then(|| self.done())).collect()
    }

    /// The end marker.
    pub(crate) fn done(&self) -> Event {
        match self {
            Self::Chat(_) => plain("[DONE]".to_owned()),
            Self::Messages(_) => {
                Event { name: Some("message_stop"), json: r#"{"type":"message_stop"}"#.to_owned() }
            }
        }
    }

    /// The whole answer as one body.
    pub(crate) fn whole(&self) -> String {
        match self {
            Self::Chat(spoken) => spoken.completion(),
            Self::Messages(message) => message.whole(),
        }
    }
}

fn plain(json: String) -> Event {
    Event { name: None, json }
}
