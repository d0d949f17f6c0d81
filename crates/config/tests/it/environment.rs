//! No file: what the environment alone makes.

use pointsman_config::{Auth, Azure, Credential, Loaded, NoTargets, Source, from_environment};
use secrecy::ExposeSecret;

use crate::support::vars;

fn from(pairs: &[(&str, &str)]) -> Result<Loaded, NoTargets> {
    from_environment(&vars(pairs))
}

/// (names, base URL) of everything that these variables make.
fn reached(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let config = from(pairs).unwrap().config;
    config.catalog.names().into_iter().zip(config.upstreams.into_iter().map(|u| u.base_url)).collect()
}

fn one(name: &str, base_url: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), base_url.to_owned())]
}

#[test]
fn each_providers_key_makes_its_wildcard_target() {
    let cases = [
        ("OPENAI_API_KEY", "openai/*", "https://api.openai.com/v1"),
        ("MISTRAL_API_KEY", "mistral/*", "https://api.mistral.ai/v1"),
        ("GROQ_API_KEY", "groq/*", "https://api.groq.com/openai/v1"),
        ("OPENROUTER_API_KEY", "openrouter/*", "https://openrouter.ai/api/v1"),
        ("DEEPSEEK_API_KEY", "deepseek/*", "https://api.deepseek.com/v1"),
        ("ANTHROPIC_API_KEY", "anthropic/*", "https://api.anthropic.com"),
        ("GEMINI_API_KEY", "gemini/*", "https://generativelanguage.googleapis.com"),
        ("XAI_API_KEY", "xai/*", "https://api.x.ai/v1"),
        ("TOGETHER_API_KEY", "together/*", "https://api.together.ai/v1"),
        ("FIREWORKS_API_KEY", "fireworks/*", "https://api.fireworks.ai/inference/v1"),
        ("CEREBRAS_API_KEY", "cerebras/*", "https://api.cerebras.ai/v1"),
        ("COHERE_API_KEY", "cohere/*", "https://api.cohere.ai/compatibility/v1"),
        ("NVIDIA_API_KEY", "nvidia/*", "https://integrate.api.nvidia.com/v1"),
        ("PERPLEXITY_API_KEY", "perplexity/*", "https://api.perplexity.ai/v1"),
    ];
    for (variable, name, base_url) in cases {
        assert_eq!(reached(&[(variable, "k")]), one(name, base_url));
    }
    let all: Vec<(&str, &str)> = cases.iter().map(|(variable, _, _)| (*variable, "k")).collect();
    assert_eq!(reached(&all).len(), 14);
}

#[test]
fn it_listens_on_loopback_asks_for_no_key_and_says_where_it_came_from() {
    let config = from(&[("OPENAI_API_KEY", " sk-1\n")]).unwrap().config;
    assert_eq!(
        (config.server.listen.to_string().as_str(), config.server.auth),
        ("127.0.0.1:4000", Auth::None)
    );
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:4001");
    assert_eq!(config.source, Source::Environment);
    let Credential::Secret(secret) = &config.upstreams[0].credential else { panic!("no secret") };
    assert_eq!(secret.expose_secret(), "sk-1", "trimmed");
}

#[test]
fn anthropics_wildcard_speaks_messages_with_the_key_that_is_set() {
    let config = from(&[("ANTHROPIC_API_KEY", "sk-ant-1")]).unwrap().config;
    let (target, upstream) = (&config.catalog.targets[0], &config.upstreams[0]);
    assert_eq!((target.provider.as_str(), target.model.as_deref()), ("anthropic", None));
    assert_eq!(target.dialects, ["messages"]);
    let Credential::Secret(secret) = &upstream.credential else { panic!("no secret") };
    assert_eq!(secret.expose_secret(), "sk-ant-1");
}

#[test]
fn openais_address_can_be_another_also_without_a_key() {
    let url = ("OPENAI_BASE_URL", "http://127.0.0.1:9000/v1/");
    assert_eq!(reached(&[("OPENAI_API_KEY", "k"), url]), one("openai/*", "http://127.0.0.1:9000/v1"));
    assert_eq!(reached(&[url]), one("openai/*", "http://127.0.0.1:9000/v1"));
}

#[test]
fn ollamas_host_is_taken_as_ollama_itself_takes_it() {
    let cases = [
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        (":9999", "http://127.0.0.1:9999/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999/v1"),
        ("http://box:1234/", "http://box:1234/v1"),
        ("https://box.example", "https://box.example/v1"),
    ];
    for (host, base_url) in cases {
        assert_eq!(reached(&[("OLLAMA_HOST", host)]), one("ollama/*", base_url), "{host}");
    }
}

#[test]
fn azure_with_a_deployment_serves_it_and_without_one_all() {
    let endpoint = ("AZURE_OPENAI_ENDPOINT", "https://corp.openai.azure.com/");
    let key = ("AZURE_OPENAI_API_KEY", "k");
    assert_eq!(reached(&[endpoint, key]), one("azure/*", "https://corp.openai.azure.com/openai/v1"));
    assert_eq!(reached(&[endpoint, ("AZURE_OPENAI_KEY", "k")]).len(), 1, "the older name");
    let config = from(&[endpoint, key, ("AZURE_OPENAI_DEPLOYMENT", "gpt-4o"), ("OPENAI_API_VERSION", "v")])
        .unwrap()
        .config;
    assert_eq!(config.catalog.names(), ["gpt-4o"]);
    let azure = Azure { deployment: "gpt-4o".to_owned(), api_version: "v".to_owned() };
    assert_eq!(config.upstreams[0].azure, Some(azure));
}

#[test]
fn half_of_azure_is_left_out_with_a_warning() {
    let loaded = from(&[("OPENAI_API_KEY", "k"), ("AZURE_OPENAI_API_KEY", "k")]).unwrap();
    assert_eq!(loaded.config.catalog.names(), ["openai/*"]);
    assert_eq!(
        loaded.warnings[0].to_string(),
        "environment: `AZURE_OPENAI_ENDPOINT` and `AZURE_OPENAI_API_KEY` belong together; Azure is left out"
    );
}

#[test]
fn a_token_that_is_set_for_other_reasons_makes_no_target() {
    let loaded = from(&[("OPENAI_API_KEY", "k"), ("HF_TOKEN", "hf_1"), ("GITHUB_TOKEN", "ghp_1")]).unwrap();
    assert_eq!(loaded.config.catalog.names(), ["openai/*"]);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn nothing_set_says_in_three_lines_how_to_go_on() {
    for pairs in [&[][..], &[("OPENAI_API_KEY", " ")][..]] {
        let error = from(pairs).unwrap_err();
        assert!(error.problems().is_empty());
        let text = error.to_string();
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.contains("OPENAI_API_KEY")
                && text.contains("pointsman.yaml")
                && text.contains("pointsman demo")
        );
    }
}

#[test]
fn what_is_set_but_left_out_is_said_before_how_to_go_on() {
    let text = from(&[("AZURE_OPENAI_API_KEY", "k")]).unwrap_err().to_string();
    assert_eq!(text.lines().count(), 4);
    assert!(
        text.starts_with("environment: `AZURE_OPENAI_ENDPOINT` and `AZURE_OPENAI_API_KEY` belong together"),
        "{text}"
    );
}

#[test]
fn a_variable_that_cannot_be_used_is_an_error_without_its_value() {
    let cases = [
        (
            ("OPENAI_API_KEY", "sk one"),
            "`OPENAI_API_KEY`: the secret holds a space, a line end or another character that no HTTP header can carry",
        ),
        (
            ("OPENAI_BASE_URL", "https://u:p@host"),
            "`OPENAI_BASE_URL` must not hold credentials; they belong in `api_key`",
        ),
        (
            ("POINTSMAN_LISTEN", "4000"),
            "`POINTSMAN_LISTEN`: an address has a host too: write `127.0.0.1:4000`, or `0.0.0.0:4000` for all interfaces",
        ),
    ];
    for (pair, message) in cases {
        let error = from(&[("GROQ_API_KEY", "k"), pair]).unwrap_err();
        assert_eq!(error.to_string(), format!("environment: {message}"));
    }
}

#[test]
fn listeners_off_loopback_have_to_be_meant() {
    let open = [("GROQ_API_KEY", "k"), ("POINTSMAN_LISTEN", "0.0.0.0:4000")];
    assert!(from(&open).unwrap_err().to_string().contains("POINTSMAN_AUTH=none"));
    let config = from(&[open[0], open[1], ("POINTSMAN_AUTH", "none")]).unwrap().config;
    assert_eq!((config.server.listen.to_string().as_str(), config.server.auth), ("0.0.0.0:4000", Auth::None));
    let admin = [("GROQ_API_KEY", "k"), ("POINTSMAN_ADMIN_LISTEN", "0.0.0.0:4001")];
    assert!(from(&admin).unwrap_err().to_string().contains("POINTSMAN_ADMIN_KEY"));
    assert!(from(&[admin[0], admin[1], ("POINTSMAN_ADMIN_KEY", "k")]).unwrap().config.admin.key.is_some());
}

#[test]
fn the_gateway_does_not_become_its_own_provider() {
    let error = from(&[("OPENAI_BASE_URL", "http://127.0.0.1:4000/v1")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment: `OPENAI_BASE_URL` points at this gateway itself; unset it for the gateway, it is for its clients"
    );
}
