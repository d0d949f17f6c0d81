use serde_json::{Value, json};

use super::media::size_of;
use super::{COUNTED, Count, Family, Pictures, asked, told};
use crate::dialect::Dialect;
use crate::endpoint::Endpoint;

fn request(model: &str, body: &Value) -> Count {
    Family::of(model).request(Dialect::Chat, body.to_string().as_bytes()).unwrap()
}

/// OpenAI's cookbook, "How to count tokens with tiktoken", section 6: the number that the API itself told.
#[test]
fn a_conversation_has_the_tokens_that_openais_cookbook_says() {
    let example = json!({"model": "m", "messages": [
        {"role": "system", "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
        {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
        {"role": "system", "name": "example_assistant", "content": "Things working well together will increase revenue."},
        {"role": "system", "name": "example_user", "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
        {"role": "system", "name": "example_assistant", "content": "Let's talk later when we're less busy about how to do better."},
        {"role": "user", "content": "This late pivot means we don't have time to boil the ocean for the client deliverable."},
    ]});
    assert_eq!(request("gpt-4-0613", &example), Count { tokens: 129, exact: true });
    assert_eq!(request("gpt-4o", &example), Count { tokens: 124, exact: true });
}

/// The same, section 7.
#[test]
fn tools_have_the_tokens_that_openais_cookbook_says() {
    let example = json!({"model": "m",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant that can answer to questions about the weather."},
            {"role": "user", "content": "What's the weather like in San Francisco?"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get_current_weather",
            "description": "Get the current weather in a given location",
            "parameters": {"type": "object", "properties": {
                "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                "unit": {"type": "string", "description": "The unit of temperature to return", "enum": ["celsius", "fahrenheit"]},
            }, "required": ["location"]},
        }}],
    });
    assert_eq!(request("gpt-4", &example).tokens, 105);
    assert_eq!(request("azure/gpt-4o-mini", &example).tokens, 101);
}

/// OpenAI's cookbook, section 5: `antidisestablishmentarianism`, `2 + 2 = 4` and a greeting in Japanese.
#[test]
fn texts_have_the_tokens_of_their_models_vocabulary() {
    for (text, old, new) in
        [("antidisestablishmentarianism", 6, 6), ("2 + 2 = 4", 7, 7), ("お誕生日おめでとう", 9, 8)]
    {
        assert_eq!(Family::of("gpt-3.5-turbo").text(text), Count { tokens: old, exact: true }, "{text}");
        assert_eq!(Family::of("ft:gpt-4o:corp::1").text(text), Count { tokens: new, exact: true }, "{text}");
    }
    // What looks like a special token is text, and more than one token.
    assert!(Family::of("gpt-4o").text("<|endoftext|>").tokens > 1);
}

#[test]
fn what_has_no_vocabulary_here_is_an_estimate() {
    for model in
        ["claude-sonnet-4-5", "gemini-3-pro", "llama-3.3-70b", "eu.anthropic.claude-opus-4-8-v1:0", ""]
    {
        assert!(!Family::of(model).text("hello").exact, "{model}");
    }
    let words = "one two three four five six seven eight nine ten ".repeat(10);
    let own = Family::of("gpt-4o").text(&words).tokens;
    assert_eq!(Family::of("llama-3").text(&words).tokens, own);
    // Written as 1,230 for a thousand, rounded up.
    assert_eq!(
        Family::of("global.anthropic.claude-opus-4-8").text(&words).tokens,
        (own * 1230).div_ceil(1000)
    );
}

/// A byte-pair encoder that merges naively takes minutes for this.
#[test]
fn a_run_of_one_letter_is_counted_and_what_is_beyond_the_cap_is_scaled() {
    let run = "a".repeat(512 * 1024);
    assert_eq!(
        Family::of("gpt-4o").text(&run),
        Count { tokens: 65_536, exact: true },
        "eight letters a token"
    );
    let words = "word ".repeat(COUNTED / 5 * 2);
    let Count { tokens, exact } = Family::of("gpt-4o").text(&words);
    assert!(!exact);
    assert!(tokens.abs_diff(COUNTED as u64 / 5 * 2) <= 2, "{tokens}: one token a word");
}

#[test]
fn every_dialects_request_is_counted_alike() {
    let text = "What is the capital of France?";
    let family = Family::of("gpt-4o");
    let bodies = [
        (Dialect::Chat, json!({"model": "m", "messages": [{"role": "user", "content": text}]})),
        (Dialect::Messages, json!({"model": "m", "messages": [{"role": "user", "content": text}]})),
        (Dialect::Responses, json!({"model": "m", "input": text})),
        (Dialect::Gemini, json!({"contents": [{"role": "user", "parts": [{"text": text}]}]})),
    ];
    // Seven tokens of text, one of the role, three around the message and three before the answer.
    for (dialect, body) in bodies {
        let count = family.request(dialect, body.to_string().as_bytes());
        assert_eq!(count, Some(Count { tokens: 14, exact: true }), "{dialect:?}");
    }
    assert_eq!(family.request(Dialect::Chat, b"{"), None);
}

#[test]
fn a_count_is_asked_without_what_an_answer_would_need() {
    let inner = json!({"generateContentRequest": {"model": "models/x", "contents": [{"parts": [{"text": "hello"}]}]}});
    let bare = json!({"contents": [{"parts": [{"text": "hello"}]}]});
    let count = |body: &Value| asked(&Family::of("gpt-4o"), Dialect::Gemini, body.to_string().as_bytes(), 99);
    assert_eq!(count(&inner).tokens, 8);
    assert_eq!(count(&inner), count(&bare));
    let unread = asked(&Family::of("gpt-4o"), Dialect::Gemini, b"{\"contents\":7}", 99);
    assert_eq!(unread, Count { tokens: 99, exact: false });
    let messages = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    assert_eq!(asked(&Family::of("gpt-4o"), Dialect::Messages, messages.as_bytes(), 99).tokens, 8);
}

#[test]
fn a_count_is_told_in_the_words_of_its_endpoint() {
    let told = |endpoint| serde_json::from_slice::<Value>(&told(endpoint, 7)).unwrap();
    assert_eq!(told(Endpoint::CountTokens), json!({"input_tokens": 7}));
    assert_eq!(told(Endpoint::InputTokens), json!({"object": "response.input_tokens", "input_tokens": 7}));
    assert_eq!(told(Endpoint::GeminiCount), json!({"totalTokens": 7}));
}

/// OpenAI, "Images and vision" (1024 × 1024: 765; 2048 × 4096: 1105), Anthropic, "Vision" (200 × 200: 54; 1000 × 1000: 1334),
/// Google, "Understand and count tokens" (up to 384 a side: 258; 960 × 540 is two tiles).
#[test]
fn pictures_have_the_tokens_that_their_providers_document() {
    let openai = Pictures::Tiles { base: 85, tile: 170 };
    assert_eq!([(1024, 1024), (2048, 4096)].map(|size| openai.tokens(size)), [765, 1105]);
    assert_eq!(
        [(200, 200), (1000, 1000), (9000, 9000)].map(|size| Pictures::Area.tokens(size)),
        [54, 1334, 1_600]
    );
    assert_eq!([(384, 384), (960, 540)].map(|size| Pictures::Squares.tokens(size)), [258, 516]);
    for pictures in [openai, Pictures::Area, Pictures::Squares] {
        assert!(pictures.tokens((u64::from(u32::MAX), 1)) < 100_000);
    }
}

#[test]
fn the_size_of_a_picture_stands_in_its_first_bytes() {
    let png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x02\x80\x00\x00\x01\xe0\x08\x06\x00\x00\x00";
    assert_eq!(size_of(png), Some((640, 480)));
    assert_eq!(size_of(b"GIF89a\x80\x02\xe0\x01"), Some((640, 480)));
    let jpeg =
        b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\x00\x11\x08\x01\xe0\x02\x80\x03";
    assert_eq!(size_of(jpeg), Some((640, 480)));
    let webp = b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x7f\x02\x00\xdf\x01\x00";
    assert_eq!(size_of(webp), Some((640, 480)));
    for cut in [&png[..20], &jpeg[..24], b"", b"RIFF", b"\xff\xd8\xff\xc0", b"GIF8", b"<svg/>"] {
        assert_eq!(size_of(cut), None);
    }
}

#[test]
fn media_are_estimated_and_never_counted_as_text() {
    let data = format!("data:image/png;base64,{}", "A".repeat(400_000));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": data}}, {"type": "text", "text": "hello"}]}]});
    // Of unknown size: 765 tokens, beside one of text, one of the role and six around them.
    assert_eq!(request("gpt-4o", &body), Count { tokens: 773, exact: false });
}
