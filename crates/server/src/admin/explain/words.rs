//! An explanation for people.

use super::{Explanation, TargetRow};

pub(super) fn words(explanation: &Explanation) -> Vec<String> {
    let mut lines = vec![resolved(explanation)];
    if explanation.fallback.switched_off {
        lines.push("The fallback of this route is switched off by an operator.".into());
    }
    lines.extend(explanation.targets.iter().map(target));
    lines.push(format!("First: {}.", explanation.first.words));
    lines
}

fn resolved(explanation: &Explanation) -> String {
    let models = explanation.resolved.models.join(", then ");
    let what = match &explanation.resolved.route {
        Some(route) => format!("the route {route}: {models}"),
        None => format!("the model {models}"),
    };
    format!("'{}' is {what}; targets in the order of {}.", explanation.requested, explanation.strategy)
}

fn target(row: &TargetRow) -> String {
    let place = row.order.map_or_else(|| "-".to_owned(), |order| order.to_string());
    let verdict = if row.is_in { "in" } else { "out" };
    format!("{place}. {} ({}): {verdict}: {}", row.target, row.model, row.why)
}
