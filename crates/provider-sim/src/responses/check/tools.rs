//! Tools and the choice among them.

use serde_json::Value;

use super::{
    Fields, Wrong, below, given, known, list, object, one_of, optional_text, required_text, tool_name,
};

/// Tools that the model or OpenAI runs; of these nothing but the name is checked.
const HOSTED: &[&str] = &[
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
    "web_search_preview",
];

/// A tool that may be called, as a choice names it: its type and its name.
pub(super) type Offered = (String, String);

/// Checks the tools; gives back what they offer, with those that the input adds.
pub(super) fn check(fields: &Fields) -> Result<Vec<Offered>, Wrong> {
    let mut offered = Vec::new();
    group(list(fields, "", "tools")?, "tools", &mut offered)?;
    let items = fields.get("input").and_then(Value::as_array);
    for (at, item) in items.into_iter().flatten().enumerate() {
        if let Some(item) = item.as_object()
            && item.get("type").and_then(Value::as_str) == Some("additional_tools")
        {
            let at = format!("input[{at}]");
            group(list(item, &at, "tools")?, &below(&at, "tools"), &mut offered)?;
        }
    }
    Ok(offered)
}

fn group(tools: &[Value], at: &str, offered: &mut Vec<Offered>) -> Result<(), Wrong> {
    for (index, tool) in tools.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let Some(tool) = tool.as_object() else { return Err(Wrong::kind(&at, "an object", tool)) };
        let kind = required_text(tool, &at, "type")?;
        match kind {
            "function" => function(tool, &at)?,
            "custom" => custom(tool, &at)?,
            "namespace" => {
                known(tool, &at, &["type", "name", "description", "tools"])?;
                tool_name(tool, &at)?;
                group(list(tool, &at, "tools")?, &below(&at, "tools"), offered)?;
            }
            hosted if HOSTED.iter().any(|known| hosted.starts_with(known)) => {}
            other => {
                let own = ["function", "custom", "namespace"];
                let supported: Vec<&str> = own.iter().chain(HOSTED).copied().collect();
                return Err(Wrong::value(&below(&at, "type"), other, &supported));
            }
        }
        let name = given(tool, "name").and_then(Value::as_str).unwrap_or_default();
        offered.push((kind.to_owned(), name.to_owned()));
    }
    Ok(())
}

fn function(tool: &Fields, at: &str) -> Result<(), Wrong> {
    const FIELDS: &[&str] = &[
        "type",
        "name",
        "description",
        "parameters",
        "strict",
        "defer_loading",
        "allowed_callers",
        "output_schema",
        "async",
    ];
    // A tool as Chat Completions has it is told that its name is missing.
    let name = tool_name(tool, at)?;
    known(tool, at, FIELDS)?;
    optional_text(tool, at, "description")?;
    let Some(parameters) = object(tool, at, "parameters")? else { return Ok(()) };
    let at = below(at, "parameters");
    let refuse = |why: &str| {
        let message = format!("Invalid schema for function '{name}': {why}");
        Err(Wrong::new(message, &at, Some("invalid_function_parameters")))
    };
    let kind = parameters.get("type").and_then(Value::as_str);
    if !parameters.is_empty() && kind != Some("object") {
        let kind = kind.unwrap_or("None");
        return refuse(&format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        ));
    }
    if tool.get("strict") != Some(&Value::Bool(true)) {
        return Ok(());
    }
    if parameters.get("additionalProperties") != Some(&Value::Bool(false)) {
        return refuse("In context=(), 'additionalProperties' is required to be supplied and to be false.");
    }
    let required = parameters.get("required").and_then(Value::as_array);
    let properties = parameters.get("properties").and_then(Value::as_object);
    let left_out = properties.into_iter().flat_map(Fields::keys).find(|key| {
        !required.is_some_and(|required| required.iter().any(|name| name.as_str() == Some(key.as_str())))
    });
    match left_out {
        Some(key) => refuse(&format!(
            "In context=(), 'required' is required to be supplied and to be an array including every key in \
             properties. Missing '{key}'."
        )),
        None => Ok(()),
    }
}

fn custom(tool: &Fields, at: &str) -> Result<(), Wrong> {
    tool_name(tool, at)?;
    known(tool, at, &["type", "name", "description", "format", "defer_loading", "allowed_callers", "async"])?;
    let Some(format) = object(tool, at, "format")? else { return Ok(()) };
    let at = below(at, "format");
    match required_text(format, &at, "type")? {
        "text" => known(format, &at, &["type"]),
        "grammar" => {
            known(format, &at, &["type", "syntax", "definition"])?;
            required_text(format, &at, "definition")?;
            one_of(&below(&at, "syntax"), format.get("syntax").unwrap_or(&Value::Null), &["lark", "regex"])
        }
        other => Err(Wrong::value(&below(&at, "type"), other, &["text", "grammar"])),
    }
}

/// Checks the choice among these tools.
pub(super) fn choice(fields: &Fields, offered: &[Offered]) -> Result<(), Wrong> {
    const AT: &str = "tool_choice";
    let Some(choice) = given(fields, AT) else { return Ok(()) };
    let not_found = |what: &str| {
        Wrong::new(format!("Tool choice '{what}' not found in 'tools' parameter."), AT, Some("invalid_value"))
    };
    if let Some(word) = choice.as_str() {
        one_of(AT, choice, &["none", "auto", "required"])?;
        return if word == "required" && offered.is_empty() { Err(not_found(word)) } else { Ok(()) };
    }
    let Some(choice) = choice.as_object() else { return Err(Wrong::kind(AT, "a string", choice)) };
    match required_text(choice, AT, "type")? {
        kind @ ("function" | "custom") => {
            let name = tool_name(choice, AT)?;
            known(choice, AT, &["type", "name"])?;
            let there = offered.iter().any(|(own, tool)| own == kind && tool == name);
            if there { Ok(()) } else { Err(not_found(name)) }
        }
        "allowed_tools" => {
            known(choice, AT, &["type", "mode", "tools"])?;
            let mode = choice.get("mode").ok_or_else(|| Wrong::missing("tool_choice.mode"))?;
            one_of("tool_choice.mode", mode, &["auto", "required"])?;
            for tool in list(choice, AT, "tools")? {
                let word = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
                let (kind, name) = (word("type"), word("name"));
                if !offered.iter().any(|(own, tool)| own == kind && (tool == name || name.is_empty())) {
                    return Err(not_found(name));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
