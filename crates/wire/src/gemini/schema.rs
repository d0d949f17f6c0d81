//! Google's `Schema` (a part of OpenAPI 3.0) as JSON Schema.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::ir::{Json, Unreadable};
use crate::json::{self, Members, is_falsy};

/// A schema may nest so deep.
const MAX_DEPTH: usize = 64;

/// The same schema as JSON Schema: types in lower case, `nullable` as a further type, counts as numbers. What is the same in
/// both stays as it was written.
pub(super) fn json_schema<'a>(raw: &'a RawValue, pointer: &str) -> Result<Json<'a>, Unreadable> {
    let mut out = String::with_capacity(raw.get().len());
    write(raw, pointer, 0, &mut out)?;
    let schema = RawValue::from_string(out).map_err(|_| Unreadable::at(pointer, "must be a schema"))?;
    Ok(Cow::Owned(schema))
}

/// Counts are written as texts by Google's own libraries: they are 64 bits wide.
const COUNTS: [&str; 6] =
    ["maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"];

fn write(raw: &RawValue, pointer: &str, depth: usize, out: &mut String) -> Result<(), Unreadable> {
    if depth > MAX_DEPTH {
        return Err(Unreadable::at(pointer, "nests too deep"));
    }
    let mut schema = Members::of(raw, pointer)?.camel();
    let nullable = schema.take("nullable").is_some_and(|flag| flag.get() == "true");
    // The order in which properties are written is Google's own.
    schema.take("propertyOrdering");
    let mut first = true;
    out.push('{');
    for (place, name, raw) in schema.rest() {
        if name == "type" && json::text(raw.get().as_bytes()).is_some_and(|kind| kind == "TYPE_UNSPECIFIED") {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        key(&name, out);
        match name.as_str() {
            "type" => kind(raw, nullable, out),
            "properties" => properties(raw, &place, depth, out)?,
            "items" | "additionalProperties" if raw.get().starts_with('{') => {
                write(raw, &place, depth + 1, out)?
            }
            "anyOf" => any_of(raw, &place, depth, out)?,
            count if COUNTS.contains(&count) => {
                out.push_str(
                    &json::text(raw.get().as_bytes())
                        .filter(|text| is_count(text))
                        .unwrap_or_else(|| raw.get().into()),
                );
            }
            _ => out.push_str(raw.get()),
        }
    }
    out.push('}');
    Ok(())
}

fn is_count(text: &str) -> bool {
    !text.is_empty() && text.len() < 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn key(name: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(name).to_string());
    out.push(':');
}

fn kind(raw: &RawValue, nullable: bool, out: &mut String) {
    let Some(word) = json::text(raw.get().as_bytes()) else { return out.push_str(raw.get()) };
    let word = serde_json::Value::from(word.to_ascii_lowercase()).to_string();
    if nullable {
        out.push_str(&format!("[{word},\"null\"]"));
    } else {
        out.push_str(&word);
    }
}

/// Their names are the client's own and stay as they are.
fn properties(raw: &RawValue, pointer: &str, depth: usize, out: &mut String) -> Result<(), Unreadable> {
    let mut first = true;
    out.push('{');
    for (place, name, raw) in Members::of(raw, pointer)?.rest() {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        key(&name, out);
        write(raw, &place, depth + 1, out)?;
    }
    out.push('}');
    Ok(())
}

fn any_of(raw: &RawValue, pointer: &str, depth: usize, out: &mut String) -> Result<(), Unreadable> {
    let list = json::list(raw).ok_or_else(|| Unreadable::at(pointer, "must be a list"))?;
    out.push('[');
    for (place, raw) in list.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write(raw, &format!("{pointer}/{place}"), depth + 1, out)?;
    }
    out.push(']');
    Ok(())
}

/// Whether a schema says anything.
pub(super) fn says_something(raw: &RawValue) -> bool {
    !is_falsy(raw.get())
}
