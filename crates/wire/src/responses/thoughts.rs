//! Thoughts of another dialect's models in a conversation that goes to a provider of this one.
//!
//! The provider could not open their seal and refuses the request (OpenAI API, `invalid_encrypted_content`), so that such
//! items are left out of the client's bytes. So are the ids of items that a translation made: the provider never gave them,
//! and takes an id for a sign that the thoughts before it belong to it. Everything else stays where it is.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use super::object::MINTED;
use crate::json::{self, Members};
use crate::passthrough::spliced;
use crate::translate::{is_foreign, may_hold_foreign};

/// The request without foreign thoughts; the same bytes where there are none.
pub(crate) fn without_foreign(body: Bytes) -> Bytes {
    if !may_hold_foreign(&body) && memmem::find(&body, MINTED.as_bytes()).is_none() {
        return body;
    }
    let change = || {
        let input = Members::of_body(&body).ok()?.take("input")?;
        let items = json::list(input)?;
        let kept: Vec<Cow<'_, str>> = items
            .iter()
            .filter(|item| !is_foreign_thought(item))
            .map(|item| without_minted_id(item))
            .collect();
        let changed = kept.len() < items.len() || kept.iter().any(|item| matches!(item, Cow::Owned(_)));
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
    let mut says = |name: &str, foreign: &dyn Fn(&str) -> bool| {
        item.take_text(name).ok().flatten().is_some_and(|text| foreign(&text))
    };
    thinks && (says("encrypted_content", &is_foreign) || says("id", &|id| id.contains(MINTED)))
}

fn without_minted_id(item: &RawValue) -> Cow<'_, str> {
    let kept = || Cow::Borrowed(item.get());
    let Ok(mut members) = Members::of(item, "") else { return kept() };
    match members.take_text("id") {
        Ok(Some(id)) if id.contains(MINTED) => {}
        _ => return kept(),
    }
    // Nothing but an id: what it means the provider must say.
    if members.take_text("type").is_ok_and(|kind| kind.is_some_and(|kind| kind == "item_reference")) {
        return kept();
    }
    let Ok(mut members) = Members::of(item, "") else { return kept() };
    members.take("id");
    let rest: Vec<String> = members
        .rest()
        .map(|(_, name, value)| format!("{}:{}", serde_json::Value::from(name), value.get()))
        .collect();
    Cow::Owned(format!("{{{}}}", rest.join(",")))
}
