//! Items and their parts as they are written, in requests, answers and streams (OpenAI API reference, "Responses").

use std::borrow::Cow;

use serde::Serialize;

use super::seal;

/// An item.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    CustomToolCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<Cow<'a, str>>,
        input: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    CustomToolCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<Cow<'a, str>>,
        arguments: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
    Message {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        role: &'static str,
        content: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    Reasoning {
        id: Cow<'a, str>,
        summary: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<Cow<'a, str>>,
    },
}

/// What a tool said.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Output<'a> {
    Parts(Vec<Part<'a>>),
    Text(Cow<'a, str>),
}

/// A part of a content.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    InputAudio {
        input_audio: Audio<'a>,
    },
    InputFile {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
    },
    InputImage {
        image_url: Cow<'a, str>,
        detail: &'static str,
    },
    InputText {
        text: Cow<'a, str>,
    },
    OutputText {
        text: Cow<'a, str>,
        annotations: [(); 0],
    },
    Refusal {
        refusal: Cow<'a, str>,
    },
    SummaryText {
        text: Cow<'a, str>,
    },
}

/// A recording.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Audio<'a> {
    data: &'a str,
    format: &'a str,
}

impl<'a> Part<'a> {
    pub(super) fn audio(data: &'a str, format: &'a str) -> Self {
        Self::InputAudio { input_audio: Audio { data, format } }
    }

    pub(super) fn file(filename: &'a str, file_data: String) -> Self {
        Self::InputFile { filename: Some(filename), file_data: Some(file_data), file_url: None }
    }

    pub(super) fn file_at(filename: Option<&'a str>, url: &'a str) -> Self {
        Self::InputFile { filename, file_data: None, file_url: Some(url) }
    }

    pub(super) fn image(image_url: Cow<'a, str>) -> Self {
        Self::InputImage { image_url, detail: "auto" }
    }

    pub(super) fn output_text(text: Cow<'a, str>) -> Self {
        Self::OutputText { text, annotations: [] }
    }
}

impl<'a> Item<'a> {
    /// A message of a request.
    pub(super) fn said(role: &'static str, content: Vec<Part<'a>>) -> Self {
        Self::Message { id: None, role, content, status: None }
    }

    /// A call of a request.
    pub(super) fn call(call_id: Cow<'a, str>, name: Cow<'a, str>, arguments: Cow<'a, str>) -> Self {
        Self::FunctionCall { id: None, call_id, name, namespace: None, arguments, status: None }
    }

    /// A call of a custom tool, in a request.
    pub(super) fn custom_call(call_id: Cow<'a, str>, name: Cow<'a, str>, input: Cow<'a, str>) -> Self {
        Self::CustomToolCall { id: None, call_id, name, namespace: None, input, status: None }
    }

    /// What a tool said.
    pub(super) fn output(custom: bool, call_id: Cow<'a, str>, text: Cow<'a, str>) -> Self {
        Self::output_of(custom, call_id, Output::Text(text))
    }

    /// The same with more than text.
    pub(super) fn output_parts(custom: bool, call_id: Cow<'a, str>, parts: Vec<Part<'a>>) -> Self {
        Self::output_of(custom, call_id, Output::Parts(parts))
    }

    fn output_of(custom: bool, call_id: Cow<'a, str>, output: Output<'a>) -> Self {
        if custom {
            Self::CustomToolCallOutput { call_id, output }
        } else {
            Self::FunctionCallOutput { call_id, output }
        }
    }

    /// Thoughts on their way back to the provider that sealed them; `None` if the seal is none of its.
    pub(super) fn thoughts_again(text: &'a str, sealed: &'a str) -> Option<Self> {
        let (id, encrypted) = seal::split(sealed)?;
        let encrypted_content = Some(Cow::Borrowed(encrypted));
        Some(Self::Reasoning { id: Cow::Borrowed(id), summary: summary(text), encrypted_content })
    }
}

/// The summary of thoughts: none where there are no words.
pub(super) fn summary(text: &str) -> Vec<Part<'_>> {
    match text {
        "" => Vec::new(),
        text => vec![Part::SummaryText { text: Cow::Borrowed(text) }],
    }
}

impl Item<'_> {
    /// How far it has come, for items that say so.
    pub(super) fn set_status(&mut self, to: &'static str) {
        match self {
            Self::CustomToolCall { status, .. }
            | Self::FunctionCall { status, .. }
            | Self::Message { status, .. } => *status = Some(to),
            Self::CustomToolCallOutput { .. } | Self::FunctionCallOutput { .. } | Self::Reasoning { .. } => {}
        }
    }
}

/// The same, kept.
pub(super) fn owned_summary(text: &str) -> Vec<Part<'static>> {
    match text {
        "" => Vec::new(),
        text => vec![Part::SummaryText { text: Cow::Owned(text.to_owned()) }],
    }
}
