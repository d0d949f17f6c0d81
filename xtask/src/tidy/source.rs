//! Rules about one source file: sizes, names, `unsafe`, white space, the contract at its head.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::Finding;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
/// In a comment above a file or function that is longer than it may be, followed by the reason.
const WAIVER: &str = "// tidy: long because ";
/// Names that say nothing: what would go there belongs to the thing that it serves.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "types", "helpers", "helper"];

/// The findings of one file. `path` is relative to the root.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = white_space(path, text);
    let rust = path.ends_with(".rs");
    if rust || path.ends_with(".py") || path.ends_with(".js") {
        findings.extend(file_length(path, text));
        findings.extend(file_name(path));
    }
    if rust {
        findings.extend(contract(path, text));
        findings.extend(syntax(path, text));
    }
    findings
}

fn white_space(path: &str, text: &str) -> Vec<Finding> {
    let ends_in_space = |line: &str| line.ends_with([' ', '\t', '\r']);
    let lines = text.lines().enumerate().filter(|(_, line)| ends_in_space(line));
    lines.map(|(index, _)| Finding::new(path, index + 1, "the line ends in white space")).collect()
}

fn file_length(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    let waived = text.lines().next().is_some_and(gives_reason);
    (lines > FILE_LINES && !waived).then(|| {
        let sentence = format!(
            "the file has {lines} lines, {FILE_LINES} are allowed: split it, or begin it with `{WAIVER}<reason>`"
        );
        Finding::new(path, FILE_LINES + 1, sentence)
    })
}

fn gives_reason(line: &str) -> bool {
    line.trim_start().strip_prefix(WAIVER).is_some_and(|reason| !reason.trim().is_empty())
}

fn file_name(path: &str) -> Option<Finding> {
    let mut names = path.split('/').map(|name| name.split_once('.').map_or(name, |(stem, _)| stem));
    names.find(|name| EMPTY_NAMES.contains(name)).map(|name| Finding::new(path, 1, empty_name(name)))
}

fn empty_name(name: &str) -> String {
    format!("a module must not be called `{name}`: name it after what it is for")
}

/// A library begins with what it promises.
fn contract(path: &str, text: &str) -> Option<Finding> {
    let first = text.lines().find(|line| !line.trim().is_empty() && !gives_reason(line)).unwrap_or_default();
    let missing = path.ends_with("src/lib.rs") && !first.starts_with("//!");
    missing.then(|| {
        Finding::new(
            path,
            1,
            "the crate must begin with `//!` documentation: what it is for and what it promises",
        )
    })
}

fn syntax(path: &str, text: &str) -> Vec<Finding> {
    let parsed = TokenStream::from_str(text)
        .map_err(|error| (error.span().start().line, error.to_string()))
        .and_then(|tokens| {
            let file = syn::parse2::<syn::File>(tokens.clone())
                .map_err(|error| (error.span().start().line, error.to_string()))?;
            Ok((tokens, file))
        });
    let (tokens, file) = match parsed {
        Ok(parsed) => parsed,
        Err((line, error)) => return vec![Finding::new(path, line, format!("the file is no Rust: {error}"))],
    };
    let mut findings = Vec::new();
    unsafe_words(path, tokens, &mut findings);
    let mut items = Items { path, lines: text.lines().collect(), findings };
    items.visit_file(&file);
    items.findings
}

/// Looks at tokens, not at syntax, so that `unsafe` inside a macro's argument is seen too.
fn unsafe_words(path: &str, tokens: TokenStream, findings: &mut Vec<Finding>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => unsafe_words(path, group.stream(), findings),
            TokenTree::Ident(word) if word == "unsafe" => {
                findings.push(Finding::new(
                    path,
                    word.span().start().line,
                    "there is no `unsafe` in this project",
                ));
            }
            _ => {}
        }
    }
}

/// Visits functions (for their length) and modules (for their names).
struct Items<'a> {
    path: &'a str,
    lines: Vec<&'a str>,
    findings: Vec<Finding>,
}

impl Items<'_> {
    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        let length = last.saturating_sub(first) + 1;
        if length > FUNCTION_LINES && !self.is_waived(first) {
            let sentence = format!(
                "`{}` has {length} lines, {FUNCTION_LINES} are allowed: split it, or write `{WAIVER}<reason>` above it",
                signature.ident
            );
            self.findings.push(Finding::new(self.path, first, sentence));
        }
    }

    /// Whether a reason stands among the comments and attributes above line `first` (counted from 1).
    fn is_waived(&self, first: usize) -> bool {
        let above = self.lines.iter().take(first.saturating_sub(1)).rev();
        above.take_while(|line| line.trim_start().starts_with(['/', '#'])).any(|line| gives_reason(line))
    }
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        if EMPTY_NAMES.contains(&name.as_str()) {
            self.findings.push(Finding::new(self.path, item.mod_token.span.start().line, empty_name(&name)));
        }
        visit::visit_item_mod(self, item);
    }
}
