//! What a Gemini call says outside of its body: the model and the way of its answer stand in its path, the form of a stream
//! in its query.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use pointsman_wire::sse::SseDecoder;

use crate::answer::ClientBody;

/// A call by its path and query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Called {
    /// The model or route.
    pub(crate) model: String,
    /// The answer streams.
    pub(crate) stream: bool,
    /// And does so as one JSON list, piece by piece, instead of as events.
    pub(crate) listed: bool,
    /// How many tokens the request has is asked, and nothing else.
    pub(crate) counts: bool,
}

/// Whether a path belongs to this dialect: under its own version or prefix, or by what is asked of a model.
pub(crate) fn owns(path: &str) -> bool {
    ["/v1beta", "/gemini"].iter().any(|own| path.strip_prefix(own).is_some_and(ends_segment)) || asks(path)
}

fn ends_segment(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn asks(path: &str) -> bool {
    [":generateContent", ":streamGenerateContent", ":countTokens"].iter().any(|asked| path.ends_with(asked))
}

/// Reads `/models/{model}:generateContent`, `:streamGenerateContent` and `:countTokens`, without what stands before `/models`.
pub(crate) fn called(bare: &str, query: Option<&str>) -> Option<Called> {
    let (name, asked) = bare.strip_prefix("/models/")?.rsplit_once(':')?;
    let (stream, counts) = match asked {
        "generateContent" => (false, false),
        "streamGenerateContent" => (true, false),
        "countTokens" => (false, true),
        _ => return None,
    };
    let events = query.unwrap_or_default().split('&').any(|pair| pair == "alt=sse");
    Some(Called { model: unescaped(name)?, stream, listed: stream && !events, counts })
}

/// A path's segment without its escapes (RFC 3986, section 2.1); `None` if it is no text then.
fn unescaped(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escape = (*first == b'%').then(|| more.split_at_checked(2)).flatten();
        let byte =
            escape.and_then(|(digits, _)| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = match (byte, escape) {
            (Some(_), Some((_, after))) => after,
            _ => more,
        };
    }
    String::from_utf8(bytes).ok()
}

/// The events of a stream as one JSON list, for a client that did not ask for events (Gemini API reference,
/// "streamGenerateContent"). Whatever is no stream of events stays as it is.
pub(crate) fn as_list(mut response: Response<ClientBody>) -> Response<ClientBody> {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return response.map(|body| {
            List { body, decoder: SseDecoder::new(MAX_EVENT), state: State::Empty }.boxed_unsync()
        });
    }
    response
}

/// One event may be so large, in bytes: what the gateway itself reads, and what it adds.
const MAX_EVENT: usize = 64 * 1024 * 1024;

struct List {
    body: ClientBody,
    decoder: SseDecoder,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Begun,
    Ended,
}

impl Body for List {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.state == State::Ended {
            return Poll::Ready(None);
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let out = match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => self.next(data),
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            },
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => self.end(),
        };
        Poll::Ready(Some(Ok(Frame::data(out))))
    }
}

impl List {
    /// The events of a frame as elements; a sign of life as white space, which JSON takes anywhere.
    fn next(&mut self, data: Bytes) -> Bytes {
        self.decoder.push(data);
        let mut out = BytesMut::new();
        while let Ok(Some(event)) = self.decoder.next_event() {
            out.put_slice(if self.state == State::Empty { b"[" } else { b",\r\n" });
            out.put_slice(&event.data);
            self.state = State::Begun;
        }
        if out.is_empty() {
            out.put_slice(b"\n");
        }
        out.freeze()
    }

    fn end(&mut self) -> Bytes {
        let empty = std::mem::replace(&mut self.state, State::Ended) == State::Empty;
        Bytes::from_static(if empty { b"[]" } else { b"]" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_and_way_stand_in_the_path() {
        let call = |model: &str, stream, listed| {
            Some(Called { model: model.to_owned(), stream, listed, counts: false })
        };
        for (path, query, expected) in [
            ("/models/gemini-3-pro:generateContent", None, call("gemini-3-pro", false, false)),
            ("/models/m:streamGenerateContent", Some("alt=sse"), call("m", true, false)),
            ("/models/m:streamGenerateContent", Some("key=k&alt=json"), call("m", true, true)),
            ("/models/m:streamGenerateContent", None, call("m", true, true)),
            ("/models/z-ai/glm-5.2:generateContent", None, call("z-ai/glm-5.2", false, false)),
            ("/models/z-ai%2Fglm%3A5:generateContent", None, call("z-ai/glm:5", false, false)),
            ("/models/100%:generateContent", None, call("100%", false, false)),
            ("/models/m:embedContent", None, None),
            ("/models/%FF:generateContent", None, None),
            ("/models/m", None, None),
        ] {
            assert_eq!(called(path, query), expected, "{path}");
        }
        let counts = Called { model: "m".to_owned(), stream: false, listed: false, counts: true };
        assert_eq!(called("/models/m:countTokens", Some("alt=sse")), Some(counts));
    }

    #[test]
    fn a_path_is_its_own_by_version_prefix_or_what_is_asked() {
        for path in [
            "/v1beta/models",
            "/gemini/x",
            "/gemini",
            "/v1/models/m:generateContent",
            "/models/m:streamGenerateContent",
            "/v1/models/m:countTokens",
        ] {
            assert!(owns(path), "{path}");
        }
        for path in ["/v1/models", "/v1betax", "/geminis/models", "/v1/models/gemini", "/"] {
            assert!(!owns(path), "{path}");
        }
    }

    #[tokio::test]
    async fn a_stream_without_events_is_one_list() {
        let frames = ["data: {\"a\":1}\n\n", "\n\n", "data: {\"b\":2}\n\ndata: {\"c\":3}\n\n"];
        let list = |frames: &'static [&'static str]| {
            let body = crate::answer::streamed(frames.iter(), |mut frames| async move {
                frames.next().map(|frame| (Bytes::from_static(frame.as_bytes()), frames))
            });
            let mut response = Response::new(body);
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
            as_list(response)
        };
        let all: &'static [&'static str] = Box::leak(Box::new(frames));
        let response = list(all);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        let read = |response: Response<ClientBody>| async move {
            response.into_body().collect().await.unwrap().to_bytes()
        };
        assert_eq!(read(response).await, "[{\"a\":1}\n,\r\n{\"b\":2},\r\n{\"c\":3}]");
        assert_eq!(read(list(&[])).await, "[]");
        let error = Response::new(crate::answer::full("{}"));
        assert_eq!(read(as_list(error)).await, "{}");
    }
}
