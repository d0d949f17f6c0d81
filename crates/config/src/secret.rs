//! Credentials: written out, filled in from a variable, or read from a file. No message ever shows one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use secrecy::SecretString;

use crate::problem::Report;
use crate::reader::Field;

/// The most a secret file may hold. Credentials are a few hundred bytes, signed tokens a few thousand.
const MAX_FILE: u64 = 64 * 1024;

/// The credential that this value is.
pub(crate) fn read(field: &Field<'_>, report: &mut Report) -> Option<SecretString> {
    let scalar = field.scalar(report)?;
    let text = match scalar.text.trim().strip_prefix("file:") {
        Some(path) => match from_file(Path::new(path)) {
            Ok(text) => text,
            Err(why) => return refuse(field, report, &why),
        },
        None => scalar.text.clone(),
    };
    let trimmed = text.trim();
    if let Err(why) = check(trimmed) {
        return refuse(field, report, why);
    }
    if trimmed.len() != text.len() {
        report.warn(
            field.node.at,
            format!("`{}`: space or line ends around the secret were trimmed", field.path),
        );
    }
    Some(SecretString::from(trimmed))
}

fn refuse<T>(field: &Field<'_>, report: &mut Report, why: &str) -> Option<T> {
    report.error(field.node.at, format!("`{}`: {why}", field.path));
    None
}

fn from_file(path: &Path) -> Result<String, String> {
    if !path.is_absolute() {
        return Err("`file:` needs an absolute path, such as `file:/run/secrets/openai`".to_owned());
    }
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("cannot read the secret file `{shown}`: {error}"))?;
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
    let length = read.map_err(|error| format!("cannot read the secret file `{shown}`: {error}"))?;
    if length as u64 > MAX_FILE {
        return Err(format!("the secret file `{shown}` is larger than {MAX_FILE} bytes"));
    }
    Ok(text)
}

/// What can stand in an HTTP header and is not a mistake.
pub(crate) fn check(secret: &str) -> Result<(), &'static str> {
    if secret.is_empty() {
        return Err("the secret is empty");
    }
    if secret.starts_with("os.environ/") {
        return Err("`os.environ/NAME` is another gateway's spelling; write `${NAME}`");
    }
    if secret.len() >= 2 && ['"', '\''].iter().any(|q| secret.starts_with(*q) && secret.ends_with(*q)) {
        return Err("the secret has quotes around it; remove them");
    }
    if !secret.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(
            "the secret holds a space, a line end or another character that no HTTP header can carry",
        );
    }
    Ok(())
}
