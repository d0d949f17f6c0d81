//! One log line as JSON. The same line as tracing-subscriber's own flattened format makes, for a fraction of its cost: each
//! request writes one.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::moment::Moment;

/// See the module. What is said within a span (as HTTP/2 does at the most detailed levels) is written by the library.
pub(crate) struct JsonLine(Format<Json>);

impl JsonLine {
    pub(crate) fn new() -> Self {
        // Without the module, which would be a second `target` beside the one that a request went to.
        Self(Format::default().json().flatten_event(true).with_target(false))
    }
}

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if ctx.lookup_current().is_some() {
            return self.0.format_event(ctx, to, event);
        }
        let mut line = String::with_capacity(USUAL_LENGTH);
        line.push_str("{\"timestamp\":\"");
        line.push_str(Moment::now().as_str());
        line.push_str("\",\"level\":\"");
        line.push_str(event.metadata().level().as_str());
        line.push('"');
        let mut members = Members { line, result: Ok(()) };
        event.record(&mut members);
        members.result?;
        members.line.push_str("}\n");
        to.write_str(&members.line)
    }
}

/// The line of a request fits in, in bytes.
const USUAL_LENGTH: usize = 512;

/// Writes each field as a member of the object.
struct Members {
    line: String,
    result: fmt::Result,
}

impl Members {
    fn name(&mut self, field: &Field) {
        let name = field.name();
        self.line.push_str(",\"");
        self.line.push_str(name.strip_prefix("r#").unwrap_or(name));
        self.line.push_str("\":");
    }

    fn shown(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        self.name(field);
        self.result = self.result.and_then(|()| self.line.write_fmt(value));
    }
}

impl Visit for Members {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        self.line.push('"');
        escape(&mut self.line, value);
        self.line.push('"');
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.shown(field, format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.shown(field, format_args!("{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON knows no infinity.
        match value.is_finite() {
            true => self.shown(field, format_args!("{value:?}")),
            false => self.shown(field, format_args!("null")),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.shown(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.name(field);
        self.line.push('"');
        self.result = self.result.and_then(|()| write!(Escaped(&mut self.line), "{value:?}"));
        self.line.push('"');
    }
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(self.0, text);
        Ok(())
    }
}

/// Escapes what a JSON string cannot hold as it is (RFC 8259, section 7).
fn escape(line: &mut String, text: &str) {
    let mut rest = text;
    while let Some(place) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        // Each of them is one byte long, and so begins and ends a character.
        let (plain, after) = rest.split_at(place);
        line.push_str(plain);
        let mut after = after.chars();
        match after.next() {
            Some('\n') => line.push_str("\\n"),
            Some(special @ ('"' | '\\')) => line.extend(['\\', special]),
            Some(control) => line.push_str(&format!("\\u{:04x}", u32::from(control))),
            None => {}
        }
        rest = after.as_str();
    }
    line.push_str(rest);
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn line_of(what: impl FnOnce()) -> Value {
        let kept = Kept::default();
        let to = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .event_format(JsonLine::new())
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, what);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn every_kind_of_field_is_a_member_of_its_type() {
        let absent: Option<&str> = None;
        let mut line = line_of(|| {
            tracing::info!(
                word = "a",
                count = 3_u64,
                less = -3_i64,
                share = 0.5,
                well = true,
                absent,
                "said {}",
                1
            );
        });
        let stamp = line.as_object_mut().unwrap().remove("timestamp").unwrap();
        assert!(stamp.as_str().unwrap().ends_with('Z'));
        let expected = json!({
            "level": "INFO", "message": "said 1", "word": "a", "count": 3, "less": -3, "share": 0.5, "well": true,
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn no_value_breaks_out_of_its_string() {
        let nasty = "\"},{\n\\\t\u{1}\0é";
        let line = line_of(|| tracing::info!(nasty, shown = %nasty, "m\"\n"));
        assert_eq!(line["nasty"], nasty);
        assert_eq!(line["shown"], nasty);
        assert_eq!(line["message"], "m\"\n");
    }

    #[test]
    fn a_line_within_a_span_is_one_too() {
        let line = line_of(|| {
            let span = tracing::info_span!("request", number = 1);
            let _inside = span.enter();
            tracing::info!("said");
        });
        assert_eq!(line["message"], "said");
        assert_eq!(line["span"]["number"], 1);
    }
}
