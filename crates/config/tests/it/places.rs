//! `base_url` in all the ways in which people write it: understood, or refused; never a wrong path.

use pointsman_config::{Upstream, parse};

use crate::support::usual;

/// The upstream of a target with this provider and URL, and what is said about it.
fn reach(provider: &str, base_url: &str, more: &str) -> Result<(Upstream, Vec<String>), String> {
    let text = format!(
        "targets:\n  t: {{ provider: {provider}, model: m, api_key: k, base_url: \"{base_url}\"{more} }}\n"
    );
    match parse(&text, "f", &usual()) {
        Ok(loaded) => {
            let warnings = loaded.warnings.into_iter().map(|w| w.message).collect();
            Ok((loaded.config.upstreams.into_iter().next().unwrap(), warnings))
        }
        Err(problems) => Err(problems.0.into_iter().map(|p| p.message).collect::<Vec<_>>().join("\n")),
    }
}

#[track_caller]
fn becomes(provider: &str, base_url: &str, expected: &str) {
    let (upstream, warnings) = reach(provider, base_url, "").unwrap();
    assert_eq!((upstream.base_url.as_str(), warnings), (expected, Vec::new()));
}

#[track_caller]
fn understood(provider: &str, base_url: &str, expected: &str, why: &str) {
    let (upstream, warnings) = reach(provider, base_url, "").unwrap();
    assert_eq!(upstream.base_url, expected);
    assert_eq!(warnings, [format!("`targets.t.base_url` {why}; `{expected}` is used")]);
}

#[track_caller]
fn refused(provider: &str, base_url: &str, why: &str) {
    assert_eq!(reach(provider, base_url, "").unwrap_err(), format!("`targets.t.base_url` {why}"));
}

#[test]
fn a_base_url_that_is_right_stays_as_it_is() {
    becomes("openai", "https://api.openai.com/v1", "https://api.openai.com/v1");
    becomes("groq", "https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1");
    becomes("openai-compatible", "http://10.0.0.5:8000/v1", "http://10.0.0.5:8000/v1");
    becomes("openai-compatible", "http://[::1]:8000/v1", "http://[::1]:8000/v1");
    becomes("openai-compatible", "https://host/api/paas/v4", "https://host/api/paas/v4");
}

#[test]
fn spelling_that_means_nothing_is_normalised_in_silence() {
    becomes("openai", "https://api.openai.com/v1/", "https://api.openai.com/v1");
    becomes("openai", "https://api.openai.com/v1//", "https://api.openai.com/v1");
    becomes("openai", "HTTPS://API.OpenAI.com:443/v1", "https://api.openai.com/v1");
    becomes("vllm", "http://host:80/v1", "http://host/v1");
}

#[test]
fn a_doubled_version_is_one() {
    understood(
        "openai",
        "https://api.openai.com/v1/v1",
        "https://api.openai.com/v1",
        "has its version twice (`/v1/v1`)",
    );
}

#[test]
fn a_whole_endpoint_leads_to_its_base() {
    let why = "names a whole endpoint (`/chat/completions`)";
    understood("openai", "https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1", why);
    understood("vllm", "http://host:8000/v1/chat/completions/", "http://host:8000/v1", why);
    understood(
        "vllm",
        "http://host:8000/v1/models",
        "http://host:8000/v1",
        "names a whole endpoint (`/models`)",
    );
    understood(
        "vllm",
        "http://host:8000/v1/messages",
        "http://host:8000/v1",
        "names a whole endpoint (`/messages`)",
    );
}

#[test]
fn an_endpoint_of_a_dialect_that_the_provider_does_not_speak_is_refused() {
    for (provider, speaks) in [
        ("openai-compatible", "`chat`"),
        ("openai", "`chat` and `responses`"),
        ("azure", "`chat` and `responses`"),
    ] {
        let why = format!(
            "names the endpoint of another dialect (`messages`); provider `{provider}` speaks {speaks}"
        );
        refused(provider, "http://host/v1/messages", &why);
    }
    refused(
        "anthropic",
        "https://api.anthropic.com/v1/chat/completions",
        "names the endpoint of another dialect (`chat`); provider `anthropic` speaks `messages`",
    );
}

#[test]
fn googles_base_url_has_no_version_and_a_whole_call_is_understood() {
    let base = "https://generativelanguage.googleapis.com";
    becomes("gemini", base, base);
    becomes("gemini", "https://gateway.example/gemini/", "https://gateway.example/gemini");
    understood("gemini", &format!("{base}/v1beta"), base, "has the version `/v1beta`, which is added anyway");
    understood("gemini", &format!("{base}/v1beta/models"), base, "names a whole endpoint (`/models`)");
    for call in ["generateContent", "streamGenerateContent?alt=sse"] {
        let url = format!("{base}/v1beta/models/gemini-3-pro:{call}");
        understood("gemini", &url, base, "names a whole endpoint");
    }
}

#[test]
fn anthropics_base_url_has_no_version_and_one_that_is_written_is_taken_off() {
    let base = "https://api.anthropic.com";
    becomes("anthropic", base, base);
    becomes("anthropic", "https://api.anthropic.com/", base);
    becomes("anthropic", "https://gateway.example/anthropic", "https://gateway.example/anthropic");
    let version = "has the version `/v1`, which is added anyway";
    understood("anthropic", "https://api.anthropic.com/v1", base, version);
    understood("anthropic", "https://api.anthropic.com/v1/", base, version);
    understood("anthropic", "http://127.0.0.1:9/proxy/v1", "http://127.0.0.1:9/proxy", version);
    for (url, why) in [
        ("https://api.anthropic.com/v1/v1", "has its version twice (`/v1/v1`)"),
        ("https://api.anthropic.com/v1/messages", "names a whole endpoint (`/messages`)"),
        (
            "https://api.anthropic.com/v1/messages/count_tokens",
            "names a whole endpoint (`/messages/count_tokens`)",
        ),
    ] {
        understood("anthropic", url, base, why);
    }
}

#[test]
fn a_missing_version_is_added_where_the_provider_is_known() {
    understood(
        "openai",
        "https://api.openai.com",
        "https://api.openai.com/v1",
        "has no version; `/v1` was added",
    );
    understood("ollama", "http://host:11434/", "http://host:11434/v1", "has no version; `/v1` was added");
    understood(
        "openrouter",
        "https://openrouter.ai",
        "https://openrouter.ai/api/v1",
        "has no version; `/api/v1` was added",
    );
    understood("openai-compatible", "http://host:9", "http://host:9", "has no version such as `/v1`");
}

#[test]
fn what_is_no_base_url_is_refused() {
    refused("openai", "api.openai.com/v1", "needs a scheme: write `https://…` or `http://…`");
    refused("openai", "ftp://host/v1", "must start with `https://` or `http://`");
    refused("openai", "https://", "has no host");
    refused("openai", "https:///v1", "has no host");
    refused("openai", "https://ho st/v1", "must not hold spaces or control characters");
    refused("openai", "https://höst/v1", "has a host that is neither a name nor an address");
    refused("openai", "https://host:0/v1", "has a port that is not a number from 1 to 65535");
    refused("openai", "https://host:65536/v1", "has a port that is not a number from 1 to 65535");
    refused("openai", "https://[::1/v1", "has a host that is neither a name nor an address");
    refused("openai", "https://[::z]/v1", "has no valid IPv6 address in its brackets");
    refused("openai", "https://host/a//v1", "has an empty segment (`//`) in its path");
    refused("openai", "https://host/../v1", "has `.` or `..` in its path");
    refused("openai", "https://host/v1#x", "must not have a fragment (`#…`)");
    refused("openai", "https://host/v1?key=x", "must not have a query (`?…`)");
    refused("openai", "https://user:pass@host/v1", "must not hold credentials; they belong in `api_key`");
    refused("openai", "https://user@host/v1", "must not hold credentials; they belong in `api_key`");
}

fn azure(base_url: &str, more: &str) -> Result<(String, Option<(String, String)>), String> {
    reach("azure", base_url, more)
        .map(|(upstream, _)| (upstream.base_url, upstream.azure.map(|a| (a.deployment, a.api_version))))
}

fn classic(deployment: &str, version: &str) -> Option<(String, String)> {
    Some((deployment.to_owned(), version.to_owned()))
}

#[test]
fn azures_classic_urls_are_reached_by_deployment_and_version() {
    let root = "https://corp.openai.azure.com".to_owned();
    let default = classic("m", "2024-10-21");
    for url in [
        "https://corp.openai.azure.com",
        "https://corp.openai.azure.com/",
        "https://corp.openai.azure.com/openai",
    ] {
        assert_eq!(azure(url, ""), Ok((root.clone(), default.clone())), "{url}");
    }
    assert_eq!(azure(&root, ", upstream_model: d, api_version: v"), Ok((root.clone(), classic("d", "v"))));
    let whole =
        "https://corp.openai.azure.com/openai/deployments/d/chat/completions?api-version=2025-04-01-preview";
    assert_eq!(azure(whole, ""), Ok((root.clone(), classic("d", "2025-04-01-preview"))));
    assert_eq!(
        azure("https://apim.corp.example/ai", ""),
        Ok(("https://apim.corp.example/ai".to_owned(), default))
    );
}

#[test]
fn azures_v1_urls_are_openais_own_form() {
    let v1 = "https://corp.openai.azure.com/openai/v1".to_owned();
    for url in [v1.clone(), format!("{v1}/"), format!("{v1}/chat/completions")] {
        assert_eq!(azure(&url, ""), Ok((v1.clone(), None)), "{url}");
    }
    assert_eq!(
        azure(&v1, ", api_version: v"),
        Err("`targets.t.api_version`: Azure's `/openai/v1` takes no version; remove it".to_owned())
    );
}

#[test]
fn azure_urls_that_contradict_the_rest_are_refused() {
    let whole = "https://corp.openai.azure.com/openai/deployments/d?api-version=v";
    assert_eq!(
        azure(whole, ", upstream_model: e"),
        Err("`targets.t`: `base_url` and `upstream_model` contradict each other".to_owned())
    );
    assert_eq!(
        azure(whole, ", api_version: w"),
        Err("`targets.t`: `base_url` and `api_version` contradict each other".to_owned())
    );
    assert_eq!(
        azure("https://corp.openai.azure.com/openai/v2", ""),
        Err("`targets.t.base_url` must end with the host, `/openai/v1`, or `/openai/deployments/NAME`"
            .to_owned())
    );
    assert_eq!(
        azure("https://corp.openai.azure.com?key=x", ""),
        Err("`targets.t.base_url` must not have a query (`?…`) other than `api-version`".to_owned())
    );
}

#[test]
fn an_azure_wildcard_needs_the_url_that_takes_the_deployment_from_the_request() {
    let file = |url: &str| {
        format!("targets:\n  t: {{ provider: azure, model: \"*\", api_key: k, base_url: \"{url}\" }}\n")
    };
    assert!(parse(&file("https://c.openai.azure.com/openai/v1"), "f", &usual()).is_ok());
    let problems = parse(&file("https://c.openai.azure.com"), "f", &usual()).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "f:2:32: `targets.t`: an Azure wildcard needs the v1 URL, `https://NAME.openai.azure.com/openai/v1`"
    );
}

#[test]
fn only_azure_takes_an_api_version() {
    let error = reach("openai", "https://api.openai.com/v1", ", api_version: v").unwrap_err();
    assert_eq!(error, "`targets.t.api_version`: only Azure's classic URLs take one; remove it");
}

#[test]
fn a_wildcard_has_no_upstream_model() {
    let text = "targets:\n  t: { provider: ollama, model: \"*\", upstream_model: x }\n";
    let problems = parse(text, "f", &usual()).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "f:2:54: `targets.t`: a wildcard serves every model under its own name; remove `upstream_model`"
    );
}

#[test]
fn a_provider_behind_an_address_of_its_own_may_ask_for_no_key() {
    let text = "targets:\n  t: { provider: openai, model: m, base_url: \"http://127.0.0.1:9/v1\" }\n";
    assert!(parse(text, "f", &usual()).is_ok());
}
