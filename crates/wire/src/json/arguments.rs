//! What a model wrote as the arguments of a call, for dialects where they are an object.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// The arguments, where they are an object.
pub(crate) fn arguments(text: &str) -> Option<Cow<'_, RawValue>> {
    let text = text.trim();
    if text.is_empty() {
        return serde_json::from_str::<&RawValue>("{}").ok().map(Cow::Borrowed);
    }
    let raw = text.starts_with('{').then(|| serde_json::from_str::<&RawValue>(text).ok());
    raw.flatten().map(Cow::Borrowed)
}

/// Arguments that are no object, as a text in one.
pub(crate) fn wrapped(text: &str) -> Cow<'static, RawValue> {
    let wrapped = serde_json::json!({ "_raw": text.trim() }).to_string();
    Cow::Owned(RawValue::from_string(wrapped).unwrap_or_default())
}
