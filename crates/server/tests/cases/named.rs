//! The model that answers is the one that was asked, in whichever dialect a target says so.

use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::world_from;

/// Models of one target each in a dialect, and a second target that is what it says.
const TARGETS: &str = r#"
targets:
  o: { provider: openai, dialect: chat, base_url: "<p>", model: chat, upstream_model: gpt-4o, api_key: k }
  r: { provider: openai, dialect: responses, base_url: "<p>", model: responses, upstream_model: gpt-4o, api_key: k }
  a: { provider: anthropic, base_url: "<p>", model: messages, upstream_model: gpt-4o, api_key: k }
  g: { provider: gemini, base_url: "<p>", model: gemini, upstream_model: gpt-4o, api_key: k }
  o2: { provider: vllm, base_url: "<s>", model: chat, upstream_model: gpt-4o, priority: 2 }
  r2: { provider: vllm, base_url: "<s>", model: responses, upstream_model: gpt-4o, priority: 2 }
  a2: { provider: vllm, base_url: "<s>", model: messages, upstream_model: gpt-4o, priority: 2 }
  g2: { provider: vllm, base_url: "<s>", model: gemini, upstream_model: gpt-4o, priority: 2 }
"#;
const MODELS: [(&str, &str); 4] = [("chat", "o"), ("responses", "r"), ("messages", "a"), ("gemini", "g")];

fn asked(model: &str, stream: bool) -> Value {
    json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "hello"}]})
}

#[tokio::test]
async fn another_model_is_noticed_in_every_dialect() {
    for (model, target) in MODELS {
        for (stream, policy) in [(false, "disclose"), (true, "disclose"), (false, "reject"), (true, "reject")]
        {
            let rest = format!("defaults: {{ on_model_mismatch: {policy} }}\n");
            let world = world_from(&["p", "s"], &format!("{TARGETS}{rest}")).await;
            world.sim(0).set(Script::healthy().model("gpt-4o-mini"));
            let answer = world.post(&asked(model, stream)).await;
            let what = format!("{model}, {policy}, stream {stream}: {}", answer.text());
            assert_eq!(answer.status, 200, "{what}");
            let entry = world.entry(&answer);
            if policy == "disclose" {
                assert_eq!(entry.model_mismatch.as_deref(), Some("gpt-4o-mini"), "{what}");
                assert_eq!(entry.target.as_deref(), Some(target), "{what}");
            } else {
                let second = format!("{target}2");
                assert_eq!(
                    (entry.model_mismatch.as_deref(), entry.target.as_deref()),
                    (None, Some(&*second)),
                    "{what}"
                );
                assert_eq!(entry.attempts[0].failure, Some("bad_response"), "{what}");
            }
        }
    }
}
