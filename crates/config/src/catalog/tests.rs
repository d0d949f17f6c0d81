use pointsman_core::target::StructuredOutput;

use super::{bare, entries, known, made};

#[test]
fn every_entry_can_be_read_is_in_order_and_says_where_it_is_from() {
    let text = include_str!("../../../../catalog/models.json");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(" \"")).collect();
    assert_eq!(entries().len(), lines.len(), "one entry a line");
    assert!(entries().len() >= 60, "{} entries", entries().len());
    for (entry, line) in entries().iter().zip(&lines) {
        let name = entry.name();
        assert!(line.starts_with(&format!(" \"{name}\": ")), "{name} is not in its place");
        assert!(crate::provider::named(&entry.provider).is_some() || entry.provider == "gemini", "{name}");
        assert!(entry.source.starts_with("https://"), "{name}: {}", entry.source);
        let digits = |at: std::ops::Range<usize>| entry.date[at].bytes().all(|b| b.is_ascii_digit());
        assert!(
            entry.date.len() == 10 && digits(0..4) && digits(5..7) && digits(8..10),
            "{name}: {}",
            entry.date
        );
        assert_eq!(line.contains("\"price\""), entry.facts.price.is_some(), "{name}: a price is lost");
        let (window, most) = (entry.facts.context_window, entry.facts.max_output);
        assert!(window.is_some_and(|window| most.is_none_or(|most| most <= window)), "{name}");
    }
}

#[test]
fn an_unknown_model_has_no_facts_and_so_no_price() {
    assert_eq!(known("openai", "gpt-nope"), None);
    assert_eq!(known("openai-compatible", "gpt-4o"), None, "an unknown server promises nothing");
    assert_eq!(known("vllm", "gpt-oss-120b"), None);
}

#[test]
fn what_is_resold_is_the_makers_model_at_another_price() {
    let own = known("openai", "gpt-4o").unwrap();
    assert_eq!(own.price.map(|p| (p.input, p.output)), Some((2_500_000, 10_000_000)));
    let resold = known("azure", "gpt-4o").unwrap();
    assert_eq!(resold.price, None);
    assert_eq!(resold.context_window, own.context_window);
    assert_eq!(known("openrouter", "openai/gpt-4o"), Some(resold));
}

#[test]
fn a_resellers_name_leads_to_the_makers() {
    for (reseller, theirs, makers) in [
        ("bedrock", "eu.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5-20251101"),
        ("bedrock", "anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("vertex", "claude-opus-5-5@20260922", "claude-opus-5-5"),
        ("vertex", "gemini-3.8-flash", "gemini-3.8-flash"),
        ("openrouter", "openai/gpt-6-sol", "gpt-6-sol"),
        ("azure", "gpt-4o", "gpt-4o"),
    ] {
        assert_eq!(bare(reseller, theirs), makers);
        assert!(made(makers).is_some(), "{makers}");
    }
}

#[test]
fn what_claude_models_take_and_what_the_catalog_says_of_them_agree() {
    let text = include_str!("../../../../catalog/claude.json");
    let table: serde_json::Value = serde_json::from_str(text).unwrap();
    let families = table["families"].as_array().unwrap();
    let claude: Vec<_> = entries().iter().filter(|entry| entry.provider == "anthropic").collect();
    assert!(claude.len() >= 10, "{} models", claude.len());
    for entry in claude {
        let is_of = |family: &&serde_json::Value| entry.model.contains(family["word"].as_str().unwrap());
        let family = families.iter().find(is_of).unwrap_or_else(|| panic!("{} has no family", entry.model));
        assert_eq!(entry.facts.max_output, family["max_output"].as_u64(), "{}", entry.model);
        let formats = entry.facts.structured_output == Some(StructuredOutput::JsonSchema);
        assert_eq!(Some(formats), family["formats"].as_bool(), "{}", entry.model);
        assert_eq!(entry.facts.reasoning, Some(family["thinking"] != "never"), "{}", entry.model);
    }
}
