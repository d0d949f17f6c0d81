//! Bedrock: a region, and a credential that signs.

use pointsman_config::{AwsCredential, AwsSource, Config, Credential, from_environment, parse};
use secrecy::ExposeSecret;

use crate::support::{errors, usual, vars};

fn target(more: &str) -> String {
    format!("targets:\n  t: {{ provider: bedrock, model: m{more} }}\n")
}

fn config(more: &str) -> Config {
    parse(&target(more), "f.yaml", &usual()).unwrap().config
}

fn aws(more: &str) -> AwsCredential {
    match config(more).upstreams.remove(0).credential {
        Credential::Aws(aws) => aws,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_region_says_where_it_is_and_what_is_signed_for() {
    let one = config(", region: eu-central-1");
    assert_eq!(one.upstreams[0].base_url, "https://bedrock-runtime.eu-central-1.amazonaws.com");
    assert_eq!(one.catalog.targets[0].region.as_deref(), Some("eu-central-1"));
    assert_eq!(one.catalog.targets[0].dialects, ["bedrock"]);
    assert_eq!(aws(", region: eu-central-1").region, "eu-central-1");
    let china = config(", region: cn-north-1");
    assert_eq!(china.upstreams[0].base_url, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn");
    // An address has its own, whatever `region` calls the place for other purposes.
    let fips = ", base_url: \"https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com\", region: usa";
    assert_eq!(aws(fips).region, "us-gov-west-1");
    let vpc = ", base_url: \"https://vpce-1-2.bedrock-runtime.us-east-2.vpce.amazonaws.com\"";
    assert_eq!(aws(vpc).region, "us-east-2");
    assert_eq!(aws(", base_url: \"http://127.0.0.1:9\", region: us-east-1").region, "us-east-1");
}

#[test]
fn a_whole_endpoint_is_understood() {
    let base = "https://bedrock-runtime.us-east-1.amazonaws.com";
    for end in ["/", "/model/anthropic.claude-x/converse", "/model/m/converse-stream"] {
        let text = target(&format!(", base_url: \"{base}{end}\""));
        let config = parse(&text, "f.yaml", &usual()).unwrap().config;
        assert_eq!(config.upstreams[0].base_url, base, "{end}");
    }
}

#[test]
fn a_credential_is_written_or_a_profiles_or_whatever_the_machine_has() {
    let region = ", region: us-east-1";
    assert!(matches!(aws(region).source, AwsSource::Chain));
    let profile = aws(&format!("{region}, aws_profile: work"));
    assert!(matches!(profile.source, AwsSource::Profile(name) if name == "work"));
    let written = aws(&format!(
        "{region}, aws_access_key_id: AKIDEXAMPLE, aws_secret_access_key: wJalr, aws_session_token: TOKEN"
    ));
    let AwsSource::Static { access_key_id, secret_access_key, session_token } = &written.source else {
        panic!("{written:?}")
    };
    assert_eq!(access_key_id.expose_secret(), "AKIDEXAMPLE");
    assert_eq!(secret_access_key.expose_secret(), "wJalr");
    assert_eq!(session_token.as_ref().map(ExposeSecret::expose_secret), Some("TOKEN"));
    let shown = format!("{written:?}");
    assert!(
        !shown.contains("wJalr") && !shown.contains("AKIDEXAMPLE") && !shown.contains("TOKEN"),
        "{shown}"
    );
    let key = config(&format!("{region}, api_key: bedrock-api-key-1"));
    assert!(matches!(key.upstreams[0].credential, Credential::Secret(_)));
    let caller = config(&format!("{region}, api_key: caller"));
    assert!(matches!(caller.upstreams[0].credential, Credential::Caller));
}

#[test]
fn what_is_missing_or_said_twice_is_refused() {
    let refuses = |more: &str, why: &str| {
        let got = errors(&target(more));
        assert!(got.len() == 1 && got[0].ends_with(why), "{more}: {got:?}");
    };
    refuses("", "`targets.t` needs `region`, such as `us-east-1`: each has an address of its own");
    refuses(
        ", region: eu",
        "`targets.t`: `region` is none of AWS, such as `us-east-1`; write it, or a `base_url`",
    );
    refuses(
        ", base_url: \"http://127.0.0.1:9\"",
        "`targets.t` needs `region`, such as `us-east-1`: requests are signed for it",
    );
    refuses(
        ", base_url: \"http://127.0.0.1:9\", region: eu",
        "must be a region of AWS, such as `us-east-1`: requests are signed for it",
    );
    let region = ", region: us-east-1";
    let together = "needs `aws_access_key_id` and `aws_secret_access_key` together";
    refuses(&format!("{region}, aws_access_key_id: AKID"), together);
    refuses(&format!("{region}, aws_session_token: T"), together);
    refuses(
        &format!("{region}, aws_access_key_id: A, aws_secret_access_key: B, aws_profile: work"),
        "has a credential and `aws_profile`; one is enough",
    );
    refuses(
        &format!("{region}, api_key: k, aws_profile: work"),
        "`targets.t.aws_profile`: `api_key` is a credential already; remove it",
    );
    let other = errors("targets:\n  t: { provider: ollama, model: m, aws_profile: work }\n");
    assert_eq!(other, ["f.yaml:2:49: `targets.t.aws_profile`: only Bedrock takes one; remove it"]);
}

#[test]
fn a_key_and_a_region_in_the_environment_are_a_target() {
    let loaded = from_environment(&vars(&[
        ("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-1"),
        ("AWS_REGION", "us-west-2"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
    ]))
    .unwrap();
    let target = &loaded.config.catalog.targets[0];
    assert_eq!((target.name.as_str(), &target.model), ("bedrock", &None));
    let upstream = &loaded.config.upstreams[0];
    assert_eq!(upstream.base_url, "https://bedrock-runtime.us-west-2.amazonaws.com");
    let alone = from_environment(&vars(&[("AWS_BEARER_TOKEN_BEDROCK", "k")])).unwrap_err();
    assert!(
        alone.to_string().starts_with("environment: `AWS_BEARER_TOKEN_BEDROCK` needs `AWS_REGION`"),
        "{alone}"
    );
}
