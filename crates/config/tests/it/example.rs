//! The example that the documentation shows whole: what this release does not build yet is refused, and nothing else.

use crate::support::vars;

const EXAMPLE: &str = r#"server:
  listen: 127.0.0.1:4000          # a non-loopback address needs keys, or `auth: none` written out
admin:
  listen: 127.0.0.1:4001          # admin API, dashboard, metrics: a listener of its own
  key: ${POINTSMAN_ADMIN_KEY}     # required off loopback
state:   { url: redis://127.0.0.1:6379 }          # absent: in memory
ledger:  { url: sqlite:pointsman.db }             # default; or postgres://…
telemetry: { otlp: http://127.0.0.1:4318, log: json }

models:                            # only what the built-in catalog lacks or has otherwise
  deepseek-v3: { context_window: 128000, max_output: 8192, modalities: [text], tools: true, structured_output: json_schema, price: { input: 0.27, output: 1.10 } }

targets:
  openai-us:
    provider: openai
    model: gpt-4o                  # the logical model; `upstream_model:` where the provider calls it otherwise
    api_key: ${OPENAI_API_KEY}
    limits: { rpm: 1000, tpm: 80000, concurrency: 200 }
  azure-eu:
    provider: azure
    base_url: https://corp-azure-eu.openai.azure.com
    upstream_model: gpt-4o-deployment
    model: gpt-4o
    api_key: ${AZURE_OPENAI_KEY}
    region: eu
    data: { retention: none, training: false }
    tags: [gdpr]
    priority: 2                    # lower first; default 1
    weight: 1
  claude: { provider: anthropic, model: claude-sonnet-4-5, api_key: "${ANTHROPIC_API_KEY}" }
  vllm:   { provider: openai-compatible, base_url: http://10.0.0.5:8000/v1, model: deepseek-v3 }
  byo:    { provider: openai, model: gpt-4o, api_key: caller }     # bring your own key

routes:
  support-agent:
    version: 3
    models: [gpt-4o, claude-sonnet-4-5, deepseek-v3]
    strategy: least-busy
    profile: interactive
    budget: { deadline: 30s, max_attempts: 4, max_same_target_attempts: 2, reserve_for_fallback: 8s }
    retry: { order: failover_first, base: 500ms, max: 5s }
    requires: { modalities: [text], streaming: true, tools: true, parallel_tool_calls: false, structured_output: json_schema, context_window_min: 64000, max_output_tokens_min: 4000, evidence_max_age: 30d }
    quality_gates: { task_success_rate_min: 0.94, schema_valid_rate_min: 0.995 }
    substitution: { allowed: true, price_ceiling: 2.0, wait: 0s, on_policy: stop }
    stream: { hold: 0 }
    breaker: { failures: 3, open_for: 30s, probes: 2, probe_successes: 2 }
    cooldown: { count: openings, failures: 3, window: 2m, base: 60s, max: 10m }
    canary: { target: azure-eu, share: 5% }

groups:
  gold:   { targets: [openai-us, azure-eu], rpm: 600 }
  shared: { targets: ["*"], rpm: 120 }

keys:
  team-a: { hash: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", groups: [gold, shared], models: [support-agent, gpt-4o], rpm: 300, tpm: 200000, budget: { usd: 500, per: 30d }, policy: { regions: [eu], retention: none } }
  team-b: { hash: "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752", groups: smart, strategy: lowest-cost }
"#;

#[test]
fn the_documented_example_is_refused_exactly_for_what_is_not_built_yet() {
    let vars = vars(&[
        ("POINTSMAN_ADMIN_KEY", "operator"),
        ("OPENAI_API_KEY", "sk-1"),
        ("AZURE_OPENAI_KEY", "az-1"),
        ("ANTHROPIC_API_KEY", "sk-ant-1"),
    ]);
    let problems = pointsman_config::parse(EXAMPLE, "pointsman.yaml", &vars).unwrap_err();
    let refused = [
        (6, "state:", "`state` is not built yet; remove it"),
        (7, "ledger:", "`ledger` is not built yet; remove it"),
        (8, "otlp:", "`telemetry.otlp` is not built yet; remove it"),
        (
            42,
            "evidence_max_age:",
            "`routes.support-agent.requires.evidence_max_age` is not built yet; remove it",
        ),
        (43, "quality_gates:", "`routes.support-agent.quality_gates` is not built yet; remove it"),
        (48, "canary:", "`routes.support-agent.canary` is not built yet; remove it"),
        (50, "groups:", "`groups` is not built yet; remove it"),
        (55, "groups:", "`keys.team-a.groups` is not built yet; remove it"),
        (55, "rpm:", "`keys.team-a.rpm` is not built yet; remove it"),
        (55, "tpm:", "`keys.team-a.tpm` is not built yet; remove it"),
        (55, "budget:", "`keys.team-a.budget` is not built yet; remove it"),
        (55, "policy:", "`keys.team-a.policy` is not built yet; remove it"),
        (56, "groups:", "`keys.team-b.groups` is not built yet; remove it"),
        (56, "strategy:", "`keys.team-b.strategy` is not built yet; remove it"),
    ];
    let expected = refused.map(|(row, word, message)| {
        let line = EXAMPLE.lines().nth(row - 1).unwrap();
        let column = line.split(word).next().unwrap().chars().count() + 1;
        format!("pointsman.yaml:{row}:{column}: {message}")
    });
    assert_eq!(problems.to_string(), expected.join("\n"));
}
