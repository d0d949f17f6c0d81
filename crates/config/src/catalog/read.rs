//! Reading the catalog's text.

use std::collections::BTreeSet;

use pointsman_core::target::{Model, Price, StructuredOutput};
use serde_json::{Map, Value};

use super::Entry;

/// All entries, in the order of their names; `None` if the text is none of a catalog.
pub(super) fn entries(text: &str) -> Option<Vec<Entry>> {
    let entries: Map<String, Value> = serde_json::from_str(text).ok()?;
    entries.iter().map(|(name, entry)| read(name, entry.as_object()?)).collect()
}

fn read(name: &str, entry: &Map<String, Value>) -> Option<Entry> {
    let (provider, model) = name.split_once('/')?;
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let also = entry.get("also").and_then(Value::as_array).map(|names| texts(names)).unwrap_or_default();
    Some(Entry {
        provider: provider.to_owned(),
        model: model.to_owned(),
        also,
        facts: facts(entry),
        retires: text("retires"),
        source: text("source")?,
        date: text("date")?,
    })
}

fn texts<C: FromIterator<String>>(list: &[Value]) -> C {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn facts(entry: &Map<String, Value>) -> Model {
    let count = |key: &str| entry.get(key).and_then(Value::as_u64);
    let flag = |key: &str| entry.get(key).and_then(Value::as_bool);
    let modalities = entry.get("modalities").and_then(Value::as_array);
    Model {
        context_window: count("context_window"),
        max_output: count("max_output"),
        modalities: modalities.map(|list| texts::<BTreeSet<String>>(list)),
        tools: flag("tools"),
        parallel_tool_calls: flag("parallel_tool_calls"),
        structured_output: match entry.get("structured_output").and_then(Value::as_str) {
            Some("json_schema") => Some(StructuredOutput::JsonSchema),
            Some("json_object") => Some(StructuredOutput::JsonObject),
            Some("none") => Some(StructuredOutput::No),
            _ => None,
        },
        reasoning: flag("reasoning"),
        prefill: flag("prefill"),
        prompt_caching: flag("prompt_caching"),
        price: entry.get("price").and_then(price),
    }
}

fn price(price: &Value) -> Option<Price> {
    let of = |from: &Value, key: &str| from.get(key).and_then(Value::as_f64).and_then(micro_usd);
    let batch = price.get("batch").and_then(|b| Some((of(b, "input")?, of(b, "output")?)));
    Some(Price {
        input: of(price, "input")?,
        output: of(price, "output")?,
        cache_read: of(price, "cache_read"),
        cache_write: of(price, "cache_write"),
        batch,
    })
}

/// USD as millionths of it. The catalog writes no more than six decimals, so that rounding only undoes what a binary fraction
/// did.
fn micro_usd(usd: f64) -> Option<u64> {
    let micro = (usd * 1e6).round();
    (micro > 0.0 && micro < 1e15).then_some(micro as u64)
}
