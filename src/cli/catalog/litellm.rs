//! LiteLLM's price file (`model_prices_and_context_window.json`): one object a model, costs in USD per token.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::usd;

/// What came of a file.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// By name, each with the keys of `models` and their values, as YAML.
    pub(super) models: BTreeMap<String, Vec<(&'static str, String)>>,
    /// Why models were left out, and how many for each reason.
    left_out: BTreeMap<String, usize>,
    /// What could not be read of those that were not.
    doubts: Vec<String>,
}

/// How many doubts are told one by one.
const MAX_DOUBTS: usize = 20;

/// LiteLLM's names of providers that have another one here.
const PROVIDERS: [(&str, &str); 8] = [
    ("cohere_chat/", "cohere/"),
    ("fireworks_ai/", "fireworks/"),
    ("github/", "github-models/"),
    ("hosted_vllm/", "vllm/"),
    ("lm_studio/", "lm-studio/"),
    ("nvidia_nim/", "nvidia/"),
    ("together_ai/", "together/"),
    ("vertex_ai/", "vertex/"),
];

/// Reads these entries. What is not about models that one talks to is left out.
pub(super) fn read<'e>(entries: impl Iterator<Item = (&'e String, &'e Value)>) -> Read {
    let mut read = Read::default();
    for (name, entry) in entries.filter(|(name, _)| *name != "sample_spec") {
        let mut known = Entry { name, fields: entry.as_object(), doubts: &mut read.doubts };
        match known.keys() {
            Ok(keys) => {
                read.models.insert(renamed(name), keys);
            }
            Err(why) => *read.left_out.entry(why).or_default() += 1,
        }
    }
    read
}

fn renamed(name: &str) -> String {
    let other = PROVIDERS.iter().find_map(|(theirs, ours)| Some((ours, name.strip_prefix(theirs)?)));
    other.map_or_else(|| name.to_owned(), |(ours, model)| format!("{ours}{model}"))
}

impl Read {
    /// The `models` of a configuration.
    pub(super) fn yaml(&self) -> String {
        let lines = self.models.iter().map(|(name, keys)| {
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            format!("  {}: {{ {} }}\n", Value::from(name.as_str()), keys.join(", "))
        });
        format!("models:\n{}", lines.collect::<String>())
    }

    /// What was and what was not read, one sentence a line.
    pub(super) fn report(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.doubts.iter().take(MAX_DOUBTS).cloned().collect();
        if self.doubts.len() > MAX_DOUBTS {
            lines.push(format!("and {} more of the kind", self.doubts.len() - MAX_DOUBTS));
        }
        lines.extend(self.left_out.iter().map(|(why, count)| format!("{count} left out: {why}")));
        lines.push(match self.models.len() {
            1 => "1 model read".to_owned(),
            count => format!("{count} models read"),
        });
        lines
    }
}

/// One entry, and where doubts about it go.
struct Entry<'e> {
    name: &'e str,
    fields: Option<&'e Map<String, Value>>,
    doubts: &'e mut Vec<String>,
}

impl Entry<'_> {
    fn keys(&mut self) -> Result<Vec<(&'static str, String)>, String> {
        let Some(fields) = self.fields else { return Err("not an object".to_owned()) };
        match fields.get("mode").and_then(Value::as_str) {
            Some("chat" | "responses" | "completion") => {}
            Some(other) => return Err(format!("of the mode {}", Value::from(other))),
            None => return Err("without a mode".to_owned()),
        }
        let window = self.count("max_input_tokens");
        let output = self.count("max_output_tokens").filter(|most| window.is_none_or(|w| *most <= w));
        let flag = |this: &mut Self, key: &str| this.flag(key).map(|has| has.to_string());
        let schema = self.flag("supports_response_schema").filter(|has| *has);
        let keys = [
            ("context_window", window.map(|n| n.to_string())),
            ("max_output", output.map(|n| n.to_string())),
            ("modalities", self.modalities()),
            ("tools", flag(self, "supports_function_calling")),
            ("parallel_tool_calls", flag(self, "supports_parallel_function_calling")),
            ("structured_output", schema.map(|_| "json_schema".to_owned())),
            ("reasoning", flag(self, "supports_reasoning")),
            ("prefill", flag(self, "supports_assistant_prefill")),
            ("prompt_caching", flag(self, "supports_prompt_caching")),
            ("price", self.price()),
        ];
        let keys: Vec<_> = keys.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        if keys.is_empty() { Err("nothing known of them".to_owned()) } else { Ok(keys) }
    }

    fn field(&self, key: &str) -> Option<&Value> {
        self.fields?.get(key).filter(|value| !value.is_null())
    }

    fn doubt(&mut self, key: &str, why: &str) {
        self.doubts.push(format!("{}: `{key}` {why}; it is left out", Value::from(self.name)));
    }

    /// A number of tokens; older entries write it as a text or a fraction.
    fn count(&mut self, key: &str) -> Option<u64> {
        let value = self.field(key)?;
        let whole = value.as_f64().filter(|n| n.fract() == 0.0 && (1.0..1e12).contains(n)).map(|n| n as u64);
        let count = whole.or_else(|| value.as_str()?.parse().ok().filter(|n| *n > 0));
        if count.is_none() {
            self.doubt(key, "is no number of tokens");
        }
        count
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        let flag = self.field(key)?.as_bool();
        if flag.is_none() {
            self.doubt(key, "is neither true nor false");
        }
        flag
    }

    /// Only where it is said whether images go in: an entry that says nothing is no entry of a model that takes text alone.
    fn modalities(&mut self) -> Option<String> {
        let mut inputs = vec!["text"];
        inputs.extend(self.flag("supports_vision")?.then_some("image"));
        for (key, input) in [("supports_audio_input", "audio"), ("supports_pdf_input", "file")] {
            inputs.extend(self.flag(key).filter(|has| *has).map(|_| input));
        }
        Some(format!("[{}]", inputs.join(", ")))
    }

    /// Both sides or none: half a price would be taken for a whole one. LiteLLM writes zero for what it does not know, too.
    fn price(&mut self) -> Option<String> {
        let (input, output) = (self.cost("input_cost_per_token")?, self.cost("output_cost_per_token")?);
        let mut price = format!("{{ input: {}, output: {}", usd(input), usd(output));
        for (key, theirs) in [
            ("cache_read", "cache_read_input_token_cost"),
            ("cache_write", "cache_creation_input_token_cost"),
        ] {
            if let Some(cost) = self.cost(theirs) {
                price += &format!(", {key}: {}", usd(cost));
            }
        }
        if let (Some(input), Some(output)) =
            (self.cost("input_cost_per_token_batches"), self.cost("output_cost_per_token_batches"))
        {
            price += &format!(", batch: {{ input: {}, output: {} }}", usd(input), usd(output));
        }
        Some(price + " }")
    }

    /// USD per token as millionths of a US dollar per million tokens.
    fn cost(&mut self, key: &str) -> Option<u64> {
        let value = self.field(key)?;
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        let micro = number.map(|usd| (usd * 1e12).round()).filter(|micro| (0.0..1e15).contains(micro));
        match micro {
            Some(0.0) => None,
            Some(micro) => Some(micro as u64),
            None => {
                self.doubt(key, "is no cost in USD per token");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read;

    fn of(file: &Value) -> (String, Vec<String>) {
        let read = read(file.as_object().unwrap().iter());
        (read.yaml(), read.report())
    }

    #[test]
    fn a_model_is_said_in_the_keys_of_the_configuration() {
        let (yaml, report) = of(&json!({ "together_ai/x/Y-1": {
            "mode": "chat", "litellm_provider": "together_ai", "max_input_tokens": 131072, "max_output_tokens": 8192.0,
            "max_tokens": 8192, "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07,
            "cache_read_input_token_cost": 7.5e-08, "supports_vision": false, "supports_function_calling": true,
            "supports_response_schema": true, "supports_system_messages": true,
        }}));
        // 1.5e-07 USD a token is 0.15 USD for a million.
        let expected = "models:\n  \"together/x/Y-1\": { context_window: 131072, max_output: 8192, modalities: [text], \
                        tools: true, structured_output: json_schema, price: { input: 0.15, output: 0.6, cache_read: 0.075 } }\n";
        assert_eq!(yaml, expected);
        assert_eq!(report, ["1 model read"]);
    }

    #[test]
    fn a_cost_of_zero_and_half_a_price_are_no_price() {
        for costs in [
            json!({ "input_cost_per_token": 0.0, "output_cost_per_token": 0.0 }),
            json!({ "input_cost_per_token": 1e-06 }),
            json!({ "input_cost_per_second": 0.1, "output_cost_per_second": 0.1 }),
        ] {
            let mut entry = json!({ "mode": "chat", "max_input_tokens": 8192 });
            entry.as_object_mut().unwrap().extend(costs.as_object().unwrap().clone());
            assert_eq!(of(&json!({ "m": entry })).0, "models:\n  \"m\": { context_window: 8192 }\n");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_name_and_reason() {
        let (yaml, report) = of(&json!({
            "sample_spec": { "mode": "one of: chat, …", "max_input_tokens": "max input tokens" },
            "painter": { "mode": "image_generation" },
            "list": [1],
            "odd": { "mode": "chat", "max_input_tokens": "many", "max_output_tokens": 100, "supports_vision": "yes" },
            "silent": { "mode": "chat" },
        }));
        assert_eq!(yaml, "models:\n  \"odd\": { max_output: 100 }\n");
        assert_eq!(
            report,
            [
                "\"odd\": `max_input_tokens` is no number of tokens; it is left out",
                "\"odd\": `supports_vision` is neither true nor false; it is left out",
                "1 left out: not an object",
                "1 left out: nothing known of them",
                "1 left out: of the mode \"image_generation\"",
                "1 model read",
            ]
        );
    }
}
