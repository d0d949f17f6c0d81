//! A JSON Schema as Messages keeps to it (Anthropic documentation, "Structured outputs", "JSON Schema limitations").
//!
//! Objects must be closed, and numbers, texts and lists cannot be bounded. What it does not keep to is told to the model in
//! the description instead, so that the schema is not refused and the wish is not lost.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::ir::Json;

/// Keywords that are refused.
const REFUSED: [&str; 17] = [
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "pattern",
    "patternProperties",
    "propertyNames",
    "uniqueItems",
    "contains",
];

/// Formats of texts that are kept to.
const FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

/// A schema is as deep as a request may be; more than this is looked at by nobody.
const MAX_DEPTH: usize = 64;

/// The schema as it may be sent, and whether something of it is now only told. The very bytes where nothing had to change.
pub(super) fn narrowed<'s>(schema: &'s Json<'_>) -> (Cow<'s, RawValue>, bool) {
    let unchanged = || (Cow::Borrowed(schema.as_ref()), false);
    let Ok(mut value) = serde_json::from_str::<Value>(schema.get()) else { return unchanged() };
    let mut walk = Walk::default();
    walk.schema(&mut value, 0);
    if !walk.changed {
        return unchanged();
    }
    match RawValue::from_string(value.to_string()) {
        Ok(raw) => (Cow::Owned(raw), walk.told),
        Err(_) => unchanged(),
    }
}

#[derive(Default)]
struct Walk {
    /// Something is otherwise than it was.
    changed: bool,
    /// Something is only told.
    told: bool,
}

impl Walk {
    fn schema(&mut self, schema: &mut Value, depth: usize) {
        let Value::Object(schema) = schema else { return };
        if depth > MAX_DEPTH {
            return;
        }
        self.tell(schema);
        if let Some(one) = schema.remove("oneOf") {
            self.changed = true;
            schema.entry("anyOf").or_insert(one);
        }
        let is_object = schema.get("type").is_some_and(|kind| kind == "object");
        if (is_object || schema.contains_key("properties"))
            && schema.get("additionalProperties") != Some(&Value::Bool(false))
        {
            self.changed = true;
            // What may hold anything can hold only what is named: that is another schema.
            self.told |= schema.contains_key("additionalProperties") || !schema.contains_key("properties");
            schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        for name in ["properties", "$defs", "definitions"] {
            // Below these stand names of the client's, and schemas behind them.
            if let Some(Value::Object(named)) = schema.get_mut(name) {
                named.values_mut().for_each(|inner| self.schema(inner, depth + 1));
            }
        }
        for name in ["anyOf", "allOf", "prefixItems"] {
            if let Some(Value::Array(list)) = schema.get_mut(name) {
                list.iter_mut().for_each(|inner| self.schema(inner, depth + 1));
            }
        }
        if let Some(items) = schema.get_mut("items") {
            self.schema(items, depth + 1);
        }
    }

    /// Moves what is refused into the description.
    fn tell(&mut self, schema: &mut Map<String, Value>) {
        let mut words = Vec::new();
        for name in REFUSED {
            if let Some(value) = schema.remove(name) {
                words.push(format!("{name}: {value}"));
            }
        }
        let odd = |format: &Value| format.as_str().is_some_and(|format| !FORMATS.contains(&format));
        if schema.get("format").is_some_and(odd)
            && let Some(format) = schema.remove("format")
        {
            words.push(format!("format: {format}"));
        }
        if words.is_empty() {
            return;
        }
        (self.changed, self.told) = (true, true);
        let before = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let space = if before.is_empty() { "" } else { " " };
        let text = format!("{before}{space}({})", words.join(", "));
        schema.insert("description".to_owned(), Value::String(text));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(schema: &Value) -> (Value, bool) {
        let raw: Json<'_> = Cow::Owned(RawValue::from_string(schema.to_string()).unwrap());
        let (sent, told) = narrowed(&raw);
        (serde_json::from_str(sent.get()).unwrap(), told)
    }

    /// C051, toward Messages.
    #[test]
    fn bounds_become_words_and_objects_are_closed() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "How many."},
            "s": {"type": "string", "maxLength": 5, "format": "uri"},
            "minimum": {"oneOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
        }});
        let (sent, told) = sent(&schema);
        assert!(told);
        assert_eq!(
            sent,
            json!({"type": "object", "required": ["n"], "additionalProperties": false, "properties": {
                "n": {"type": "integer", "description": "How many. (minimum: 1)"},
                "s": {"type": "string", "description": "(maxLength: 5, format: \"uri\")"},
                "minimum": {"anyOf": [
                    {"type": "object", "properties": {}, "additionalProperties": false}, {"type": "null"},
                ]},
            }})
        );
    }

    #[test]
    fn closing_an_object_loses_nothing_and_a_good_schema_keeps_its_bytes() {
        let (closed, told) = sent(&json!({"type": "object", "properties": {}}));
        assert_eq!((closed["additionalProperties"].clone(), told), (json!(false), false));
        let good = "{ \"type\":\"object\",\"properties\":{ \"a\":{\"type\":\"string\"}} ,\"additionalProperties\":false}";
        let raw: Json<'_> = Cow::Owned(RawValue::from_string(good.to_owned()).unwrap());
        assert_eq!(narrowed(&raw).0.get(), good);
        assert_eq!(sent(&closed), (closed.clone(), false), "once is enough");
    }
}
