//! Worlds with a file of their own, and what is checked of an answer, of health and of the record again and again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_core::fleet::DomainView;
use pointsman_provider_sim::{Sim, SimConfig};
use pointsman_store::RequestEntry;
use serde_json::Value;

use crate::support::{Answer, World, world, world_of};

/// A gateway whose file is this one, with `<name>` for the base URL of the sim of that name.
pub async fn world_from(sims: &[&str], yaml: &str) -> World {
    let mut whole = format!("admin: {{ listen: 127.0.0.1:0 }}\n{yaml}");
    if !yaml.contains("server:") {
        whole.insert_str(0, "server: { listen: 127.0.0.1:0 }\n");
    }
    let mut started = Vec::new();
    for name in sims {
        let sim = Sim::start(SimConfig::named(*name)).await.unwrap();
        whole = whole.replace(&format!("<{name}>"), &sim.base_url());
        started.push(sim);
    }
    world_of(started, &whole)
}

/// Targets `a` and `b` of one model. `a` is given little time, `b` as much as it needs on a busy machine.
pub async fn pair(rest: &str) -> World {
    let targets = r#"
targets:
  a: { provider: openai, base_url: "<a>", model: gpt-4o, api_key: sk-upstream-a, budget: { first_token: 400ms, response: 400ms, idle: 600ms } }
  b: { provider: openai, base_url: "<b>", model: gpt-4o, api_key: sk-upstream-b }
"#;
    world_from(&["a", "b"], &format!("{targets}{rest}")).await
}

/// One target `a`.
pub async fn alone(rest: &str) -> World {
    world(&[("a", "gpt-4o")], rest).await
}

impl World {
    /// The ledger's record of an answer.
    pub fn entry(&self, answer: &Answer) -> Arc<RequestEntry> {
        let id = answer.header("x-request-id").expect("an answer carries its request id");
        self.gateway.app().ledger.get(id).expect("an answered request is in the ledger")
    }

    /// A failure domain of a target.
    pub fn domain(&self, target: &str, kind: DomainKind) -> DomainView {
        let now = self.clock.now();
        let domains = self.gateway.app().with_fleet(|fleet| fleet.domains_of(target, now));
        domains.into_iter().find(|d| d.kind == kind).unwrap_or_else(|| panic!("{target} has no {kind}"))
    }

    /// How long a domain of a target stays as it is.
    pub fn due_in(&self, target: &str, kind: DomainKind) -> Duration {
        let until = self.domain(target, kind).until.expect("a time is known");
        until.since(self.clock.now())
    }

    /// Nothing of what happened counts against this target.
    pub fn assert_untouched(&self, target: &str) {
        let now = self.clock.now();
        for domain in self.gateway.app().with_fleet(|fleet| fleet.domains_of(target, now)) {
            assert_eq!(domain.state, DomainState::Closed, "{domain:?}");
            assert_eq!(domain.failures_in_a_row, 0, "{domain:?}");
        }
    }
}

impl Answer {
    /// The events of a stream that are JSON.
    pub fn chunks(&self) -> Vec<Value> {
        let events = self.events().into_iter().filter(|e| e != "[DONE]");
        events.map(|e| serde_json::from_str(&e).unwrap_or_else(|error| panic!("{error}: {e}"))).collect()
    }

    /// The reasons for which the choices of a stream finished.
    pub fn finish_reasons(&self) -> Vec<String> {
        let chunks = self.chunks();
        let choices = chunks.iter().filter_map(|c| c["choices"].as_array()).flatten();
        choices.filter_map(|c| c["finish_reason"].as_str().map(str::to_owned)).collect()
    }

    /// The error of an answer that is one.
    pub fn error(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        self.json()["error"].clone()
    }
}

/// Exactly one complete answer, all of it by this sim.
pub fn assert_whole_from(answer: &Answer, who: &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    if answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")) {
        assert_whole_stream(answer, who);
        return;
    }
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(body["system_fingerprint"], format!("fp_{who}"), "{body}");
    assert_eq!(body["choices"][0]["finish_reason"], "stop", "{body}");
    let text = body["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.starts_with(&format!("{who} answers")), "{text}");
}

fn assert_whole_stream(answer: &Answer, who: &str) {
    let text = answer.text();
    for block in text.split_terminator("\n\n") {
        let is_data = block.starts_with("data: ") && !block.contains('\n');
        assert!(is_data || block.starts_with(':'), "{block:?} is neither one data line nor a comment");
    }
    assert!(answer.is_done_once(), "{text}");
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"), "{text}");
    let chunks = answer.chunks();
    for key in ["id", "created", "model", "system_fingerprint"] {
        let values: BTreeSet<String> = chunks.iter().map(|c| c[key].to_string()).collect();
        assert_eq!(values.len(), 1, "{key} changes within the stream: {text}");
    }
    assert_eq!(answer.fingerprints(), [format!("fp_{who}")]);
    assert!(chunks.iter().all(|c| c.get("error").is_none()), "{text}");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant", "{text}");
    assert_eq!(answer.finish_reasons(), ["stop"], "{text}");
    assert!(answer.content().starts_with(&format!("{who} answers")), "{text}");
}

/// A stream that broke after its beginning had been sent: the one error is its last word.
pub fn assert_broken_off(answer: &Answer) -> Value {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    let chunks = answer.chunks();
    let errors = chunks.iter().filter(|c| c.get("error").is_some()).count();
    assert_eq!(errors, 1, "{text}");
    let last = chunks.last().unwrap().clone();
    assert!(last["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{text}");
    assert_eq!(answer.finish_reasons(), Vec::<String>::new(), "{text}");
    assert_eq!(last["pointsman"]["request_id"], answer.header("x-request-id").unwrap());
    last
}
