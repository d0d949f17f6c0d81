//! The parts of a request.

use serde_json::Value;

use super::Sum;
use crate::ir::{Block, Format, Request, Tool, ToolKind};

/// Before its answer the model is told whose turn it is (OpenAI's cookbook).
const REPLY: u64 = 3;
/// What stands around the list of tools, and its parts (OpenAI's cookbook).
const TOOLS: u64 = 12;
const PROPERTIES: u64 = 3;
const PROPERTY: u64 = 3;
const CHOICE: u64 = 3;
/// Schemas may nest so deep; what is deeper is counted as it is written.
const DEEPEST: usize = 16;

impl Sum {
    pub(super) fn request(&mut self, request: &Request<'_>) {
        for turn in &request.turns {
            self.fixed += self.family.message;
            // The role is a word, and a word of one token in every vocabulary.
            self.fixed += 1;
            self.blocks(&turn.blocks);
        }
        self.fixed += REPLY;
        self.tools(&request.tools);
        if let Some(Format::Schema { schema, .. }) = &request.format {
            self.guessed = true;
            self.text(schema.get());
        }
    }

    pub(super) fn blocks(&mut self, blocks: &[Block<'_>]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block<'_>) {
        match block {
            Block::Text { text, .. } | Block::Refusal(text) => self.text(text),
            Block::Reasoning { text, .. } => {
                self.guessed = true;
                self.text(text);
            }
            Block::Media(media) => self.media(media),
            Block::ToolCall(call) => {
                self.guessed = true;
                self.fixed += self.family.message;
                self.text(&call.name);
                self.text(&call.arguments);
            }
            Block::ToolResult(result) => {
                self.guessed = true;
                self.fixed += self.family.message;
                self.blocks(&result.content);
            }
            Block::Opaque(opaque) => self.opaque(&opaque.pointer, opaque.json.get()),
        }
    }

    /// A message's name is one token beside itself (OpenAI's cookbook).
    fn opaque(&mut self, pointer: &str, json: &str) {
        match serde_json::from_str(json) {
            Ok(Value::String(text)) if pointer.ends_with("/name") => {
                self.fixed += 1;
                self.text(&text);
            }
            _ => {
                self.guessed = true;
                self.text(json);
            }
        }
    }

    fn tools(&mut self, tools: &[Tool<'_>]) {
        for tool in tools {
            self.fixed += self.family.tool;
            self.text(&line(&tool.name, &[], tool.description.as_deref()));
            if let Some(schema) = &tool.schema {
                match serde_json::from_str(schema.get()) {
                    Ok(schema) => self.properties(&schema, 0),
                    Err(_) => self.text(schema.get()),
                }
            }
            if let ToolKind::Custom { format: Some(format) } = &tool.kind {
                self.guessed = true;
                self.text(format.get());
            }
        }
        if !tools.is_empty() {
            self.fixed += TOOLS;
        }
    }

    fn properties(&mut self, schema: &Value, depth: usize) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        if properties.is_empty() {
            return;
        }
        self.fixed += PROPERTIES;
        for (name, property) in properties {
            self.fixed += PROPERTY;
            self.choices(property);
            let kind = property.get("type").and_then(Value::as_str).unwrap_or_default();
            let said = property.get("description").and_then(Value::as_str);
            self.text(&line(name, &[kind], said));
            self.inside(property, depth);
        }
    }

    fn choices(&mut self, property: &Value) {
        let Some(choices) = property.get("enum").and_then(Value::as_array) else { return };
        // The list itself takes less than its first element adds.
        self.fixed += (CHOICE * choices.len() as u64).saturating_sub(CHOICE);
        for choice in choices {
            match choice {
                Value::String(text) => self.text(text),
                other => self.text(&other.to_string()),
            }
        }
    }

    /// The cookbook says nothing of what a property is made of itself.
    fn inside(&mut self, property: &Value, depth: usize) {
        let nested = ["properties", "items", "anyOf", "oneOf", "allOf", "$ref"];
        if !nested.iter().any(|name| property.get(name).is_some()) {
            return;
        }
        self.guessed = true;
        if depth >= DEEPEST {
            return self.text(&property.to_string());
        }
        self.properties(property, depth + 1);
        for name in ["items", "anyOf", "oneOf", "allOf"] {
            match property.get(name) {
                Some(Value::Array(all)) => all.iter().for_each(|one| self.properties(one, depth + 1)),
                Some(one) => self.properties(one, depth + 1),
                None => {}
            }
        }
    }
}

/// `name:type:description`, without the full stop at its end.
fn line(name: &str, kind: &[&str], said: Option<&str>) -> String {
    let said = said.unwrap_or_default();
    let parts = [name].into_iter().chain(kind.iter().copied());
    parts.chain([said.strip_suffix('.').unwrap_or(said)]).collect::<Vec<_>>().join(":")
}
