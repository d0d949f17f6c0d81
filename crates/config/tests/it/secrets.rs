//! Credentials: where they may come from, and that nothing ever shows them.

use std::fs;
use std::path::Path;

use pointsman_config::{Credential, load, parse};
use secrecy::ExposeSecret;

use crate::support::{errors, usual, vars, warnings};

fn target(api_key: &str) -> String {
    format!("targets:\n  t: {{ provider: openai, model: m, api_key: {api_key} }}\n")
}

fn secret_of(text: &str) -> String {
    let config = parse(text, "f.yaml", &usual()).unwrap().config;
    match &config.upstreams[0].credential {
        Credential::Secret(secret) => secret.expose_secret().to_owned(),
        other => panic!("{other:?}"),
    }
}

fn file_with(content: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    fs::write(&path, content).unwrap();
    let reference = format!("\"file:{}\"", path.display());
    (folder, reference)
}

#[test]
fn a_secret_is_written_out_or_comes_from_a_variable_or_a_file() {
    assert_eq!(secret_of(&target("sk-literal")), "sk-literal");
    assert_eq!(secret_of(&target("\"${OPENAI_API_KEY}\"")), "sk-openai-1234");
    let (_folder, reference) = file_with("sk-from-file");
    assert_eq!(secret_of(&target(&reference)), "sk-from-file");
    assert!(warnings(&target(&reference)).is_empty());
}

#[test]
fn space_and_line_ends_around_a_secret_are_trimmed_with_a_warning() {
    for content in ["sk-from-file\n", "sk-from-file\r\n", "  sk-from-file "] {
        let (_folder, reference) = file_with(content);
        assert_eq!(secret_of(&target(&reference)), "sk-from-file");
        assert_eq!(
            warnings(&target(&reference)),
            ["f.yaml:2:45: `targets.t.api_key`: space or line ends around the secret were trimmed"]
        );
    }
}

#[test]
fn what_cannot_be_a_secret_is_refused() {
    let refused = |api_key: &str, why: &str| {
        assert_eq!(errors(&target(api_key)), [format!("f.yaml:2:45: `targets.t.api_key`: {why}")]);
    };
    refused("os.environ/OPENAI_API_KEY", "`os.environ/NAME` is another gateway's spelling; write `${NAME}`");
    refused("\"\"", "the secret is empty");
    refused("\"   \"", "the secret is empty");
    refused("file:secret", "`file:` needs an absolute path, such as `file:/run/secrets/openai`");
    let unsendable =
        "the secret holds a space, a line end or another character that no HTTP header can carry";
    refused("\"sk one\"", unsendable);
    refused("\"sk\\none\"", unsendable);
    refused("schlüssel", unsendable);
    refused("\"'sk'\"", "the secret has quotes around it; remove them");
    let (_folder, empty) = file_with("\n");
    refused(&empty, "the secret is empty");
    let (_folder, quoted) = file_with("\"sk\"\n");
    refused(&quoted, "the secret has quotes around it; remove them");
    let (_folder, huge) = file_with(&"x".repeat(70_000));
    assert!(errors(&target(&huge))[0].ends_with("is larger than 65536 bytes"));
    let missing = errors(&target("\"file:/nonexistent/secret\""));
    assert!(missing[0].contains("cannot read the secret file `/nonexistent/secret`"), "{missing:?}");
}

#[test]
fn a_variable_that_is_set_but_empty_is_no_secret() {
    let problems = parse(&target("\"${EMPTY}\""), "f.yaml", &vars(&[("EMPTY", "")])).unwrap_err();
    assert_eq!(problems.to_string(), "f.yaml:2:45: `targets.t.api_key`: the secret is empty");
}

#[test]
fn an_admin_key_that_is_not_there_is_never_no_key() {
    for key in ["\"${UNSET}\"", "\"\"", "os.environ/ADMIN"] {
        let text = format!("{}admin: {{ key: {key} }}\n", target("k"));
        assert_eq!(errors(&text).len(), 1, "{key}");
    }
}

#[test]
fn no_secret_shows_in_debug_output() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good/every-key.yaml");
    let loaded = load(&path, &usual()).unwrap();
    let shown = format!("{loaded:?}");
    for secret in ["sk-openai-1234", "azure-1234", "sk-deepseek-1234", "operator-1234"] {
        assert!(!shown.contains(secret), "{secret} shows");
    }
    assert!(shown.contains("openai-us"), "the rest does");
}

#[test]
fn no_secret_shows_in_a_problem_wherever_it_was_put() {
    let secret = "sk-very-secret";
    let vars = vars(&[("KEY", secret)]);
    let places = [
        "server: { listen: \"${KEY}\" }",
        "server: { auth: \"${KEY}\" }",
        "watch: \"${KEY}\"",
        "telemetry: { log_level: \"${KEY}\" }",
        "queue: { max: \"${KEY}\", max_wait: \"${KEY}\" }",
        "retry_budget: { ratio: \"${KEY}\" }",
        "routes: { r: \"${KEY}\" }",
        "defaults: { strategy: \"${KEY}\" }",
        "keys: { k: { hash: \"${KEY}\" } }",
    ];
    for line in places {
        let text = format!("{}{line}\n", target("k"));
        let problems = parse(&text, "f.yaml", &vars).unwrap_err();
        assert!(!problems.to_string().contains(secret), "{problems}");
    }
    let urls =
        ["https://user:sk-very-secret@host/v1", "https://host/v1?key=sk-very-secret", "sk-very-secret"];
    for url in urls {
        let text =
            format!("targets:\n  t: {{ provider: openai, model: m, api_key: k, base_url: \"{url}\" }}\n");
        let problems = parse(&text, "f.yaml", &vars).unwrap_err();
        assert!(!problems.to_string().contains(secret), "{problems}");
    }
}
