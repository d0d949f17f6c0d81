//! YAML text to a tree of values that know their place.
//!
//! Only what a configuration needs: one document, text keys, no tags. Anchors and aliases work, within bounds, so that no
//! small file unfolds into a large one. Scalars stay text until a key says what they are, so that `on`, `no` and `1.10`
//! mean nothing by themselves (YAML 1.2).

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::problem::{Mark, Report};

/// The most values one file may hold, aliases unfolded.
const MAX_NODES: usize = 200_000;
/// The deepest nesting. The deepest key of the grammar lies at 5.
const MAX_DEPTH: usize = 24;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Mark,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Nothing was written.
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Already reported; whoever meets it says nothing more.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes.
    pub(crate) plain: bool,
    /// What stands in the file, where variables were filled in: the only form that may be shown.
    pub(crate) source: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Mark,
    pub(crate) value: Node,
}

impl Node {
    fn null(at: Mark) -> Self {
        Self { at, value: Value::Null }
    }

    /// Nothing stands nowhere: point at its key.
    fn or_at(self, key: Mark) -> Self {
        match self.value {
            Value::Null => Self { at: key, ..self },
            _ => self,
        }
    }

    fn size_and_depth(&self) -> (usize, usize) {
        let children: Vec<&Self> = match &self.value {
            Value::List(items) => items.iter().collect(),
            Value::Map(entries) => entries.iter().map(|e| &e.value).collect(),
            Value::Null | Value::Scalar(_) | Value::Broken => Vec::new(),
        };
        children
            .iter()
            .map(|c| c.size_and_depth())
            .fold((1, 1), |(size, depth), (s, d)| (size + s, depth.max(d + 1)))
    }
}

/// The tree of the text's one document; `None` if it is not YAML (then reported).
pub(crate) fn read(text: &str, report: &mut Report) -> Option<Node> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let step = match event {
            Ok((event, span)) => builder.event(event, mark(&span), report),
            Err(error) => Err(syntax(text, &error)),
        };
        if let Err((at, message)) = step {
            report.error(at, message);
            return None;
        }
    }
    Some(builder.root.unwrap_or_else(|| Node::null(Mark { line: 1, column: 1 })))
}

type Stop = (Mark, String);

fn mark(span: &Span) -> Mark {
    Mark { line: span.start.line(), column: span.start.col() + 1 }
}

fn syntax(text: &str, error: &ScanError) -> Stop {
    let at = Mark { line: error.marker().line(), column: error.marker().col() + 1 };
    let line = lines(text).nth(at.line.saturating_sub(1)).unwrap_or_default();
    let indent = line.chars().take_while(|c| c.is_whitespace());
    if let Some(tab) = indent.enumerate().find(|(_, c)| *c == '\t').map(|(column, _)| column) {
        let at = Mark { column: tab + 1, ..at };
        return (at, "a tab in the indentation; YAML takes spaces only".to_owned());
    }
    let hint = if line.contains("${") { "; inside braces write \"${NAME}\" with quotes" } else { "" };
    (at, format!("not valid YAML: {}{hint}", error.kind()))
}

/// The lines as YAML counts them: a carriage return alone ends one too (YAML 1.2.2, 5.4).
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

/// A collection that is still open.
enum Frame {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: BTreeMap<String, usize>, key: Option<(String, Mark)> },
}

struct Open {
    at: Mark,
    anchor: usize,
    frame: Frame,
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    stack: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Mark, report: &mut Report) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err((at, "a second YAML document; one file holds one".to_owned()))
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), at)?;
                let value = scalar(text.into_owned(), style);
                self.complete(Node { at, value }, anchor, report)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(tag.is_some(), at)?;
                self.open(at, anchor, Frame::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(tag.is_some(), at)?;
                self.open(at, anchor, Frame::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(report),
            Event::Alias(id) => self.alias(id, at, report),
            _ => Ok(()),
        }
    }

    fn open(&mut self, at: Mark, anchor: usize, frame: Frame) -> Result<(), Stop> {
        self.wants_value(at)?;
        if self.stack.len() >= MAX_DEPTH {
            return Err((at, format!("nested more than {MAX_DEPTH} deep")));
        }
        self.stack.push(Open { at, anchor, frame });
        Ok(())
    }

    /// A collection may not be a key.
    fn wants_value(&self, at: Mark) -> Result<(), Stop> {
        match self.stack.last() {
            Some(Open { frame: Frame::Map { key: None, .. }, .. }) => {
                Err((at, "a key must be text, not a list or a mapping".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self, report: &mut Report) -> Result<(), Stop> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let value = match open.frame {
            Frame::List(items) => Value::List(items),
            Frame::Map { entries, .. } => Value::Map(entries),
        };
        self.complete(Node { at: open.at, value }, open.anchor, report)
    }

    fn count(&mut self, at: Mark, nodes: usize) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err((at, format!("more than {MAX_NODES} values in one file, aliases unfolded")));
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, at: Mark, report: &mut Report) -> Result<(), Stop> {
        // The definition's own place stays with it: that is where a wrong value has to be mended.
        let node = self.anchors.get(&id).cloned();
        let node = node.ok_or_else(|| (at, "an alias inside its own anchor".to_owned()))?;
        let (size, depth) = node.size_and_depth();
        if self.stack.len() + depth > MAX_DEPTH {
            return Err((at, format!("nested more than {MAX_DEPTH} deep")));
        }
        self.count(at, size)?;
        self.complete(node, 0, report)
    }

    fn complete(&mut self, node: Node, anchor: usize, report: &mut Report) -> Result<(), Stop> {
        self.count(node.at, 1)?;
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut().map(|open| &mut open.frame) {
            None => self.root = Some(node),
            Some(Frame::List(items)) => items.push(node),
            Some(Frame::Map { entries, seen, key }) => match key.take() {
                None => *key = Some(key_text(node)?),
                Some((name, at)) => match seen.get(&name) {
                    Some(line) => report.error(at, twice(&name, *line)),
                    None => {
                        seen.insert(name.clone(), at.line);
                        entries.push(Entry { key: name, at, value: node.or_at(at) });
                    }
                },
            },
        }
        Ok(())
    }
}

fn twice(key: &str, first_line: usize) -> String {
    format!("`{}` is here twice; it first stands in line {first_line}", shown(key))
}

fn key_text(node: Node) -> Result<(String, Mark), Stop> {
    match node.value {
        Value::Scalar(scalar) if !scalar.text.is_empty() => Ok((scalar.text, node.at)),
        _ => Err((node.at, "a key must be text".to_owned())),
    }
}

fn refuse_tag(tagged: bool, at: Mark) -> Result<(), Stop> {
    if tagged { Err((at, "YAML tags (`!…`) mean nothing here; remove it".to_owned())) } else { Ok(()) }
}

fn scalar(text: String, style: ScalarStyle) -> Value {
    let plain = style == ScalarStyle::Plain;
    if plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") {
        return Value::Null;
    }
    Value::Scalar(Scalar { text, plain, source: None })
}

/// Text as it may stand in a message: short, on one line, without control characters.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}
