//! OpenAI's seal on thoughts: the encrypted content of a reasoning item, which goes back with the item's id.

use std::borrow::Cow;

use crate::dialect::Dialect;
use crate::ir::{Signature, Text};
use crate::translate::{is_foreign, unpack};

/// No id and no base64 holds it.
const BETWEEN: char = '~';

/// The id and the encrypted content as one seal.
pub(super) fn join(id: &str, encrypted: &str) -> String {
    format!("{id}{BETWEEN}{encrypted}")
}

/// The id and the encrypted content of a seal.
pub(super) fn split(seal: &str) -> Option<(&str, &str)> {
    seal.split_once(BETWEEN)
}

/// What stands in a reasoning item's `encrypted_content`: the provider's own, or another's seal that a translation put there.
pub(super) fn read<'a>(id: &str, encrypted: Text<'a>, own: Dialect) -> Signature<'a> {
    if is_foreign(&encrypted) {
        return unpack(encrypted, own);
    }
    Signature { dialect: own, origin: None, value: Cow::Owned(join(id, &encrypted)) }
}
