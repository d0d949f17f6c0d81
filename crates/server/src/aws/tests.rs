//! The signature against AWS's own SDK, and where credentials come from.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use pointsman_config::AwsSource;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::profile::Profile;
use super::{AwsAuth, AwsKey, NoCredential, Signable, sign};
use crate::clock::Clock;

/// AWS's example key, as its documentation has it.
fn example(token: Option<&str>) -> AwsKey {
    AwsKey {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret: SecretString::from("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        token: token.map(SecretString::from),
        expires_s: None,
    }
}

/// 2026-01-02T03:04:05Z.
const THEN: i64 = 1_767_323_045;

/// The signatures are those of `botocore` for the same requests.
#[test]
fn a_request_is_signed_as_awss_own_sdk_signs_it() {
    let arn = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/invoke-with-response-stream";
    for (path, token, names, signature) in [
        (
            "/model/anthropic.claude-opus-4-1-20250805-v1%3A0/converse",
            None,
            "content-type;host;x-amz-date",
            "22c630d61002d3e755ee64ddf7e5e1806ce6199514ffa6f25a7e130ed51f8a3b",
        ),
        (
            "/model/anthropic.claude-opus-4-1-20250805-v1:0/converse-stream",
            None,
            "content-type;host;x-amz-date",
            "93899ba86f3eb86f5a6de264e93d30a384ec44dadda554b41d4edc5ef891c5b8",
        ),
        (
            arn,
            Some("TOKEN"),
            "content-type;host;x-amz-date;x-amz-security-token",
            "0b4740ef5b5e62f4e08deb9293bfab239bcc3eb396ec6dade90beaaf301aaf11",
        ),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("accept", "application/json".parse().unwrap());
        let body = br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
        let request = Signable { host: "bedrock-runtime.us-east-1.amazonaws.com", path, body };
        sign::sign(&request, ("us-east-1", "bedrock"), &example(token), THEN, &mut headers).unwrap();
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/bedrock/aws4_request, SignedHeaders={names}, Signature={signature}"
        );
        assert_eq!(headers["authorization"], expected, "{path}");
        assert_eq!(headers["x-amz-date"], "20260102T030405Z");
        assert_eq!(headers.get("x-amz-security-token").map(|v| v.to_str().unwrap()), token);
        assert!(headers["authorization"].is_sensitive());
    }
}

#[test]
fn a_profile_is_read_from_either_file() {
    let text = "# a comment\n[default]\naws_access_key_id = AKID1\naws_secret_access_key=s1\n[profile work]\n; another\nAWS_ACCESS_KEY_ID = AKID2\naws_secret_access_key = s=2\naws_session_token = t2\nregion = x\n[profile role]\nrole_arn = arn\n";
    let key = Profile::read(text, "work").key().unwrap();
    assert_eq!((key.access_key_id.as_str(), key.secret.expose_secret()), ("AKID2", "s=2"));
    assert_eq!(key.token.unwrap().expose_secret(), "t2");
    assert_eq!(Profile::read(text, "default").key().unwrap().access_key_id, "AKID1");
    let role = Profile::read(text, "role");
    assert!(role.found && role.key().is_none());
    assert!(!Profile::read(text, "other").found);
}

type Vars = BTreeMap<String, String>;

fn vars(pairs: &[(&str, &str)]) -> Vars {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn auth(source: &AwsSource, vars: Vars) -> Arc<AwsAuth> {
    Arc::new(AwsAuth::with("us-east-1".to_owned(), "bedrock", source, Arc::new(vars), Clock::default()))
}

fn words(outcome: Result<Arc<AwsKey>, NoCredential>) -> String {
    match outcome {
        Ok(key) => key.access_key_id.clone(),
        Err(why) => why.to_string(),
    }
}

/// Answers each request with the next of these (status and body), and hands back what was asked.
async fn endpoint(
    answers: &[(u16, &str)],
) -> (String, Arc<AtomicUsize>, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut answers: VecDeque<(u16, String)> =
        answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let task = tokio::spawn(async move {
        let mut asked = Vec::new();
        while let Some((status, body)) = answers.pop_front() {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).await.unwrap();
                request.push(byte[0]);
            }
            count.fetch_add(1, Ordering::SeqCst);
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            asked.push(String::from_utf8(request).unwrap().to_ascii_lowercase());
        }
        asked
    });
    (address, seen, task)
}

fn credential(id: &str, in_seconds: i64) -> String {
    let end = jiff::Timestamp::from_second(Clock::default().unix_ms() / 1_000 + in_seconds).unwrap();
    format!(
        r#"{{"Code":"Success","AccessKeyId":"{id}","SecretAccessKey":"s","Token":"t","Expiration":"{end}"}}"#
    )
}

const NOBODY: &str = "http://127.0.0.1:9";

#[tokio::test]
async fn the_environment_comes_before_a_profile_and_a_profile_before_endpoints() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".aws")).unwrap();
    let file = "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n[work]\naws_access_key_id = WORK\naws_secret_access_key = s\n[role]\nrole_arn = x\n";
    fs::write(folder.path().join(".aws/credentials"), file).unwrap();
    let home = folder.path().to_str().unwrap();
    let (address, _, _) = endpoint(&[(200, &credential("BOX", 3_600))]).await;
    let with = |more: &[(&str, &str)]| {
        let mut all = vec![("HOME", home), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", address.as_str())];
        all.extend(more);
        vars(&all)
    };
    let chain = |more: &[(&str, &str)]| auth(&AwsSource::Chain, with(more));
    let env = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s")];
    assert_eq!(words(chain(&env).key().await), "ENV");
    assert_eq!(words(chain(&[]).key().await), "FILE");
    assert_eq!(words(chain(&[("AWS_PROFILE", "work")]).key().await), "WORK");
    let named = |name: &str| auth(&AwsSource::Profile(name.to_owned()), with(&env));
    assert_eq!(words(named("work").key().await), "WORK");
    assert_eq!(
        words(named("role").key().await),
        "the AWS profile 'role' has no access key; roles, SSO and processes are not read"
    );
    assert_eq!(words(named("none").key().await), "the AWS profile 'none' is in none of AWS's files");
    let homeless = vars(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address), ("HOME", "/nowhere")]);
    assert_eq!(words(auth(&AwsSource::Chain, homeless).key().await), "BOX");
}

#[tokio::test]
async fn a_container_is_asked_with_its_token_and_only_nearby_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "abc\n").unwrap();
    let (address, _, asked) = endpoint(&[(200, &credential("POD", 3_600))]).await;
    let url = format!("{address}/v1/credentials");
    let all = vars(&[
        ("HOME", "/nowhere"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap()),
    ]);
    assert_eq!(words(auth(&AwsSource::Chain, all).key().await), "POD");
    let asked = asked.await.unwrap();
    assert!(
        asked[0].starts_with("get /v1/credentials http/1.1") && asked[0].contains("authorization: abc\r\n")
    );
    let far = vars(&[("HOME", "/nowhere"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.test/x")]);
    assert_eq!(
        words(auth(&AwsSource::Chain, far).key().await),
        "the container's AWS credentials: their address is neither https nor of this machine"
    );
    let (address, _, _) = endpoint(&[(403, "no")]).await;
    let refused = vars(&[("HOME", "/nowhere"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address)]);
    assert_eq!(
        words(auth(&AwsSource::Chain, refused).key().await),
        "the container's AWS credentials: their endpoint answered with status 403"
    );
}

#[tokio::test]
async fn an_instance_is_asked_for_a_token_its_role_and_its_credential() {
    let (address, _, asked) =
        endpoint(&[(200, "TOKEN-1"), (200, "my-role\n"), (200, &credential("BOX", 3_600))]).await;
    let all = vars(&[("HOME", "/nowhere"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &address)]);
    assert_eq!(words(auth(&AwsSource::Chain, all).key().await), "BOX");
    let asked = asked.await.unwrap();
    assert!(asked[0].starts_with("put /latest/api/token "));
    assert!(asked[0].contains("x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
    assert!(asked[2].starts_with("get /latest/meta-data/iam/security-credentials/my-role "));
    assert!(asked[1..].iter().all(|request| request.contains("x-aws-ec2-metadata-token: token-1\r\n")));
}

#[tokio::test]
async fn where_nothing_answers_there_is_a_sentence_that_says_what_to_do() {
    let nothing = vars(&[("HOME", "/nowhere"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", NOBODY)]);
    let expected = "there is no AWS credential in the environment, a profile, a container's endpoint or the instance's; write one, or `api_key`, at the target";
    let nobody = auth(&AwsSource::Chain, nothing);
    assert_eq!(words(nobody.key().await), expected);
    // And is not asked for again at once.
    assert!(nobody.at_hand().is_some());
    let disabled = vars(&[("HOME", "/nowhere"), ("AWS_EC2_METADATA_DISABLED", "true")]);
    assert_eq!(words(auth(&AwsSource::Chain, disabled).key().await), expected);
}

#[tokio::test]
async fn all_that_wait_share_one_fetch() {
    let (address, asked, _) = endpoint(&[(200, &credential("BOX", 3_600)), (200, "{}")]).await;
    let all = vars(&[("HOME", "/nowhere"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address)]);
    let auth = auth(&AwsSource::Chain, all);
    let (one, two, three) = tokio::join!(auth.key(), auth.key(), auth.key());
    for key in [one, two, three] {
        assert_eq!(words(key), "BOX");
    }
    assert_eq!(words(auth.key().await), "BOX");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_credential_that_ends_soon_is_used_while_the_next_is_fetched() {
    let soon = credential("OLD", 120);
    let (address, asked, task) = endpoint(&[(200, &soon), (200, &credential("NEW", 3_600))]).await;
    let all = vars(&[("HOME", "/nowhere"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address)]);
    let auth = auth(&AwsSource::Chain, all);
    assert_eq!(words(auth.key().await), "OLD");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let fetched = auth.ended.notified();
    tokio::pin!(fetched);
    fetched.as_mut().enable();
    // It is at hand, and nobody waits.
    assert!(matches!(auth.at_hand(), Some(Ok(key)) if key.access_key_id == "OLD"));
    fetched.await;
    assert_eq!(words(auth.key().await), "NEW");
    task.await.unwrap();
}

#[tokio::test]
async fn a_credential_that_was_refused_is_fetched_anew_and_a_written_one_is_not() {
    let (address, _, task) =
        endpoint(&[(200, &credential("FIRST", 3_600)), (200, &credential("SECOND", 3_600))]).await;
    let all = vars(&[("HOME", "/nowhere"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address)]);
    let found = auth(&AwsSource::Chain, all);
    let key = found.key().await.unwrap();
    found.refused(&key);
    assert_eq!(words(found.key().await), "SECOND");
    // Whoever was refused with the older one says nothing of the newer.
    found.refused(&key);
    assert_eq!(words(found.key().await), "SECOND");
    task.await.unwrap();
    let written = AwsSource::Static {
        access_key_id: SecretString::from("AKID"),
        secret_access_key: SecretString::from("s"),
        session_token: None,
    };
    let written = auth(&written, Vars::new());
    let key = written.key().await.unwrap();
    written.refused(&key);
    assert_eq!(words(written.key().await), "AKID");
}

#[tokio::test]
async fn a_credential_that_has_ended_is_none() {
    let (address, _, _) = endpoint(&[(200, &credential("OLD", 5))]).await;
    let all = vars(&[("HOME", "/nowhere"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address)]);
    assert_eq!(
        words(auth(&AwsSource::Chain, all).key().await),
        "the AWS credential that was found has ended"
    );
}
