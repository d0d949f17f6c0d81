//! What reading costs: the frames of an event stream, the tap on one event, the envelope of a small and a large request;
//! and what translating costs beside passing on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pointsman_wire::chat::{StreamDecoder, check_completion};
use pointsman_wire::dialect::Dialect;
use pointsman_wire::envelope::{Envelope, Limits};
use pointsman_wire::passthrough::{Edits, render};
use pointsman_wire::sse::{SseDecoder, write_event};
use pointsman_wire::translate::{Back, Destination, StreamTranslator, request};

/// An event as OpenAI sends it, of about 300 bytes.
const DATA: &str = r#"{"id":"chatcmpl-0123456789abcdefghijklmnopqrs","object":"chat.completion.chunk","created":1790000000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}"#;
const EVENTS: usize = 100;

fn frames(c: &mut Criterion) {
    let stream = Bytes::from(format!("data: {DATA}\n\n").repeat(EVENTS));
    let mut group = c.benchmark_group("server-sent events");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("split", |b| {
        b.iter(|| {
            let mut decoder = SseDecoder::new(1 << 20);
            decoder.push(black_box(stream.clone()));
            let mut seen = 0;
            while let Ok(Some(event)) = decoder.next_event() {
                seen += event.data.len();
            }
            seen
        });
    });
    group.bench_function("write", |b| {
        b.iter(|| {
            let mut out = BytesMut::new();
            for _ in 0..EVENTS {
                write_event(&mut out, None, black_box(DATA.as_bytes()));
            }
            out
        });
    });
    group.bench_function("tap", |b| {
        b.iter(|| {
            let mut tap = StreamDecoder::new();
            for _ in 0..EVENTS {
                black_box(tap.event(black_box(DATA.as_bytes())));
            }
            tap.output_chars()
        });
    });
    group.finish();
}

fn whole_bodies(c: &mut Criterion) {
    let limits = Limits { max_bytes: 64 << 20, max_depth: 128 };
    for (name, size) in [("1 KB", 1_024), ("100 KB", 100 * 1_024)] {
        let text = "words ".repeat(size / 6);
        let request = format!(
            r#"{{"model":"gpt-4o","stream":true,"temperature":0.5,"messages":[{{"role":"user","content":"{text}"}}]}}"#
        );
        let answer = format!(
            r#"{{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":200,"completion_tokens":150,"total_tokens":350}}}}"#
        );
        c.bench_function(&format!("envelope of {name}"), |b| {
            b.iter(|| Envelope::read(black_box(request.as_bytes()), &limits));
        });
        c.bench_function(&format!("check of an answer of {name}"), |b| {
            b.iter(|| check_completion(black_box(answer.as_bytes())));
        });
    }
}

/// A request of 1 KB and an event of a stream: passed on in the client's own dialect, and translated into each other.
fn translation(c: &mut Criterion) {
    let text = "words ".repeat(1_024 / 6);
    let chat = Bytes::from(format!(
        r#"{{"model":"m","stream":true,"max_tokens":1000,"messages":[{{"role":"user","content":"{text}"}}]}}"#
    ));
    let limits = Limits { max_bytes: 64 << 20, max_depth: 128 };
    let mut group = c.benchmark_group("a request of 1 KB");
    group.bench_function("passed on", |b| {
        b.iter(|| {
            let envelope = Envelope::read(black_box(&chat), &limits).unwrap();
            render(&chat, &envelope, &Edits::model("another"))
        });
    });
    let others = [Dialect::Messages, Dialect::Responses, Dialect::Gemini];
    for to in others {
        let destination = Destination {
            model: "another",
            stream: true,
            include_usage: false,
            max_output: None,
            reasons: false,
            max_tokens_name: None,
            origin: "0451",
            custom_tools: false,
        };
        group.bench_function(format!("from chat to {}", to.name()), |b| {
            b.iter(|| {
                let envelope = Envelope::read(black_box(&chat), &limits).unwrap();
                (envelope, request(&chat, Dialect::Chat, to, &destination).unwrap())
            });
        });
    }
    group.finish();
    let mut group = c.benchmark_group("events of a stream");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("passed on", |b| {
        b.iter(|| {
            let (mut tap, mut out) = (StreamDecoder::new(), BytesMut::new());
            for _ in 0..EVENTS {
                black_box(tap.event(black_box(DATA.as_bytes())));
                write_event(&mut out, None, black_box(DATA.as_bytes()));
            }
            out
        });
    });
    for to in others {
        group.bench_function(format!("from chat to {}", to.name()), |b| {
            b.iter(|| {
                let mut translator = StreamTranslator::new(Dialect::Chat, to, Back::default());
                let mut out = BytesMut::new();
                for _ in 0..EVENTS {
                    translator.event(None, black_box(DATA.as_bytes()), &mut out).unwrap();
                }
                out
            });
        });
    }
    group.finish();
}

criterion_group!(benches, frames, whole_bodies, translation);
criterion_main!(benches);
