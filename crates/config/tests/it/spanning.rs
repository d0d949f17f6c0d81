//! What one section says about another: references, contradictions, open doors.

use crate::support::{config, errors, usual, warnings};
use pointsman_config::{Auth, parse};

const TWO: &str =
    "targets:\n  a: { provider: ollama, model: gpt-4o }\n  b: { provider: vllm, model: gpt-4o-mini }\n";
const HASH: &str = "\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"";

#[track_caller]
fn refuses(after: &str, expected: &[&str]) {
    assert_eq!(errors(&format!("{TWO}{after}\n")), expected, "for:\n{after}");
}

#[test]
fn a_route_to_a_model_that_no_target_serves_is_refused_with_the_nearest() {
    refuses(
        "routes:\n  r: { models: [gpt-4o, gpt-4o-minni] }",
        &["f.yaml:5:25: `routes.r.models`: no target serves `gpt-4o-minni`; did you mean `gpt-4o-mini`?"],
    );
    refuses(
        "routes:\n  r: { models: [llama] }",
        &["f.yaml:5:17: `routes.r.models`: no target serves `llama`"],
    );
}

#[test]
fn a_route_may_list_a_model_of_one_provider() {
    assert!(errors(&format!("{TWO}routes:\n  r: {{ models: [ollama/gpt-4o] }}\n")).is_empty());
    refuses(
        "routes:\n  r: { models: [ollama/gpt-4o-mini] }",
        &[
            "f.yaml:5:17: `routes.r.models`: no target serves `ollama/gpt-4o-mini`; did you mean `vllm/gpt-4o-mini`?",
        ],
    );
}

#[test]
fn a_bare_name_in_a_route_never_falls_to_a_wildcard() {
    let wild = "targets:\n  all: { provider: ollama, model: \"*\" }\n";
    assert!(errors(&format!("{wild}routes:\n  r: {{ models: [ollama/qwen3] }}\n")).is_empty());
    assert_eq!(
        errors(&format!("{wild}routes:\n  r: {{ models: [qwen3] }}\n")),
        ["f.yaml:4:17: `routes.r.models`: no target serves `qwen3`; of a wildcard write `ollama/qwen3`"]
    );
}

#[test]
fn a_model_is_listed_once() {
    refuses(
        "routes:\n  r: { models: [gpt-4o, gpt-4o] }",
        &["f.yaml:5:25: `routes.r.models` holds `gpt-4o` twice"],
    );
}

#[test]
fn a_route_hides_a_model_only_if_it_leads_to_it() {
    assert!(errors(&format!("{TWO}routes:\n  gpt-4o: {{ models: [gpt-4o, gpt-4o-mini] }}\n")).is_empty());
    refuses(
        "routes:\n  gpt-4o: { models: [gpt-4o-mini] }",
        &[
            "f.yaml:5:3: `routes.gpt-4o` hides the model of the same name; rename the route, or put `gpt-4o` first in its `models`",
        ],
    );
}

#[test]
fn the_same_name_for_a_model_twice_is_two_targets_of_it() {
    let text = "targets:\n  a: { provider: ollama, model: m }\n  b: { provider: vllm, model: m }\n";
    assert_eq!(config(text).catalog.names(), ["m"]);
}

#[test]
fn names_can_be_written_into_headers_and_urls() {
    assert_eq!(
        errors(
            "targets:\n  a b: { provider: ollama, model: m }\n  a>b: { provider: ollama, model: m }\nroutes:\n  r@1: { models: [m] }\n"
        ),
        [
            "f.yaml:2:3: `targets.a b`: a name has at most 128 letters, digits, `-`, `_` and `.`",
            "f.yaml:3:3: `targets.a>b`: a name has at most 128 letters, digits, `-`, `_` and `.`",
            "f.yaml:5:3: `routes.r@1`: a name has at most 128 printable ASCII characters, no space and no `@`",
        ]
    );
}

#[test]
fn what_is_said_of_a_model_that_nobody_serves_is_a_warning() {
    assert_eq!(
        warnings(&format!("{TWO}models:\n  gpt-4: {{ tools: true }}\n")),
        ["f.yaml:5:3: `models.gpt-4` is served by no target; did you mean `gpt-4o`?"]
    );
}

/// C095.
#[test]
fn a_listener_off_loopback_needs_keys_or_says_that_it_asks_for_none() {
    refuses(
        "server:\n  listen: 0.0.0.0:4000",
        &[
            "f.yaml:5:11: `server.listen: 0.0.0.0:4000` is reachable from outside: add `keys`, or write `auth: none` beside it",
        ],
    );
    let open = config(&format!("{TWO}server: {{ listen: \"0.0.0.0:4000\", auth: none }}\n"));
    assert_eq!(open.server.auth, Auth::None);
    let keyed =
        config(&format!("{TWO}server: {{ listen: \"[::]:4000\" }}\nkeys: {{ k: {{ hash: {HASH} }} }}\n"));
    assert_eq!(keyed.server.auth, Auth::Keys);
    let local = config(&format!("{TWO}server: {{ listen: \"[::1]:4000\" }}\n"));
    assert_eq!(local.server.auth, Auth::None);
    assert_eq!(
        config(&format!("{TWO}server: {{ listen: localhost:4010 }}\n")).server.listen.to_string(),
        "127.0.0.1:4010"
    );
}

#[test]
fn keys_are_asked_for_as_soon_as_there_are_some() {
    assert_eq!(config(&format!("{TWO}keys: {{ k: {{ hash: {HASH} }} }}\n")).server.auth, Auth::Keys);
    refuses(
        "server: { auth: keys }",
        &["f.yaml:4:17: `server.auth: keys` needs at least one key under `keys`"],
    );
    refuses(
        "server: { auth: keys }\nkeys: {}",
        &["f.yaml:4:17: `server.auth: keys` needs at least one key under `keys`"],
    );
    assert_eq!(
        warnings(&format!("{TWO}server: {{ auth: none }}\nkeys: {{ k: {{ hash: {HASH} }} }}\n")),
        ["f.yaml:4:17: `server.auth: none`: nobody is asked for the keys under `keys`"]
    );
}

#[test]
fn a_wrong_word_for_auth_never_opens_a_listener_and_is_the_only_error() {
    refuses(
        "server: { listen: \"0.0.0.0:4000\", auth: nonne }",
        &["f.yaml:4:41: `server.auth: nonne`: is not a valid word; did you mean `none`?"],
    );
}

/// C095.
#[test]
fn the_admin_plane_off_loopback_needs_its_key() {
    refuses(
        "admin: { listen: \"0.0.0.0:4001\" }",
        &["f.yaml:4:18: `admin.listen: 0.0.0.0:4001` is reachable from outside and needs `admin.key`"],
    );
    refuses(
        "admin: { listen: \"0.0.0.0:4001\", key: \"${UNSET_KEY}\" }",
        &["f.yaml:4:39: variable `UNSET_KEY` is not set; set it, or write `${UNSET_KEY:-default}`"],
    );
}

#[test]
fn two_listeners_need_two_ports() {
    refuses(
        "admin: { listen: \"127.0.0.1:4000\" }",
        &[
            "f.yaml:4:18: `admin.listen` and `server.listen` are both 127.0.0.1:4000; each needs a port of its own",
        ],
    );
}

#[test]
fn a_target_may_not_be_this_gateway() {
    assert_eq!(
        errors(
            "targets:\n  me: { provider: openai-compatible, model: m, base_url: \"http://127.0.0.1:4000/v1\" }\n"
        ),
        ["f.yaml:2:3: `targets.me` points at this gateway's own `server.listen`"]
    );
}

#[test]
fn a_key_may_be_granted_only_what_there_is() {
    let granted = |names: &str| {
        format!("keys:\n  k: {{ hash: {HASH}, models: [{names}] }}\nroutes: {{ r: {{ models: [gpt-4o] }} }}")
    };
    let column = 13 + HASH.len() + 11 + 1;
    refuses(
        &granted("rr"),
        &[&format!("f.yaml:5:{column}: `keys.k.models`: there is no route or model `rr`; did you mean `r`?")],
    );
    // A request for `ollama/gpt-4o` is led to the model, so that is what a key is granted.
    refuses(
        &granted("ollama/gpt-4o"),
        &[&format!(
            "f.yaml:5:{column}: `keys.k.models`: there is no route or model `ollama/gpt-4o`; write `gpt-4o`"
        )],
    );
    assert!(errors(&format!("{TWO}{}\n", granted("r, gpt-4o"))).is_empty());
    let wild = "targets:\n  all: { provider: ollama, model: \"*\" }\n";
    assert!(
        errors(&format!("{wild}keys:\n  k: {{ hash: {HASH}, models: [ollama/*, ollama/qwen3] }}\n"))
            .is_empty()
    );
}

#[test]
fn a_hash_is_a_sha256_of_one_key_only() {
    let message = "must be `sha256:` and the 64 hex digits of the whole key's SHA-256";
    for hash in
        ["sk-secret", "sha256:12", "\"md5:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\""]
    {
        refuses(
            &format!("keys:\n  k: {{ hash: {hash} }}"),
            &[&format!("f.yaml:5:14: `keys.k.hash` {message}")],
        );
    }
    refuses(
        &format!("keys:\n  k: {{ hash: {HASH} }}\n  l: {{ hash: {HASH} }}"),
        &["f.yaml:6:14: `keys.l.hash` is the hash of another key too"],
    );
}

#[test]
fn weights_leave_someone_to_serve() {
    assert_eq!(
        errors(
            "targets:\n  a: { provider: ollama, model: m, weight: 0 }\n  b: { provider: vllm, model: m, weight: 0 }\n"
        ),
        ["f.yaml:2:3: every target of model `m` has `weight: 0`; give one of them a share"]
    );
    let one = "targets:\n  a: { provider: ollama, model: m, weight: 0 }\n  b: { provider: vllm, model: m }\n";
    assert!(errors(one).is_empty());
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let route = |entry: &str| format!("routes:\n  r:\n    models: [gpt-4o]\n    {entry}");
    let cases = [
        (
            "budget: { deadline: 500ms }",
            "13: `routes.r.budget`: a `deadline` of 500ms leaves no time for an attempt; `min_attempt` is 1s",
        ),
        (
            "budget: { deadline: 10s, connect: 11s }",
            "13: `routes.r.budget`: `connect` (11s) is longer than the `deadline` (10s)",
        ),
        (
            "budget: { deadline: 10s, first_token: 20s }",
            "13: `routes.r.budget`: `first_token` (20s) is longer than the `deadline` (10s)",
        ),
        (
            "budget: { deadline: 10s, reserve_for_fallback: 10s }",
            "13: `routes.r.budget`: `reserve_for_fallback` (10s) leaves nothing of the `deadline` (10s)",
        ),
        (
            "budget: { reserve_for_fallback: 100% }",
            "13: `routes.r.budget`: `reserve_for_fallback` leaves nothing of the `deadline`",
        ),
        (
            "budget: { max_attempts: 2, reserve_attempts: 2 }",
            "13: `routes.r.budget`: `reserve_attempts` (2) leaves none of `max_attempts` (2)",
        ),
        (
            "budget: { max_attempts: 2, max_same_target_attempts: 3 }",
            "13: `routes.r.budget`: `max_same_target_attempts` (3) is more than `max_attempts` (2)",
        ),
        ("retry: { base: 6s }", "12: `routes.r.retry`: `base` (6s) is longer than `max` (5s)"),
        ("cooldown: { base: 11m }", "15: `routes.r.cooldown`: `base` (11m) is longer than `max` (10m)"),
        (
            "stream: { hold: 5, buffer: true }",
            "13: `routes.r.stream`: `hold` means nothing with `buffer: true`; remove one",
        ),
    ];
    for (entry, expected) in cases {
        refuses(&route(entry), &[&format!("f.yaml:7:{expected}")]);
    }
    refuses(
        "throttle: { initial: 20m }",
        &["f.yaml:4:22: `throttle`: `initial` (20m) is longer than `max` (10m)"],
    );
    refuses(
        "server: { max_body: 2GiB }",
        &[
            "f.yaml:4:21: `server.max_body` (2147483648 bytes) is more than `server.body_memory` (1073741824 bytes), which holds all bodies",
        ],
    );
}

#[test]
fn a_short_deadline_alone_contradicts_no_default() {
    // The default first-token limit is 30 s and is simply cut by what is left.
    assert!(errors(&format!("{TWO}defaults: {{ budget: {{ deadline: 5s }} }}\n")).is_empty());
}

#[test]
fn what_is_wrong_in_defaults_is_blamed_once_and_there() {
    refuses(
        "defaults:\n  budget: { deadline: 10s, connect: 11s }\nroutes:\n  r: { models: [gpt-4o] }\n  s: { models: [gpt-4o] }",
        &["f.yaml:5:11: `defaults.budget`: `connect` (11s) is longer than the `deadline` (10s)"],
    );
}

#[test]
fn all_errors_come_in_one_report_in_the_order_of_the_file() {
    let text = "\
server: { listen: 0.0.0.0:80, exspose: full, max_body: 1X }
targets:
  a: { provider: openia, model: m }
  b: { provider: ollama, model: m, limits: { rpm: x }, base_url: \"ftp://h\" }
  c: { provider: vertex, model: n, api_key: \"${UNSET_ONE}\" }
routes:
  r: { models: [m, n, o], budget: { deadline: 30 }, strategy: fastest }
ledger: {}
watch: yes
";
    let problems = parse(text, "f.yaml", &usual()).unwrap_err();
    let places: Vec<(usize, usize)> = problems.0.iter().map(|p| (p.line, p.column)).collect();
    let expected = [
        (1, 19), // listen
        (1, 31), // exspose
        (1, 56), // max_body
        (3, 18), // openia
        (4, 51), // rpm
        (4, 66), // base_url
        (5, 18), // vertex
        (5, 45), // UNSET_ONE
        (7, 23), // o
        (7, 47), // deadline
        (7, 63), // strategy
        (8, 1),  // ledger
        (9, 8),  // watch
    ];
    assert_eq!(places, expected, "{problems}");
    assert_eq!(problems.to_string().lines().count(), expected.len());
}

#[test]
fn a_model_that_cannot_keep_what_its_route_asks_is_a_warning() {
    let route = |asks: &str| format!("{TWO}routes:\n  r: {{ models: [gpt-4o, gpt-4o-mini], {asks} }}\n");
    let silent = |model: &str, keys: &str| {
        format!(
            "f.yaml:5:16: `routes.r`: model `{model}` is not known to keep {keys}; unless `models.{model}` says more, it never answers here"
        )
    };
    assert!(
        warnings(&route("requires: { modalities: [text], streaming: true, structured_output: none }"))
            .is_empty()
    );
    let asks = "requires: { tools: true, context_window_min: 64000 }";
    let keys = "`requires.tools`, `requires.context_window_min`";
    assert_eq!(warnings(&route(asks)), [silent("gpt-4o", keys), silent("gpt-4o-mini", keys)]);
    let known = "models:\n  gpt-4o: { tools: true, context_window: 128000 }\n  gpt-4o-mini: { tools: true, context_window: 32000 }\n";
    assert_eq!(
        warnings(&format!("{}{known}", route(asks))),
        [silent("gpt-4o-mini", "`requires.context_window_min`")]
    );
    // A price that is not known is no price.
    let priced = "models: { gpt-4o: { price: { input: 1, output: 1 } } }\n";
    assert_eq!(
        warnings(&format!("{}{priced}", route("substitution: { price_ceiling: 2 }"))),
        [silent("gpt-4o-mini", "`substitution.price_ceiling`")]
    );
    assert_eq!(warnings(&route("budget: { max_cost: 1 }")).len(), 2);
}

#[test]
fn a_model_of_one_provider_is_described_under_its_own_name() {
    let text = format!(
        "{TWO}routes:\n  r: {{ models: [ollama/gpt-4o], requires: {{ tools: true }} }}\nmodels:\n  gpt-4o: {{ tools: true }}\n"
    );
    assert!(warnings(&text).is_empty());
}

#[test]
fn one_mistake_gives_one_error() {
    // Where a target's model cannot be read, nobody can say that a route's model does not exist.
    let routes = "routes:\n  r: { models: [gpt-4o] }\nkeys:\n  k: { hash: HASH, models: [gpt-4o] }\n"
        .replace("HASH", HASH);
    assert_eq!(
        errors(&format!("targets:\n  a: {{ provider: ollama, model: \"${{UNSET}}\" }}\n{routes}")),
        ["f.yaml:2:33: variable `UNSET` is not set; set it, or write `${UNSET:-default}`"]
    );
    assert_eq!(errors(&routes), ["f.yaml:1:1: `targets` is missing"]);
    assert_eq!(
        errors(&format!("targets:\n  a: {{ provider: vertex, model: gpt-4o }}\n{routes}")),
        ["f.yaml:2:18: `targets.a.provider: vertex` is not built yet"]
    );
}

#[test]
fn a_price_ceiling_over_an_unknown_price_is_said_once_of_the_first_model() {
    let text = format!(
        "{TWO}routes:\n  r: {{ models: [gpt-4o, gpt-4o-mini], substitution: {{ price_ceiling: 2 }} }}\nmodels:\n  gpt-4o-mini: {{ price: {{ input: 1, output: 1 }} }}\n"
    );
    assert_eq!(
        warnings(&text),
        [
            "f.yaml:5:16: `routes.r`: the price of `gpt-4o` is not known, so `substitution.price_ceiling` lets no other model answer; say it under `models.gpt-4o.price`"
        ]
    );
}

#[test]
fn a_file_of_garbage_gives_a_report_that_can_be_read() {
    let mut text = String::from(TWO);
    for index in 0..2_000 {
        text.push_str(&format!("zzz{index}: 1\n"));
    }
    let errors = errors(&text);
    assert_eq!(errors.len(), 501);
    assert!(errors[500].ends_with("1500 more errors are not shown"), "{}", errors[500]);
}
