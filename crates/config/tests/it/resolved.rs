//! Every key ends up where the server and the decision core look for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pointsman_config::{
    Auth, Azure, Config, Credential, Drain, Expose, HttpPreference, LogFormat, Runtime, ServerConfig, Source,
    Telemetry, load, parse,
};
use pointsman_core::policy::{
    BreakerPolicy, Budget, CooldownCount, CooldownPolicy, GatherPolicy, MicroUsd, OnMismatch, OnPolicy,
    Profile, RateRule, Reserve, RetryOrder, RetryPolicy, SlowRule, Strategy, StreamPolicy,
    SubstitutionPolicy, TimeLimits, TimeOverrides,
};
use pointsman_core::target::{Contract, DataTerms, Governance, Model, Price, StructuredOutput, TargetLimits};

use crate::support::{config, usual, warnings};

const LOCAL: &str = "targets:\n  local: { provider: ollama, model: llama3.2 }\n";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

fn every_key() -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good/every-key.yaml");
    let loaded = load(&path, &usual()).unwrap();
    assert_eq!(loaded.warnings, []);
    loaded.config
}

#[test]
fn a_file_with_one_target_runs_on_the_documented_defaults() {
    let config = config(LOCAL);
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:4000");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:4001");
    assert_eq!(config.server.auth, Auth::None);
    assert_eq!(config.server.max_in_flight, 10_000);
    assert_eq!(config.server.body_memory, 1024 * 1024 * 1024);
    assert_eq!(config.server.max_body, 64 * 1024 * 1024);
    assert_eq!(config.server.max_header, 64 * 1024);
    assert_eq!(config.server.keepalive, secs(15));
    assert_eq!(config.server.drain, Drain { delay: secs(5), timeout: secs(600) });
    assert_eq!((config.server.expose, config.server.runtime), (Expose::Full, Runtime::PerCore));
    assert_eq!(config.telemetry, Telemetry { log: LogFormat::Auto, level: "info".to_owned() });
    assert_eq!(config.process, pointsman_core::policy::ProcessPolicy::default());
    assert_eq!(config.catalog.defaults, Governance::default());
    assert!(!config.watch && config.keys.is_empty());
    assert_eq!(config.source, Source::File(PathBuf::from("f.yaml")));
}

#[test]
fn listeners_logs_and_process_policies_are_taken_from_the_file() {
    let config = every_key();
    let server = ServerConfig {
        listen: "0.0.0.0:8080".parse().unwrap(),
        auth: Auth::Keys,
        hosts: vec!["gateway.example.com".to_owned(), "gateway.example.com:8443".to_owned()],
        max_in_flight: 500,
        body_memory: 512 * 1024 * 1024,
        max_body: 32 * 1024 * 1024,
        max_header: 32_768,
        keepalive: secs(10),
        drain: Drain { delay: secs(2), timeout: secs(60) },
        expose: Expose::Minimal,
        runtime: Runtime::Shared,
    };
    assert_eq!(config.server, server);
    assert_eq!(config.admin.listen.to_string(), "0.0.0.0:8081");
    assert!(config.admin.key.is_some());
    assert_eq!(
        config.telemetry,
        Telemetry { log: LogFormat::Json, level: "info,pointsman_server=debug".to_owned() }
    );
    assert!(config.watch);
    assert_eq!((config.process.queue.max_wait, config.process.queue.max), (secs(3), 50));
    assert_eq!((config.process.retry_budget.ratio, config.process.retry_budget.floor_per_second), (0.1, 5));
    assert_eq!((config.process.throttle.initial, config.process.throttle.max), (secs(2), secs(300)));
}

#[test]
fn a_target_has_its_place_its_account_and_its_own_limits() {
    let config = every_key();
    let names: Vec<&str> = config.catalog.targets.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        ["openai-us", "azure-eu", "deepseek", "byo", "bedrock-eu", "bedrock-us"],
        "in the order of the file"
    );
    assert_eq!(config.upstreams.len(), config.catalog.targets.len());
    let (target, upstream) = (&config.catalog.targets[0], &config.upstreams[0]);
    assert_eq!((target.provider.as_str(), target.model.as_deref()), ("openai", Some("gpt-4o")));
    assert_eq!(target.endpoint, "https://api.openai.com:443");
    assert_eq!(target.region.as_deref(), Some("us"));
    assert_eq!(target.data, DataTerms { zero_retention: Some(true), training: Some(false) });
    assert_eq!(target.tags, words(&["gdpr", "fast"]));
    assert_eq!((target.priority, target.weight), (2, 3));
    assert_eq!(target.limits, TargetLimits { rpm: Some(1000), tpm: Some(80_000), concurrency: Some(200) });
    let times = TimeOverrides {
        connect: Some(secs(1)),
        headers: Some(secs(4)),
        first_token: Some(secs(8)),
        response: Some(secs(90)),
        idle: Some(secs(20)),
        write: Some(secs(5)),
    };
    assert_eq!(target.times, times);
    assert_eq!(upstream.base_url, "https://api.openai.com/v1");
    assert_eq!(upstream.http, HttpPreference::Two);
    assert!(upstream.ca_file.is_some());
    assert!(matches!(upstream.credential, Credential::Secret(_)));
}

#[test]
fn anthropic_is_reached_at_its_public_address_in_messages() {
    let config =
        config("targets:\n  claude: { provider: anthropic, model: claude-sonnet-4-5, api_key: k }\n");
    let (target, upstream) = (&config.catalog.targets[0], &config.upstreams[0]);
    assert_eq!(upstream.provider, "anthropic");
    assert_eq!(upstream.base_url, "https://api.anthropic.com");
    assert_eq!(target.endpoint, "https://api.anthropic.com:443");
    assert_eq!(target.dialects, ["messages"]);
    assert!(target.stream_carries_everything);
    assert!(target.account.starts_with("anthropic@api.anthropic.com#"), "{}", target.account);
}

#[test]
fn a_target_is_used_for_what_its_provider_speaks_unless_it_is_kept_to_one_dialect() {
    let dialects = |provider: &str, more: &str| {
        let text = format!(
            "targets:\n  t: {{ provider: {provider}, model: m, api_key: k, base_url: \"http://h/x\"{more} }}\n"
        );
        config(&text).catalog.targets.remove(0).dialects
    };
    for provider in ["vllm", "sglang"] {
        assert_eq!(dialects(provider, ""), ["chat", "messages", "responses"], "{provider}");
        assert_eq!(dialects(provider, ", dialect: responses"), ["responses"], "{provider}");
    }
    for provider in ["llama-cpp", "ollama"] {
        assert_eq!(dialects(provider, ""), ["chat", "messages"], "{provider}");
        assert_eq!(dialects(provider, ", dialect: chat"), ["chat"], "{provider}");
        assert_eq!(dialects(provider, ", dialect: messages"), ["messages"], "{provider}");
    }
    assert_eq!(dialects("openai", ""), ["chat", "responses"]);
    assert_eq!(dialects("openai", ", dialect: chat"), ["chat"]);
    assert_eq!(dialects("anthropic", ", dialect: messages"), ["messages"]);
}

#[test]
fn an_azure_target_is_reached_by_its_deployment() {
    let config = every_key();
    let (target, upstream) = (&config.catalog.targets[1], &config.upstreams[1]);
    assert_eq!(upstream.base_url, "https://corp-azure-eu.openai.azure.com");
    let azure =
        Azure { deployment: "gpt-4o-deployment".to_owned(), api_version: "2025-01-01-preview".to_owned() };
    assert_eq!(upstream.azure, Some(azure));
    assert_eq!(target.upstream_model.as_deref(), Some("gpt-4o-deployment"));
    assert_eq!(upstream.http, HttpPreference::One);
    assert_eq!((target.priority, target.weight), (1, 1));
}

#[test]
fn a_target_of_the_callers_own_key_holds_none_itself() {
    let config = every_key();
    assert!(config.catalog.targets[3].caller_key);
    assert!(matches!(config.upstreams[3].credential, Credential::Caller));
    assert_eq!(config.catalog.targets[3].account, "openai@api.openai.com#caller");
}

#[test]
fn accounts_follow_the_credential_and_identities_whatever_changes_a_domain() {
    let file = |key: &str, url: &str, upstream: &str| {
        let text = format!(
            "targets:\n  a: {{ provider: vllm, model: m, api_key: {key}, base_url: \"{url}\", upstream_model: {upstream} }}\n"
        );
        config(&text).catalog.targets.remove(0)
    };
    let target = file("one", "http://host:1/v1", "x");
    assert_eq!(target, file("one", "http://host:1/v1/", "x"), "the same again");
    let (provider, mark) = target.account.split_once('#').unwrap();
    assert_eq!(provider, "vllm@host");
    assert!(mark.len() == 8 && mark.chars().all(|c| c.is_ascii_hexdigit()), "{mark}");
    let other_key = file("two", "http://host:1/v1", "x");
    assert_ne!(target.account, other_key.account);
    assert_ne!(target.identity, other_key.identity);
    let other_port = file("one", "http://host:2/v1", "x");
    assert_eq!(target.account, other_port.account);
    assert_ne!(target.identity, other_port.identity);
    let other_model = file("one", "http://host:1/v1", "y");
    assert_eq!(target.account, other_model.account);
    assert_ne!(target.identity, other_model.identity);
    let none = config(LOCAL).catalog.targets.remove(0);
    assert_eq!(none.account, "ollama@http://127.0.0.1:11434#none");
    let keyless = |port: u16| {
        let text = format!(
            "targets: {{ a: {{ provider: vllm, model: m, base_url: \"http://host:{port}/v1\" }} }}\n"
        );
        config(&text).catalog.targets.remove(0)
    };
    assert_ne!(keyless(1).account, keyless(2).account, "two servers without a key share nothing");
}

#[test]
fn a_star_is_a_wildcard_and_so_is_the_providers_own() {
    for model in ["\"*\"", "ollama/*"] {
        let config = config(&format!("targets:\n  all: {{ provider: ollama, model: {model} }}\n"));
        assert_eq!(config.catalog.targets[0].model, None);
        assert_eq!(config.catalog.names(), ["ollama/*"]);
    }
}

#[test]
fn what_a_model_can_do_and_costs_is_taken_over() {
    let config = every_key();
    let model = Model {
        context_window: Some(128_000),
        max_output: Some(16_384),
        modalities: Some(words(&["text", "image"])),
        tools: Some(true),
        parallel_tool_calls: Some(true),
        structured_output: Some(StructuredOutput::JsonSchema),
        reasoning: Some(false),
        prefill: Some(false),
        prompt_caching: Some(true),
        price: Some(Price {
            cache_read: Some(1_250_000),
            cache_write: Some(2_500_000),
            batch: Some((1_250_000, 5_000_000)),
            ..Price::of(2_500_000, 10_000_000)
        }),
    };
    assert_eq!(config.catalog.models["gpt-4o"], model);
    assert_eq!(config.catalog.models["deepseek-chat"].price, Some(Price::of(270_000, 1_100_000)));
    assert_eq!(config.catalog.models["deepseek-chat"].reasoning, None, "what is not said is unknown");
}

#[test]
fn a_route_says_how_its_requests_are_governed() {
    let config = every_key();
    let route = &config.catalog.routes["support-agent"];
    assert_eq!((route.name.as_str(), route.version), ("support-agent", 3));
    assert_eq!(route.models, ["gpt-4o", "deepseek-chat"]);
    let governance = &route.governance;
    assert_eq!((governance.profile, governance.strategy), (Profile::Interactive, Strategy::LeastBusy));
    let budget = Budget {
        deadline: secs(30),
        stream: secs(300),
        max_attempts: 5,
        max_rejections: 6,
        max_same_target_attempts: 3,
        reserve_attempts: 2,
        reserve_for_fallback: Reserve::Span(secs(8)),
        min_attempt: Duration::from_millis(500),
        max_cost: Some(MicroUsd(250_000)),
        limits: TimeLimits {
            connect: Duration::from_millis(1_500),
            headers: Some(secs(3)),
            first_token: secs(4),
            first_token_reasoning: secs(4),
            response: secs(25),
            idle: secs(12),
            write: secs(9),
        },
    };
    assert_eq!(governance.budget, budget);
    let retry = RetryPolicy { order: RetryOrder::RetryFirst, base: Duration::from_millis(250), max: secs(2) };
    assert_eq!(governance.retry, retry);
    let requires = Contract {
        modalities: words(&["text"]),
        tools: true,
        parallel_tool_calls: false,
        structured_output: Some(StructuredOutput::JsonObject),
        context_window_min: Some(32_000),
        max_output_tokens_min: Some(4_000),
    };
    assert_eq!(governance.requires, requires);
    assert_eq!(governance.on_model_mismatch, OnMismatch::Reject);
}

#[test]
fn a_route_says_how_substitution_streams_and_health_behave() {
    let config = every_key();
    let governance = &config.catalog.routes["support-agent"].governance;
    let substitution = SubstitutionPolicy {
        allowed: true,
        written: true,
        price_ceiling: Some(2.0),
        wait: secs(1),
        on_policy: OnPolicy::Fallback,
    };
    assert_eq!(governance.substitution, substitution);
    assert_eq!(governance.stream, StreamPolicy { hold: 16, buffer: false, gather: GatherPolicy::On });
    let breaker = BreakerPolicy {
        failures: 4,
        open_for: secs(20),
        probes: 1,
        probe_successes: 3,
        rate: RateRule { share: 0.4, min_calls: 10, window: secs(20) },
        slow: Some(SlowRule { factor: 6.0, share: 0.6, min_calls: 12 }),
        slow_start: secs(45),
    };
    assert_eq!(governance.health.breaker, breaker);
    let cooldown = CooldownPolicy {
        count: CooldownCount::Failures,
        failures: 6,
        window: secs(60),
        base: secs(30),
        max: secs(300),
    };
    assert_eq!(governance.health.cooldown, cooldown);
}

#[test]
fn a_key_is_known_by_its_digest_and_may_use_what_it_lists() {
    let config = every_key();
    let key = &config.keys[0];
    assert_eq!(key.name, "team-a");
    // SHA-256 of "test" (FIPS 180-4), first and last byte.
    assert_eq!((key.hash[0], key.hash[31]), (0x9f, 0x08));
    assert_eq!(key.models, Some(words(&["support-agent", "gpt-4o"])));
}

#[test]
fn plain_models_follow_defaults_and_so_do_routes_in_what_they_leave_open() {
    let text = format!(
        "{LOCAL}defaults:\n  profile: batch\n  budget: {{ max_attempts: 3, first_token: 40s }}\n  breaker: {{ slow: off, failures: 7 }}\n  retry: {{ max: 9s }}\nroutes:\n  one: {{ models: [llama3.2] }}\n  two: {{ models: [llama3.2], profile: interactive, budget: {{ idle: 7s }}, breaker: {{ failures: 2 }} }}\n"
    );
    let config = config(&text);
    let defaults = &config.catalog.defaults;
    assert_eq!(defaults.profile, Profile::Batch);
    // The batch column of the budget table, and what is written over it.
    assert_eq!(defaults.budget.deadline, secs(1_800));
    assert_eq!((defaults.budget.max_attempts, defaults.budget.max_same_target_attempts), (3, 3));
    assert_eq!(defaults.budget.limits.first_token, secs(40));
    assert_eq!(defaults.budget.limits.first_token_reasoning, secs(40));
    assert_eq!(&config.catalog.routes["one"].governance, defaults);
    let two = &config.catalog.routes["two"].governance;
    assert_eq!(two.budget.deadline, secs(60), "the profile of the route");
    assert_eq!(two.budget.limits.idle, secs(7), "the route's own");
    assert_eq!(
        (two.budget.max_attempts, two.budget.limits.first_token),
        (3, secs(40)),
        "written in defaults"
    );
    assert_eq!((two.health.breaker.failures, two.health.breaker.slow.as_ref()), (2, None));
    assert_eq!((two.retry.base, two.retry.max), (Duration::from_millis(500), secs(9)));
}

#[test]
fn slowness_switched_off_in_defaults_can_be_switched_on_by_a_route() {
    let text = format!(
        "{LOCAL}defaults: {{ breaker: {{ slow: off }} }}\nroutes:\n  r: {{ models: [llama3.2], breaker: {{ slow: {{ factor: 5 }} }} }}\n"
    );
    let config = config(&text);
    assert_eq!(config.catalog.defaults.health.breaker.slow, None);
    let slow = config.catalog.routes["r"].governance.health.breaker.slow.clone();
    assert_eq!(slow, Some(SlowRule { factor: 5.0, share: 0.5, min_calls: 20 }));
}

#[test]
fn another_model_may_answer_exactly_when_the_route_lists_one_unless_it_says_otherwise() {
    let targets = "targets:\n  a: { provider: ollama, model: one }\n  b: { provider: ollama, model: two }\n";
    let allowed = |route: &str| {
        let config = parse(&format!("{targets}routes:\n  r: {route}\n"), "f.yaml", &usual()).unwrap().config;
        config.catalog.routes["r"].governance.substitution.allowed
    };
    assert!(!allowed("{ models: [one] }"));
    assert!(allowed("{ models: [one, two] }"));
    assert!(!allowed("{ models: [one, two], substitution: { allowed: false } }"));
    assert!(!config(targets).catalog.defaults.substitution.allowed);
    assert_eq!(
        warnings(&format!(
            "{targets}routes:\n  r: {{ models: [one, two], substitution: {{ allowed: false }} }}\n"
        )),
        [
            "f.yaml:5:16: `routes.r` lists 2 models, but `substitution.allowed: false` keeps all but the first from answering"
        ]
    );
}

#[test]
fn a_single_attempt_is_not_reserved_away() {
    let config = config(&format!("{LOCAL}defaults: {{ budget: {{ max_attempts: 1 }} }}\n"));
    assert_eq!(config.catalog.defaults.budget.reserve_attempts, 0);
}

#[test]
fn variables_are_filled_in_anywhere_also_as_numbers() {
    let vars = crate::support::vars(&[("PORT", "5000"), ("RPM", "60"), ("WATCH", "true"), ("EMPTY", "")]);
    let text = "watch: ${WATCH}\nserver: { listen: \"127.0.0.1:${PORT}\", keepalive: \"${PAUSE:-7s}\" }\ntargets:\n  a: { provider: \"${P:-ollama}\", model: \"${EMPTY:-m}$$1\", limits: { rpm: \"${RPM}\" } }\n";
    let config = parse(text, "f.yaml", &vars).unwrap().config;
    assert!(config.watch);
    assert_eq!(config.server.listen.port(), 5000);
    assert_eq!(config.server.keepalive, secs(7));
    assert_eq!(config.catalog.targets[0].limits.rpm, Some(60));
    assert_eq!(config.catalog.targets[0].model.as_deref(), Some("m$1"));
}

#[test]
fn anchors_and_aliases_share_what_targets_have_in_common() {
    let text = "targets:\n  a: { provider: ollama, model: m, limits: &limits { rpm: 5 } }\n  b: { provider: ollama, model: m, limits: *limits }\n";
    let config = config(text);
    assert_eq!(config.catalog.targets[1].limits.rpm, Some(5));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_nothing() {
    let text = format!("\u{feff}{}", LOCAL.replace('\n', "\r\n"));
    assert_eq!(config(&text).catalog, config(LOCAL).catalog);
}
