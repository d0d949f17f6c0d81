//! The members of a JSON object in the order in which they stand, each value as it was written.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::ir::{Text, Unreadable};
use crate::json::{self, Span};

/// An object that is taken apart member by member, so that what nobody took is known at the end.
#[derive(Debug, Default)]
pub(crate) struct Members<'a> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
    pointer: String,
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members { members, pointer: String::new() })
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A text that is borrowed where it stands without escapes; serde's own `Cow` is always owned.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;

        impl<'de> Visitor<'de> for Word {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }

        deserializer.deserialize_str(Word).map(Key)
    }
}

/// Whether a value is `null`.
pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

impl<'a> Members<'a> {
    /// Takes the object at this place apart.
    ///
    /// # Errors
    /// [`Unreadable`] if it is no object.
    pub(crate) fn of(raw: &'a RawValue, pointer: impl Into<String>) -> Result<Self, Unreadable> {
        let pointer = pointer.into();
        match serde_json::from_str::<Self>(raw.get()) {
            Ok(members) => Ok(Self { pointer, ..members }),
            Err(_) => Err(Unreadable::at(pointer, "must be an object")),
        }
    }

    /// Takes a whole body apart.
    ///
    /// # Errors
    /// [`Unreadable`] if it is no object.
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Self, Unreadable> {
        serde_json::from_slice(body).map_err(|_| Unreadable::at("", "must be an object"))
    }

    /// The same with each name in Google's JSON spelling: its parsers take `generation_config` for `generationConfig` too
    /// (Protocol Buffers documentation, "ProtoJSON format").
    pub(crate) fn camel(mut self) -> Self {
        for (key, _) in &mut self.members {
            if let Cow::Owned(spelt) = json::camel(key) {
                *key = Cow::Owned(spelt);
            }
        }
        self
    }

    /// The place of the object.
    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The place of a member.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"))
    }

    /// Takes a member, whatever it is. Of two of a name the last one holds. `None` for one that is `null` too.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let mut found = None;
        self.members.retain(|(key, value)| {
            let same = key == name;
            if same {
                found = Some(*value);
            }
            !same
        });
        found.filter(|value| !is_null(value))
    }

    /// Takes a text.
    pub(crate) fn take_text(&mut self, name: &str) -> Result<Option<Text<'a>>, Unreadable> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        json::text(raw.get().as_bytes())
            .map(Some)
            .ok_or_else(|| Unreadable::at(self.at(name), "must be a text"))
    }

    /// Takes a text that must be there.
    pub(crate) fn need_text(&mut self, name: &str) -> Result<Text<'a>, Unreadable> {
        self.take_text(name)?.ok_or_else(|| Unreadable::at(self.at(name), "is missing"))
    }

    /// Takes a value that serde can read.
    pub(crate) fn take_as<T: serde::de::DeserializeOwned>(
        &mut self,
        name: &str,
        rule: &'static str,
    ) -> Result<Option<T>, Unreadable> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|_| Unreadable::at(self.at(name), rule))
    }

    /// Takes a list.
    pub(crate) fn take_list(&mut self, name: &str) -> Result<Option<Vec<&'a RawValue>>, Unreadable> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        list(raw).map(Some).ok_or_else(|| Unreadable::at(self.at(name), "must be a list"))
    }

    /// Takes an object.
    pub(crate) fn take_object(&mut self, name: &str) -> Result<Option<Self>, Unreadable> {
        let pointer = self.at(name);
        self.take(name).map(|raw| Self::of(raw, pointer)).transpose()
    }

    /// The members that say something, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.members.iter().filter(|(_, value)| !is_null(value)).map(|(key, value)| (key.as_ref(), *value))
    }

    /// All members in their order, those that are `null` too.
    pub(crate) fn into_all(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        self.members
    }

    /// What nobody took, with its place. What is `null` says nothing.
    pub(crate) fn rest(self) -> impl Iterator<Item = (String, String, &'a RawValue)> {
        let pointer = self.pointer;
        self.members.into_iter().filter(|(_, value)| !is_null(value)).map(move |(key, value)| {
            (format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), key.into_owned(), value)
        })
    }
}

/// Reads a list.
pub(crate) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// Where a value stands in the body that it was read from; `None` if it is another's.
pub(crate) fn span_of(body: &[u8], raw: &RawValue) -> Option<Span> {
    let start = (raw.get().as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let end = start.checked_add(raw.get().len()).filter(|end| *end <= body.len())?;
    Some(start..end)
}
