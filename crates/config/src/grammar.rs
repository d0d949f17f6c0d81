//! Every key of the file, once: the reader refuses what is not here, and the JSON Schema is printed from it.

/// A mapping with fixed keys.
#[derive(Debug)]
pub(crate) struct Section {
    /// What the section describes, for hints and the schema.
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [Key],
    /// Keys that the design names and this release refuses.
    pub(crate) not_built: &'static [&'static str],
    pub(crate) required: &'static [&'static str],
}

/// One key of a section.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

/// What a key's value looks like.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A credential: text, `${NAME}` or `file:/path`.
    Secret,
    /// `127.0.0.1:4000`.
    Address,
    /// `http://` or `https://`.
    Url,
    /// `true` or `false`.
    Flag,
    /// A whole number, not below this.
    Count(u64),
    /// A number above zero.
    Number,
    /// A number of US dollars.
    Usd,
    /// `250ms`, `5s`, `10m`, `30d`.
    Span,
    /// `5%` or `0.05`.
    Share,
    /// A share or a span.
    ShareOrSpan,
    /// `64MiB`, or a number of bytes.
    Size,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// A section, or one of these words in its place.
    Section(&'static Section, &'static [&'static str]),
    /// Names of the operator's choice, each with a section.
    Named(&'static Section),
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, help }
}

const fn nested(name: &'static str, section: &'static Section, help: &'static str) -> Key {
    key(name, Kind::Section(section, &[]), help)
}

pub(crate) const MODALITIES: &[&str] = &["text", "image", "audio", "file"];
pub(crate) const STRUCTURED: &[&str] = &["none", "json_object", "json_schema"];
pub(crate) const PROFILES: &[&str] = &["standard", "interactive", "agent", "batch"];
pub(crate) const STRATEGIES: &[&str] = &[
    "priority",
    "round-robin",
    "weighted",
    "least-busy",
    "lowest-latency",
    "lowest-cost",
    "headroom",
    "sticky",
];
pub(crate) const PROVIDERS: &[&str] = &[
    "openai",
    "azure",
    "openai-compatible",
    "vllm",
    "llama-cpp",
    "sglang",
    "ollama",
    "openrouter",
    "groq",
    "deepseek",
    "mistral",
    "anthropic",
    "gemini",
    "bedrock",
    "xai",
    "together",
    "fireworks",
    "cerebras",
    "cohere",
    "perplexity",
    "nvidia",
    "huggingface",
    "github-models",
    "lm-studio",
    "tgi",
];

/// The wire formats that a target may be kept to.
pub(crate) const DIALECTS: &[&str] = &["chat", "messages", "responses", "gemini", "bedrock"];

/// The whole file.
pub(crate) static FILE: Section = Section {
    name: "the file",
    keys: &[
        nested("server", &SERVER, "The data plane: what clients connect to."),
        nested("admin", &ADMIN, "The admin plane: a listener of its own for the admin API and metrics."),
        nested("telemetry", &TELEMETRY, "Logs."),
        key("models", Kind::Named(&MODEL), "What is known of models, by logical name."),
        key("targets", Kind::Named(&TARGET), "Places that each serve one model."),
        key("routes", Kind::Named(&ROUTE), "Names that clients put in `model`, each with its policy."),
        nested("defaults", &DEFAULTS, "For all routes and plain models: the keys of a route."),
        key("keys", Kind::Named(&API_KEY), "The gateway's own API keys."),
        nested("queue", &QUEUE, "Waiting for the soonest recovery."),
        nested("retry_budget", &RETRY_BUDGET, "Same-target retries of the whole process."),
        nested("throttle", &THROTTLE, "Rate limits that come without guidance."),
        key("watch", Kind::Flag, "Reload when the file's content changes; default false."),
    ],
    not_built: &["state", "ledger", "groups"],
    required: &["targets"],
};

static SERVER: Section = Section {
    name: "server",
    keys: &[
        key(
            "listen",
            Kind::Address,
            "Default 127.0.0.1:4000. Off loopback it needs `keys`, or `auth: none` written out.",
        ),
        key("auth", Kind::Choice(&["keys", "none"]), "Whether clients need one of `keys`."),
        key("hosts", Kind::Texts, "Accepted `Host` values besides loopback names and the listen address."),
        key("max_in_flight", Kind::Count(1), "Requests served at once; default 10000."),
        key("body_memory", Kind::Size, "Bytes of all buffered bodies together; default 1GiB."),
        key("max_body", Kind::Size, "Bytes of one request body; default 64MiB."),
        key("max_header", Kind::Size, "Bytes of one request's headers; default 64KiB."),
        key("keepalive", Kind::Span, "Heartbeat on quiet streams; default 15s."),
        nested("drain", &DRAIN, "The end of the process after SIGTERM."),
        key("expose", Kind::Choice(&["full", "minimal"]), "How much response headers tell; default full."),
        key(
            "runtime",
            Kind::Choice(&["per_core", "shared"]),
            "How connections are spread over threads; default per_core.",
        ),
    ],
    not_built: &["tls"],
    required: &[],
};

static DRAIN: Section = Section {
    name: "server.drain",
    keys: &[
        key("delay", Kind::Span, "Still serving while readiness says no; default 5s."),
        key("timeout", Kind::Span, "How long streams may go on after that; default 10m."),
    ],
    not_built: &[],
    required: &[],
};

static ADMIN: Section = Section {
    name: "admin",
    keys: &[
        key("listen", Kind::Address, "Default 127.0.0.1:4001. Off loopback it needs `key`."),
        key("key", Kind::Secret, "What operators show."),
    ],
    not_built: &[],
    required: &[],
};

static TELEMETRY: Section = Section {
    name: "telemetry",
    keys: &[
        key(
            "log",
            Kind::Choice(&["auto", "text", "json"]),
            "Format of log lines; default text on a terminal, else json.",
        ),
        key(
            "log_level",
            Kind::Text,
            "`error`, `warn`, `info`, `debug` or `trace`, also by module; default info.",
        ),
    ],
    not_built: &["otlp"],
    required: &[],
};

static MODEL: Section = Section {
    name: "a model",
    keys: &[
        key("context_window", Kind::Count(1), "Prompt and output together, in tokens."),
        key("max_output", Kind::Count(1), "Output, in tokens."),
        key("modalities", Kind::Choices(MODALITIES), "What may go in."),
        key("tools", Kind::Flag, "Function tools."),
        key("parallel_tool_calls", Kind::Flag, "Several tool calls in one turn."),
        key("structured_output", Kind::Choice(STRUCTURED), "How much structure its output can promise."),
        key("reasoning", Kind::Flag, "Whether it thinks before it speaks."),
        key("prefill", Kind::Flag, "Whether it continues an assistant message."),
        key("prompt_caching", Kind::Flag, "Whether its provider keeps the beginning of prompts."),
        nested("price", &PRICE, "What it costs, in USD per million tokens."),
    ],
    not_built: &[],
    required: &[],
};

static PRICE: Section = Section {
    name: "price",
    keys: &[
        key("input", Kind::Usd, "USD per million input tokens."),
        key("output", Kind::Usd, "USD per million output tokens."),
        key(
            "cache_read",
            Kind::Usd,
            "USD per million input tokens from the provider's cache; default as `input`.",
        ),
        key("cache_write", Kind::Usd, "USD per million input tokens into it; default as `input`."),
        nested("batch", &BATCH_PRICE, "What batches cost."),
    ],
    not_built: &[],
    required: &["input", "output"],
};

static BATCH_PRICE: Section = Section {
    name: "price.batch",
    keys: &[
        key("input", Kind::Usd, "USD per million input tokens."),
        key("output", Kind::Usd, "USD per million output tokens."),
    ],
    not_built: &[],
    required: &["input", "output"],
};

static TARGET: Section = Section {
    name: "a target",
    keys: &[
        key("provider", Kind::Choice(PROVIDERS), "Whose wire format, URLs and quirks."),
        key("model", Kind::Text, "The logical model that it serves; \"*\" is any model of its provider."),
        key(
            "upstream_model",
            Kind::Text,
            "What the provider calls the model (Azure: the deployment), where that differs.",
        ),
        key(
            "base_url",
            Kind::Url,
            "Where the provider is, with the version (https://api.openai.com/v1); of Anthropic without it.",
        ),
        key("api_key", Kind::Secret, "The credential, or `caller`: the caller brings it."),
        key("api_version", Kind::Text, "Azure's classic URLs only; default 2024-10-21."),
        key(
            "dialect",
            Kind::Choice(DIALECTS),
            "The only dialect that the target is used for; default all that its provider speaks.",
        ),
        key(
            "aws_access_key_id",
            Kind::Secret,
            "Bedrock: what requests are signed with, where no `api_key` is.",
        ),
        key("aws_secret_access_key", Kind::Secret, "Bedrock: the secret that goes with it."),
        key(
            "aws_session_token",
            Kind::Secret,
            "Bedrock: the token of a credential that holds for some time.",
        ),
        key("aws_profile", Kind::Text, "Bedrock: a profile of AWS's own files instead."),
        key("region", Kind::Text, "Its region, as you name it; of Bedrock as AWS does (us-east-1)."),
        nested("data", &DATA, "What you state about data handling there."),
        key("tags", Kind::Texts, "Free labels."),
        key("priority", Kind::Count(0), "Lower first; default 1."),
        key("weight", Kind::Count(0), "Share among its equivalents for `weighted`; default 1."),
        nested("limits", &LIMITS, "Its own admission limits."),
        nested("budget", &TARGET_BUDGET, "Its own time limits of an attempt."),
        key("http", Kind::Choice(&["auto", "1", "2"]), "HTTP version; default auto."),
        key("ca_file", Kind::Text, "Further certificate authorities (PEM) for this target."),
    ],
    not_built: &[],
    required: &["provider", "model"],
};

static DATA: Section = Section {
    name: "data",
    keys: &[
        key("retention", Kind::Choice(&["none", "default"]), "`none`: zero retention is agreed."),
        key("training", Kind::Flag, "Whether data is used for training."),
    ],
    not_built: &[],
    required: &[],
};

static LIMITS: Section = Section {
    name: "limits",
    keys: &[
        key("rpm", Kind::Count(1), "Requests per minute."),
        key("tpm", Kind::Count(1), "Tokens per minute."),
        key("concurrency", Kind::Count(1), "Requests in flight."),
    ],
    not_built: &[],
    required: &[],
};

static TARGET_BUDGET: Section = Section {
    name: "a target's budget",
    keys: &[
        key("connect", Kind::Span, "TCP, TLS and HTTP/2 handshake together."),
        key("headers", Kind::Span, "Response headers of a stream."),
        key("first_token", Kind::Span, "First meaningful output of a stream."),
        key("response", Kind::Span, "Response headers of a plain answer."),
        key("idle", Kind::Span, "Gap between two events."),
        key("write", Kind::Span, "A client or upstream that takes nothing."),
    ],
    not_built: &[],
    required: &[],
};

/// The keys that a route and `defaults` share, and what is refused in both.
macro_rules! governed {
    ($($own:expr,)*) => {
        &[
            $($own,)*
            key("strategy", Kind::Choice(STRATEGIES), "Order of equivalent targets; default priority."),
            key("profile", Kind::Choice(PROFILES), "A set of budget defaults; default standard."),
            nested("budget", &BUDGET, "Time, attempts and money of one request; overrides the profile."),
            nested("retry", &RETRY, "Same-target retries."),
            nested("requires", &REQUIRES, "What whichever target serves must keep."),
            nested("substitution", &SUBSTITUTION, "Whether and how another model may answer."),
            nested("stream", &STREAM, "Release of streams."),
            nested("breaker", &BREAKER, "The short circuit breaker."),
            nested("cooldown", &COOLDOWN, "The long penalty of a target that keeps failing."),
            key("on_model_mismatch", Kind::Choice(&["disclose", "reject"]), "The provider answered with another model; default disclose."),
            key("on_loss", Kind::Choice(&["disclose", "reject"]), "Something of a request is lost in its target's dialect; default disclose."),
        ]
    };
}

const NOT_BUILT_IN_ROUTES: &[&str] = &["quality_gates", "canary", "on_unpriced"];

static ROUTE: Section = Section {
    name: "a route",
    keys: governed![
        key("version", Kind::Count(1), "Reported as name@version; default 1."),
        key("models", Kind::Texts, "The first is the contract's own; the rest are substitutions, in order."),
    ],
    not_built: NOT_BUILT_IN_ROUTES,
    required: &["models"],
};

static DEFAULTS: Section =
    Section { name: "defaults", keys: governed![], not_built: NOT_BUILT_IN_ROUTES, required: &[] };

static BUDGET: Section = Section {
    name: "budget",
    keys: &[
        key(
            "deadline",
            Kind::Span,
            "The whole request, waiting included; for a stream, the time to its first output.",
        ),
        key("stream", Kind::Span, "A stream's whole life."),
        key("max_attempts", Kind::Count(1), "Attempts that may have executed."),
        key("max_rejections", Kind::Count(0), "Attempts that the provider refused without executing."),
        key("max_same_target_attempts", Kind::Count(1), "First try and retries on one target."),
        key("reserve_attempts", Kind::Count(0), "Attempts kept for a permitted substitute."),
        key(
            "reserve_for_fallback",
            Kind::ShareOrSpan,
            "Part of the deadline kept while other candidates remain.",
        ),
        key("min_attempt", Kind::Span, "With less time left no attempt is started."),
        key("max_cost", Kind::Usd, "USD over all attempts of a request."),
        key("connect", Kind::Span, "TCP, TLS and HTTP/2 handshake together."),
        key("headers", Kind::Span, "Response headers of a stream, if wanted apart."),
        key("first_token", Kind::Span, "First meaningful output of a stream."),
        key("response", Kind::Span, "Response headers of a plain answer."),
        key("idle", Kind::Span, "Gap between two events."),
        key("write", Kind::Span, "A client or upstream that takes nothing."),
    ],
    not_built: &[],
    required: &[],
};

static RETRY: Section = Section {
    name: "retry",
    keys: &[
        key(
            "order",
            Kind::Choice(&["failover_first", "retry_first"]),
            "Before or after equivalents; default failover_first.",
        ),
        key("base", Kind::Span, "First ceiling of the backoff; default 500ms."),
        key("max", Kind::Span, "Last ceiling of the backoff; default 5s."),
    ],
    not_built: &[],
    required: &[],
};

static REQUIRES: Section = Section {
    name: "requires",
    keys: &[
        key("modalities", Kind::Choices(MODALITIES), "What must be able to go in."),
        key("streaming", Kind::Flag, "Every provider of this release streams; said for the reader."),
        key("tools", Kind::Flag, "Function tools."),
        key("parallel_tool_calls", Kind::Flag, "Several tool calls in one turn."),
        key("structured_output", Kind::Choice(STRUCTURED), "How much structure the output must keep."),
        key("context_window_min", Kind::Count(1), "In tokens."),
        key("max_output_tokens_min", Kind::Count(1), "In tokens."),
    ],
    not_built: &["evidence_max_age"],
    required: &[],
};

static SUBSTITUTION: Section = Section {
    name: "substitution",
    keys: &[
        key("allowed", Kind::Flag, "Default true exactly when `models` lists more than one."),
        key("price_ceiling", Kind::Number, "At most this multiple of the first model's price."),
        key("wait", Kind::Span, "How long to wait for the route's own model first; default 0s."),
        key(
            "on_policy",
            Kind::Choice(&["stop", "fallback"]),
            "What a content-policy refusal leads to; default stop.",
        ),
    ],
    not_built: &[],
    required: &[],
};

static STREAM: Section = Section {
    name: "stream",
    keys: &[
        key("hold", Kind::Count(0), "Output tokens held back until the stream proves steady; default 0."),
        key("buffer", Kind::Flag, "Release only a whole, valid answer; default false."),
        key(
            "gather",
            Kind::Choice(&["auto", "on", "off"]),
            "Plain answers as gathered streams; default auto.",
        ),
    ],
    not_built: &[],
    required: &[],
};

static BREAKER: Section = Section {
    name: "breaker",
    keys: &[
        key("failures", Kind::Count(1), "Consecutive counted failures that open it; default 3."),
        key("open_for", Kind::Span, "How long it fails fast; default 30s."),
        key("probes", Kind::Count(1), "Probes at once while half-open; default 2."),
        key("probe_successes", Kind::Count(1), "Successes of probes that close it; default 2."),
        nested("rate", &RATE, "Opens on too large a share of failed calls."),
        key("slow", Kind::Section(&SLOW, &["off"]), "Opens on too large a share of slow calls."),
        key("slow_start", Kind::Span, "Over which time its share grows back; default 30s."),
    ],
    not_built: &[],
    required: &[],
};

static RATE: Section = Section {
    name: "breaker.rate",
    keys: &[
        key("share", Kind::Share, "Share of failed calls; default 0.5."),
        key("min_calls", Kind::Count(1), "Fewer calls decide nothing; default 20."),
        key("window", Kind::Span, "The window; default 30s."),
    ],
    not_built: &[],
    required: &[],
};

static SLOW: Section = Section {
    name: "breaker.slow",
    keys: &[
        key("factor", Kind::Number, "Slow is over this multiple of the own median; default 4."),
        key("share", Kind::Share, "Share of slow calls; default 0.5."),
        key("min_calls", Kind::Count(1), "Fewer calls decide nothing; default 20."),
    ],
    not_built: &[],
    required: &[],
};

static COOLDOWN: Section = Section {
    name: "cooldown",
    keys: &[
        key("count", Kind::Choice(&["openings", "failures"]), "What is counted; default openings."),
        key("failures", Kind::Count(1), "How many start a cooldown; default 3."),
        key("window", Kind::Span, "Within which time; default 2m."),
        key("base", Kind::Span, "The first penalty; default 60s."),
        key("max", Kind::Span, "The longest penalty; default 10m."),
    ],
    not_built: &[],
    required: &[],
};

static API_KEY: Section = Section {
    name: "a key",
    keys: &[
        key("hash", Kind::Text, "`sha256:` and the hex digest of the whole key."),
        key("models", Kind::Texts, "Routes and models that it may use; default all."),
    ],
    not_built: &["groups", "rpm", "tpm", "budget", "policy", "strategy"],
    required: &["hash"],
};

static QUEUE: Section = Section {
    name: "queue",
    keys: &[
        key("max_wait", Kind::Span, "The longest wait of one request; default 5s."),
        key("max", Kind::Count(0), "The most requests that wait per model; default 1000."),
    ],
    not_built: &[],
    required: &[],
};

static RETRY_BUDGET: Section = Section {
    name: "retry_budget",
    keys: &[
        key("ratio", Kind::Share, "Retries per request over ten seconds; default 0.2."),
        key("floor_per_second", Kind::Count(0), "Retries per second that are always allowed; default 10."),
    ],
    not_built: &[],
    required: &[],
};

static THROTTLE: Section = Section {
    name: "throttle",
    keys: &[
        key("initial", Kind::Span, "The first wait without guidance; default 5s."),
        key("max", Kind::Span, "The longest; guidance beyond it means a quota. Default 10m."),
    ],
    not_built: &[],
    required: &[],
};

impl Section {
    /// The key of this name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The section that this key opens.
    pub(crate) fn section_of(&self, name: &str) -> Option<&'static Self> {
        self.key(name).and_then(Self::opens)
    }

    fn opens(key: &'static Key) -> Option<&'static Self> {
        match key.kind {
            Kind::Section(section, _) | Kind::Named(section) => Some(section),
            _ => None,
        }
    }

    /// The sections below this one, itself included, each once, outermost first.
    pub(crate) fn all(&'static self) -> Vec<&'static Self> {
        let mut found = vec![self];
        let mut next = 0;
        while let Some(section) = found.get(next).copied() {
            next += 1;
            for inner in section.keys.iter().filter_map(Self::opens) {
                if !found.iter().any(|known| std::ptr::eq(*known, inner)) {
                    found.push(inner);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
