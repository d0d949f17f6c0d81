//! What README and docs show is what the product takes: every YAML example, every command line, every key and name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pointsman_config::Vars;
use serde_json::Value;

/// A page and its name below the root.
struct Page {
    name: String,
    text: String,
}

/// A fenced block of a page: its language, its first line's number, its text.
struct Block {
    language: String,
    at: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> Page {
    let text = std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Page { name: name.to_owned(), text }
}

fn pages() -> Vec<Page> {
    let mut pages =
        vec![page("README.md"), page("ARCHITECTURE.md"), page("CONTRIBUTING.md"), page("CHANGELOG.md")];
    for folder in ["docs", "docs/dialects"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if (folder, name.as_str()) == ("docs", "dialects") {
                continue;
            }
            assert!(name.ends_with(".md"), "{folder}/{name} is no page");
            pages.push(page(&format!("{folder}/{name}")));
        }
    }
    pages
}

fn blocks(page: &Page) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for (number, line) in page.text.lines().enumerate() {
        match (line.strip_prefix("```"), inside) {
            (Some(language), false) => {
                let at = format!("{}:{}", page.name, number + 1);
                blocks.push(Block { language: language.to_owned(), at, text: String::new() });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => {
                let block = blocks.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, false) => {}
        }
    }
    assert!(!inside, "{}: a block is not closed", page.name);
    blocks
}

fn blocks_of(language: &str) -> Vec<Block> {
    pages().iter().flat_map(blocks).filter(|block| block.language == language).collect()
}

/// Every variable is set.
struct AllSet;

impl Vars for AllSet {
    fn get(&self, name: &str) -> Option<String> {
        Some(format!("value-of-{name}"))
    }
}

#[test]
fn every_yaml_example_is_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "sk-of-a-file").unwrap();
    let examples = blocks_of("yaml");
    assert!(examples.len() >= 6, "{} examples are found", examples.len());
    for example in examples {
        let secret = format!("file:{}", secret.display());
        let text = example.text.replace("file:/run/secrets/openai", &secret);
        let loaded = pointsman_config::parse(&text, &example.at, &AllSet);
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }
}

#[test]
fn every_json_example_is_json() {
    for example in blocks_of("json") {
        serde_json::from_str::<Value>(&example.text).unwrap_or_else(|e| panic!("{}: {e}", example.at));
    }
}

/// The words after the program in lines that call it.
fn calls(block: &Block) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let line = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let call = line.strip_prefix("pointsman ").or_else(|| line.strip_prefix("cargo run --release -- "));
        call.map(words)
    };
    block.text.lines().filter_map(line).collect()
}

fn help(verb: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    let done = command.args([verb, "--help"]).output().unwrap();
    assert!(done.status.success(), "there is no verb '{verb}'");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn every_command_line_names_a_verb_and_its_flags() {
    let blocks = blocks_of("sh");
    let called: Vec<_> = blocks.iter().flat_map(|b| calls(b).into_iter().map(|call| (&b.at, call))).collect();
    assert!(called.len() >= 8, "{} command lines are found", called.len());
    for (at, call) in called {
        let (verb, rest) = call.split_first().unwrap();
        let help = help(verb);
        for flag in rest.iter().filter(|word| word.starts_with("--")) {
            let takes = help.split_whitespace().any(|word| word.trim_end_matches([',', ']']) == flag);
            assert!(takes, "{at}: `pointsman {verb}` takes no {flag}");
        }
    }
}

#[test]
fn every_simulated_fault_that_a_page_names_exists() {
    let table = page("docs/sim.md").text;
    let rows = table.lines().skip_while(|l| !l.starts_with("| kind | examples")).skip(2);
    let names = rows.take_while(|l| l.starts_with('|')).flat_map(|row| row.split('`').skip(1).step_by(2));
    let concrete = names
        .map(|n| n.replace("NAME", "x").replace("TEXT", "x").replace("SHAPE", "null").replace(":N", ":3"));
    let concrete: Vec<String> = concrete.collect();
    assert!(concrete.len() > 40, "{} names are found", concrete.len());
    for name in concrete {
        pointsman_provider_sim::script_from_name(&name).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The names of all keys below a schema.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        found.extend(properties.keys().cloned());
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|inner| keys(inner, found)),
        Value::Array(items) => items.iter().for_each(|inner| keys(inner, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_file_is_explained() {
    let text = page("docs/configuration.md").text;
    // Words in code spans: `a.b`, `{ x: y }` and `name` alike.
    let spans = text.split('`').skip(1).step_by(2);
    let words: BTreeSet<&str> =
        spans.flat_map(|span| span.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))).collect();
    let mut all = BTreeSet::new();
    keys(&pointsman_config::schema(), &mut all);
    assert!(all.len() > 60, "{} keys are found", all.len());
    let missing: Vec<&String> = all.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "docs/configuration.md does not explain {missing:?}");
}

#[test]
fn every_endpoint_of_the_admin_api_is_listed() {
    let text = page("docs/admin.md").text;
    let config = "server: { listen: \"127.0.0.1:0\" }\nadmin: { listen: \"127.0.0.1:0\" }\ntargets:\n  a: { provider: ollama, model: m }\n";
    let config = pointsman_config::parse(config, "docs", &AllSet).unwrap().config;
    let gateway = pointsman_server::start(config, pointsman_server::Clock::default(), None).unwrap();
    let document = get(gateway.admin_addr(), "/admin/v1/openapi.json");
    let document: Value = serde_json::from_str(&document).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 10, "{} paths are found", paths.len());
    // What a path ends in where its beginning stands before it; `/targets/{id}/{action}` is listed action by action.
    for path in paths.keys().filter(|path| *path != "/") {
        let fixed = path.trim_start_matches("/admin/v1").split("{action}").next().unwrap();
        let fixed = fixed.split("{switch}").next().unwrap();
        assert!(text.contains(fixed), "docs/admin.md does not list {path}");
    }
}

fn get(address: std::net::SocketAddr, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let architecture = page("ARCHITECTURE.md").text;
    let named = architecture.split('`').skip(1).step_by(2);
    let files: Vec<&str> = named.filter(|span| span.starts_with("crates/") && !span.contains(' ')).collect();
    assert!(files.len() > 10, "{} files are found", files.len());
    for file in files {
        assert!(Path::new(&root()).join(file).exists(), "ARCHITECTURE.md names {file}");
    }
}
