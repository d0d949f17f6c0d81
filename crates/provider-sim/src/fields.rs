//! The fields of a request by their place: which there are, and what each holds.

use serde_json::Value;

/// What a field holds.
pub(crate) enum Kind {
    Text,
    Number,
    Bool,
    /// Any JSON.
    Any,
    /// A JSON object with any fields.
    Struct,
    /// One of these words.
    Word(&'static [&'static str]),
    Message(Shape),
    /// A message that may hold itself.
    Deferred(fn() -> Shape),
    List(&'static Self),
    /// An object of values of one kind, with any keys.
    Map(&'static Self),
}

/// The fields of a message.
pub(crate) type Shape = &'static [(&'static str, Kind)];

/// How strictly a provider reads JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As it is named and meant.
    Exact,
    /// As Google does: names in camel case or snake case, numbers also as text, one value for a list of one.
    Google,
}

/// A field that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Its place, `contents[0].parts[1].text`; of a field that is not known, that of the message around it.
    pub(crate) at: String,
    pub(crate) why: Why,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// No field has this name.
    Unknown(String),
    /// The field with this name is not a list, and got one.
    NotAList(String),
    /// This kind was expected, and the value is of another.
    Kind(&'static str, Value),
}

/// Holds a message against its shape; the first field that does not fit is told.
pub(crate) fn fits(message: &Value, shape: Shape, reading: Reading) -> Result<(), Misfit> {
    reading.message(message, shape, "")
}

impl Reading {
    fn message(self, message: &Value, shape: Shape, at: &str) -> Result<(), Misfit> {
        let Some(fields) = message.as_object() else { return Err(wrong(at, "message", message)) };
        for (key, value) in fields {
            let misfit = |why: Why| Err(Misfit { at: at.to_owned(), why });
            let own = if self == Self::Google { camel(key) } else { key.clone() };
            let Some((name, kind)) = shape.iter().find(|(name, _)| *name == own) else {
                return misfit(Why::Unknown(key.clone()));
            };
            if value.is_null() {
                continue;
            }
            let below = if at.is_empty() { (*name).to_owned() } else { format!("{at}.{name}") };
            match (kind, value) {
                (Kind::List(one), Value::Array(list)) => {
                    for (index, value) in list.iter().enumerate() {
                        self.value(value, one, &format!("{below}[{index}]"))?;
                    }
                }
                (Kind::List(one), value) if self == Self::Google => {
                    self.value(value, one, &format!("{below}[0]"))?;
                }
                (Kind::List(_), value) => return Err(wrong(&below, "list", value)),
                (Kind::Any, _) => {}
                (_, Value::Array(_)) => return misfit(Why::NotAList(key.clone())),
                (kind, value) => self.value(value, kind, &below)?,
            }
        }
        Ok(())
    }

    fn value(self, value: &Value, kind: &Kind, at: &str) -> Result<(), Misfit> {
        let written = |text: &str| self == Self::Google && text.parse::<f64>().is_ok();
        let (fit, expected) = match kind {
            Kind::Any | Kind::List(_) => (true, ""),
            Kind::Text => (value.is_string(), "TYPE_STRING"),
            Kind::Bool => (value.is_boolean(), "TYPE_BOOL"),
            Kind::Number => (value.is_number() || value.as_str().is_some_and(written), "TYPE_INT32"),
            Kind::Struct => (value.is_object(), "type.googleapis.com/google.protobuf.Struct"),
            Kind::Word(words) => (value.as_str().is_some_and(|word| words.contains(&word)), "TYPE_ENUM"),
            Kind::Message(shape) => return self.message(value, shape, at),
            Kind::Deferred(shape) => return self.message(value, shape(), at),
            Kind::Map(one) => {
                let Some(map) = value.as_object() else { return Err(wrong(at, "map", value)) };
                for (index, value) in map.values().enumerate() {
                    self.value(value, one, &format!("{at}[{index}].value"))?;
                }
                return Ok(());
            }
        };
        if fit { Ok(()) } else { Err(wrong(at, expected, value)) }
    }
}

fn wrong(at: &str, expected: &'static str, value: &Value) -> Misfit {
    Misfit { at: at.to_owned(), why: Why::Kind(expected, value.clone()) }
}

/// `functionCall` as `function_call`.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

/// `function_call` as `functionCall`.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut raise = false;
    for character in name.chars() {
        match (character, raise) {
            ('_', _) => raise = true,
            (character, true) => {
                out.push(character.to_ascii_uppercase());
                raise = false;
            }
            (character, false) => out.push(character),
        }
    }
    out
}
