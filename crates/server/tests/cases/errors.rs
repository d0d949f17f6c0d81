//! What a client is told when there is no answer: in its own dialect, with the provider's words, without anyone's secret.

use bytes::Bytes;
use pointsman_core::domain::{DomainKind, DomainState};
use pointsman_provider_sim::Script;
use serde_json::{Value, json};

use crate::checks::world_from;
use crate::clients::eventually;
use crate::line::hash;
use crate::support::{Answer, World};
use crate::tongue::{ALL, Tongue, metric};

/// An error in the dialect's envelope with nothing of another's; gives its type.
fn kind_in_envelope(tongue: Tongue, answer: &Answer) -> String {
    let text = answer.text();
    assert_eq!(answer.header("content-type"), Some("application/json"), "{text}");
    assert!(!text.contains("None"), "{text}");
    let body = answer.json();
    let id = answer.header("x-request-id").expect("a request id");
    assert_eq!(body["pointsman"]["request_id"], id, "{text}");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    match tongue {
        Tongue::Chat => {
            assert_eq!(keys(&body), ["error", "pointsman"], "{text}");
            assert_eq!(keys(&body["error"]), ["code", "message", "param", "type"], "{text}");
            assert!(body["error"]["code"].is_string() || body["error"]["code"].is_null(), "{text}");
        }
        Tongue::Messages => {
            assert_eq!(keys(&body), ["error", "pointsman", "request_id", "type"], "{text}");
            assert_eq!(keys(&body["error"]), ["message", "type"], "{text}");
            assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!(id)), "{text}");
            assert_eq!(answer.header("request-id"), Some(id));
        }
    }
    body["error"]["type"].as_str().unwrap().to_owned()
}

const KEY: &str = "pk-the-right-one-0123456789";

async fn guarded(tongue: Tongue) -> World {
    let targets = tongue.target("a", "");
    let key = hash(KEY);
    world_from(
        &["a"],
        &format!(
            "server: {{ listen: 127.0.0.1:0, max_body: 4KiB }}\ntargets:\n{targets}keys: {{ team: {{ hash: \"{key}\" }} }}\n\
             defaults: {{ budget: {{ max_same_target_attempts: 1 }} }}\n"
        ),
    )
    .await
}

/// C061: whoever refuses a request and why: the status and the type that the dialect has for it, streamed or not.
#[tokio::test]
async fn every_refusal_is_in_the_clients_envelope() {
    // What happens: status and type in Chat Completions, in Messages.
    let rows = [
        ("no key", (401, "invalid_request_error"), (401, "authentication_error")),
        ("unknown model", (404, "invalid_request_error"), (404, "not_found_error")),
        ("too large", (413, "invalid_request_error"), (413, "request_too_large")),
        ("broken", (400, "invalid_request_error"), (400, "invalid_request_error")),
        ("400", (400, "invalid_request_error"), (400, "invalid_request_error")),
        ("429", (429, "rate_limit_error"), (429, "rate_limit_error")),
        ("529", (503, "service_unavailable_error"), (529, "overloaded_error")),
        ("500", (503, "service_unavailable_error"), (529, "overloaded_error")),
    ];
    for (tongue, stream) in ALL {
        for (what, chat, messages) in rows {
            let world = guarded(tongue).await;
            let mut body = match what {
                "unknown model" => tongue.request_for("nobody", stream),
                _ => tongue.request(stream),
            };
            if what == "too large" {
                body["messages"][0]["content"] = json!("x".repeat(5_000));
            }
            if let Ok(status) = what.parse() {
                world.sim(0).set(tongue.says(status, "said_by_provider", "said by the provider"));
            }
            if what == "400" {
                world.sim(0).set(tongue.says(400, "invalid_request_error", "said by the provider"));
            }
            let text = body.to_string();
            let text = if what == "broken" { &text[..text.len() - 9] } else { &text };
            let headers = [("x-api-key", if what == "no key" { "pk-wrong" } else { KEY })];
            let answer = tongue.send(&world, tongue.path(), Bytes::from(text.to_owned()), &headers).await;
            let (status, kind) = if tongue == Tongue::Chat { chat } else { messages };
            assert_eq!(answer.status, status, "{what}: {}", answer.text());
            assert_eq!(kind_in_envelope(tongue, &answer), kind, "{what}");
        }
    }
}

/// C036, C062: a refusal of the request reaches the client whole, streamed or not, with the provider's name for the call.
#[tokio::test]
async fn the_providers_refusal_keeps_its_status_its_words_and_its_id() {
    for (tongue, stream) in ALL {
        for status in [400, 413, 422] {
            let said = format!("temperature is deprecated for this model ({status})");
            let kind = if status == 413 { "request_too_large" } else { "invalid_request_error" };
            let world = tongue.pair("").await;
            let script = tongue.says(status, kind, &said);
            world.sim(0).set(script.header("request-id", "req_up").header("x-request-id", "req_up"));
            let answer = tongue.ask(&world, stream).await;
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(kind_in_envelope(tongue, &answer), kind);
            assert_eq!(answer.json()["error"]["message"], said);
            assert_eq!(answer.header("x-pointsman-upstream-request-id"), Some("req_up"));
            assert_eq!(world.sim(1).calls(), 0);
            world.assert_untouched("a");
        }
    }
}

/// C063 (vi): a week is no rate: the account is spent, and nobody waits for it.
#[tokio::test]
async fn guidance_of_a_week_is_a_spent_account() {
    for (tongue, stream) in ALL {
        let world = tongue.alone("").await;
        world.sim(0).set(tongue.rate_limit(604_800));
        let answer = tongue.ask(&world, stream).await;
        let expected = if tongue == Tongue::Chat { 429 } else { 402 };
        assert_eq!(answer.status, expected, "{}", answer.text());
        assert_eq!(world.domain("a", DomainKind::Account).state, DomainState::Isolated);
        assert_eq!(world.sim(0).calls(), 1);
    }
}

/// C066: a refusal of our credential is told as ours, without a word of it, and operators see it.
#[tokio::test]
async fn a_refused_credential_of_ours_is_not_the_clients() {
    for (tongue, stream) in ALL {
        let world = tongue.alone("").await;
        let said = "Incorrect API key provided: sk-upstr***eam-a. Find yours at https://example.com.";
        world.sim(0).set(tongue.says(401, "authentication_error", said));
        let answer = tongue.ask(&world, stream).await;
        let expected = if tongue == Tongue::Chat { 503 } else { 500 };
        assert_eq!(answer.status, expected, "{}", answer.text());
        kind_in_envelope(tongue, &answer);
        for secret in ["sk-", "eam-a", "Incorrect", "example.com"] {
            assert!(!answer.text().contains(secret), "{}", answer.text());
        }
        let seen = [("target", "a"), ("kind", "auth")];
        assert_eq!(metric(&world, "pointsman_attempts_total", &seen), 1.0);
    }
}

/// C067: what looks like a credential is masked, in a status, inside a stream, before and after its first output.
#[tokio::test]
async fn a_key_that_the_provider_echoes_is_masked() {
    let key = "sk-ant-api03-Zx81Qw72Er63Ty54Ui45Op36As27Df18";
    let said = format!("invalid header 'authorization: Bearer {key}'");
    for (tongue, stream) in ALL {
        let inside = json!({"type": "invalid_request_error", "message": said});
        let scripts = [
            tongue.says(400, "invalid_request_error", &said),
            Script::error_event_first(inside.clone()),
            Script::error_event_after(2, inside),
        ];
        for script in scripts {
            let world = tongue.alone("").await;
            world.sim(0).set(script);
            let answer = tongue.ask(&world, stream).await;
            let told = answer.text();
            assert!(told.contains("invalid header") && !told.contains("Zx81Qw72"), "{told}");
        }
    }
}

/// C067: where nobody answers, the error and what is kept name neither the key nor the address that nobody answered at.
#[tokio::test]
async fn an_error_of_the_connection_tells_no_secret() {
    let logs = crate::logs::capture();
    for (tongue, stream) in ALL {
        let line = tongue.target("a", "").replace("sk-upstream-a", "MARK-upstream-key");
        let silent = line.replace(" }", ", budget: { first_token: 300ms, response: 300ms } }");
        let nowhere = line.replace("<a>", "http://no-such-place.invalid:9");
        for (target, there) in [(line, false), (silent, true), (nowhere, false)] {
            let world = world_from(&["a"], &format!("targets:\n{target}")).await;
            world.sim(0).set(Script::silence());
            if !there {
                world.sim(0).kill().await.unwrap();
            }
            let answer = tongue.ask(&world, stream).await;
            assert!(answer.status.is_server_error(), "{}", answer.text());
            kind_in_envelope(tongue, &answer);
            let port = format!(":{}", world.sim(0).addr().port());
            for told in [answer.text(), format!("{:?}", world.entry(&answer))] {
                for secret in ["no-such-place", &port, "MARK-"] {
                    assert!(!told.contains(secret), "{secret}: {told}");
                }
            }
            // Operators read there which endpoint is out.
            let metrics = world.gateway.app().metrics.render(world.gateway.app());
            assert!(metrics.contains("endpoint") && !metrics.contains("MARK-"), "{metrics}");
        }
    }
    eventually("ends in the log", true, || logs.ends() >= 12).await;
    assert_eq!(logs.marked(), Vec::<String>::new());
}
