//! What Bedrock refuses of a Converse request, as far as it shows the mistakes of whoever wrote or translated it.

use serde_json::Value;

use super::shape::{BLOCK, REQUEST};
use crate::fields::{Misfit, Reading, Why, fits};

/// Why a request is refused, as a sentence; all are a `ValidationException`.
pub(crate) type Wrong = String;

fn misfit(Misfit { at, why }: Misfit) -> Wrong {
    let place = at.replace('[', "/").replace(']', "").replace('.', "/");
    match why {
        Why::Unknown(key) => format!(
            "Malformed input request: #/{place}: extraneous key [{key}] is not permitted, please reformat your input \
             and try again."
        ),
        Why::NotAList(key) => {
            format!("Malformed input request: #/{place}/{key}: a list is not permitted here.")
        }
        Why::Kind(_, _) => format!("Malformed input request: #/{place}: the value is of a wrong type."),
    }
}

/// Checks a request.
pub(crate) fn check(request: &Value) -> Result<(), Wrong> {
    fits(request, REQUEST, Reading::Exact).map_err(misfit)?;
    inference(request)?;
    let tools = tool_config(request)?;
    let messages = list(request, "messages");
    let spoken: Vec<&Value> = messages.iter().filter(|message| role(message) != "system").collect();
    if spoken.first().is_none_or(|first| role(first) != "user") {
        return Err("A conversation must start with a user message. Try again with a conversation that starts with a \
                    user message."
            .to_owned());
    }
    for (at, message) in messages.iter().enumerate() {
        if !["user", "assistant", "system"].contains(&role(message)) {
            return Err(constraint(
                role(message),
                &format!("messages.{}.member.role", at + 1),
                "Member must satisfy \
                enum value set: [user, assistant, system]",
            ));
        }
        content(message, at, tools)?;
    }
    if spoken.windows(2).any(|pair| matches!(pair, [one, other] if role(one) == role(other))) {
        return Err(
            "A conversation must alternate between user and assistant roles. Make sure the conversation \
                    alternates between user and assistant roles and try again."
                .to_owned(),
        );
    }
    results(messages)
}

/// One of AWS's own checks failed: the value, its place, what it must satisfy.
fn constraint(value: &str, at: &str, must: &str) -> Wrong {
    format!("1 validation error detected: Value '{value}' at '{at}' failed to satisfy constraint: {must}")
}

fn list<'a>(holder: &'a Value, key: &str) -> &'a [Value] {
    holder.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn word<'a>(holder: &'a Value, key: &str) -> &'a str {
    holder.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn role(message: &Value) -> &str {
    word(message, "role")
}

fn inference(request: &Value) -> Result<(), Wrong> {
    let number = |key: &str| request.pointer(&format!("/inferenceConfig/{key}"));
    for key in ["temperature", "topP"] {
        if let Some(value) = number(key)
            && value.as_f64().is_some_and(|value| value > 1.0)
        {
            let at = format!("inferenceConfig.{key}");
            return Err(constraint(
                &value.to_string(),
                &at,
                "Member must have value less than or equal to 1",
            ));
        }
    }
    match number("maxTokens") {
        Some(value) if value.as_i64().is_none_or(|value| value < 1) => Err(constraint(
            &value.to_string(),
            "inferenceConfig.maxTokens",
            "Member must have value greater than or equal to 1",
        )),
        _ => Ok(()),
    }
}

/// A name or id of 1 to 64 characters: letters, digits and these.
fn identifier(value: &str, at: &str, others: &str) -> Result<(), Wrong> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || others.contains(character);
    let must = match value.chars().count() {
        0 => "Member must have length greater than or equal to 1".to_owned(),
        65.. => "Member must have length less than or equal to 64".to_owned(),
        _ if value.chars().all(allowed) => return Ok(()),
        _ => format!("Member must satisfy regular expression pattern: [a-zA-Z0-9{others}]+"),
    };
    Err(constraint(value, at, &must))
}

/// Checks the tools; says whether there is a configuration of tools.
fn tool_config(request: &Value) -> Result<bool, Wrong> {
    let Some(config) = request.get("toolConfig") else { return Ok(false) };
    let tools = list(config, "tools");
    if tools.is_empty() {
        return Err(constraint(
            "[]",
            "toolConfig.tools",
            "Member must have length greater than or equal to 1",
        ));
    }
    let mut names: Vec<&str> = Vec::new();
    for (at, spec) in tools.iter().enumerate().filter_map(|(at, tool)| Some((at, tool.get("toolSpec")?))) {
        let (name, place) = (word(spec, "name"), format!("toolConfig.tools.{}.member.toolSpec", at + 1));
        identifier(name, &format!("{place}.name"), "_-")?;
        if names.contains(&name) {
            return Err(format!("The toolConfig field contains the tool name {name} more than once."));
        }
        names.push(name);
        if spec.get("description").is_some_and(|description| description.as_str() == Some("")) {
            let must = "Member must have length greater than or equal to 1";
            return Err(constraint("", &format!("{place}.description"), must));
        }
        if spec.pointer("/inputSchema/json/type").and_then(Value::as_str) != Some("object") {
            return Err(format!(
                "The value at toolConfig.tools.{at}.toolSpec.inputSchema.json.type must be one of the following: \
                 object."
            ));
        }
    }
    if let Some(choice) = config.get("toolChoice").and_then(Value::as_object)
        && choice.len() != 1
    {
        return Err("The toolChoice field must have exactly one of auto, any and tool.".to_owned());
    }
    match config.pointer("/toolChoice/tool").map(|tool| word(tool, "name")) {
        Some(name) if !names.contains(&name) => {
            Err(format!("The tool name {name} at toolConfig.toolChoice.tool is not one of toolConfig.tools."))
        }
        _ => Ok(true),
    }
}

fn content(message: &Value, at: usize, tools: bool) -> Result<(), Wrong> {
    let blocks = list(message, "content");
    if blocks.is_empty() {
        return Err(format!(
            "The content field in the Message object at messages.{at} is empty. Add a ContentBlock object to the \
             content field and try again."
        ));
    }
    for (index, block) in blocks.iter().enumerate() {
        let place = format!("messages.{at}.content.{index}");
        let members = BLOCK.iter().filter(|(name, _)| block.get(name).is_some()).count();
        if members != 1 {
            return Err(format!(
                "The ContentBlock object at {place} must set exactly one member, and sets {members}."
            ));
        }
        if word(block, "text").trim().is_empty() && block.get("text").is_some() {
            return Err(format!(
                "The text field in the ContentBlock object at {place} is blank. Add text to the text field, and try \
                 again."
            ));
        }
        let (call, result) = (block.get("toolUse"), block.get("toolResult"));
        if (call.is_some() || result.is_some()) && !tools {
            return Err(
                "The toolConfig field must be defined when using toolUse and toolResult content blocks."
                    .to_owned(),
            );
        }
        let member = format!("messages.{}.member.content.{}.member", at + 1, index + 1);
        if let Some(call) = call {
            identifier(word(call, "toolUseId"), &format!("{member}.toolUse.toolUseId"), "_.:-")?;
            identifier(word(call, "name"), &format!("{member}.toolUse.name"), "_-")?;
            if !call.get("input").is_some_and(Value::is_object) {
                return Err(format!(
                    "The format of the value at {place}.toolUse.input is invalid. Provide a json object for the field \
                     and try again."
                ));
            }
        }
        if let Some(result) = result {
            identifier(word(result, "toolUseId"), &format!("{member}.toolResult.toolUseId"), "_.:-")?;
        }
    }
    Ok(())
}

/// Each call has its result in the next message, and each result its call in the one before.
fn results(messages: &[Value]) -> Result<(), Wrong> {
    let ids = |message: Option<&Value>, key: &str| -> Vec<String> {
        let blocks = message.map_or(&[] as &[Value], |message| list(message, "content"));
        blocks
            .iter()
            .filter_map(|block| block.get(key))
            .map(|own| word(own, "toolUseId").to_owned())
            .collect()
    };
    for (at, message) in messages.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| messages.get(before));
        let (calls, results) = (ids(before, "toolUse"), ids(Some(message), "toolResult"));
        let missing: Vec<&str> =
            calls.iter().filter(|id| !results.contains(id)).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(format!(
                "Expected toolResult blocks at messages.{at}.content for the following Ids: {}",
                missing.join(", ")
            ));
        }
        if results.len() > calls.len() {
            return Err(format!(
                "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of \
                 previous turn."
            ));
        }
    }
    Ok(())
}
