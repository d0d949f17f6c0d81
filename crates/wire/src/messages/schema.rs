//! A JSON Schema as Messages keeps to it (Anthropic documentation, "Structured outputs", "JSON Schema limitations").
//!
//! Objects must be closed, and numbers, texts and lists cannot be bounded. What it does not keep to is told to the model in
//! the description instead, so that the schema is not refused and the wish is not lost.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::ir::Json;
use crate::json::{self, Members};

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

/// A schema as it may be sent.
#[derive(Debug)]
pub(crate) struct Narrowed<'s> {
    /// The very bytes where nothing had to change; else members in their order, since a model answers in it.
    pub(crate) schema: Cow<'s, RawValue>,
    /// Something of it is now only told in words.
    pub(crate) told: bool,
}

/// Narrows a schema.
///
/// # Errors
/// Why it cannot be kept to, in words: a model that kept to what is left would give another answer.
pub(crate) fn narrowed<'s>(schema: &'s Json<'_>) -> Result<Narrowed<'s>, &'static str> {
    let mut walk = Walk::default();
    let mut out = String::with_capacity(schema.get().len());
    walk.schema(schema, 0, &mut out)?;
    let schema = match walk.changed.then(|| RawValue::from_string(out)) {
        Some(Ok(narrowed)) => Cow::Owned(narrowed),
        _ => Cow::Borrowed(schema.as_ref()),
    };
    Ok(Narrowed { schema, told: walk.told })
}

#[derive(Default)]
struct Walk {
    /// Something is otherwise than it was.
    changed: bool,
    /// Something is only told.
    told: bool,
}

impl Walk {
    fn schema(&mut self, raw: &RawValue, depth: usize, out: &mut String) -> Result<(), &'static str> {
        let Some(all) = Members::of(raw, "").ok().filter(|_| depth <= MAX_DEPTH).map(Members::into_all)
        else {
            // `true`, `false`, or none at all.
            out.push_str(raw.get());
            return Ok(());
        };
        let value = |name: &str| all.iter().find(|(key, _)| key == name).map(|(_, value)| value.get());
        if value("oneOf").is_some() && value("anyOf").is_some() {
            return Err("Messages does not take `oneOf` beside `anyOf` in a schema");
        }
        let mut object = Object::begin(out);
        let mut words = Vec::new();
        for (name, value) in &all {
            match name.as_ref() {
                refused if REFUSED.contains(&refused) => words.push(format!("{name}: {}", value.get())),
                "format" if !is_kept(value) => words.push(format!("{name}: {}", value.get())),
                // Written last, since words may have to be added.
                "additionalProperties" | "description" => {}
                "oneOf" => {
                    self.changed = true;
                    self.list(value, depth, object.member("anyOf"))?;
                }
                "anyOf" | "allOf" | "prefixItems" => self.list(value, depth, object.member(name))?,
                "items" => self.schema(value, depth + 1, object.member(name))?,
                // Below these stand names of the client's, and schemas behind them.
                "properties" | "$defs" | "definitions" => self.named(value, depth, object.member(name))?,
                _ => object.member(name).push_str(value.get()),
            }
        }
        self.describe(value("description"), &words, &mut object);
        self.close(value("type"), value("properties"), value("additionalProperties"), &mut object)?;
        object.end();
        Ok(())
    }

    fn list(&mut self, raw: &RawValue, depth: usize, out: &mut String) -> Result<(), &'static str> {
        let Some(items) = json::list(raw) else {
            out.push_str(raw.get());
            return Ok(());
        };
        out.push('[');
        for (place, item) in items.into_iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            self.schema(item, depth + 1, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn named(&mut self, raw: &RawValue, depth: usize, out: &mut String) -> Result<(), &'static str> {
        let Ok(members) = Members::of(raw, "") else {
            out.push_str(raw.get());
            return Ok(());
        };
        let mut object = Object::begin(out);
        for (name, schema) in members.into_all() {
            self.schema(schema, depth + 1, object.member(&name))?;
        }
        object.end();
        Ok(())
    }

    /// The description, with what is no longer kept to.
    fn describe(&mut self, before: Option<&str>, words: &[String], object: &mut Object<'_>) {
        if words.is_empty() {
            if let Some(before) = before {
                object.member("description").push_str(before);
            }
            return;
        }
        (self.changed, self.told) = (true, true);
        let before = before.and_then(|json| json::text(json.as_bytes())).unwrap_or_default();
        let space = if before.is_empty() { "" } else { " " };
        let text = Value::from(format!("{before}{space}({})", words.join(", ")));
        object.member("description").push_str(&text.to_string());
    }

    /// Closes an object.
    fn close(
        &mut self,
        kind: Option<&str>,
        properties: Option<&str>,
        more: Option<&str>,
        object: &mut Object<'_>,
    ) -> Result<(), &'static str> {
        match more {
            Some("false") => object.member("additionalProperties").push_str("false"),
            None if kind != Some("\"object\"") && properties.is_none() => {}
            None | Some("true") if properties.is_some() => {
                self.changed = true;
                self.told |= more.is_some();
                object.member("additionalProperties").push_str("false");
            }
            _ => return Err("Messages keeps to objects only whose members all have names"),
        }
        Ok(())
    }
}

/// Whether a format of texts is kept to.
fn is_kept(format: &RawValue) -> bool {
    json::text(format.get().as_bytes()).is_none_or(|format| FORMATS.contains(&format.as_ref()))
}

/// An object that is being written.
struct Object<'o> {
    out: &'o mut String,
    first: bool,
}

impl<'o> Object<'o> {
    fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, first: true }
    }

    /// Begins a member; its value is written to what this gives.
    fn member(&mut self, name: &str) -> &mut String {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        self.out.push_str(&Value::from(name).to_string());
        self.out.push(':');
        self.out
    }

    fn end(self) {
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(json: &str) -> Json<'static> {
        Cow::Owned(RawValue::from_string(json.to_owned()).unwrap())
    }

    fn sent(schema: &Value) -> (Value, bool) {
        let raw = raw(&schema.to_string());
        let narrowed = narrowed(&raw).unwrap();
        (serde_json::from_str(narrowed.schema.get()).unwrap(), narrowed.told)
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
                "s": {"type": "string", "description": "(format: \"uri\", maxLength: 5)"},
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
        assert_eq!(narrowed(&raw(good)).unwrap().schema.get(), good);
        assert_eq!(sent(&closed), (closed.clone(), false), "once is enough");
    }

    /// A model answers in the order of the properties: to reason first and answer then is what was asked.
    #[test]
    fn members_keep_their_order_and_numbers_their_spelling() {
        let schema = r#"{"type":"object","properties":{"reasoning":{"type":"string","maxLength":9},"answer":{"const":12345678901234567890.0}}}"#;
        let expected = r#"{"type":"object","properties":{"reasoning":{"type":"string","description":"(maxLength: 9)"},"answer":{"const":12345678901234567890.0}},"additionalProperties":false}"#;
        assert_eq!(narrowed(&raw(schema)).unwrap().schema.get(), expected);
    }

    #[test]
    fn what_would_become_another_schema_is_refused() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
            json!({"oneOf": [{"type": "null"}], "anyOf": [{"type": "string"}]}),
            json!({"type": "array", "items": {"type": "object", "additionalProperties": true}}),
        ] {
            assert!(narrowed(&raw(&schema.to_string())).is_err(), "{schema}");
        }
        let open = json!({"type": "object", "properties": {}, "additionalProperties": true});
        assert!(sent(&open).1, "that nothing more may stand in it is told");
    }
}
