//! "Did you mean": the valid words closest to a wrong one.

use std::cmp::Reverse;

/// How many words are offered at most.
const MOST: usize = 3;

/// The valid words that a mistyped one most probably stands for, best first, at most three; empty if none is close.
pub fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = word.to_lowercase();
    let mut scored: Vec<(usize, Reverse<u64>, &str)> = valid
        .into_iter()
        .filter_map(|candidate| score(&wanted, candidate).map(|(d, s)| (d, Reverse(s), candidate)))
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().take(MOST).map(|(_, _, candidate)| candidate.to_owned()).collect()
}

/// Edit distance and similarity in thousandths, if close enough: a third of the letters may differ, or one word starts
/// with the other (`gpt-4o` for `gpt-4o-mini`).
fn score(wanted: &str, candidate: &str) -> Option<(usize, u64)> {
    let lower = candidate.to_lowercase();
    let distance = strsim::osa_distance(wanted, &lower);
    let similarity = strsim::jaro_winkler(wanted, &lower);
    let length = wanted.chars().count().max(lower.chars().count());
    let is_prefix = wanted.chars().count() >= 3 && (lower.starts_with(wanted) || wanted.starts_with(&lower));
    let close = distance <= (length / 3).max(1) && distance < length;
    (close || (is_prefix && !lower.is_empty())).then_some((distance, (similarity * 1000.0) as u64))
}
