//! What is known of models without being said, and that the file always wins.

use pointsman_config::from_environment;
use pointsman_core::request::resolve_model;
use pointsman_core::target::{Model, Price};

use crate::support::{config, errors, vars, warnings};

/// What is known at the first target of a file with these targets and models.
fn known(targets: &str, models: &str) -> Option<Model> {
    let config = config(&format!("models: {{ {models} }}\ntargets: {{ {targets} }}\n"));
    config.catalog.targets[0].known.clone()
}

#[test]
fn a_known_model_needs_no_configuration() {
    let gpt = known("a: { provider: openai, model: gpt-4o, api_key: k }", "").unwrap();
    // OpenAI's model page: a window of 128,000 tokens, at most 16,384 of output, 2.50 and 10.00 USD.
    assert_eq!((gpt.context_window, gpt.max_output), (Some(128_000), Some(16_384)));
    assert_eq!(gpt.price.map(|p| (p.input, p.output)), Some((2_500_000, 10_000_000)));
    assert_eq!(gpt.tools, Some(true));
    let claude = "a: { provider: anthropic, model: assistant, upstream_model: claude-opus-5-5, api_key: k }";
    let claude = known(claude, "").unwrap();
    assert_eq!((claude.context_window, claude.max_output), (Some(1_000_000), Some(128_000)));
    assert_eq!(claude.reasoning, Some(true));
}

#[test]
fn what_the_file_says_wins_and_leaves_the_rest() {
    let target = "a: { provider: openai, model: gpt-4o, api_key: k }";
    let said = known(target, "gpt-4o: { max_output: 1000, price: { input: 1, output: 2 } }").unwrap();
    assert_eq!((said.max_output, said.context_window), (Some(1000), Some(128_000)));
    assert_eq!(
        said.price,
        Some(Price::of(1_000_000, 2_000_000)),
        "a price is one thing: nothing is added to it"
    );
}

#[test]
fn one_logical_model_is_known_at_each_of_its_targets() {
    let text = "targets:
  groq: { provider: groq, model: oss, upstream_model: openai/gpt-oss-120b, api_key: k }
  cerebras: { provider: cerebras, model: oss, upstream_model: gpt-oss-120b, api_key: k }
  box: { provider: vllm, model: oss }
";
    let catalog = config(text).catalog;
    let input = |name: &str| {
        let target = catalog.targets.iter().find(|target| target.name == name).unwrap();
        catalog.facts(target, "oss").and_then(|facts| facts.price).map(|price| price.input)
    };
    // Groq's and Cerebras' own pages: 0.15 and 0.35 USD.
    assert_eq!((input("groq"), input("cerebras")), (Some(150_000), Some(350_000)));
    assert_eq!(catalog.targets[2].known, None, "a server of one's own promises nothing");
}

#[test]
fn at_azure_the_logical_name_says_which_model_a_deployment_has_and_its_price_stays_unknown() {
    let azure = "a: { provider: azure, base_url: \"https://n.openai.azure.com\", model: gpt-4o, upstream_model: blue, api_key: k }";
    let azure = known(azure, "").unwrap();
    assert_eq!((azure.context_window, azure.price), (Some(128_000), None));
}

#[test]
fn a_wildcard_knows_its_providers_models_by_their_whole_names() {
    let text = "models: { \"openai/gpt-4o\": { max_output: 7 } }
targets: { all: { provider: openai, model: \"*\", api_key: k } }
";
    let catalog = config(text).catalog;
    assert_eq!(catalog.models["openai/gpt-4o"].max_output, Some(7));
    assert_eq!(catalog.models["openai/gpt-4o"].context_window, Some(128_000));
    assert_eq!(catalog.models["openai/gpt-4o-2024-11-20"].max_output, Some(16_384), "a name with a date");
    assert_eq!(catalog.facts(&catalog.targets[0], "openai/gpt-9"), None);
}

#[test]
fn with_several_providers_a_name_leads_to_whose_model_it_is() {
    let keys = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("GROQ_API_KEY", "k")];
    let catalog = from_environment(&vars(&keys)).unwrap().config.catalog;
    let leads = |name: &str| resolve_model(&catalog, name).map(|choice| choice.model);
    assert_eq!(leads("gpt-4o").as_deref(), Some("openai/gpt-4o"));
    assert_eq!(leads("claude-sonnet-4-5-20250929").as_deref(), Some("anthropic/claude-sonnet-4-5-20250929"));
    assert_eq!(leads("grok-4.7"), None, "no target of xAI");
    assert_eq!(leads("gpt-nope"), None, "nobody knows whose it is");
}

#[test]
fn a_route_whose_model_is_known_to_keep_its_contract_warns_of_nothing() {
    let text = |model: &str| {
        format!(
            "targets: {{ a: {{ provider: openai, model: {model}, api_key: k }} }}
routes:
  r: {{ models: [{model}], requires: {{ tools: true, context_window_min: 64000, structured_output: json_schema }} }}
"
        )
    };
    assert_eq!(warnings(&text("gpt-4o")), Vec::<String>::new());
    assert_eq!(warnings(&text("gpt-nope")).len(), 1);
}

#[test]
fn a_route_and_models_may_name_a_wildcards_model_by_its_own_name_if_it_is_known_whose_it_is() {
    let text = |model: &str| {
        format!(
            "models: {{ {model}: {{ max_output: 9 }} }}
targets: {{ all: {{ provider: openai, model: \"*\", api_key: k }} }}
routes: {{ r: {{ models: [{model}], requires: {{ tools: true }} }} }}
"
        )
    };
    let catalog = config(&text("gpt-4o")).catalog;
    assert_eq!(catalog.models["openai/gpt-4o"].max_output, Some(9), "what is said of the name holds");
    assert_eq!(resolve_model(&catalog, "gpt-4o").unwrap().model, "openai/gpt-4o");
    let wrong = errors(&text("gpt-4p"));
    assert_eq!(
        wrong,
        ["f.yaml:3:25: `routes.r.models`: no target serves `gpt-4p`; of a wildcard write `openai/gpt-4p`"]
    );
    assert_eq!(errors(&text("grok-4.7")).len(), 1, "no wildcard of xAI");
}
