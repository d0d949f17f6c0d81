//! Ids of requests.

use http::HeaderMap;

use crate::names;

const LONGEST: usize = 128;

/// A new id: unique, and sorted by time.
pub(crate) fn request_id() -> String {
    format!("req_{}", uuid::Uuid::now_v7().simple())
}

/// The id that the caller brought along, if it is sane: short, and of characters that harm no log.
pub(crate) fn correlation_id(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(&names::REQUEST_ID)?.to_str().ok()?;
    let sane = !value.is_empty()
        && value.len() <= LONGEST
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/".contains(&b));
    sane.then(|| value.to_owned())
}
