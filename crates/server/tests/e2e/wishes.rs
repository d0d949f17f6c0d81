//! What a caller may want of one request: it narrows and never widens, and what is malformed is refused by its name.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::clients::{Guest, Manner, PATIENCE, gateway};
use crate::support::{Answer, World, chat};

/// Who answered.
fn target(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("x-pointsman-target").unwrap().to_owned()
}

async fn with(world: &World, name: &str, value: &str) -> Answer {
    world.post_with(&chat("gpt-4o", false), &[(name, value)]).await
}

async fn prefers(world: &World, provider: Value) -> Answer {
    let mut body = chat("gpt-4o", false);
    body["provider"] = provider;
    world.post(&body).await
}

fn calls(world: &World) -> Vec<u64> {
    world.sims.iter().map(|sim| sim.calls()).collect()
}

/// The request's own fault, by the name of what is wrong.
fn is_refused(answer: &Answer, name: &str) {
    assert_eq!(answer.status, 400, "{name}: {}", answer.text());
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let error = answer.json()["error"].clone();
    assert_eq!(error["type"], "invalid_request_error");
    assert!(error["message"].as_str().unwrap().contains(name), "{name}: {error}");
}

#[tokio::test]
async fn a_malformed_header_is_400_by_its_name() {
    let world = gateway("", &["", ""], "").await;
    let cases = [
        ("x-pointsman-strategy", &["fastest", "", "Priority"][..]),
        ("x-pointsman-deadline-ms", &["0", "-1", "1.5", "soon", "", "10s"]),
        ("x-pointsman-max-attempts", &["0", "-1", "many", ""]),
        ("x-pointsman-reroute", &["never", "", "true"]),
        ("x-pointsman-side-effects", &["maybe", "", "no"]),
        ("x-pointsman-operation", &["op-1"]),
        ("x-pointsman-resume-of", &["req_1"]),
        ("idempotency-key", &["k"]),
        // A wish that nobody knows may be one about where data goes.
        ("x-pointsman-tag", &["gdpr"]),
        ("x-pointsman-region", &["eu"]),
    ];
    for (name, values) in cases {
        for value in values {
            is_refused(&with(&world, name, value).await, name);
        }
    }
    let twice = [("x-pointsman-tags", "gdpr"), ("x-pointsman-tags", "eu")];
    is_refused(&world.post_with(&chat("gpt-4o", false), &twice).await, "x-pointsman-tags");
    assert_eq!(calls(&world), [0, 0]);
}

#[tokio::test]
async fn a_malformed_preference_in_the_body_is_400_by_its_name() {
    let world = gateway("", &["", ""], "").await;
    let cases = [
        ("provider", json!("openai")),
        ("provider.order", json!({ "order": "a" })),
        ("provider.only", json!({ "only": [1] })),
        ("provider.ignore", json!({ "ignore": [""] })),
        ("provider.allow_fallbacks", json!({ "allow_fallbacks": "no" })),
        ("provider.require_parameters", json!({ "require_parameters": 1 })),
        ("provider.data_collection", json!({ "data_collection": "never" })),
        ("provider.zdr", json!({ "zdr": "yes" })),
        ("provider.sort", json!({ "sort": "quality" })),
        ("provider.max_price", json!({ "max_price": 1 })),
        ("provider.max_price.prompt", json!({ "max_price": { "prompt": -1 } })),
        ("provider.quantizations", json!({ "quantizations": "fp8" })),
        ("provider.zrd", json!({ "zrd": true })),
    ];
    for (name, value) in cases {
        is_refused(&prefers(&world, value).await, name);
    }
    for models in [json!("gpt-4o"), json!([1]), json!([""]), json!(vec!["m"; 65])] {
        let mut body = chat("gpt-4o", false);
        body["models"] = models;
        is_refused(&world.post(&body).await, "models");
    }
    let twice = r#"{"model":"gpt-4o","messages":[],"provider":{"zdr":true,"zdr":false}}"#;
    let answer = world.send("POST", "/v1/chat/completions", Bytes::from(twice), &[]).await;
    is_refused(&answer, "provider.zdr");
    assert_eq!(calls(&world), [0, 0]);
}

#[tokio::test]
async fn strategies_show_in_who_answers() {
    let world = gateway("", &["weight: 3", "weight: 1"], "").await;
    let answered = async |strategy: &str, times: usize| {
        let mut names = Vec::new();
        for _ in 0..times {
            names.push(target(&with(&world, "x-pointsman-strategy", strategy).await));
        }
        names
    };
    assert_eq!(answered("priority", 4).await, ["a"; 4]);
    let turns = answered("round-robin", 6).await;
    assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
    let shares = answered("weighted", 8).await;
    assert_eq!(shares.iter().filter(|name| *name == "a").count(), 6, "three of four: {shares:?}");
    for strategy in ["least-busy", "lowest-latency", "lowest-cost", "headroom", "sticky"] {
        answered(strategy, 2).await;
    }
    let plain = world.post(&chat("gpt-4o", false)).await;
    assert_eq!(target(&plain), "a", "a wish holds for its request only");
}

#[tokio::test]
async fn least_busy_goes_where_fewest_requests_are_in_flight() {
    let world = gateway("", &["", ""], "defaults: { strategy: least-busy }\n").await;
    for sim in &world.sims {
        sim.set(Script::stall_after(1));
    }
    let mut guests = Vec::new();
    for _ in 0..6 {
        let mut guest = Guest::ask(&world, &chat("gpt-4o", true), Manner::Close).await;
        guest.until("data: ").await;
        guests.push(guest);
    }
    assert_eq!(calls(&world), [3, 3]);
    // Three of one target leave: the next ones take their places.
    let mut left = Vec::new();
    for (place, guest) in guests.into_iter().enumerate() {
        if place % 2 == 0 { drop(guest) } else { left.push(guest) }
    }
    crate::clients::eventually("in flight", 3, || world.held().target_in_flight).await;
    let before = calls(&world);
    for _ in 0..3 {
        let mut guest = Guest::ask(&world, &chat("gpt-4o", true), Manner::Close).await;
        guest.until("data: ").await;
        left.push(guest);
    }
    let after = calls(&world);
    let mut gained = [after[0] - before[0], after[1] - before[1]];
    gained.sort_unstable();
    assert_eq!(gained, [0, 3], "all went to the one that had none");
}

/// C094: the name that a tenant gives a conversation is its own.
#[tokio::test]
async fn two_keys_may_give_their_conversations_the_same_names() {
    let keys = ["tenant-a", "tenant-b"];
    let hashes = keys.map(crate::doors::hash);
    let rest = format!(
        "defaults: {{ strategy: sticky }}\nkeys: {{ a: {{ hash: \"{}\" }}, b: {{ hash: \"{}\" }} }}\n",
        hashes[0], hashes[1]
    );
    let world = gateway("", &["", "", "", ""], &rest).await;
    let mut apart = 0;
    for n in 0..24 {
        let mut body = chat("gpt-4o", false);
        body["user"] = json!(format!("conversation-{n}"));
        let [one, other] = keys.map(|key| [("x-api-key", key)]);
        let places = (world.post_with(&body, &one).await, world.post_with(&body, &other).await);
        apart += usize::from(target(&places.0) != target(&places.1));
    }
    assert!(apart >= 6, "of 24 conversations on four targets about 18 lie apart: {apart}");
}

#[tokio::test]
async fn sticky_keeps_a_conversation_on_its_target() {
    let world = gateway("", &["", "", "", ""], "defaults: { strategy: sticky }\n").await;
    let ask = async |field: &str, name: &str| {
        let mut body = chat("gpt-4o", false);
        body[field] = json!(name);
        target(&world.post(&body).await)
    };
    for field in ["prompt_cache_key", "user", "safety_identifier"] {
        let mut seen = BTreeSet::new();
        for n in 0..16 {
            let name = format!("conversation-{n}");
            let first = ask(field, &name).await;
            assert_eq!(ask(field, &name).await, first);
            seen.insert(first);
        }
        assert!(seen.len() >= 3, "sixteen conversations are spread over four targets: {seen:?}");
    }
    // While its target is out a conversation is served elsewhere, and then it comes back.
    let home = ask("prompt_cache_key", "conversation-0").await;
    let sim = world.sims.iter().find(|sim| sim.name() == home).unwrap();
    sim.set(Script::openai_overloaded());
    assert_ne!(ask("prompt_cache_key", "conversation-0").await, home);
    sim.set(Script::healthy());
    assert_eq!(ask("prompt_cache_key", "conversation-0").await, home);
}

/// A deadline of the caller's own ends its request, and hurts nobody's health.
#[tokio::test]
async fn a_deadline_of_the_callers_ends_the_request_and_blames_nobody() {
    let quick = "defaults: { budget: { min_attempt: 10ms } }\n";
    for (name, value) in [
        ("x-pointsman-deadline-ms", "300"),
        ("x-stainless-read-timeout", "0.3"),
        ("x-stainless-timeout", "0.3"),
    ] {
        for stream in [false, true] {
            let world = gateway("", &[""], quick).await;
            world.sim(0).set(Script::silence());
            let begun = Instant::now();
            let answer = world.post_with(&chat("gpt-4o", stream), &[(name, value)]).await;
            assert_eq!(answer.status, 504, "{name}: {}", answer.text());
            assert_eq!(answer.json()["error"]["code"], "timeout");
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            assert!(begun.elapsed() < PATIENCE);
            assert_eq!(calls(&world), [1]);
            world.nobody_is_blamed();
            world.everything_is_back().await;
        }
    }
}

#[tokio::test]
async fn a_caller_cannot_take_more_time_or_attempts_than_the_route_gives() {
    let world = gateway("", &[""], "defaults: { budget: { deadline: 300ms, min_attempt: 10ms } }\n").await;
    world.sim(0).set(Script::silence());
    let begun = Instant::now();
    let answer = with(&world, "x-pointsman-deadline-ms", "600000").await;
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert!(begun.elapsed() < PATIENCE);
    let world = gateway("", &["", "", ""], "defaults: { budget: { max_attempts: 2 } }\n").await;
    for sim in &world.sims {
        sim.set(Script::server_error(500));
    }
    assert_eq!(with(&world, "x-pointsman-max-attempts", "9").await.status, 503);
    assert_eq!(calls(&world), [1, 1, 0]);
}

/// An SDK's word that cannot be read counts as none: SDKs write what they like there.
#[tokio::test]
async fn an_sdks_timeout_that_cannot_be_read_is_none() {
    let world = gateway("", &[""], "").await;
    for value in ["NOT_GIVEN", "", "-1", "0", "NaN", "inf", "1e400", "None"] {
        assert_eq!(with(&world, "x-stainless-read-timeout", value).await.status, 200, "{value:?}");
    }
}

#[tokio::test]
async fn max_attempts_is_lowered() {
    for (wanted, made) in [("1", [1, 0, 0]), ("2", [1, 1, 0]), ("3", [1, 1, 1])] {
        let world = gateway("", &["", "", ""], "").await;
        for sim in &world.sims {
            sim.set(Script::server_error(500));
        }
        let answer = with(&world, "x-pointsman-max-attempts", wanted).await;
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(calls(&world), made);
    }
}

/// No farther than the caller says, and no farther than the route does.
#[tokio::test]
async fn reroute_says_how_far_a_request_may_move() {
    let rest = "routes: { agent: { models: [gpt-4o, other] }, strict: { models: [gpt-4o, other], substitution: { allowed: false } } }\nretry_budget: { ratio: 0, floor_per_second: 0 }\n";
    for (model, wish, served, made) in [
        ("agent", "none", None, [1, 0, 0]),
        ("agent", "failover", None, [1, 1, 0]),
        ("agent", "fallback", Some("c"), [1, 1, 1]),
        ("strict", "fallback", None, [1, 1, 0]),
    ] {
        let world = gateway("", &["", "", "model: other"], rest).await;
        world.sim(0).set(Script::openai_overloaded());
        world.sim(1).set(Script::openai_overloaded());
        let answer = world.post_with(&chat(model, false), &[("x-pointsman-reroute", wish)]).await;
        assert_eq!(calls(&world), made, "{model} {wish}");
        match served {
            Some(name) => assert_eq!(target(&answer), name),
            None => assert_eq!(answer.status, 503, "{}", answer.text()),
        }
        let action = served.map(|_| "fallback");
        assert_eq!(answer.header("x-pointsman-substituted"), action.map(|_| "true"));
    }
}

/// Once a request that writes somewhere may have been executed, it is not sent again.
#[tokio::test]
async fn a_request_with_side_effects_is_not_sent_twice() {
    for script in [Script::reset_before_headers(), Script::close_after_read(), Script::server_error(502)] {
        for stream in [false, true] {
            let world = gateway("", &["", ""], "").await;
            world.sim(0).set(script.clone());
            let wish = [("x-pointsman-side-effects", "possible")];
            let answer = world.post_with(&chat("gpt-4o", stream), &wish).await;
            assert_eq!(answer.status, 409, "{}", answer.text());
            assert_eq!(answer.json()["error"]["code"], "reconciliation_required");
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            assert_eq!(calls(&world), [1, 0]);
            let wish = [("x-pointsman-side-effects", "none")];
            assert_eq!(target(&world.post_with(&chat("gpt-4o", stream), &wish).await), "b");
        }
    }
    // What was certainly not executed may be sent elsewhere.
    let world = gateway("", &["", ""], "").await;
    world.sim(0).set(Script::openai_rate_limit(30));
    assert_eq!(target(&with(&world, "x-pointsman-side-effects", "possible").await), "b");
    world.sim(0).kill().await.unwrap();
    assert_eq!(target(&with(&world, "x-pointsman-side-effects", "possible").await), "b");
}

#[tokio::test]
async fn a_retry_of_the_sdks_is_not_multiplied() {
    for (headers, made) in [
        (&[][..], 2),
        (&[("x-stainless-retry-count", "0")], 2),
        (&[("x-stainless-retry-count", "1")], 1),
        (&[("x-stainless-retry-count", "2")], 1),
        (&[("x-stainless-retry-count", "garbage")], 2),
    ] {
        let world = gateway("", &[""], "defaults: { retry: { base: 1ms, max: 2ms } }\n").await;
        world.sim(0).set(Script::server_error(500));
        let answer = world.post_with(&chat("gpt-4o", false), headers).await;
        assert_eq!(answer.status, 503);
        assert_eq!(calls(&world), [made], "{headers:?}");
    }
}

/// Tags and the terms of data handling are kept or the request is refused; nothing is sent to a target of which they are
/// not known.
#[tokio::test]
async fn compliance_is_kept_or_refused() {
    let terms = ["", "tags: [gdpr, eu], data: { retention: none, training: false }"];
    let world = gateway("", &terms, "").await;
    assert_eq!(target(&with(&world, "x-pointsman-tags", "gdpr").await), "b");
    assert_eq!(target(&with(&world, "x-pointsman-tags", " eu , gdpr,").await), "b");
    assert_eq!(target(&prefers(&world, json!({ "zdr": true })).await), "b");
    assert_eq!(target(&prefers(&world, json!({ "data_collection": "deny" })).await), "b");
    assert_eq!(calls(&world), [0, 4]);
    assert_eq!(target(&prefers(&world, json!({ "zdr": false, "data_collection": "allow" })).await), "a");
    world.sim(1).set(Script::openai_overloaded());
    let answer = prefers(&world, json!({ "zdr": true })).await;
    assert_eq!(answer.status, 503, "an outage is no reason to break them: {}", answer.text());
    assert_eq!(world.sim(0).calls(), 1);
    let answer = with(&world, "x-pointsman-tags", "gdpr,mars").await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.json()["error"]["code"], "no_compliant_target");
    let world = gateway("", &["", ""], "").await;
    for wish in [json!({ "zdr": true }), json!({ "data_collection": "deny" })] {
        let answer = prefers(&world, wish).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]["code"]),
            (403, &json!("no_compliant_target"))
        );
    }
    assert_eq!(calls(&world), [0, 0]);
}

#[tokio::test]
async fn targets_and_providers_are_chosen_by_name() {
    let world = gateway("", &["", "", ""], "").await;
    assert_eq!(target(&prefers(&world, json!({ "only": ["b"] })).await), "b");
    assert_eq!(target(&prefers(&world, json!({ "ignore": ["a", "b"] })).await), "c");
    assert_eq!(target(&prefers(&world, json!({ "order": ["c", "b"] })).await), "c");
    assert_eq!(target(&prefers(&world, json!({ "only": ["OpenAI"], "order": null })).await), "a");
    for sort in ["price", "throughput", "latency"] {
        target(&prefers(&world, json!({ "sort": sort })).await);
    }
    let before = calls(&world).iter().sum::<u64>();
    for wish in
        [json!({ "only": ["nobody"] }), json!({ "ignore": ["openai"] }), json!({ "quantizations": ["fp8"] })]
    {
        let answer = prefers(&world, wish.clone()).await;
        assert!(matches!(answer.status.as_u16(), 400 | 403), "{wish}: {}", answer.text());
    }
    assert_eq!(calls(&world).iter().sum::<u64>(), before);
    // Named targets first; whether others follow is the caller's to say.
    world.sim(2).set(Script::openai_overloaded());
    assert_eq!(target(&prefers(&world, json!({ "order": ["c"] })).await), "a");
    let answer = prefers(&world, json!({ "order": ["c"], "allow_fallbacks": false })).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
}

#[tokio::test]
async fn price_and_parameters_narrow_to_what_is_known() {
    let rest = "models:\n  gpt-4o: { price: { input: 2.5, output: 10 }, tools: true }\n  bare: {}\n";
    let world = gateway("", &["", "model: bare"], rest).await;
    let ask = async |model: &str, provider: Value| {
        let mut body = chat(model, false);
        body["provider"] = provider;
        body["tools"] = json!([crate::clients::tool("f")]);
        world.post(&body).await.status.as_u16()
    };
    assert_eq!(ask("gpt-4o", json!({ "max_price": { "prompt": 3, "completion": "10" } })).await, 200);
    assert_eq!(ask("gpt-4o", json!({ "max_price": { "prompt": 2.4 } })).await, 400);
    assert_eq!(ask("gpt-4o", json!({ "max_price": { "completion": 9.99 } })).await, 400);
    assert_eq!(ask("bare", json!({ "max_price": { "prompt": 1000 } })).await, 400, "unknown is too much");
    assert_eq!(ask("gpt-4o", json!({ "require_parameters": true })).await, 200);
    assert_eq!(ask("bare", json!({ "require_parameters": true })).await, 400, "unknown is not enough");
    assert_eq!(ask("bare", json!({ "require_parameters": false })).await, 200);
    assert_eq!(calls(&world), [2, 1]);
}

/// A route's own list can be narrowed and reordered; a plain model can be given substitutes.
#[tokio::test]
async fn further_models_in_the_body_are_substitutes_in_their_order() {
    let rest = "routes: { agent: { models: [gpt-4o, second, third] } }\n";
    let world = gateway("", &["", "model: second", "model: third", "model: outside"], rest).await;
    world.sim(0).set(Script::openai_overloaded());
    let ask = async |model: &str, models: &[&str]| {
        let mut body = chat(model, false);
        body["models"] = json!(models);
        world.post(&body).await
    };
    assert_eq!(target(&ask("agent", &["third", "second"]).await), "c");
    assert_eq!(target(&ask("agent", &["outside", "third"]).await), "c", "what the route lacks is not added");
    assert_eq!(world.sim(3).calls(), 0);
    let answer = ask("gpt-4o", &["outside", "third"]).await;
    assert_eq!(target(&answer), "d");
    assert_eq!(answer.header("x-pointsman-substituted"), Some("true"));
    assert_eq!(answer.header("x-pointsman-model"), Some("outside"));
    let answer = ask("gpt-4o", &["nonsense"]).await;
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("nonsense"));
}

/// What is meant for the gateway is cut out; every other byte is the client's.
#[tokio::test]
async fn wishes_are_cut_out_and_nothing_else_is_touched() {
    let world = gateway("", &[""], "").await;
    let body = "{ \"models\" : [\"gpt-4o\"] ,\n\t\"temperature\": 1.0e0, \"model\":\"gpt-4o\",\"provider\": {\"order\": [\"a\"]},\
        \"messages\":[ {\"role\":\"user\",\"content\":\"\\u00e9 \u{e9} \\/\"} ], \"x\": [1,  2], \"seed\": 12345678901234567890 }";
    let sent = "{\n\t\"temperature\": 1.0e0, \"model\":\"gpt-4o\",\
        \"messages\":[ {\"role\":\"user\",\"content\":\"\\u00e9 \u{e9} \\/\"} ], \"x\": [1,  2], \"seed\": 12345678901234567890 }";
    let answer = world.send("POST", "/v1/chat/completions", Bytes::from(body), &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(world.sim(0).received()[0].body, sent);
    let plain = "{\"stream\":false, \"model\": \"gpt-4o\",   \"messages\": [] }";
    world.send("POST", "/v1/chat/completions", Bytes::from(plain), &[]).await;
    assert_eq!(world.sim(0).received()[1].body, plain);
}

#[tokio::test]
async fn the_callers_own_id_is_kept_beside_ours() {
    let world = gateway("", &[""], "").await;
    for (id, kept) in [("trace-1/a.b:c_d", true), ("has space", false), ("<script>", false), ("", false)] {
        let answer = with(&world, "x-request-id", id).await;
        let ours = answer.header("x-request-id").unwrap();
        assert!(ours.starts_with("req_") && ours != id);
        let record = world.gateway.app().ledger.get(ours).unwrap();
        assert_eq!(record.correlation_id.as_deref(), kept.then_some(id));
    }
    let long = "x".repeat(129);
    let answer = with(&world, "x-request-id", &long).await;
    let record = world.gateway.app().ledger.get(answer.header("x-request-id").unwrap()).unwrap();
    assert_eq!(record.correlation_id, None);
}

#[tokio::test]
async fn base_urls_that_people_use_all_work() {
    let world = gateway("", &[""], "").await;
    for prefix in ["", "/v1", "/openai/v1"] {
        let body = Bytes::from(chat("gpt-4o", false).to_string());
        let answer = world.send("POST", &format!("{prefix}/chat/completions"), body, &[]).await;
        assert_eq!(answer.status, 200, "{prefix}");
        let list = world.get(&format!("{prefix}/models")).await.json();
        assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("gpt-4o")));
        let one = world.get(&format!("{prefix}/models/gpt-4o")).await.json();
        assert_eq!((&one["object"], &one["id"]), (&json!("model"), &json!("gpt-4o")));
        let none = world.get(&format!("{prefix}/models/gpt-4")).await;
        assert_eq!((none.status.as_u16(), &none.json()["error"]["code"]), (404, &json!("model_not_found")));
    }
    assert_eq!(world.sim(0).received()[0].path, "/v1/chat/completions");
}

/// `expose: minimal` tells that it was another model, and not who is behind it.
#[tokio::test]
async fn minimal_exposure_names_no_target() {
    let rest = "routes: { agent: { models: [gpt-4o, other] } }\n";
    let world = gateway(", expose: minimal, keepalive: 100ms", &["", "model: other"], rest).await;
    world.sim(0).set(Script::openai_overloaded());
    let ours = |answer: &Answer| {
        let names = answer.headers.keys().map(http::HeaderName::as_str);
        names
            .filter(|n| n.starts_with("x-pointsman") || *n == "x-request-id")
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let few =
        ["x-pointsman-action", "x-pointsman-substituted", "x-pointsman-upstream-request-id", "x-request-id"];
    for stream in [false, true] {
        let answer = world.post(&chat("agent", stream)).await;
        assert_eq!(answer.status, 200);
        assert_eq!(ours(&answer), BTreeSet::from(few.map(str::to_owned)));
    }
    world.sim(1).set(Script::openai_overloaded());
    let answer = world.post(&chat("agent", false)).await;
    assert_eq!(answer.status, 503);
    let body = answer.json();
    assert!(
        body["pointsman"]["attempts"].as_array().unwrap().iter().all(|a| a.get("target").is_none()),
        "{body}"
    );
    assert!(!body["error"]["message"].as_str().unwrap().contains("'a'"), "{body}");
    // A stream that was opened early tells the same in its first event.
    world.clock.advance(Duration::from_secs(3_600));
    world.sim(0).set(Script::healthy().delay_first_token(Duration::from_millis(600)));
    let answer = world.post(&chat("agent", true)).await;
    let early = ["x-pointsman-early", "x-request-id"];
    assert_eq!(ours(&answer), BTreeSet::from(early.map(str::to_owned)));
    let first: Value = serde_json::from_str(&answer.events()[0]).unwrap();
    let told: BTreeSet<&str> = first["pointsman"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(told, BTreeSet::from(["action", "request_id", "substituted"]));
}
