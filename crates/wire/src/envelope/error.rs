//! What can be wrong with a request, said to its sender.

/// Why a body is not accepted. The text is one sentence for the client; it never quotes the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The body is larger than the limit.
    #[error("The request body has {actual} bytes; at most {limit} are accepted.")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// The body's size in bytes.
        actual: usize,
    },
    /// The body is not UTF-8.
    #[error("The request body is not valid UTF-8 at byte {offset}.")]
    InvalidUtf8 {
        /// The first byte that does not fit.
        offset: usize,
    },
    /// The body is not JSON.
    #[error("The request body is not valid JSON at byte {offset}.")]
    NotJson {
        /// The first byte that does not fit.
        offset: usize,
    },
    /// The body is JSON, but no object.
    #[error("The request body must be a JSON object.")]
    NotAnObject,
    /// The body is not the form that it is said to be.
    #[error("The form in the request body {problem}.")]
    Form {
        /// What is wrong.
        problem: &'static str,
    },
    /// Too many levels.
    #[error("The request body nests arrays and objects more than {limit} levels deep.")]
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// A routed field comes more than once.
    #[error("The field '{key}' is given more than once; give it once.")]
    DuplicateKey {
        /// The field.
        key: &'static str,
    },
    /// A field is a routed one but for the case of its letters.
    #[error("A field is written almost like '{key}'; write it exactly like that.")]
    Misspelt {
        /// The field as it must be written.
        key: &'static str,
    },
    /// A field has another type than documented.
    #[error("The field '{field}' must be {expected}.")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What it must be, with its article.
        expected: &'static str,
    },
    /// A required field is absent.
    #[error("The field '{field}' is required.")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A routing preference cannot be understood; it is never ignored.
    #[error("The field '{field}' is not understood: {problem}.")]
    Preference {
        /// The field with its path, for example `provider.sort`.
        field: String,
        /// What is wrong.
        problem: String,
    },
}

impl EnvelopeError {
    /// One sentence for the client.
    #[must_use]
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// The field at fault, for the `param` of the error body.
    #[must_use]
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::DuplicateKey { key } | Self::Misspelt { key } => Some(key),
            Self::WrongType { field, .. } | Self::Missing { field } => Some(field),
            Self::Preference { field, .. } => Some(field),
            Self::TooLarge { .. }
            | Self::InvalidUtf8 { .. }
            | Self::NotJson { .. }
            | Self::NotAnObject
            | Self::Form { .. }
            | Self::TooDeep { .. } => None,
        }
    }

    /// The HTTP status: 413 for a body that is too large, else 400.
    #[must_use]
    pub fn status(&self) -> u16 {
        if matches!(self, Self::TooLarge { .. }) { 413 } else { 400 }
    }
}
