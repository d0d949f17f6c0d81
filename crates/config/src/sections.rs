//! The sections that stand for themselves: listeners, logs, process-wide policies, models, API keys.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use pointsman_core::policy::{ProcessPolicy, QueuePolicy, RetryBudgetPolicy, ThrottlePolicy};
use pointsman_core::target::{Model, Price};

use crate::config::{AdminConfig, Auth, Drain, Expose, Key, LogFormat, Runtime, ServerConfig, Telemetry};
use crate::govern::longer;
use crate::grammar::{FILE, MODALITIES, Section};
use crate::layer::structured_output;
use crate::problem::{Mark, Report};
use crate::reader::{Field, Fields, one_of};
use crate::secret;

/// `127.0.0.1:4000`, `[::1]:4000` or `localhost:4000`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| match text.trim_start_matches(':').parse::<u16>() {
        Ok(port) => format!(
            "an address has a host too: write `127.0.0.1:{port}`, or `0.0.0.0:{port}` for all interfaces"
        ),
        Err(_) => "not an address: write an IP address and a port, such as `127.0.0.1:4000`".to_owned(),
    })
}

/// The data plane; `keys` is whether any are configured.
pub(crate) fn server(file: &Fields<'_>, keys: bool, report: &mut Report) -> ServerConfig {
    let base = ServerConfig::default();
    let Some((fields, section)) = open(file, "server", report) else {
        return ServerConfig { auth: if keys { Auth::Keys } else { Auth::None }, ..base };
    };
    let listen = fields.quantity("listen", address, report).unwrap_or(base.listen);
    let written = fields.choice("auth", &[("keys", Auth::Keys), ("none", Auth::None)], report);
    let config = ServerConfig {
        listen,
        auth: auth(&fields, listen, written, keys, report),
        hosts: hosts(&fields, report),
        max_in_flight: fields.count("max_in_flight", 1, report).unwrap_or(base.max_in_flight),
        body_memory: fields.size("body_memory", report).unwrap_or(base.body_memory),
        max_body: fields.size("max_body", report).unwrap_or(base.max_body),
        max_header: fields.size("max_header", report).unwrap_or(base.max_header),
        keepalive: fields.span("keepalive", report).unwrap_or(base.keepalive),
        drain: fields.below("drain", section, report).map_or(base.drain, |drain| self::drain(&drain, report)),
        expose: fields
            .choice("expose", &[("full", Expose::Full), ("minimal", Expose::Minimal)], report)
            .unwrap_or_default(),
        runtime: fields
            .choice("runtime", &[("per_core", Runtime::PerCore), ("shared", Runtime::Shared)], report)
            .unwrap_or_default(),
    };
    if config.max_body > config.body_memory {
        let (one, all) = (config.max_body, config.body_memory);
        let why = format!(
            "`server.max_body` ({one} bytes) is more than `server.body_memory` ({all} bytes), which holds all bodies"
        );
        report.error(fields.mark("max_body"), why);
    }
    config
}

fn auth(
    fields: &Fields<'_>,
    listen: SocketAddr,
    written: Option<Auth>,
    keys: bool,
    report: &mut Report,
) -> Auth {
    match written {
        Some(Auth::Keys) if !keys => {
            report.error(fields.mark("auth"), "`server.auth: keys` needs at least one key under `keys`");
        }
        Some(Auth::None) if keys => {
            report
                .warn(fields.mark("auth"), "`server.auth: none`: nobody is asked for the keys under `keys`");
        }
        // A wrong word under `auth` was reported already.
        None if !keys && !listen.ip().is_loopback() && fields.get("auth").is_none() => {
            let why = "is reachable from outside: add `keys`, or write `auth: none` beside it";
            report.error(fields.mark("listen"), format!("`server.listen: {listen}` {why}"));
        }
        _ => {}
    }
    written.unwrap_or(if keys { Auth::Keys } else { Auth::None })
}

fn hosts(fields: &Fields<'_>, report: &mut Report) -> Vec<String> {
    let mut hosts = Vec::new();
    for (host, at) in fields.texts("hosts", report).unwrap_or_default() {
        if host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']')) {
            hosts.push(host.to_ascii_lowercase());
        } else {
            let example = "`gateway.example.com` or `gateway.example.com:8443`";
            report.error(at, format!("`server.hosts`: an entry is a host as clients send it, {example}"));
        }
    }
    hosts
}

fn drain(fields: &Fields<'_>, report: &mut Report) -> Drain {
    let base = Drain::default();
    Drain {
        delay: fields.span_or_zero("delay", report).unwrap_or(base.delay),
        timeout: fields.span_or_zero("timeout", report).unwrap_or(base.timeout),
    }
}

/// The admin plane.
pub(crate) fn admin(file: &Fields<'_>, server: SocketAddr, report: &mut Report) -> AdminConfig {
    let base = AdminConfig::default();
    let opened = open(file, "admin", report);
    let at = opened.as_ref().map_or(file.at, |(fields, _)| fields.mark("listen"));
    let config = match &opened {
        None => base,
        Some((fields, _)) => {
            let listen = fields.quantity("listen", address, report).unwrap_or(base.listen);
            let key = fields.get("key");
            if key.is_none() && !listen.ip().is_loopback() {
                report.error(
                    at,
                    format!("`admin.listen: {listen}` is reachable from outside and needs `admin.key`"),
                );
            }
            AdminConfig { listen, key: key.and_then(|field| secret::read(&field, report)) }
        }
    };
    if collide(config.listen, server) {
        report.error(
            at,
            format!("`admin.listen` and `server.listen` are both {server}; each needs a port of its own"),
        );
    }
    config
}

fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let any = |ip: IpAddr| ip.is_unspecified();
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || any(one.ip()) || any(other.ip()))
}

/// Logs.
pub(crate) fn telemetry(file: &Fields<'_>, report: &mut Report) -> Telemetry {
    let base = Telemetry::default();
    let Some((fields, _)) = open(file, "telemetry", report) else { return base };
    let formats = [("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];
    Telemetry {
        log: fields.choice("log", &formats, report).unwrap_or_default(),
        level: fields.quantity("log_level", level, report).unwrap_or(base.level),
    }
}

fn level(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    let known = |directive: &str| {
        let level = directive.rsplit('=').next().unwrap_or_default();
        LEVELS.contains(&level)
    };
    match text.split(',').all(known) {
        true => Ok(text.to_owned()),
        false => {
            Err(format!("must be {}", one_of(&LEVELS)) + ", also by module: `info,pointsman_server=debug`")
        }
    }
}

/// Queue, retry budget and throttle.
pub(crate) fn process(file: &Fields<'_>, report: &mut Report) -> ProcessPolicy {
    let base = ProcessPolicy::default();
    let queue = open(file, "queue", report).map(|(fields, _)| QueuePolicy {
        max_wait: fields.span_or_zero("max_wait", report).unwrap_or(base.queue.max_wait),
        max: fields.count("max", 0, report).unwrap_or(base.queue.max),
    });
    let retry_budget = open(file, "retry_budget", report).map(|(fields, _)| RetryBudgetPolicy {
        ratio: fields.share("ratio", report).unwrap_or(base.retry_budget.ratio),
        floor_per_second: fields
            .count("floor_per_second", 0, report)
            .unwrap_or(base.retry_budget.floor_per_second),
    });
    let throttle = open(file, "throttle", report).map(|(fields, _)| {
        let policy = ThrottlePolicy {
            initial: fields.span("initial", report).unwrap_or(base.throttle.initial),
            max: fields.span("max", report).unwrap_or(base.throttle.max),
        };
        if policy.initial > policy.max {
            let why = longer("initial", policy.initial, policy.max);
            report.error(fields.mark("initial"), format!("`throttle`: {why}"));
        }
        policy
    });
    ProcessPolicy {
        queue: queue.unwrap_or(base.queue),
        retry_budget: retry_budget.unwrap_or(base.retry_budget),
        throttle: throttle.unwrap_or(base.throttle),
    }
}

/// What is known of a model.
pub(crate) fn model(fields: &Fields<'_>, section: &'static Section, report: &mut Report) -> Model {
    Model {
        context_window: fields.count("context_window", 1, report),
        max_output: fields.count("max_output", 1, report),
        modalities: fields.choices("modalities", MODALITIES, report),
        tools: fields.flag("tools", report),
        parallel_tool_calls: fields.flag("parallel_tool_calls", report),
        structured_output: structured_output(fields, report),
        reasoning: fields.flag("reasoning", report),
        prefill: fields.flag("prefill", report),
        prompt_caching: fields.flag("prompt_caching", report),
        price: fields.below("price", section, report).and_then(|price| {
            let of = section.section_of("price")?;
            let batch = price.below("batch", of, report).and_then(|batch| input_and_output(&batch, report));
            let (cache_read, cache_write) =
                (price.micro_usd("cache_read", report), price.micro_usd("cache_write", report));
            let (input, output) = input_and_output(&price, report)?;
            Some(Price { input, output, cache_read, cache_write, batch })
        }),
    }
}

fn input_and_output(fields: &Fields<'_>, report: &mut Report) -> Option<(u64, u64)> {
    let (input, output) = (fields.micro_usd("input", report), fields.micro_usd("output", report));
    Some((input?, output?))
}

/// One API key, with the places of the names that it may use.
pub(crate) fn api_key(
    name: &str,
    fields: &Fields<'_>,
    report: &mut Report,
) -> (Option<Key>, Vec<(String, Mark)>) {
    let hash = fields.get("hash").and_then(|field| digest(&field, report));
    let models = fields.texts("models", report);
    let names = models.as_ref().map(|list| list.iter().map(|(name, _)| name.clone()).collect());
    let key = hash.map(|hash| Key { name: name.to_owned(), hash, models: names });
    (key, models.unwrap_or_default())
}

/// `sha256:` and 64 hex digits. Not repeated in the error: it may be the key itself.
fn digest(field: &Field<'_>, report: &mut Report) -> Option<[u8; 32]> {
    let text = field.text(report)?;
    let bytes = text.strip_prefix("sha256:").and_then(hex);
    if bytes.is_none() {
        report.error(
            field.node.at,
            format!("`{}` must be `sha256:` and the 64 hex digits of the whole key's SHA-256", field.path),
        );
    }
    bytes
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | digit)).collect();
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}

fn open<'n>(file: &Fields<'n>, key: &str, report: &mut Report) -> Option<(Fields<'n>, &'static Section)> {
    let section = FILE.section_of(key)?;
    file.section(key, section, report).map(|fields| (fields, section))
}
