use std::path::Path;

use super::cases::{Cases, LIST};
use super::dependencies::{Dependency, Package, of_package};
use super::{Finding, is_read, links, source, walk};

fn shown(findings: Vec<Finding>) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

/// The only finding's text, which must contain `words`.
#[track_caller]
fn assert_one(findings: Vec<Finding>, place: &str, words: &str) {
    let shown = shown(findings);
    let [only] = shown.as_slice() else { panic!("expected one finding, got {shown:#?}") };
    assert!(only.starts_with(&format!("{place}: ")) && only.contains(words), "{only}");
}

#[track_caller]
fn assert_none(findings: Vec<Finding>) {
    assert_eq!(shown(findings), Vec::<String>::new());
}

/// A function of exactly `lines` lines, from its name to its closing brace.
fn function_of(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
}

#[test]
fn a_function_may_have_seventy_lines_and_no_more() {
    assert_none(source::check("src/a.rs", &function_of(70)));
    assert_one(
        source::check("src/a.rs", &function_of(71)),
        "src/a.rs:1",
        "`long` has 71 lines, 70 are allowed",
    );
}

#[test]
fn methods_and_default_methods_are_functions_too() {
    let method = format!("impl A {{\n{}}}\n", function_of(71));
    assert_one(source::check("src/a.rs", &method), "src/a.rs:2", "`long` has 71 lines");
    let default = format!("trait A {{\n\n{}}}\n", function_of(71));
    assert_one(source::check("src/a.rs", &default), "src/a.rs:3", "`long` has 71 lines");
}

#[test]
fn a_long_function_may_give_its_reason_above_itself() {
    let above = |comment: &str| format!("{comment}\n/// What it does.\n#[inline]\n{}", function_of(71));
    assert_none(source::check("src/a.rs", &above("// tidy: long because it is one table")));
    assert_one(source::check("src/a.rs", &above("// tidy: long because")), "src/a.rs:4", "71 lines");
    let apart = format!("// tidy: long because of another function\n\n{}", function_of(71));
    assert_one(source::check("src/a.rs", &apart), "src/a.rs:3", "71 lines");
}

#[test]
fn a_file_may_have_six_hundred_lines_unless_it_begins_with_a_reason() {
    let file_of = |lines: usize| "const A: u8 = 0;\n".repeat(lines);
    assert_none(source::check("src/a.rs", &file_of(600)));
    assert_one(source::check("src/a.rs", &file_of(601)), "src/a.rs:601", "601 lines, 600 are allowed");
    assert_none(source::check(
        "src/a.rs",
        &format!("// tidy: long because it is one table\n{}", file_of(600)),
    ));
    assert_one(source::check("a.py", &"a = 1\n".repeat(601)), "a.py:601", "601 lines");
    assert_one(source::check("a.js", &"a();\n".repeat(601)), "a.js:601", "601 lines");
}

#[test]
fn modules_with_names_that_say_nothing_are_found_as_files_folders_and_declarations() {
    assert_one(source::check("crates/x/src/utils.rs", ""), "crates/x/src/utils.rs:1", "`utils`");
    assert_one(
        source::check("crates/x/tests/common/mod.rs", ""),
        "crates/x/tests/common/mod.rs:1",
        "`common`",
    );
    assert_one(source::check("src/a.rs", "\nmod helpers {}\n"), "src/a.rs:2", "`helpers`");
    assert_none(source::check("src/a.rs", "mod common_prefix {}\nfn types() {}\n"));
}

#[test]
fn unsafe_is_found_in_code_and_in_macro_arguments_but_not_in_words() {
    assert_one(source::check("src/a.rs", "fn a() {\n    unsafe { b() }\n}\n"), "src/a.rs:2", "`unsafe`");
    assert_one(source::check("src/a.rs", "m! {\n    { unsafe fn a() {} }\n}\n"), "src/a.rs:2", "`unsafe`");
    assert_none(source::check(
        "src/a.rs",
        "#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";\n",
    ));
}

#[test]
fn white_space_at_the_end_of_a_line_is_found_in_any_text() {
    assert_one(source::check("docs/a.md", "one\ntwo \n"), "docs/a.md:2", "white space");
    assert_one(source::check("a.toml", "one\t\n"), "a.toml:1", "white space");
    assert_none(source::check("docs/a.md", "one\n\ntwo"));
}

#[test]
fn a_library_must_begin_with_its_contract() {
    assert_none(source::check("crates/x/src/lib.rs", "//! What it is for.\n"));
    assert_none(source::check("crates/x/src/main.rs", "fn main() {}\n"));
    assert_one(source::check("crates/x/src/lib.rs", "mod a;\n"), "crates/x/src/lib.rs:1", "`//!`");
}

#[test]
fn a_file_that_is_no_rust_is_a_finding_and_no_crash() {
    assert_one(source::check("src/a.rs", "fn a() {\n    let = ;\n}\n"), "src/a.rs:2", "no Rust");
    let shown = shown(source::check("src/a.rs", "fn a( {\n"));
    assert!(shown.iter().all(|finding| finding.contains("no Rust")) && shown.len() == 1, "{shown:?}");
}

fn links_of(path: &str, text: &str) -> Vec<Finding> {
    let there = ["README.md", "docs/failover.md", "docs", "crates/core/src/lib.rs"];
    links::check(path, text, &|target| there.iter().any(|file| Path::new(file) == target))
}

#[test]
fn a_relative_link_must_lead_to_a_file_of_the_project() {
    let good = "[a](docs/failover.md) [b](./docs/failover.md#commit \"title\") [c](docs/)\n\n[d]: docs/failover.md\n";
    assert_none(links_of("README.md", good));
    assert_none(links_of("docs/failover.md", "[up](../README.md) [code](../crates/core/src/lib.rs)"));
    assert_one(links_of("README.md", "\n[a](docs/gone.md)"), "README.md:2", "`docs/gone.md`");
    assert_one(links_of("README.md", "[a]: gone.md"), "README.md:1", "`gone.md`");
    assert_one(
        links_of("docs/failover.md", "[a](docs/failover.md)"),
        "docs/failover.md:1",
        "`docs/failover.md`",
    );
    assert_one(links_of("README.md", "[out](../README.md)"), "README.md:1", "`../README.md`");
}

#[test]
fn web_links_anchors_and_code_are_left_alone() {
    assert_none(links_of("README.md", "[a](https://example.com/x) [b](#here) [c](mailto:a@example.com)"));
    assert_none(links_of("README.md", "`[a](gone.md)`\n```text\n[a](gone.md)\n```\n"));
    assert_one(links_of("README.md", "```\n```\n[a](gone.md)\n"), "README.md:3", "gone.md");
}

#[test]
fn the_readme_stays_below_a_hundred_and_fifty_lines_and_no_other_document_must() {
    assert_none(links_of("README.md", &"a\n".repeat(149)));
    assert_one(links_of("README.md", &"a\n".repeat(150)), "README.md:150", "150 lines");
    assert_none(links_of("docs/failover.md", &"a\n".repeat(400)));
}

fn package(name: &str, dependencies: &[&str], for_tests: &[&str]) -> Package {
    let listed = |names: &[&str], for_tests: bool| -> Vec<Dependency> {
        names.iter().map(|name| Dependency { name: (*name).to_owned(), for_tests }).collect()
    };
    let lines: Vec<String> = dependencies.iter().map(|name| format!("{name}.workspace = true")).collect();
    Package {
        name: name.to_owned(),
        manifest: "Cargo.toml".to_owned(),
        manifest_text: format!("[dependencies]\n{}\n", lines.join("\n")),
        dependencies: [listed(dependencies, false), listed(for_tests, true)].into_iter().flatten().collect(),
    }
}

#[test]
fn crates_use_only_what_their_row_allows() {
    let server = [
        "pointsman-core",
        "pointsman-wire",
        "pointsman-config",
        "pointsman-store",
        "pointsman-upstream",
        "tokio",
    ];
    assert_none(of_package(&package("pointsman-server", &server, &["pointsman-provider-sim"])));
    assert_none(of_package(&package(
        "pointsman",
        &["pointsman-server", "pointsman-provider-sim", "pointsman-core"],
        &[],
    )));
    for (name, used) in [
        ("pointsman-server", "pointsman-provider-sim"),
        ("pointsman-config", "pointsman-wire"),
        ("pointsman-upstream", "pointsman-store"),
        ("pointsman-wire", "pointsman-core"),
        ("pointsman-provider-sim", "pointsman-wire"),
        ("xtask", "pointsman-core"),
    ] {
        assert_one(
            of_package(&package(name, &["serde", used], &[])),
            "Cargo.toml:3",
            &format!("`{name}` may not use `{used}`"),
        );
    }
    assert_one(
        of_package(&package("pointsman-wire", &[], &["pointsman-core"])),
        "Cargo.toml:1",
        "may not use",
    );
}

#[test]
fn the_core_uses_nothing_but_libm_outside_its_tests() {
    assert_none(of_package(&package("pointsman-core", &["libm"], &["proptest"])));
    assert_one(
        of_package(&package("pointsman-core", &["libm", "serde"], &[])),
        "Cargo.toml:3",
        "nothing but libm",
    );
}

#[test]
fn a_new_crate_must_say_what_it_may_use() {
    assert_one(of_package(&package("pointsman-extra", &[], &[])), "Cargo.toml:1", "no row");
}

#[test]
fn foreign_folders_and_kinds_are_not_read() {
    let root = tempfile::tempdir().unwrap();
    for file in
        ["src/a.rs", "target/debug/b.rs", "clients/python/.venv/c.py", "docs/d.md", "docs/e.png", ".ci/run"]
    {
        let file = root.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    let mut files = Vec::new();
    walk(root.path(), "", &mut files).unwrap();
    files.sort();
    assert_eq!(files, [".ci/run", "docs/d.md", "src/a.rs"]);
    assert!(!is_read("tests/fixture.sse"));
}

/// The findings of a list and of a file with tests.
fn of_cases(list: &str, tests: &str) -> Vec<Finding> {
    let mut cases = Cases::default();
    cases.take(LIST, list);
    cases.take("crates/x/tests/it.rs", tests);
    cases.check()
}

#[test]
fn a_case_that_is_said_to_be_shown_is_borne_by_a_test() {
    let list = "# numbers\n\n[shown]\nC001 = \"words\"\nC012 = \"more\"\n[later]\nC002 = \"why\"\n";
    assert_none(of_cases(list, "/// C001, C012: it holds.\n"));
    let place = format!("{LIST}:5");
    assert_one(of_cases(list, "/// C001.\nlet xC012 = C0120;\n"), &place, "C012 is said to be shown");
    let mut elsewhere = Cases::default();
    elsewhere.take(LIST, "[shown]\nC001 = \"words\"\n");
    elsewhere.take("crates/x/src/lib.rs", "// C001\n");
    assert_one(elsewhere.check(), &format!("{LIST}:2"), "no test bears the number");
}

#[test]
fn a_case_that_a_test_bears_is_listed_as_shown() {
    let list = "[shown]\nC001 = \"words\"\n[later]\nC002 = \"why\"\n";
    assert_one(of_cases(list, "/// C001\n/// (C002)\n"), "crates/x/tests/it.rs:2", "C002 is not under");
    assert_one(of_cases(list, "/// C001 and C003's kin\n"), "crates/x/tests/it.rs:1", "C003 is not under");
    assert_none(Cases::default().check());
}

#[test]
fn the_list_of_cases_has_each_number_once_with_words() {
    let list = "[later]\nC001 = \"why\"\n[shown]\nC001 = \"words\"\n";
    assert_one(of_cases(list, "// C001\n"), &format!("{LIST}:4"), "twice");
    for broken in ["[shown]\nC1 = \"words\"\n", "[later]\nC004 = \"\"\n", "C004 = \"nowhere\"\n"] {
        let found = shown(of_cases(broken, ""));
        assert!(found.len() == 1 && found[0].contains("is no `C001"), "{found:?}");
    }
}
