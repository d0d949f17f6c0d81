//! One wrong thing a file: each is an error that names its place, what is wrong, and the nearest valid word.

use crate::support::errors;

/// The good rest of a file, so that the wrong line stands alone.
const LOCAL: &str = "targets: { t: { provider: ollama, model: m } }\n";

#[track_caller]
fn refuses(text: &str, expected: &[&str]) {
    assert_eq!(errors(text), expected, "for:\n{text}");
}

/// Refuses one line that follows the good target.
#[track_caller]
fn refuses_line(line: &str, expected: &str) {
    refuses(&format!("{LOCAL}{line}\n"), &[expected]);
}

/// Refuses one more key of the only target.
#[track_caller]
fn refuses_in_target(entry: &str, expected: &str) {
    refuses(&format!("targets:\n  t:\n    provider: ollama\n    model: m\n    {entry}\n"), &[expected]);
}

/// Refuses one key of a route.
#[track_caller]
fn refuses_in_route(entry: &str, expected: &str) {
    refuses(&format!("{LOCAL}routes:\n  r:\n    models: [m]\n    {entry}\n"), &[expected]);
}

#[test]
fn an_unknown_key_names_the_nearest_valid_one() {
    refuses_line("routs: {}", "f.yaml:2:1: `routs` is not a key; did you mean `routes`?");
    refuses_line(
        "server: { lisen: 127.0.0.1:1 }",
        "f.yaml:2:11: `server.lisen` is not a key; did you mean `listen`?",
    );
    refuses_in_target(
        "base_ulr: http://h/v1",
        "f.yaml:5:5: `targets.t.base_ulr` is not a key; did you mean `base_url`?",
    );
    refuses_in_route(
        "budget: { max_atempts: 3 }",
        "f.yaml:5:15: `routes.r.budget.max_atempts` is not a key; did you mean `max_attempts`?",
    );
}

#[test]
fn a_key_of_another_gateway_is_told_its_name_here() {
    refuses_in_route(
        "num_retries: 3",
        "f.yaml:5:5: `routes.r.num_retries` is not a key; here it is `budget.max_same_target_attempts` (the first try counts)",
    );
    refuses_in_route(
        "fallbacks: [m]",
        "f.yaml:5:5: `routes.r.fallbacks` is not a key; here a route lists its substitutes in `models`, after the first",
    );
    refuses_in_target(
        "api_base: http://h",
        "f.yaml:5:5: `targets.t.api_base` is not a key; here it is `base_url`",
    );
    refuses_in_route(
        "timeout: 30",
        "f.yaml:5:5: `routes.r.timeout` is not a key; here it is `budget.deadline`, with limits for each phase beside it",
    );
}

#[test]
fn a_key_at_the_wrong_level_is_told_where_it_belongs() {
    refuses_in_route(
        "deadline: 30s",
        "f.yaml:5:5: `routes.r.deadline` is not a key here; it belongs to budget",
    );
    refuses_in_route(
        "retry: { deadline: 30s }",
        "f.yaml:5:14: `routes.r.retry.deadline` is not a key here; it belongs to budget",
    );
    refuses_line(
        "server: { throttle: {} }",
        "f.yaml:2:11: `server.throttle` is not a key here; it belongs to the top of the file",
    );
    refuses_line("drain: { delay: 1s }", "f.yaml:2:1: `drain` is not a key here; it belongs to server");
}

#[test]
fn a_misspelt_key_is_not_called_missing_too() {
    refuses(
        "targets:\n  t: { provider: openai, modell: m, apikey: k }\n",
        &[
            "f.yaml:2:26: `targets.t.modell` is not a key; did you mean `model`?",
            "f.yaml:2:37: `targets.t.apikey` is not a key; did you mean `api_key`?",
        ],
    );
    refuses(
        "targets:\n  t: { provider: vllm, model: m, base_ulr: u }\n  u: { provider: openai-compatible, model: m, base_ulr: u }\n",
        &[
            "f.yaml:2:34: `targets.t.base_ulr` is not a key; did you mean `base_url`?",
            "f.yaml:3:47: `targets.u.base_ulr` is not a key; did you mean `base_url`?",
        ],
    );
    refuses("tragets: {}\n", &["f.yaml:1:1: `tragets` is not a key; did you mean `targets`?"]);
}

#[test]
fn a_key_that_is_like_nothing_lists_what_is_valid() {
    refuses_line(
        "queue: { banana: 1 }",
        "f.yaml:2:10: `queue.banana` is not a key; valid here: max_wait, max",
    );
}

#[test]
fn merge_keys_are_refused_with_what_to_use_instead() {
    refuses(
        "targets:\n  a: &a { provider: ollama, model: m }\n  b:\n    <<: *a\n    provider: ollama\n    model: m\n",
        &[
            "f.yaml:4:5: `targets.b.<<` is not a key; merge keys are not taken; put what routes share under `defaults`",
        ],
    );
}

#[test]
fn a_key_that_is_here_twice_is_refused_where_it_is_repeated() {
    refuses(
        "targets:\n  t: { provider: ollama, model: m }\n  t: { provider: ollama, model: n }\n",
        &["f.yaml:3:3: `t` is here twice; it first stands in line 2"],
    );
    refuses_line("watch: true\nwatch: false", "f.yaml:3:1: `watch` is here twice; it first stands in line 2");
}

#[test]
fn what_is_missing_is_named_where_it_should_stand() {
    refuses("server: {}\n", &["f.yaml:1:1: `targets` is missing"]);
    refuses("", &["f.yaml:1:1: `targets` is missing"]);
    refuses("targets: {}\n", &["f.yaml:1:10: `targets` is empty: there would be nothing to serve"]);
    refuses("targets:\n", &["f.yaml:1:1: `targets` has no value; give it one or remove it"]);
    refuses("targets:\n  t: { provider: ollama }\n", &["f.yaml:2:3: `targets.t` needs `model`"]);
    refuses(
        "targets:\n  t: { provider: openai, model: m }\n",
        &[
            "f.yaml:2:3: `targets.t` needs `api_key`: write `api_key: ${OPENAI_API_KEY}`, or `api_key: caller` if each caller brings one",
        ],
    );
    refuses(
        "targets:\n  t: { provider: openai-compatible, model: m }\n",
        &["f.yaml:2:3: `targets.t`: provider `openai-compatible` needs `base_url`"],
    );
    refuses_line("routes: { r: {} }", "f.yaml:2:11: `routes.r` needs `models`");
    refuses_line(
        "routes: { r: { models: [] } }",
        "f.yaml:2:24: `routes.r.models` is empty; name at least one model",
    );
    refuses_line("keys: { k: {} }", "f.yaml:2:9: `keys.k` needs `hash`");
    refuses_line("models: { m: { price: { input: 1 } } }", "f.yaml:2:16: `models.m.price` needs `output`");
}

#[test]
fn a_duration_needs_a_unit_and_is_not_negative() {
    refuses_in_route(
        "budget: { deadline: 30 }",
        "f.yaml:5:25: `routes.r.budget.deadline: 30`: a duration needs a unit: write `30s` for seconds or `30ms` for milliseconds",
    );
    refuses_in_route(
        "budget: { deadline: -30s }",
        "f.yaml:5:25: `routes.r.budget.deadline: -30s`: a duration cannot be negative",
    );
    refuses_in_route(
        "budget: { deadline: 30sec }",
        "f.yaml:5:25: `routes.r.budget.deadline: 30sec`: not a duration: write `250ms`, `5s`, `10m`, `2h` or `30d`",
    );
    refuses_in_route("budget: { idle: 0s }", "f.yaml:5:21: `routes.r.budget.idle: 0s`: must be more than 0");
}

#[test]
fn values_of_the_wrong_type_say_what_they_must_be() {
    refuses_in_target(
        "limits: { rpm: many }",
        "f.yaml:5:20: `targets.t.limits.rpm: many`: must be a whole number",
    );
    refuses_in_target(
        "limits: { rpm: \"60\" }",
        "f.yaml:5:20: `targets.t.limits.rpm: 60`: must be a number, without quotes",
    );
    refuses_in_target(
        "limits: { rpm: -1 }",
        "f.yaml:5:20: `targets.t.limits.rpm: -1`: must be a whole number",
    );
    refuses_in_target("limits: { rpm: 0 }", "f.yaml:5:20: `targets.t.limits.rpm: 0`: must be at least 1");
    refuses_in_target(
        "limits: { rpm: 4294967296 }",
        "f.yaml:5:20: `targets.t.limits.rpm: 4294967296`: is too large",
    );
    refuses_in_target("limits: 60", "f.yaml:5:13: `targets.t.limits: 60`: must be a mapping of keys");
    refuses_in_target("tags: gdpr", "f.yaml:5:11: `targets.t.tags: gdpr`: must be a list: `[a, b]`");
    refuses_in_target("region: [eu]", "f.yaml:5:13: `targets.t.region`: must be a single value, not a list");
    refuses_in_target(
        "region: { eu: 1 }",
        "f.yaml:5:13: `targets.t.region`: must be a single value, not a mapping",
    );
    refuses_in_target("region:", "f.yaml:5:5: `targets.t.region` has no value; give it one or remove it");
    refuses_in_target("region: \"\"", "f.yaml:5:13: `targets.t.region`: is empty");
    refuses("[a, b]\n", &["f.yaml:1:1: `the file`: must be a mapping of keys"]);
}

#[test]
fn on_off_and_yes_are_text_as_yaml_1_2_says() {
    for word in ["on", "off", "yes", "no", "\"true\"", "1"] {
        let shown = word.trim_matches('"');
        refuses_line(
            &format!("watch: {word}"),
            &format!("f.yaml:2:8: `watch: {shown}`: must be `true` or `false`"),
        );
    }
}

#[test]
fn a_wrong_word_names_the_nearest_valid_one_or_all() {
    refuses_in_route(
        "strategy: least-buzy",
        "f.yaml:5:15: `routes.r.strategy: least-buzy`: is not a valid word; did you mean `least-busy`?",
    );
    refuses_in_route(
        "profile: turbo",
        "f.yaml:5:14: `routes.r.profile: turbo`: must be `standard`, `interactive`, `agent` or `batch`",
    );
    refuses(
        "targets:\n  t: { provider: openia, model: m, api_key: k }\n",
        &["f.yaml:2:18: `targets.t.provider: openia`: is not a valid word; did you mean `openai`?"],
    );
}

#[test]
fn shares_sizes_and_money_say_how_they_are_written() {
    refuses_line(
        "retry_budget: { ratio: 20 }",
        "f.yaml:2:24: `retry_budget.ratio: 20`: a share lies between 0 and 1; write `20%` for a percentage",
    );
    refuses_line(
        "retry_budget: { ratio: 120% }",
        "f.yaml:2:24: `retry_budget.ratio: 120%`: a share lies between 0% and 100%",
    );
    refuses_line(
        "retry_budget: { ratio: x }",
        "f.yaml:2:24: `retry_budget.ratio: x`: not a share: write `5%` or `0.05`",
    );
    refuses_line(
        "server: { max_body: 64M }",
        "f.yaml:2:21: `server.max_body: 64M`: not a size: write `64KiB`, `64MiB`, `1GiB` or a number of bytes",
    );
    refuses_line("server: { max_body: 0 }", "f.yaml:2:21: `server.max_body: 0`: a size must be more than 0");
    refuses_in_route(
        "budget: { max_cost: $1 }",
        "f.yaml:5:25: `routes.r.budget.max_cost: $1`: not an amount: write a number of USD such as `0.27`",
    );
    refuses_in_route(
        "budget: { reserve_for_fallback: 8 }",
        "f.yaml:5:37: `routes.r.budget.reserve_for_fallback: 8`: not a share or a duration: write `25%`, `0.25` or `8s`",
    );
    refuses_in_route(
        "substitution: { price_ceiling: 0 }",
        "f.yaml:5:36: `routes.r.substitution.price_ceiling: 0`: must be a number above 0",
    );
    refuses_in_route(
        "breaker: { slow: never }",
        "f.yaml:5:22: `routes.r.breaker.slow: never`: must be `off` or `{ factor, share, min_calls }`",
    );
}

#[test]
fn an_address_has_a_host_and_a_port() {
    refuses_line(
        "server: { listen: 4000 }",
        "f.yaml:2:19: `server.listen: 4000`: an address has a host too: write `127.0.0.1:4000`, or `0.0.0.0:4000` for all interfaces",
    );
    refuses_line(
        "server: { listen: gateway }",
        "f.yaml:2:19: `server.listen: gateway`: not an address: write an IP address and a port, such as `127.0.0.1:4000`",
    );
}

#[test]
fn a_variable_that_is_not_set_is_named() {
    refuses_in_target(
        "region: ${REGION}",
        "f.yaml:5:13: variable `REGION` is not set; set it, or write `${REGION:-default}`",
    );
    refuses_in_target("region: a${REGION", "f.yaml:5:13: `${` without its `}`; write `$$` for a dollar sign");
    refuses_in_target(
        "region: $REGION",
        "f.yaml:5:13: `$REGION` would be taken literally: write `${REGION}` for the variable, `$$REGION` for the text",
    );
    refuses_in_target(
        "region: ${1X}",
        "f.yaml:5:13: a variable is written `${NAME}` or `${NAME:-default}`; a name has letters, digits and `_`",
    );
    refuses_in_target(
        "region: ${A:-${B}}",
        "f.yaml:5:13: the default of `${A}` may not hold another variable",
    );
}

#[test]
fn a_value_from_a_variable_is_shown_as_it_is_written_never_as_it_is() {
    refuses_in_target(
        "limits: { rpm: \"${OPENAI_API_KEY}\" }",
        "f.yaml:5:20: `targets.t.limits.rpm: ${OPENAI_API_KEY}`: must be a whole number",
    );
}

#[test]
fn what_is_not_yaml_says_where() {
    refuses("targets:\n\tt: 1\n", &["f.yaml:2:1: a tab in the indentation; YAML takes spaces only"]);
    // YAML ends a line at a carriage return too, and a tab after one that has begun is no indentation.
    refuses("targets:\r\tt: 1\r", &["f.yaml:2:1: a tab in the indentation; YAML takes spaces only"]);
    refuses(
        "targets: { a: b,\t\r%\r\r\r }\n",
        &["f.yaml:2:2: not valid YAML: while scanning a directive, could not find expected directive name"],
    );
    refuses(
        "targets: { t: { provider: ollama, model: ${M} } }\n",
        &[
            "f.yaml:1:43: not valid YAML: while parsing a flow mapping, did not find expected ',' or '}'; inside braces write \"${NAME}\" with quotes",
        ],
    );
    refuses("targets: {}\n---\ntargets: {}\n", &["f.yaml:2:1: a second YAML document; one file holds one"]);
    refuses("targets: !map {}\n", &["f.yaml:1:15: YAML tags (`!…`) mean nothing here; remove it"]);
    refuses("? [a]\n: b\n", &["f.yaml:1:3: a key must be text, not a list or a mapping"]);
    refuses("a: *b\n", &["f.yaml:1:4: not valid YAML: while parsing node, found unknown anchor"]);
}

#[test]
fn a_file_that_unfolds_without_end_is_stopped() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let before = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
    }
    let errors = errors(&text);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].ends_with("more than 200000 values in one file, aliases unfolded"), "{errors:?}");
    let deep = format!("a: {}{}\n", "[".repeat(60), "]".repeat(60));
    assert_eq!(crate::support::errors(&deep), ["f.yaml:1:27: nested more than 24 deep"]);
}

#[test]
fn a_dialect_that_the_provider_does_not_speak_is_refused_with_what_it_speaks() {
    let refuses_dialect = |provider: &str, dialect: &str, why: &str| {
        let text = format!(
            "targets:\n  t: {{ provider: {provider}, model: m, api_key: k, base_url: \"http://h\", dialect: {dialect} }}\n"
        );
        let column = text.lines().nth(1).unwrap().find(&format!("{dialect} }}")).unwrap() + 1;
        refuses(&text, &[&format!("f.yaml:2:{column}: `targets.t.dialect: {dialect}`: {why}")]);
    };
    for provider in ["openai", "azure"] {
        let why = format!("provider `{provider}` speaks `chat` and `responses`");
        refuses_dialect(provider, "messages", &why);
    }
    for provider in ["openai-compatible", "openrouter", "groq", "deepseek", "mistral"] {
        refuses_dialect(provider, "messages", &format!("provider `{provider}` speaks `chat`"));
    }
    refuses_dialect("anthropic", "chat", "provider `anthropic` speaks `messages`");
    refuses_dialect("ollama", "mesages", "is not a valid word; did you mean `messages`?");
    refuses_dialect("ollama", "xyz", "must be `chat`, `messages`, `responses`, `gemini` or `bedrock`");
    // Of a provider that is wrong itself nobody knows what it speaks.
    refuses(
        "targets:\n  t: { provider: vertex, model: m, dialect: messages }\n",
        &["f.yaml:2:18: `targets.t.provider: vertex` is not built yet"],
    );
}

#[test]
fn anthropic_at_its_public_address_needs_a_key() {
    refuses(
        "targets:\n  t: { provider: anthropic, model: m }\n",
        &[
            "f.yaml:2:3: `targets.t` needs `api_key`: write `api_key: ${ANTHROPIC_API_KEY}`, or `api_key: caller` if each caller brings one",
        ],
    );
}

#[test]
fn later_releases_words_are_refused_by_name() {
    refuses_line(
        "server: { tls: { cert: a, key: b } }",
        "f.yaml:2:11: `server.tls` is not built yet; remove it",
    );
    refuses_in_route("profile: background", "f.yaml:5:14: `routes.r.profile: background` is not built yet");
    refuses_in_route("on_unpriced: deny", "f.yaml:5:5: `routes.r.on_unpriced` is not built yet; remove it");
    refuses_line("defaults: { canary: {} }", "f.yaml:2:13: `defaults.canary` is not built yet; remove it");
    refuses(
        "targets:\n  t: { provider: vertex, model: m }\n",
        &["f.yaml:2:18: `targets.t.provider: vertex` is not built yet"],
    );
}
