//! The input of a custom tool, taken out of the JSON in which a dialect without such tools carries it.
//!
//! There the tool is a function with one text, `{"input": "…"}`. The text must reach the client as it comes, so that it is
//! read piece by piece.

use serde::Deserialize;

/// The argument of the function that stands for a custom tool.
pub(crate) const INPUT: &str = "input";

/// JSON Schema of that function.
pub(crate) const SCHEMA: &str = "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"],\"additionalProperties\":false}";

/// Wraps the input of a custom tool.
pub(crate) fn wrap(input: &str) -> String {
    serde_json::json!({ INPUT: input }).to_string()
}

/// Takes the input out of whole arguments. What a model wrote instead of them is the input itself.
pub(crate) fn unwrap(arguments: &str) -> String {
    #[derive(Deserialize)]
    struct Wrapped {
        input: String,
    }
    serde_json::from_str::<Wrapped>(arguments).map_or_else(|_| arguments.to_owned(), |wrapped| wrapped.input)
}

/// Where in the arguments the reader is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// Before the text: what came so far is kept.
    #[default]
    Before,
    /// In the text.
    Inside,
    /// Behind it.
    Behind,
    /// The arguments are not of the form: everything is input.
    Raw,
}

/// Takes the input out of arguments that come in pieces.
#[derive(Debug, Default)]
pub(crate) struct Unwrap {
    at: At,
    /// What is not decided yet: the beginning of the object, or an escape that is cut in two.
    kept: String,
}

/// The beginning may be so long, in bytes: only white space makes it longer than the name.
const MAX_BEGINNING: usize = 256;

impl Unwrap {
    /// Takes a piece of arguments; gives the piece of input in it.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.at == At::Raw {
            return piece.to_owned();
        }
        self.kept.push_str(piece);
        if self.at == At::Before {
            match after_beginning(&self.kept) {
                Beginning::Whole(text) => {
                    self.kept = text.to_owned();
                    self.at = At::Inside;
                }
                Beginning::Open if self.kept.len() <= MAX_BEGINNING => return String::new(),
                Beginning::Open | Beginning::Other => {
                    self.at = At::Raw;
                    return std::mem::take(&mut self.kept);
                }
            }
        }
        if self.at == At::Behind {
            self.kept.clear();
            return String::new();
        }
        let (text, used, ended) = unescaped(&self.kept);
        self.kept.drain(..used);
        if ended {
            self.at = At::Behind;
            self.kept.clear();
        }
        text
    }

    /// The arguments are over; gives what was still kept, where it was no wrapping.
    pub(crate) fn end(&mut self) -> String {
        match self.at {
            At::Before => std::mem::take(&mut self.kept),
            At::Inside | At::Behind | At::Raw => String::new(),
        }
    }
}

enum Beginning<'t> {
    /// The text's quote has come: this follows it.
    Whole(&'t str),
    /// It may still become one.
    Open,
    /// It is something else.
    Other,
}

/// Matches `{ "input" : "`, with white space where JSON allows it.
fn after_beginning(text: &str) -> Beginning<'_> {
    let mut rest = text;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None if token.starts_with(rest) => return Beginning::Open,
            None => return Beginning::Other,
        }
    }
    Beginning::Whole(rest)
}

/// The characters of a JSON string up to its end or up to an escape that is not whole; how many bytes that took; whether the
/// end was met.
fn unescaped(text: &str) -> (String, usize, bool) {
    let mut out = String::with_capacity(text.len());
    let mut used = 0;
    while let Some(rest) = text.get(used..).filter(|rest| !rest.is_empty()) {
        let plain = rest.find(['"', '\\']).unwrap_or(rest.len());
        out.push_str(rest.get(..plain).unwrap_or_default());
        used += plain;
        match rest.get(plain..) {
            Some(end) if end.starts_with('"') => return (out, used, true),
            Some(escape) if escape.starts_with('\\') => match character(escape) {
                Some((character, taken)) => {
                    out.push(character);
                    used += taken;
                }
                None => break,
            },
            _ => break,
        }
    }
    (out, used, false)
}

/// The character that an escape stands for (RFC 8259, section 7), and the escape's length; `None` while it is not whole.
fn character(escape: &str) -> Option<(char, usize)> {
    let plain = match escape.as_bytes().get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return unicode(escape),
        // Only ASCII is ever escaped; what else stands there is a slip of the model.
        other if !other.is_ascii() => return Some(('\u{FFFD}', 1)),
        other => char::from(*other),
    };
    Some((plain, 2))
}

fn unicode(escape: &str) -> Option<(char, usize)> {
    let unit = |at: usize| u32::from_str_radix(escape.get(at..at + 4)?, 16).ok();
    // What is no number is shown as what it is: a slip of the model.
    let first = match escape.get(2..6) {
        None if escape.len() < 6 => return None,
        None => return Some(('\u{FFFD}', 2)),
        Some(_) => unit(2).unwrap_or(0xFFFD),
    };
    if !(0xD800..0xDC00).contains(&first) {
        return Some((char::from_u32(first).unwrap_or('\u{FFFD}'), 6));
    }
    // The other half of the pair.
    match escape.get(6..8) {
        Some("\\u") => match escape.get(8..12) {
            None if escape.len() < 12 => None,
            None => Some(('\u{FFFD}', 6)),
            Some(_) => {
                let second = unit(8).filter(|second| (0xDC00..0xE000).contains(second));
                Some(second.map_or(('\u{FFFD}', 6), |second| {
                    let point = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    (char::from_u32(point).unwrap_or('\u{FFFD}'), 12)
                }))
            }
        },
        Some(_) => Some(('\u{FFFD}', 6)),
        None if escape.len() == 6 || escape.ends_with('\\') => None,
        None => Some(('\u{FFFD}', 6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(arguments: &str, size: usize) -> String {
        let mut unwrap = Unwrap::default();
        let characters: Vec<char> = arguments.chars().collect();
        let mut input: String =
            characters.chunks(size).map(|piece| unwrap.push(&piece.iter().collect::<String>())).collect();
        input.push_str(&unwrap.end());
        input
    }

    #[test]
    fn the_input_is_the_same_however_it_is_cut() {
        for input in
            ["", "*** Begin Patch\n+ \"a\" \\ \t\u{8}\n", "é \u{1F600} \u{1}", "}\",\"input\":\"", "\\u0041"]
        {
            let arguments = wrap(input);
            assert_eq!(unwrap(&arguments), input);
            for size in 1..8 {
                assert_eq!(in_pieces(&arguments, size), input, "{arguments} by {size}");
            }
        }
        // A pair of surrogates, as some models write it.
        for size in 1..14 {
            assert_eq!(in_pieces(" {\n \"input\" :\t\"x\\ud83d\\ude00y\" }", size), "x\u{1F600}y", "{size}");
        }
    }

    #[test]
    fn what_is_not_wrapped_is_the_input_itself() {
        for raw in ["plain words", "{\"patch\":\"x\"}", "[1]", "{\"input\":5}", "{\"inp"] {
            assert_eq!(in_pieces(raw, 3), raw, "{raw}");
        }
        assert_eq!(unwrap("plain words"), "plain words");
        let long = format!("{{{}", " ".repeat(1_000));
        assert_eq!(in_pieces(&long, 7), long);
    }

    #[test]
    fn half_a_pair_is_no_character() {
        assert_eq!(in_pieces("{\"input\":\"a\\ud83dz\"}", 2), "a\u{FFFD}z");
        assert_eq!(in_pieces("{\"input\":\"a\\ud83d\\n\"}", 2), "a\u{FFFD}\n");
        assert_eq!(in_pieces("{\"input\":\"\\uzzzz\"}", 1), "\u{FFFD}");
        assert_eq!(in_pieces("{\"input\":\"\\u00é0\\éx\"}", 1), "\u{FFFD}0\u{FFFD}éx");
    }
}
