//! Thoughts of another dialect's models in a conversation that goes to a provider of this one.
//!
//! The provider could not open their seal and refuses the request (OpenAI API, `invalid_encrypted_content`), so that such
//! items are left out of the client's bytes; everything else stays where it is.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::json::{self, Members};
use crate::passthrough::spliced;
use crate::translate::{is_foreign, may_hold_foreign};

/// The request without foreign thoughts; the same bytes where there are none.
pub(crate) fn without_foreign(body: Bytes) -> Bytes {
    if !may_hold_foreign(&body) {
        return body;
    }
    let change = || {
        let input = Members::of_body(&body).ok()?.take("input")?;
        let items = json::list(input)?;
        let kept: Vec<&str> =
            items.iter().filter(|item| !is_foreign_thought(item)).map(|item| item.get()).collect();
        let changed = kept.len() < items.len();
        changed.then(|| Some((json::span_of(&body, input)?, format!("[{}]", kept.join(",")))))?
    };
    match change() {
        Some(change) => spliced(&body, &[change]),
        None => body,
    }
}

fn is_foreign_thought(item: &RawValue) -> bool {
    let Ok(mut item) = Members::of(item, "") else { return false };
    let thinks = item.take_text("type").ok().flatten().is_some_and(|kind| kind == "reasoning");
    thinks && item.take_text("encrypted_content").ok().flatten().is_some_and(|seal| is_foreign(&seal))
}
