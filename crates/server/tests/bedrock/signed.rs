//! The signature as it arrives, made anew from what arrived (AWS IAM User Guide, "Create a signed AWS API request").

use aws_lc_rs::{digest, hmac};
use pointsman_provider_sim::Received;

use crate::asked::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// The `authorization` that this call should carry, if it is signed with this secret.
fn expected(call: &Received, secret: &str) -> String {
    let header = |name: &str| call.header(name).unwrap_or_else(|| panic!("no {name}"));
    let time = header("x-amz-date");
    let day = &time[..8];
    let names = ["content-type", "host", "x-amz-date", "x-amz-security-token"];
    let lines: String = names.iter().map(|name| format!("{name}:{}\n", header(name))).collect();
    let path = call.path.replace('%', "%25").replace(':', "%3A");
    let names = names.join(";");
    let canonical = format!("POST\n{path}\n\n{lines}\n{names}\n{}", sha(&call.body));
    let scope = format!("{day}/us-east-1/bedrock/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha(canonical.as_bytes()));
    let mut key = format!("AWS4{secret}").into_bytes();
    for step in [day, "us-east-1", "bedrock", "aws4_request"] {
        key = mac(&key, step);
    }
    let signature = hex(&mac(&key, &to_sign));
    format!("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, SignedHeaders={names}, Signature={signature}")
}

#[tokio::test]
async fn a_request_without_a_key_is_signed_and_each_attempt_anew() {
    let world = world("").await;
    for client in CLIENTS {
        for stream in [true, false] {
            let answer = client.ask(&world, "shared", stream, &client.hello()).await;
            client.assert_answered_by(&answer, "b");
            let (call, _) = received(&world, B);
            assert_eq!(call.header("x-amz-security-token"), Some("TOKEN"));
            assert_eq!(call.header("authorization"), Some(expected(&call, "wJalrXUtnFEMI").as_str()));
            assert_ne!(call.header("authorization"), Some(expected(&call, "another").as_str()));
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            let year = 1970 + now / 31_556_952;
            assert!(call.header("x-amz-date").unwrap().starts_with(&year.to_string()));
        }
    }
}

#[tokio::test]
async fn no_credential_is_in_the_record() {
    let world = world("").await;
    let answer = Client::Chat.ask(&world, "shared", false, &Client::Chat.hello()).await;
    let record = format!("{:?}", world.entry(&answer));
    for secret in ["wJalrXUtnFEMI", "TOKEN", "AKIDEXAMPLE", "bedrock-key-b"] {
        assert!(!record.contains(secret) && !answer.text().contains(secret), "{secret}");
    }
}
