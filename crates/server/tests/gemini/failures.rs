//! What goes wrong, before and after the first output, in Google's words.

use bytes::Bytes;
use pointsman_provider_sim::Script;
use pointsman_wire::grammar::Ending;
use serde_json::json;

use crate::asked::*;
use crate::checks::{assert_broken_off, world_from};
use crate::support::chat;

#[tokio::test]
async fn an_overloaded_google_fails_over_unseen_and_an_overloaded_other_too() {
    for fault in [Script::status(503), Script::status(429), Script::silence(), Script::reset_before_headers()]
    {
        let quick = format!(
            "{}{QUICK}",
            TARGETS.replace(
                "api_key: AIza-g }",
                "api_key: AIza-g, budget: { first_token: 300ms, response: 300ms } }"
            )
        );
        for stream in [true, false] {
            let world = world_from(&["g", "o", "a"], &quick).await;
            world.sim(G).set(fault.clone());
            let answer = world.generate("shared", stream, &hello()).await;
            assert_generated_by(&answer, "o");
            assert_eq!(answer.header("x-pointsman-action"), Some("failover"));
            let answer = world.post(&chat("shared", stream)).await;
            assert_eq!(answer.header("x-pointsman-target"), Some("o"), "{}", answer.text());
        }
    }
    let world = world(QUICK).await;
    for sim in [G, O] {
        world.sim(sim).set(Script::status(503));
    }
    assert_generated_by(&world.generate("shared", true, &hello()).await, "a");
}

#[tokio::test]
async fn an_error_event_before_the_first_output_fails_over_too() {
    let world = world(QUICK).await;
    let overloaded =
        json!({ "error": { "code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE" } });
    world.sim(G).set(Script::fixed(200, "text/event-stream", format!("data: {overloaded}\n\n")));
    assert_generated_by(&world.generate("shared", true, &hello()).await, "o");
}

#[tokio::test]
async fn after_the_first_output_a_break_is_said_once_in_every_dialect() {
    let world = world("").await;
    for (sim, model) in [(G, "gemini"), (O, "gpt"), (A, "claude")] {
        world.sim(sim).set(Script::cut_after(5).tokens(9));
        let answer = world.generate(model, true, &hello()).await;
        assert_eq!(ending(&answer), Ending::Error);
        let error = generated(&answer).pop().unwrap()["error"].clone();
        assert_eq!((&error["code"], &error["status"]), (&json!(503), &json!("UNAVAILABLE")), "{error}");
        let told = &error["details"][0];
        assert_eq!((&told["terminal"], &told["retryable"]), (&json!("partial"), &json!(true)), "{told}");
        assert_eq!(told["request_id"], answer.header("x-request-id").unwrap());
    }
    world.sim(G).set(Script::cut_after(5).tokens(9));
    assert_broken_off(&world.post(&chat("gemini", true)).await);
    // A stream of Google's has no end marker: only its finish reason says that it is whole.
    world.sim(G).set(Script::healthy().no_done());
    assert_eq!(ending(&world.generate("gemini", true, &hello()).await), Ending::Error);
}

#[tokio::test]
async fn the_gateways_own_errors_have_googles_form() {
    let key = "keys: { k: { hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000000\" } }\n";
    let locked = format!("server: {{ listen: 127.0.0.1:0, auth: keys }}\n{TARGETS}{key}");
    let world = world_from(&["g", "o", "a"], &locked).await;
    assert_status(&world.generate("gemini", false, &hello()).await, 401, "UNAUTHENTICATED");
    let world = self::world(QUICK).await;
    let error = assert_status(&world.generate("gemin", true, &hello()).await, 404, "NOT_FOUND");
    assert!(error["message"].as_str().unwrap().contains("gemini"), "a close name: {error}");
    let path = "/v1beta/models/gemini:generateContent";
    let error =
        assert_status(&world.send("POST", path, Bytes::from("{"), &[]).await, 400, "INVALID_ARGUMENT");
    assert!(error["message"].as_str().unwrap().contains("not valid JSON"), "{error}");
    assert_status(&world.send("POST", path, Bytes::from("{}"), &[]).await, 400, "INVALID_ARGUMENT");
    for sim in [G, O, A] {
        world.sim(sim).set(Script::status(503));
    }
    let error = assert_status(&world.generate("shared", false, &hello()).await, 503, "UNAVAILABLE");
    let attempts = error["details"][0]["attempts"].as_array().unwrap().len();
    assert_eq!((attempts, &error["details"][0]["terminal"]), (3, &json!("exhausted")), "{error}");
}

#[tokio::test]
async fn when_to_come_back_stands_in_the_body_as_google_says_it() {
    let world = world(QUICK).await;
    let limited = json!({ "error": { "code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED", "details": [
        { "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{ "quotaId": "GenerateRequestsPerMinutePerProjectPerModel" }] },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20s" },
    ] } });
    world.sim(G).set(Script::fixed(429, "application/json", limited.to_string()));
    let answer = world.generate("gemini", false, &hello()).await;
    let error = assert_status(&answer, 429, "RESOURCE_EXHAUSTED");
    let waits = error["details"].as_array().unwrap().iter().find_map(|d| d["retryDelay"].as_str()).unwrap();
    let seconds: f64 = waits.trim_end_matches('s').parse().unwrap();
    assert!((18.0..=20.0).contains(&seconds), "{waits}");
    assert!(answer.header("retry-after").is_some());
}

/// A key of the gateway's own that Google refuses is nothing that a client could mend.
#[tokio::test]
async fn a_refused_key_of_the_gateways_is_no_fault_of_the_client() {
    let world = world(QUICK).await;
    let refused = json!({ "error": { "code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT",
        "details": [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com" }] } });
    world.sim(G).set(Script::fixed(400, "application/json", refused.to_string()));
    assert_generated_by(&world.generate("shared", false, &hello()).await, "o");
    let error = assert_status(&world.generate("gemini", false, &hello()).await, 503, "UNAVAILABLE");
    assert_eq!(error["details"][0]["attempts"][0]["failure"], "auth", "{error}");
}

#[tokio::test]
async fn what_google_dislikes_of_the_request_reaches_the_client_in_its_words() {
    let world = world(QUICK).await;
    let refusal = json!({ "error": { "code": 400, "message": "Invalid value at 'contents'", "status": "INVALID_ARGUMENT",
        "details": [{ "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{ "field": "contents" }] }] } });
    world.sim(G).set(Script::fixed(400, "application/json", refusal.to_string()));
    let error = assert_status(&world.generate("shared", true, &hello()).await, 400, "INVALID_ARGUMENT");
    assert_eq!(error["message"], "Invalid value at 'contents'");
    assert_eq!(error["details"][1]["fieldViolations"][0]["field"], "contents");
    world.assert_untouched("g");
    let refusal = json!({ "error": { "message": "too odd", "type": "invalid_request_error", "param": "messages", "code": null } });
    world.sim(O).set(Script::fixed(400, "application/json", refusal.to_string()));
    let error = assert_status(&world.generate("gpt", true, &hello()).await, 400, "INVALID_ARGUMENT");
    assert_eq!(error["message"], "too odd");
}

/// What only Google has goes to Google alone; without it nobody else is asked.
#[tokio::test]
async fn what_the_other_dialects_cannot_say_is_not_sent_there() {
    let world = world(QUICK).await;
    let mut body = hello();
    body["tools"] = json!([{ "googleSearch": {} }]);
    world.sim(G).set(Script::status(503));
    let answer = world.generate("shared", false, &body).await;
    assert_status(&answer, 503, "UNAVAILABLE");
    assert_eq!((world.sim(O).calls(), world.sim(A).calls()), (0, 0));
    let error = assert_status(&world.generate("gpt", false, &body).await, 400, "INVALID_ARGUMENT");
    assert_eq!(error["details"][0]["param"], "tools.0.googleSearch", "{error}");
}
