//! `${NAME}` and `${NAME:-default}` in values; `$$` is a dollar sign. Keys are taken as they are.

use crate::problem::{Mark, Report};
use crate::tree::{Node, Scalar, Value};
use crate::variables::Vars;

/// Fills in all variables below `node`. A value whose variable is missing is reported and then broken.
pub(crate) fn fill(node: &mut Node, vars: &dyn Vars, report: &mut Report) {
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| fill(item, vars, report)),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| fill(&mut entry.value, vars, report)),
        Value::Scalar(scalar) => {
            if !fill_scalar(scalar, node.at, vars, report) {
                node.value = Value::Broken;
            }
        }
        Value::Null | Value::Broken => {}
    }
}

fn fill_scalar(scalar: &mut Scalar, at: Mark, vars: &dyn Vars, report: &mut Report) -> bool {
    if !scalar.text.contains('$') {
        return true;
    }
    match expand(&scalar.text, vars) {
        Ok(text) => {
            scalar.source = Some(std::mem::replace(&mut scalar.text, text));
            true
        }
        Err(message) => {
            report.error(at, message);
            false
        }
    }
}

/// The text with its variables filled in; as in a POSIX shell, an empty variable takes the default too.
fn expand(text: &str, vars: &dyn Vars) -> Result<String, String> {
    if let Some(name) = text.strip_prefix('$').filter(|name| is_name(name)) {
        return Err(format!(
            "`${name}` would be taken literally: write `${{{name}}}` for the variable, `$${name}` for the text"
        ));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(literal) = after.strip_prefix('$') {
            out.push('$');
            rest = literal;
        } else if let Some(inside) = after.strip_prefix('{') {
            let (reference, tail) =
                inside.split_once('}').ok_or("`${` without its `}`; write `$$` for a dollar sign")?;
            out.push_str(&look_up(reference, vars)?);
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn look_up(reference: &str, vars: &dyn Vars) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    if !is_name(name) {
        return Err(
            "a variable is written `${NAME}` or `${NAME:-default}`; a name has letters, digits and `_`"
                .to_owned(),
        );
    }
    if default.is_some_and(|d| d.contains("${")) {
        return Err(format!("the default of `${{{name}}}` may not hold another variable"));
    }
    match (vars.get(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!("variable `{name}` is not set; set it, or write `${{{name}:-default}}`")),
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
