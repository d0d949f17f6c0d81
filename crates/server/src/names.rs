//! Names of headers, made once: to read one from its text costs at each use.

use std::sync::LazyLock;

use http::HeaderName;
use pointsman_wire::dialect::Dialect;

macro_rules! names {
    ($($name:ident = $text:literal;)*) => {
        $(pub(crate) static $name: HeaderName = HeaderName::from_static($text);)*
    };
}

names! {
    ACTION = "x-pointsman-action";
    ANTHROPIC_VERSION = "anthropic-version";
    API_KEY = "api-key";
    ATTEMPTS = "x-pointsman-attempts";
    DEADLINE = "x-pointsman-deadline-ms";
    EARLY = "x-pointsman-early";
    ESTIMATED = "x-pointsman-estimated";
    // Carries the ids of the gateways that a request has passed.
    HOP = "x-pointsman-hop";
    IDEMPOTENCY_KEY = "idempotency-key";
    LOSS = "x-pointsman-loss";
    MAX_ATTEMPTS = "x-pointsman-max-attempts";
    MODEL = "x-pointsman-model";
    OPERATION = "x-pointsman-operation";
    REASON = "x-pointsman-reason";
    REQUEST_ID = "x-request-id";
    REROUTE = "x-pointsman-reroute";
    RESUME_OF = "x-pointsman-resume-of";
    ROUTE = "x-pointsman-route";
    SDK_READ_TIMEOUT = "x-stainless-read-timeout";
    SDK_RETRY_COUNT = "x-stainless-retry-count";
    SDK_TIMEOUT = "x-stainless-timeout";
    SIDE_EFFECTS = "x-pointsman-side-effects";
    STRATEGY = "x-pointsman-strategy";
    SUBSTITUTED = "x-pointsman-substituted";
    TAGS = "x-pointsman-tags";
    TARGET = "x-pointsman-target";
    X_API_KEY = "x-api-key";
    X_GOOG_API_CLIENT = "x-goog-api-client";
    X_GOOG_API_KEY = "x-goog-api-key";
    UPSTREAM_REQUEST_ID = "x-pointsman-upstream-request-id";
}

/// What a dialect calls its headers.
#[derive(Debug)]
pub(crate) struct Names {
    /// [`Dialect::forwarded_headers`].
    pub(crate) forwarded: Vec<HeaderName>,
    /// [`Dialect::upstream_request_ids`].
    pub(crate) upstream_request_ids: Vec<HeaderName>,
    /// [`Dialect::client_request_ids`].
    pub(crate) client_request_ids: Vec<HeaderName>,
}

impl Names {
    /// The names of this dialect.
    pub(crate) fn of(dialect: Dialect) -> &'static Self {
        static CHAT: LazyLock<Names> = LazyLock::new(|| Names::read(Dialect::Chat));
        static MESSAGES: LazyLock<Names> = LazyLock::new(|| Names::read(Dialect::Messages));
        static RESPONSES: LazyLock<Names> = LazyLock::new(|| Names::read(Dialect::Responses));
        static GEMINI: LazyLock<Names> = LazyLock::new(|| Names::read(Dialect::Gemini));
        static BEDROCK: LazyLock<Names> = LazyLock::new(|| Names::read(Dialect::Bedrock));
        match dialect {
            Dialect::Bedrock => &BEDROCK,
            Dialect::Gemini => &GEMINI,
            Dialect::Chat => &CHAT,
            Dialect::Messages => &MESSAGES,
            Dialect::Responses => &RESPONSES,
        }
    }

    fn read(dialect: Dialect) -> Self {
        let names = |texts: &[&'static str]| texts.iter().copied().map(HeaderName::from_static).collect();
        Self {
            forwarded: names(dialect.forwarded_headers()),
            upstream_request_ids: names(dialect.upstream_request_ids()),
            client_request_ids: names(dialect.client_request_ids()),
        }
    }
}
