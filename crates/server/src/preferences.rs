//! What the caller wants of this one request, from headers and body. It narrows, never widens; what is malformed is a
//! 400 that says what is wrong.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use pointsman_core::policy::{GatherPolicy, Profile, Strategy};
use pointsman_core::request::{
    ModelChoice, Needs, Preferences, Request, Reroute, Resolved, Shape, resolve_model,
};
use pointsman_core::target::{Catalog, Governance, Price, StructuredOutput};
use pointsman_wire::endpoint::Endpoint;
use pointsman_wire::envelope::{DataCollection, Envelope, Sort, Structured};

use crate::auth::CALLER_KEY_PREFIX;
use crate::fail::ApiError;
use crate::names;

type Refusal = Box<ApiError>;

/// The core's view of a request.
pub(crate) fn request(
    number: u64,
    resolved: Resolved,
    envelope: &Envelope,
    headers: &HeaderMap,
    caller_keys: std::collections::BTreeSet<String>,
    catalog: &Catalog,
) -> Result<Request, Refusal> {
    all_known(headers)?;
    let Resolved { route, models, mut governance } = resolved;
    narrow(&mut governance, envelope, headers)?;
    let is_route = route.is_some();
    let models = with_fallback_models(models, is_route, envelope, catalog, &mut governance)?;
    Ok(Request {
        id: number,
        models,
        shape: shape(&governance, envelope),
        needs: needs(envelope),
        preferences: preferences(envelope, headers)?,
        caller_keys,
        caller_deadline: caller_deadline(headers)?,
        reroute: reroute(headers)?,
        replay_safe: replay_safe(headers)?,
        dialect: envelope.dialect().name(),
        endpoint: envelope.endpoint().name(),
        sdk_retry: sdk_retry(headers),
        affinity: envelope.affinity().map(|key| stable_hash(key.as_bytes())),
        governance,
    })
}

static KNOWN: [&HeaderName; 7] = [
    &names::DEADLINE,
    &names::HOP,
    &names::MAX_ATTEMPTS,
    &names::REROUTE,
    &names::SIDE_EFFECTS,
    &names::STRATEGY,
    &names::TAGS,
];
static NOT_BUILT: [&HeaderName; 3] = [&names::OPERATION, &names::RESUME_OF, &names::IDEMPOTENCY_KEY];

/// Nothing that was meant for the gateway is passed over: a misspelt wish may be one about where data goes.
fn all_known(headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(name) = NOT_BUILT.iter().find(|name| headers.contains_key(**name)) {
        let message = format!("the header {name} is not built yet: send the request without it");
        return Err(ApiError::bad_request(&message, None));
    }
    let mut ours = headers.keys().filter(|name| name.as_str().starts_with("x-pointsman-"));
    let unknown = |name: &&HeaderName| !KNOWN.contains(name) && !name.as_str().starts_with(CALLER_KEY_PREFIX);
    match ours.find(unknown).map(HeaderName::as_str) {
        Some(name) => {
            let close = pointsman_config::nearest(name, KNOWN.map(HeaderName::as_str));
            let hint = close.first().map_or(String::new(), |close| format!(", did you mean {close}?"));
            let name: String = name.chars().take(80).collect();
            Err(ApiError::bad_request(&format!("there is no header {name}{hint}"), None))
        }
        None => Ok(()),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::bad_request(&format!("the header {name} is given more than once"), None));
    }
    let text = value.to_str().map(str::trim);
    text.map(Some).map_err(|_| ApiError::bad_request(&format!("the header {name} is no readable text"), None))
}

fn malformed(name: &HeaderName, wants: &str) -> Refusal {
    ApiError::bad_request(&format!("the header {name} must be {wants}"), None)
}

fn narrow(governance: &mut Governance, envelope: &Envelope, headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(name) = header(headers, &names::STRATEGY)? {
        let known: Vec<&str> = Strategy::NAMES.iter().map(|(n, _)| *n).collect();
        governance.strategy = Strategy::named(name)
            .ok_or_else(|| malformed(&names::STRATEGY, &format!("one of {}", known.join(", "))))?;
    } else if let Some(sort) = &envelope.preferences().sort {
        governance.strategy = match sort {
            Sort::Price => Strategy::LowestCost,
            Sort::Throughput => Strategy::LeastBusy,
            Sort::Latency => Strategy::LowestLatency,
        };
    }
    if let Some(text) = header(headers, &names::MAX_ATTEMPTS)? {
        let wanted = text.parse::<u32>().ok().filter(|n| *n > 0);
        let wanted = wanted.ok_or_else(|| malformed(&names::MAX_ATTEMPTS, "a whole number of 1 or more"))?;
        governance.budget.max_attempts = governance.budget.max_attempts.min(wanted);
    }
    Ok(())
}

/// Body `models`: further models in order. A route's own list can only be narrowed and reordered by it.
fn with_fallback_models(
    mut models: Vec<ModelChoice>,
    is_route: bool,
    envelope: &Envelope,
    catalog: &Catalog,
    governance: &mut Governance,
) -> Result<Vec<ModelChoice>, Refusal> {
    let wanted = &envelope.preferences().models;
    if wanted.is_empty() {
        return Ok(models);
    }
    if is_route {
        let place = |m: &ModelChoice| wanted.iter().position(|w| *w == m.model);
        let first = models.first().map(|m| m.model.clone());
        models.retain(|m| Some(&m.model) == first.as_ref() || place(m).is_some());
        models.sort_by_key(|m| if Some(&m.model) == first.as_ref() { None } else { place(m) });
        return Ok(models);
    }
    for name in wanted {
        let choice = resolve_model(catalog, name).ok_or_else(|| ApiError::unknown_model(name, &[]))?;
        if !models.iter().any(|m| m.model == choice.model) {
            models.push(choice);
        }
    }
    // The caller named them: no substitution is silent then.
    governance.substitution.allowed |= models.len() > 1;
    Ok(models)
}

fn shape(governance: &Governance, envelope: &Envelope) -> Shape {
    let gather = match governance.stream.gather {
        GatherPolicy::On => true,
        GatherPolicy::Off => false,
        GatherPolicy::Auto => governance.profile == Profile::Interactive,
    };
    // Only conversations are gathered.
    let gather = gather && envelope.endpoint() == Endpoint::Generation;
    match (envelope.stream(), governance.stream.buffer, gather) {
        (true, true, _) => Shape::Buffered,
        (true, false, _) => Shape::Streamed,
        (false, _, true) => Shape::Gathered,
        (false, _, false) => Shape::Plain,
    }
}

fn needs(envelope: &Envelope) -> Needs {
    let from = envelope.needs();
    let counts = envelope.endpoint().counts();
    let modalities =
        [("image", from.images), ("audio", from.audio), ("file", from.files), ("video", from.video)];
    Needs {
        tools: from.tools,
        parallel_tool_calls: from.parallel_tools == Some(true),
        modalities: modalities.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name).collect(),
        structured_output: from.structured.map(|s| match s {
            Structured::JsonObject => StructuredOutput::JsonObject,
            Structured::JsonSchema => StructuredOutput::JsonSchema,
        }),
        reasoning: from.reasoning,
        prefill: from.prefill,
        // What is counted is not answered: it takes nothing of a limit.
        prompt_tokens: if counts { 0 } else { envelope.estimated_prompt_tokens() },
        max_output: envelope.max_output_tokens().filter(|_| !counts),
        same_model: envelope.endpoint().needs_one_model(),
    }
}

fn preferences(envelope: &Envelope, headers: &HeaderMap) -> Result<Preferences, Refusal> {
    let from = envelope.preferences();
    let tags = header(headers, &names::TAGS)?.unwrap_or_default();
    let micro = |usd: Option<f64>| usd.map_or(u64::MAX, |usd| (usd.max(0.0) * 1e6) as u64);
    Ok(Preferences {
        only: from.only.clone(),
        ignore: from.ignore.clone(),
        order: from.order.clone(),
        allow_fallbacks: from.allow_fallbacks,
        no_training: from.data_collection == Some(DataCollection::Deny),
        zero_retention: from.zdr == Some(true),
        require_parameters: from.require_parameters == Some(true),
        max_price: from.max_price.as_ref().map(|max| Price::of(micro(max.prompt), micro(max.completion))),
        tags: tags.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect(),
        quantizations: from.quantizations.clone(),
    })
}

/// The caller's own limit: ours in milliseconds, or what its SDK says of its read timeout, in seconds. An SDK's word
/// that cannot be read (`NOT_GIVEN`) counts as absent.
fn caller_deadline(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    if let Some(text) = header(headers, &names::DEADLINE)? {
        let ms = text.parse::<u64>().ok().filter(|ms| *ms > 0);
        let ms = ms.ok_or_else(|| malformed(&names::DEADLINE, "a whole number of milliseconds above 0"))?;
        return Ok(Some(Duration::from_millis(ms)));
    }
    let sdk = [&names::SDK_READ_TIMEOUT, &names::SDK_TIMEOUT].into_iter().find_map(|name| {
        let seconds = headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok()?;
        Duration::try_from_secs_f64(seconds).ok().filter(|d| !d.is_zero())
    });
    Ok(sdk)
}

fn reroute(headers: &HeaderMap) -> Result<Reroute, Refusal> {
    match header(headers, &names::REROUTE)? {
        None | Some("fallback") => Ok(Reroute::Fallback),
        Some("failover") => Ok(Reroute::Failover),
        Some("none") => Ok(Reroute::None),
        Some(_) => Err(malformed(&names::REROUTE, "fallback, failover or none")),
    }
}

fn replay_safe(headers: &HeaderMap) -> Result<bool, Refusal> {
    match header(headers, &names::SIDE_EFFECTS)? {
        None | Some("none") => Ok(true),
        Some("possible") => Ok(false),
        Some(_) => Err(malformed(&names::SIDE_EFFECTS, "none or possible")),
    }
}

fn sdk_retry(headers: &HeaderMap) -> bool {
    let count = headers.get(&names::SDK_RETRY_COUNT).and_then(|v| v.to_str().ok());
    count.and_then(|text| text.trim().parse::<u32>().ok()).is_some_and(|n| n >= 1)
}

fn stable_hash(bytes: &[u8]) -> u64 {
    pointsman_core::rng::stable_hash(bytes)
}
