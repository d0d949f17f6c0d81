//! Schemas that OpenAI keeps to exactly.

use serde_json::Value;
use serde_json::value::RawValue;

/// Whether OpenAI takes the schema as a strict one ("Structured outputs": each object closed, each of its properties
/// required). Whoever asks for a schema in another dialect is promised that the answer fits, as far as that can be had.
pub(crate) fn may_be_strict(schema: &RawValue) -> bool {
    serde_json::from_str::<Value>(schema.get()).is_ok_and(|schema| schema.is_object() && is_closed(&schema))
}

/// The value was parsed under a depth limit, which bounds this too.
fn is_closed(schema: &Value) -> bool {
    match schema {
        Value::Array(list) => list.iter().all(is_closed),
        Value::Object(members) => {
            let required = members.get("required").and_then(Value::as_array);
            let named = |name: &String| required.is_some_and(|list| list.iter().any(|known| known == name));
            let object = members.get("type").is_some_and(|kind| kind == "object");
            let properties = members.get("properties").and_then(Value::as_object);
            let closed = members.get("additionalProperties") == Some(&Value::Bool(false));
            let whole = properties.is_none_or(|properties| properties.keys().all(named));
            ((!object && properties.is_none()) || (closed && whole)) && members.values().all(is_closed)
        }
        _ => true,
    }
}
