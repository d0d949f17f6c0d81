//! Blocks of a message as they are written.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::ir::CacheMark;

/// `cache_control`.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cache {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutBlock<'r> {
    Document {
        source: OutSource<'r>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'r str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    Image {
        source: OutSource<'r>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    Text {
        text: Cow<'r, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    Thinking {
        thinking: Cow<'r, str>,
        signature: Cow<'r, str>,
    },
    ToolResult {
        tool_use_id: Cow<'r, str>,
        content: Vec<Self>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    ToolUse {
        id: Cow<'r, str>,
        name: Cow<'r, str>,
        input: Cow<'r, RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
}

impl<'r> OutBlock<'r> {
    pub(super) fn text(text: impl Into<Cow<'r, str>>, cache: Option<CacheMark>) -> Self {
        Self::Text { text: text.into(), cache_control: cache.map(Cache::from) }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutSource<'r> {
    Base64 { media_type: &'r str, data: &'r str },
    Text { media_type: &'static str, data: &'r str },
    Url { url: &'r str },
}
