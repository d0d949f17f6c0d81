//! The JSON Schema of the file, printed from the grammar.

use serde_json::{Map, Value, json};

use crate::grammar::{FILE, Kind, Section};

/// The JSON Schema (draft 2020-12) of `pointsman.yaml`, for editors. It knows every key; what spans keys only
/// `pointsman check` can tell.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for section in FILE.all().into_iter().skip(1) {
        definitions.insert(id(section), of_section(section));
    }
    let mut schema = of_section(&FILE);
    if let Value::Object(schema) = &mut schema {
        schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".to_owned(), json!("Pointsman configuration"));
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

fn of_section(section: &'static Section) -> Value {
    let mut properties = Map::new();
    for key in section.keys {
        let mut value = of_kind(&key.kind);
        if let Value::Object(value) = &mut value {
            value.insert("description".to_owned(), json!(key.help));
        }
        properties.insert(key.name.to_owned(), value);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": section.required,
        "additionalProperties": false,
    })
}

fn of_kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text | Kind::Secret | Kind::Address => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Url => or_variable(json!({ "type": "string", "pattern": "^https?://" })),
        Kind::Flag => or_variable(json!({ "type": "boolean" })),
        Kind::Count(least) => or_variable(json!({ "type": "integer", "minimum": least })),
        Kind::Number => or_variable(json!({ "type": "number", "exclusiveMinimum": 0 })),
        Kind::Usd => or_variable(json!({ "type": "number", "minimum": 0 })),
        Kind::Span => or_variable(json!({ "type": "string", "pattern": SPAN })),
        Kind::Share => or_variable(share()),
        Kind::ShareOrSpan => {
            or_variable(json!({ "anyOf": [share(), { "type": "string", "pattern": SPAN }] }))
        }
        Kind::Size => or_variable(json!({
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? ?(B|KiB|MiB|GiB|kB|KB|MB|GB)?$" },
            ]
        })),
        Kind::Choice(words) => or_variable(choice(words)),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true }),
        Kind::Choices(words) => {
            json!({ "type": "array", "items": or_variable(choice(words)), "uniqueItems": true })
        }
        Kind::Section(section, []) => reference(section),
        Kind::Section(section, words) => json!({ "anyOf": [reference(section), choice(words)] }),
        Kind::Named(section) => json!({ "type": "object", "additionalProperties": reference(section) }),
    }
}

const SPAN: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$";

fn share() -> Value {
    json!({
        "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 1 },
            { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? ?%$" },
        ]
    })
}

/// YAML reads `1` and `2` as numbers where they are words.
fn choice(words: &[&str]) -> Value {
    let mut values: Vec<Value> = words.iter().map(|word| json!(word)).collect();
    values.extend(words.iter().filter_map(|word| word.parse::<u64>().ok()).map(|number| json!(number)));
    json!({ "enum": values })
}

/// Any value may come from a variable.
fn or_variable(value: Value) -> Value {
    json!({ "anyOf": [value, { "type": "string", "pattern": "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}" }] })
}

fn reference(section: &Section) -> Value {
    json!({ "$ref": format!("#/$defs/{}", id(section)) })
}

/// `a target's budget` becomes `a-target-s-budget`.
fn id(section: &Section) -> String {
    section.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests;
