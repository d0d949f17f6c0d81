//! Typed look-ups in a section. Each wrong value is reported where it stands, and reading goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::grammar::{FILE, Section};
use crate::nearest::nearest;
use crate::problem::{Mark, Report};
use crate::quantity;
use crate::tree::{Entry, Node, Scalar, Value, shown};

/// A section of the file that is being read.
pub(crate) struct Fields<'n> {
    /// The keys that lead here, joined by dots; empty for the file itself.
    pub(crate) path: String,
    /// Where to point when something is missing.
    pub(crate) at: Mark,
    entries: &'n [Entry],
}

/// A value that is there.
#[derive(Clone)]
pub(crate) struct Field<'n> {
    pub(crate) path: String,
    pub(crate) node: &'n Node,
}

impl<'n> Fields<'n> {
    /// Opens a value as this section: its unknown, unbuilt and missing keys are reported.
    pub(crate) fn open(
        field: &Field<'n>,
        at: Mark,
        section: &'static Section,
        report: &mut Report,
    ) -> Option<Self> {
        let entries = field.entries(report)?;
        let fields = Self { path: field.path.clone(), at, entries };
        for entry in entries {
            fields.check_key(entry, section, report);
        }
        for name in section.required.iter().filter(|name| !fields.means_to_have(name, section)) {
            report.error(at, missing(&fields.path, name));
        }
        Some(fields)
    }

    /// Whether this key is here, if only misspelt (then that was reported).
    pub(crate) fn means_to_have(&self, key: &str, section: &'static Section) -> bool {
        let misspelt = |entry: &Entry| {
            section.key(&entry.key).is_none() && meant(&entry.key, section).is_some_and(|meant| meant == key)
        };
        self.entries.iter().any(|entry| entry.key == key || misspelt(entry))
    }

    fn check_key(&self, entry: &Entry, section: &'static Section, report: &mut Report) {
        if report.is_full() && section.key(&entry.key).is_none() {
            return report.error(entry.at, "");
        }
        let path = join(&self.path, &shown(&entry.key));
        if section.not_built.contains(&entry.key.as_str()) {
            report.error(entry.at, format!("`{path}` is not built yet; remove it"));
        } else if section.key(&entry.key).is_none() {
            report.error(entry.at, format!("`{path}` is not a key{}", hint(&entry.key, section)));
        }
    }

    /// The value of this key, if it is there.
    pub(crate) fn get(&self, key: &str) -> Option<Field<'n>> {
        let entry = self.entries.iter().find(|e| e.key == key)?;
        Some(Field { path: join(&self.path, key), node: &entry.value })
    }

    /// Where this key's value stands, else where its section starts.
    pub(crate) fn mark(&self, key: &str) -> Mark {
        self.entries.iter().find(|e| e.key == key).map_or(self.at, |e| e.value.at)
    }

    /// The section below this key.
    pub(crate) fn section(&self, key: &str, section: &'static Section, report: &mut Report) -> Option<Self> {
        let at = self.entries.iter().find(|e| e.key == key)?.at;
        Self::open(&self.get(key)?, at, section, report)
    }

    /// The section that the grammar says this key opens.
    pub(crate) fn below(&self, key: &str, of: &'static Section, report: &mut Report) -> Option<Self> {
        self.section(key, of.section_of(key)?, report)
    }

    /// The names below this key, each with its section as far as it is one.
    pub(crate) fn named(&self, key: &str, report: &mut Report) -> Vec<(String, Mark, Field<'n>)> {
        let Some(field) = self.get(key) else { return Vec::new() };
        let entries = field.entries(report).unwrap_or_default();
        entries
            .iter()
            .map(|e| (e.key.clone(), e.at, Field { path: join(&field.path, &e.key), node: &e.value }))
            .collect()
    }

    pub(crate) fn text(&self, key: &str, report: &mut Report) -> Option<String> {
        self.get(key)?.text(report)
    }

    pub(crate) fn flag(&self, key: &str, report: &mut Report) -> Option<bool> {
        let field = self.get(key)?;
        let scalar = field.scalar(report)?;
        match scalar.text.as_str() {
            "true" | "True" | "TRUE" if scalar.is_bare() => Some(true),
            "false" | "False" | "FALSE" if scalar.is_bare() => Some(false),
            _ => field.wrong(report, "must be `true` or `false`"),
        }
    }

    /// A whole number, not below `least`.
    pub(crate) fn count<T: TryFrom<u64>>(&self, key: &str, least: u64, report: &mut Report) -> Option<T> {
        let field = self.get(key)?;
        let scalar = field.scalar(report)?;
        if !scalar.is_bare() {
            return field.wrong(report, "must be a number, without quotes");
        }
        let digits = !scalar.text.is_empty() && scalar.text.chars().all(|c| c.is_ascii_digit());
        match scalar.text.parse::<u64>().ok().filter(|_| digits) {
            Some(number) if number < least => field.wrong(report, &format!("must be at least {least}")),
            Some(number) => match T::try_from(number) {
                Ok(number) => Some(number),
                Err(_) => field.wrong(report, "is too large"),
            },
            None => field.wrong(report, "must be a whole number"),
        }
    }

    /// A duration; zero only where it means something.
    pub(crate) fn span_or_zero(&self, key: &str, report: &mut Report) -> Option<Duration> {
        self.quantity(key, quantity::span, report)
    }

    pub(crate) fn span(&self, key: &str, report: &mut Report) -> Option<Duration> {
        let positive = |text: &str| match quantity::span(text)? {
            Duration::ZERO => Err("must be more than 0".to_owned()),
            span => Ok(span),
        };
        self.quantity(key, positive, report)
    }

    pub(crate) fn share(&self, key: &str, report: &mut Report) -> Option<f64> {
        self.quantity(key, quantity::share, report)
    }

    pub(crate) fn size(&self, key: &str, report: &mut Report) -> Option<usize> {
        self.quantity(key, quantity::size, report)
    }

    pub(crate) fn micro_usd(&self, key: &str, report: &mut Report) -> Option<u64> {
        self.quantity(key, quantity::micro_usd, report)
    }

    /// A number above zero.
    pub(crate) fn number(&self, key: &str, report: &mut Report) -> Option<f64> {
        let read = |text: &str| {
            quantity::decimal(text).filter(|n| *n > 0.0).ok_or_else(|| "must be a number above 0".to_owned())
        };
        self.quantity(key, read, report)
    }

    /// A value that `read` understands; its error says how to write it.
    pub(crate) fn quantity<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
        report: &mut Report,
    ) -> Option<T> {
        let field = self.get(key)?;
        let scalar = field.scalar(report)?;
        match read(scalar.text.trim()) {
            Ok(value) => Some(value),
            Err(why) => field.wrong(report, &why),
        }
    }

    /// One of these words.
    pub(crate) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)], report: &mut Report) -> Option<T> {
        self.get(key)?.choice(words, &[], report)
    }

    /// A list of texts, none of them twice.
    pub(crate) fn texts(&self, key: &str, report: &mut Report) -> Option<Vec<(String, Mark)>> {
        let field = self.get(key)?;
        let mut seen = BTreeSet::new();
        let mut texts = Vec::new();
        for item in field.items(report)? {
            let Some(text) = item.text(report) else { continue };
            if seen.insert(text.clone()) {
                texts.push((text, item.node.at));
            } else {
                report.error(item.node.at, format!("`{}` holds `{}` twice", field.path, shown(&text)));
            }
        }
        Some(texts)
    }

    /// A list of these words.
    pub(crate) fn choices(&self, key: &str, words: &[&str], report: &mut Report) -> Option<BTreeSet<String>> {
        let pairs: Vec<(&str, &str)> = words.iter().map(|w| (*w, *w)).collect();
        let items = self.get(key)?.items(report)?;
        Some(items.iter().filter_map(|item| item.choice(&pairs, &[], report)).map(str::to_owned).collect())
    }
}

impl<'n> Field<'n> {
    /// The file itself.
    pub(crate) fn root(node: &'n Node) -> Self {
        Self { path: String::new(), node }
    }

    /// Whether it is a list or mapping without anything in it.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.node.value {
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            Value::Null | Value::Scalar(_) | Value::Broken => false,
        }
    }

    /// The keys of a mapping, whatever they are.
    pub(crate) fn keys(&self) -> Vec<String> {
        match &self.node.value {
            Value::Map(entries) => entries.iter().map(|e| e.key.clone()).collect(),
            Value::Null | Value::Scalar(_) | Value::List(_) | Value::Broken => Vec::new(),
        }
    }

    fn entries(&self, report: &mut Report) -> Option<&'n [Entry]> {
        match &self.node.value {
            Value::Map(entries) => Some(entries),
            Value::Broken => None,
            Value::Null if self.path.is_empty() => Some(&[]),
            Value::Null => self.nothing(report),
            Value::Scalar(_) | Value::List(_) => self.wrong(report, "must be a mapping of keys"),
        }
    }

    fn items(&self, report: &mut Report) -> Option<Vec<Self>> {
        match &self.node.value {
            Value::List(items) => {
                Some(items.iter().map(|node| Self { path: self.path.clone(), node }).collect())
            }
            Value::Broken => None,
            Value::Null => self.nothing(report),
            Value::Scalar(_) | Value::Map(_) => self.wrong(report, "must be a list: `[a, b]`"),
        }
    }

    /// The scalar that this value must be.
    pub(crate) fn scalar(&self, report: &mut Report) -> Option<&'n Scalar> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::Broken => None,
            Value::Null => self.nothing(report),
            Value::List(_) => self.wrong(report, "must be a single value, not a list"),
            Value::Map(_) => self.wrong(report, "must be a single value, not a mapping"),
        }
    }

    /// Text that is not empty.
    pub(crate) fn text(&self, report: &mut Report) -> Option<String> {
        let scalar = self.scalar(report)?;
        let text = scalar.text.trim();
        if text.is_empty() {
            return self.wrong(report, "is empty");
        }
        Some(text.to_owned())
    }

    /// One of these words; of `later`, what is not built yet.
    pub(crate) fn choice<T: Copy>(
        &self,
        words: &[(&str, T)],
        later: &[&str],
        report: &mut Report,
    ) -> Option<T> {
        let scalar = self.scalar(report)?;
        let word = scalar.text.as_str();
        if let Some((_, value)) = words.iter().find(|(name, _)| *name == word) {
            return Some(*value);
        }
        if later.contains(&word) {
            report.error(self.node.at, format!("`{}: {word}` is not built yet", self.path));
            return None;
        }
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        match nearest(word, names.iter().copied()).first() {
            Some(near) => self.wrong(report, &format!("is not a valid word; did you mean `{near}`?")),
            None => self.wrong(report, &format!("must be {}", one_of(&names))),
        }
    }

    /// Reports what is wrong with this value, showing it as it stands in the file.
    pub(crate) fn wrong<T>(&self, report: &mut Report, why: &str) -> Option<T> {
        let value = match &self.node.value {
            Value::Scalar(scalar) if !scalar.shown().is_empty() => format!(": {}", scalar.shown()),
            _ => String::new(),
        };
        let path = if self.path.is_empty() { "the file" } else { &self.path };
        report.error(self.node.at, format!("`{path}{value}`: {why}"));
        None
    }

    fn nothing<T>(&self, report: &mut Report) -> Option<T> {
        report.error(self.node.at, format!("`{}` has no value; give it one or remove it", self.path));
        None
    }
}

impl Scalar {
    /// Whether it may be a number or a flag: without quotes, or filled in (inside braces that needs quotes).
    fn is_bare(&self) -> bool {
        self.plain || self.source.is_some()
    }

    /// As it may stand in a message: never the value of a variable.
    fn shown(&self) -> String {
        shown(self.source.as_deref().unwrap_or(&self.text))
    }
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn missing(path: &str, key: &str) -> String {
    match path {
        "" => format!("`{key}` is missing"),
        path => format!("`{path}` needs `{key}`"),
    }
}

/// `a`, `b` or `c`, in quotes.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// What other gateways call it, and what it is here.
const FOREIGN: &[(&str, &str)] = &[
    ("<<", "merge keys are not taken; put what routes share under `defaults`"),
    ("api_base", "here it is `base_url`"),
    ("url", "here it is `base_url`"),
    ("deployment", "here it is `upstream_model`"),
    ("num_retries", "here it is `budget.max_same_target_attempts` (the first try counts)"),
    ("retries", "here it is `budget.max_same_target_attempts` (the first try counts)"),
    ("max_retries", "here it is `budget.max_same_target_attempts` (the first try counts)"),
    ("timeout", "here it is `budget.deadline`, with limits for each phase beside it"),
    ("stream_timeout", "here it is `budget.first_token` and `budget.idle`"),
    ("cooldown_time", "here it is `cooldown.base` and `breaker.open_for`"),
    ("allowed_fails", "here it is `breaker.failures`"),
    ("fallbacks", "here a route lists its substitutes in `models`, after the first"),
    ("fallback", "here a route lists its substitutes in `models`, after the first"),
    ("routing_strategy", "here it is `strategy`"),
    ("model_list", "that is another gateway's file; here it is `targets`"),
];

/// What an unknown key may have been meant to be, or where it may have been meant to go.
fn hint(key: &str, section: &'static Section) -> String {
    if let Some((_, meaning)) = FOREIGN.iter().find(|(name, _)| *name == key) {
        return format!("; {meaning}");
    }
    if let Some(near) = meant(key, section) {
        return format!("; did you mean `{near}`?");
    }
    let homes = homes(key, section);
    match homes.is_empty() {
        false => format!(" here; it belongs to {}", homes.join(", ")),
        true => {
            let valid: Vec<&str> = section.keys.iter().map(|k| k.name).collect();
            format!("; valid here: {}", valid.join(", "))
        }
    }
}

/// The key of this section that an unknown one most probably stands for.
fn meant(key: &str, section: &'static Section) -> Option<String> {
    nearest(key, section.keys.iter().map(|k| k.name)).into_iter().next()
}

/// The sections that have this key: those below this one, else those of the same route, else the file itself.
fn homes(key: &str, section: &'static Section) -> Vec<&'static str> {
    let has = |sections: Vec<&'static Section>| -> Vec<&'static str> {
        sections.iter().filter(|s| s.key(key).is_some()).map(|s| s.name).take(3).collect()
    };
    let below = has(section.all());
    let route = FILE.section_of("routes").map(Section::all).unwrap_or_default();
    let is_of_route = route.iter().any(|s| std::ptr::eq(*s, section));
    match (below.is_empty(), is_of_route) {
        (false, _) => below,
        (true, true) => has(route),
        (true, false) if FILE.key(key).is_some() => vec!["the top of the file"],
        (true, false) => Vec::new(),
    }
}
