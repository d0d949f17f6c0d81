//! The built-in catalog as a table, or as data.

use pointsman_config::catalog::{self, Entry};
use pointsman_core::target::{Price, StructuredOutput};
use serde_json::{Map, Value, json};

use super::{matches, usd};
use crate::failure::Failure;
use crate::output;

/// Prints the models whose names contain all words of the search.
pub(super) fn run(search: &[String], as_data: bool) -> Result<(), Failure> {
    let found: Vec<&Entry> = catalog::entries().iter().filter(|entry| is_meant(entry, search)).collect();
    if as_data {
        let data: Vec<Value> = found.iter().map(|entry| data(entry)).collect();
        return Ok(output::line(&format!("{:#}", Value::Array(data)))?);
    }
    match found.as_slice() {
        [] => {
            let search = search.join(" ");
            Err(Failure::Failed(format!("the catalog has no model whose name contains `{search}`")))
        }
        [one] => Ok(output::print(&format!("{}{}", table(&found), more(one)))?),
        _ => Ok(output::print(&table(&found))?),
    }
}

fn is_meant(entry: &Entry, search: &[String]) -> bool {
    let also = entry.also.iter().map(|name| format!("{}/{name}", entry.provider));
    std::iter::once(entry.name()).chain(also).any(|name| matches(&name, search))
}

const HEAD: [&str; 6] = ["model", "window", "output", "in $/M", "out $/M", "can"];

/// What is unknown is a dash, never a zero.
fn table(entries: &[&Entry]) -> String {
    let unknown = || "-".to_owned();
    let rows = entries.iter().map(|entry| {
        let facts = &entry.facts;
        let price = |of: fn(&Price) -> u64| facts.price.as_ref().map_or_else(unknown, |p| usd(of(p)));
        [
            entry.name(),
            facts.context_window.map_or_else(unknown, |n| n.to_string()),
            facts.max_output.map_or_else(unknown, |n| n.to_string()),
            price(|p| p.input),
            price(|p| p.output),
            abilities(entry).join(" "),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String; 6], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate();
    let padded = cells.map(|(place, (cell, width))| match place {
        1..=4 => format!("{cell:>width$}"),
        _ => format!("{cell:<width$}"),
    });
    format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
}

fn abilities(entry: &Entry) -> Vec<&str> {
    let facts = &entry.facts;
    let inputs = facts.modalities.iter().flatten().map(String::as_str).filter(|input| *input != "text");
    let flags = [
        (facts.tools, "tools"),
        (facts.parallel_tool_calls, "parallel_tools"),
        (facts.structured_output.map(|s| s == StructuredOutput::JsonSchema), "json_schema"),
        (facts.reasoning, "reasoning"),
        (facts.prefill, "prefill"),
        (facts.prompt_caching, "caching"),
    ];
    inputs.chain(flags.into_iter().filter(|(has, _)| *has == Some(true)).map(|(_, name)| name)).collect()
}

/// What a table has no room for.
fn more(entry: &Entry) -> String {
    let mut lines = Vec::new();
    if !entry.also.is_empty() {
        lines.push(format!("also called    {}", entry.also.join(", ")));
    }
    if let Some(price) = entry.facts.price {
        let parts = [
            price.cache_read.map(|p| format!("{} read from its cache", usd(p))),
            price.cache_write.map(|p| format!("{} written to it", usd(p))),
            price.batch.map(|(input, output)| format!("{} and {} in batches", usd(input), usd(output))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            lines.push(format!("further prices {}", parts.join(", ")));
        }
    }
    if let Some(day) = &entry.retires {
        lines.push(format!("retires        {day}"));
    }
    lines.push(format!("source         {}, read on {}", entry.source, entry.date));
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// An entry under the keys of the file's `models`, what is unknown left out.
fn data(entry: &Entry) -> Value {
    let facts = &entry.facts;
    let fields = [
        ("name", Some(json!(entry.name()))),
        ("provider", Some(json!(entry.provider))),
        ("model", Some(json!(entry.model))),
        ("also", Some(json!(entry.also))),
        ("context_window", facts.context_window.map(Value::from)),
        ("max_output", facts.max_output.map(Value::from)),
        ("modalities", facts.modalities.as_ref().map(|inputs| json!(inputs))),
        ("tools", facts.tools.map(Value::from)),
        ("parallel_tool_calls", facts.parallel_tool_calls.map(Value::from)),
        ("structured_output", facts.structured_output.map(|s| json!(structure(s)))),
        ("reasoning", facts.reasoning.map(Value::from)),
        ("prefill", facts.prefill.map(Value::from)),
        ("prompt_caching", facts.prompt_caching.map(Value::from)),
        ("price", facts.price.map(price)),
        ("retires", entry.retires.as_ref().map(|day| json!(day))),
        ("source", Some(json!(entry.source))),
        ("date", Some(json!(entry.date))),
    ];
    known(fields)
}

fn structure(structured: StructuredOutput) -> &'static str {
    match structured {
        StructuredOutput::No => "none",
        StructuredOutput::JsonObject => "json_object",
        StructuredOutput::JsonSchema => "json_schema",
    }
}

fn price(price: Price) -> Value {
    let in_usd = |micro: u64| json!(micro as f64 / 1e6);
    let batch =
        price.batch.map(|(input, output)| json!({ "input": in_usd(input), "output": in_usd(output) }));
    known([
        ("input", Some(in_usd(price.input))),
        ("output", Some(in_usd(price.output))),
        ("cache_read", price.cache_read.map(in_usd)),
        ("cache_write", price.cache_write.map(in_usd)),
        ("batch", batch),
    ])
}

fn known<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let known = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(known.collect::<Map<_, _>>())
}
