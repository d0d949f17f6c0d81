//! What Google's models take, by the beginnings of their names (Gemini API documentation, "Thinking", "Function calling").

/// How a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    /// It does not think.
    None,
    /// By a number of tokens; whether it can be told not to think at all.
    Budget {
        /// Nothing at all is possible.
        off: bool,
    },
    /// By a level.
    Level,
}

/// What is the same for the models of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) thinking: Thinking,
    /// It refuses a call in the history that does not carry the seal with which it was made.
    pub(super) seals_calls: bool,
    /// Tools and a form of the answer go together.
    pub(super) tools_with_form: bool,
}

/// The family of a model. A name that says nothing (`gemini-flash-latest`) is taken for one of today's.
pub(super) fn family(model: &str) -> Family {
    let name = model.rsplit('/').next().unwrap_or(model);
    let older = |thinking| Family { thinking, seals_calls: false, tools_with_form: false };
    if name.starts_with("gemini-2.5") {
        return older(Thinking::Budget { off: !name.starts_with("gemini-2.5-pro") });
    }
    if ["gemini-1", "gemini-2", "gemini-pro", "gemma-"].iter().any(|older| name.starts_with(older)) {
        return older(Thinking::None);
    }
    Family { thinking: Thinking::Level, seals_calls: true, tools_with_form: true }
}
