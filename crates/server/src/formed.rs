//! Whether an answer has the form that the request asks for, before it is released (`stream.buffer`).
//!
//! Schemas are the client's and answers the provider's: neither may cost more than is allowed here. Patterns are matched
//! without backtracking, nothing is fetched, and how often a schema looks at an answer is counted before it does.

use std::sync::Arc;

use bytes::Bytes;
use jsonschema::{PatternOptions, Validator};
use pointsman_core::kind::Phase;
use pointsman_wire::dialect::Dialect;
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::Envelope;
use pointsman_wire::translate::{self, Form};
use serde_json::Value;

use crate::counting::apart;
use crate::exchange::{AttemptFailure, Exchange};
use crate::fail::ApiError;
use crate::verdict;

/// A schema may be so large, in bytes of JSON.
const MAX_SCHEMA: usize = 256 * 1024;
/// All patterns of a schema may take so much memory each, in bytes.
const MAX_PATTERN: usize = 1024 * 1024;
/// So often may the parts of a schema look at the parts of an answer.
const MAX_LOOKS: u32 = 200_000;

/// The form that an answer must have.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Json,
    Schema(Arc<(Value, Validator)>),
}

/// Why an answer does not have it. Says nothing of what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Misfit {
    #[error("the answer is no JSON, and the request asks for it")]
    NoJson,
    #[error("the answer does not fit the request's schema")]
    Schema,
    #[error("whether the answer fits the request's schema takes too long to say")]
    TooMuch,
}

/// The form that is asked for, where the route releases only what has it.
///
/// # Errors
/// A 400 if the schema cannot be checked: nobody must learn that from an answer that has been paid.
pub(crate) async fn wanted(
    envelope: &Envelope,
    body: &Bytes,
    buffer: bool,
) -> Result<Option<Wanted>, Box<ApiError>> {
    if !buffer || envelope.needs().structured.is_none() || envelope.endpoint() != Endpoint::Generation {
        return Ok(None);
    }
    let (dialect, body) = (envelope.dialect(), body.clone());
    let read = apart(body.len(), move || read(&body, dialect)).await;
    read.unwrap_or(Err("it cannot be read")).map_err(|why| {
        let message = format!("the schema of the answer cannot be checked before its release: {why}");
        ApiError::bad_request(&message, None)
    })
}

fn read(body: &[u8], dialect: Dialect) -> Result<Option<Wanted>, &'static str> {
    let form = translate::form(body, dialect).map_err(|_| "the request cannot be read")?;
    Ok(match form {
        None => None,
        Some(Form::Json) => Some(Wanted::Json),
        Some(Form::Schema(schema)) => {
            let validator = compiled(&schema)?;
            Some(Wanted::Schema(Arc::new((schema, validator))))
        }
    })
}

fn compiled(schema: &Value) -> Result<Validator, &'static str> {
    if schema.to_string().len() > MAX_SCHEMA {
        return Err("it is larger than 256 KiB");
    }
    if !is_in_itself(schema, true) {
        return Err("it refers to another one, or by name");
    }
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    options
        .build(schema)
        .map_err(|_| "it is no JSON Schema, refers to another one, or has a pattern that looks around")
}

/// Whether all references of a schema are places in it, and no part of it has a base of its own. Recursion ends where the
/// nesting of a request's JSON does.
fn is_in_itself(schema: &Value, root: bool) -> bool {
    match schema {
        Value::Array(all) => all.iter().all(|one| is_in_itself(one, false)),
        Value::Object(all) => all.iter().all(|(name, value)| match (name.as_str(), value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(place)) => {
                place == "#" || place.starts_with("#/")
            }
            ("$id" | "id", Value::String(_)) => root,
            _ => is_in_itself(value, false),
        }),
        _ => true,
    }
}

/// Checks a whole answer in this dialect, if it must have a form.
pub(crate) async fn check(
    exchange: &Exchange,
    body: &Bytes,
    dialect: Dialect,
    phase: Phase,
) -> Result<(), AttemptFailure> {
    let Some(wanted) = exchange.inbound.wanted.clone() else { return Ok(()) };
    let body = body.clone();
    let checked = apart(body.len(), move || misfit(&wanted, &body, dialect)).await;
    match checked.unwrap_or(Some(Misfit::TooMuch)) {
        None => Ok(()),
        Some(misfit) => Err(verdict::schema_invalid(&misfit.to_string(), phase)),
    }
}

fn misfit(wanted: &Wanted, body: &[u8], dialect: Dialect) -> Option<Misfit> {
    // What cannot be read here was found good before: it has no text that could be looked at.
    let text = translate::formed(body, dialect).unwrap_or_else(|_| Some(String::new()))?;
    let Ok(answer) = serde_json::from_str::<Value>(&text) else { return Some(Misfit::NoJson) };
    let Wanted::Schema(schema) = wanted else { return None };
    let (schema, validator) = schema.as_ref();
    let mut looks = Looks { root: schema, left: MAX_LOOKS };
    if looks.at(schema, &answer, 0).is_none() {
        return Some(Misfit::TooMuch);
    }
    (!validator.is_valid(&answer)).then_some(Misfit::Schema)
}

/// References and schemas may lead so deep.
const MAX_DEEP: usize = 512;

/// How often the parts of a schema look at those of an answer, at most: alternatives that hold alternatives look at the same
/// part again and again.
struct Looks<'s> {
    root: &'s Value,
    left: u32,
}

impl Looks<'_> {
    /// `None` if it is too often, or a schema refers to itself at the same place.
    fn at(&mut self, schema: &Value, answer: &Value, depth: usize) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let Value::Object(schema) = schema else { return Some(()) };
        if depth > MAX_DEEP {
            return None;
        }
        for (keyword, value) in schema {
            match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    if let Some(place) = value.as_str() {
                        let meant = self.meant(place)?;
                        self.at(&meant, answer, depth + 1)?;
                    }
                }
                "allOf" | "anyOf" | "oneOf" => {
                    value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .try_for_each(|one| self.at(one, answer, depth + 1))?;
                }
                "not" | "if" | "then" | "else" => self.at(value, answer, depth + 1)?,
                "dependentSchemas" | "dependencies" => {
                    let mut all = value.as_object().into_iter().flat_map(serde_json::Map::values);
                    all.try_for_each(|one| self.at(one, answer, depth + 1))?;
                }
                _ => self.inside(keyword, value, answer, depth + 1)?,
            }
        }
        Some(())
    }

    /// What looks at the parts of an answer.
    fn inside(&mut self, keyword: &str, schema: &Value, answer: &Value, depth: usize) -> Option<()> {
        match (keyword, answer) {
            ("properties", Value::Object(parts)) => {
                let mut known = parts.iter().filter_map(|(name, part)| Some((schema.get(name)?, part)));
                known.try_for_each(|(schema, part)| self.at(schema, part, depth))
            }
            ("patternProperties", Value::Object(parts)) => {
                let schemas = || schema.as_object().into_iter().flat_map(serde_json::Map::values);
                parts.values().try_for_each(|part| schemas().try_for_each(|one| self.at(one, part, depth)))
            }
            ("additionalProperties" | "unevaluatedProperties", Value::Object(parts)) => {
                parts.values().try_for_each(|part| self.at(schema, part, depth))
            }
            ("propertyNames", Value::Object(parts)) => {
                parts.keys().try_for_each(|name| self.at(schema, &Value::from(name.as_str()), depth))
            }
            ("prefixItems" | "items", Value::Array(parts)) if schema.is_array() => {
                let mut pairs = schema.as_array().into_iter().flatten().zip(parts);
                pairs.try_for_each(|(one, part)| self.at(one, part, depth))
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", Value::Array(parts)) => {
                parts.iter().try_for_each(|part| self.at(schema, part, depth))
            }
            _ => Some(()),
        }
    }

    /// What a reference within the schema means.
    fn meant(&self, place: &str) -> Option<Value> {
        let pointer = place.strip_prefix('#')?;
        self.root.pointer(pointer).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn looks(schema: &Value, answer: &Value) -> Option<Misfit> {
        let wanted = Wanted::Schema(Arc::new((schema.clone(), compiled(schema).unwrap())));
        let body = json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer.to_string()}}],
        });
        misfit(&wanted, body.to_string().as_bytes(), Dialect::Chat)
    }

    #[test]
    fn an_answer_fits_or_does_not() {
        let schema = json!({
            "type": "object", "required": ["n", "next"], "additionalProperties": false,
            "properties": {"n": {"type": "integer", "minimum": 1}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        });
        assert_eq!(looks(&schema, &json!({"n": 1, "next": {"n": 2, "next": null}})), None);
        for wrong in
            [json!({"n": 0, "next": null}), json!({"n": 1}), json!([]), json!({"n": 1, "next": {"n": 2}})]
        {
            assert_eq!(looks(&schema, &wrong), Some(Misfit::Schema), "{wrong}");
        }
    }

    /// Thirty alternatives of two would look two to the thirtieth times at an answer that fits none.
    #[test]
    fn alternatives_without_end_are_not_looked_at() {
        let mut definitions = serde_json::Map::new();
        for level in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert("d30".to_owned(), json!({"type": "string"}));
        let schema = json!({"$defs": definitions, "$ref": "#/$defs/d0"});
        assert_eq!(looks(&schema, &json!(1)), Some(Misfit::TooMuch));
    }

    #[test]
    fn a_pattern_costs_no_more_than_its_text_is_long() {
        let schema = json!({"type": "string", "pattern": "^(a+)+$"});
        assert_eq!(looks(&schema, &json!(format!("{}!", "a".repeat(100_000)))), Some(Misfit::Schema));
        assert_eq!(looks(&schema, &json!("aaa")), None);
    }

    #[test]
    fn a_schema_that_cannot_be_checked_is_refused() {
        let far = json!({"$ref": "https://example.com/schema.json"});
        let named = json!({"$defs": {"x": {"$anchor": "x"}}, "$ref": "#x"});
        let around = json!({"type": "string", "pattern": "^(?=a)b"});
        let large = json!({"description": "x".repeat(MAX_SCHEMA)});
        let huge = json!({"type": "string", "pattern": "(((a{1,100}){1,100}){1,100}){1,100}"});
        for schema in [far, named, around, large, huge, json!({"type": "nothing"})] {
            assert!(
                compiled(&schema).is_err(),
                "{}",
                schema.to_string().chars().take(80).collect::<String>()
            );
        }
    }
}
