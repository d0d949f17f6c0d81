//! What a route or `defaults` says, as written: absent stays absent. A route's layer is laid over that of `defaults`, key
//! by key; only then the profile and the documented defaults fill the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use pointsman_core::policy::{
    CooldownCount, GatherPolicy, MicroUsd, OnLoss, OnMismatch, OnPolicy, Profile, Reserve, RetryOrder,
    Strategy, TimeOverrides,
};
use pointsman_core::target::StructuredOutput;

use crate::grammar::{MODALITIES, Section};
use crate::problem::Report;
use crate::quantity;
use crate::reader::{Field, Fields};
use crate::tree::Value;

/// A struct of optional values, and how one lies over another.
macro_rules! layer {
    ($name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name {
            $(pub(crate) $field: Option<$kind>,)*
        }

        impl $name {
            fn over(self, base: &Self) -> Self {
                Self { $($field: self.$field.or_else(|| base.$field.clone()),)* }
            }
        }
    };
}

layer!(Words { profile: Profile, strategy: Strategy, on_model_mismatch: OnMismatch, on_loss: OnLoss });
layer!(BudgetLayer {
    deadline: Duration,
    stream: Duration,
    max_attempts: u32,
    max_rejections: u32,
    max_same_target_attempts: u32,
    reserve_attempts: u32,
    reserve_for_fallback: Reserve,
    min_attempt: Duration,
    max_cost: MicroUsd,
    connect: Duration,
    headers: Duration,
    first_token: Duration,
    response: Duration,
    idle: Duration,
    write: Duration,
});
layer!(RetryLayer { order: RetryOrder, base: Duration, max: Duration });
layer!(RequiresLayer {
    modalities: BTreeSet<String>,
    tools: bool,
    parallel_tool_calls: bool,
    structured_output: StructuredOutput,
    context_window_min: u64,
    max_output_tokens_min: u64,
});
layer!(SubstitutionLayer { allowed: bool, price_ceiling: f64, wait: Duration, on_policy: OnPolicy });
layer!(StreamLayer { hold: u32, buffer: bool, gather: GatherPolicy });
layer!(BreakerLayer {
    failures: u32,
    open_for: Duration,
    probes: u32,
    probe_successes: u32,
    slow_start: Duration
});
layer!(RateLayer { share: f64, min_calls: u32, window: Duration });
layer!(SlowLayer { off: bool, factor: f64, share: f64, min_calls: u32 });
layer!(CooldownLayer {
    count: CooldownCount,
    failures: u32,
    window: Duration,
    base: Duration,
    max: Duration
});

/// Everything that a route or `defaults` may say about how requests are governed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    pub(crate) words: Words,
    pub(crate) budget: BudgetLayer,
    pub(crate) retry: RetryLayer,
    pub(crate) requires: RequiresLayer,
    pub(crate) substitution: SubstitutionLayer,
    pub(crate) stream: StreamLayer,
    pub(crate) breaker: BreakerLayer,
    pub(crate) rate: RateLayer,
    pub(crate) slow: SlowLayer,
    pub(crate) cooldown: CooldownLayer,
}

impl Layer {
    /// This layer over another: what it leaves open is the other's.
    pub(crate) fn over(self, base: &Self) -> Self {
        Self {
            words: self.words.over(&base.words),
            budget: self.budget.over(&base.budget),
            retry: self.retry.over(&base.retry),
            requires: self.requires.over(&base.requires),
            substitution: self.substitution.over(&base.substitution),
            stream: self.stream.over(&base.stream),
            breaker: self.breaker.over(&base.breaker),
            rate: self.rate.over(&base.rate),
            slow: self.slow.over(&base.slow),
            cooldown: self.cooldown.over(&base.cooldown),
        }
    }

    /// Reads the governing keys of an opened route or `defaults`.
    pub(crate) fn read(fields: &Fields<'_>, section: &'static Section, report: &mut Report) -> Self {
        let mut layer = Self { words: words(fields, report), ..Self::default() };
        if let Some(budget) = fields.below("budget", section, report) {
            layer.budget = budget_layer(&budget, report);
        }
        if let Some(retry) = fields.below("retry", section, report) {
            layer.retry = retry_layer(&retry, report);
        }
        if let Some(requires) = fields.below("requires", section, report) {
            layer.requires = requires_layer(&requires, report);
        }
        if let Some(substitution) = fields.below("substitution", section, report) {
            layer.substitution = substitution_layer(&substitution, report);
        }
        if let Some(stream) = fields.below("stream", section, report) {
            layer.stream = stream_layer(&stream, report);
        }
        if let Some(cooldown) = fields.below("cooldown", section, report) {
            layer.cooldown = cooldown_layer(&cooldown, report);
        }
        layer.read_breaker(fields, section, report);
        layer
    }

    fn read_breaker(&mut self, fields: &Fields<'_>, section: &'static Section, report: &mut Report) {
        let Some(breaker) = fields.below("breaker", section, report) else { return };
        self.breaker = BreakerLayer {
            failures: breaker.count("failures", 1, report),
            open_for: breaker.span("open_for", report),
            probes: breaker.count("probes", 1, report),
            probe_successes: breaker.count("probe_successes", 1, report),
            slow_start: breaker.span_or_zero("slow_start", report),
        };
        let Some(section) = section.section_of("breaker") else { return };
        if let Some(rate) = breaker.below("rate", section, report) {
            self.rate = RateLayer {
                share: rate.share("share", report),
                min_calls: rate.count("min_calls", 1, report),
                window: rate.span("window", report),
            };
        }
        self.slow = slow_layer(&breaker, section, report);
    }
}

fn words(fields: &Fields<'_>, report: &mut Report) -> Words {
    let profiles = [
        ("standard", Profile::Standard),
        ("interactive", Profile::Interactive),
        ("agent", Profile::Agent),
        ("batch", Profile::Batch),
    ];
    let profile = fields.get("profile").and_then(|field| field.choice(&profiles, &["background"], report));
    let mismatches = [("disclose", OnMismatch::Disclose), ("reject", OnMismatch::Reject)];
    let losses = [("disclose", OnLoss::Disclose), ("reject", OnLoss::Reject)];
    Words {
        profile,
        strategy: fields.choice("strategy", &Strategy::NAMES, report),
        on_model_mismatch: fields.choice("on_model_mismatch", &mismatches, report),
        on_loss: fields.choice("on_loss", &losses, report),
    }
}

fn budget_layer(fields: &Fields<'_>, report: &mut Report) -> BudgetLayer {
    BudgetLayer {
        deadline: fields.span("deadline", report),
        stream: fields.span("stream", report),
        max_attempts: fields.count("max_attempts", 1, report),
        max_rejections: fields.count("max_rejections", 0, report),
        max_same_target_attempts: fields.count("max_same_target_attempts", 1, report),
        reserve_attempts: fields.count("reserve_attempts", 0, report),
        reserve_for_fallback: fields.quantity("reserve_for_fallback", reserve, report),
        min_attempt: fields.span("min_attempt", report),
        max_cost: fields.micro_usd("max_cost", report).map(MicroUsd),
        connect: fields.span("connect", report),
        headers: fields.span("headers", report),
        first_token: fields.span("first_token", report),
        response: fields.span("response", report),
        idle: fields.span("idle", report),
        write: fields.span("write", report),
    }
}

/// The time limits that a target may set for itself.
pub(crate) fn time_overrides(fields: &Fields<'_>, report: &mut Report) -> TimeOverrides {
    TimeOverrides {
        connect: fields.span("connect", report),
        headers: fields.span("headers", report),
        first_token: fields.span("first_token", report),
        response: fields.span("response", report),
        idle: fields.span("idle", report),
        write: fields.span("write", report),
    }
}

/// `25%`, `0.25` or `8s`.
fn reserve(text: &str) -> Result<Reserve, String> {
    match (quantity::share(text), quantity::span(text)) {
        (Ok(share), _) => Ok(Reserve::Share(share)),
        (_, Ok(span)) => Ok(Reserve::Span(span)),
        _ => Err("not a share or a duration: write `25%`, `0.25` or `8s`".to_owned()),
    }
}

fn retry_layer(fields: &Fields<'_>, report: &mut Report) -> RetryLayer {
    let orders = [("failover_first", RetryOrder::FailoverFirst), ("retry_first", RetryOrder::RetryFirst)];
    RetryLayer {
        order: fields.choice("order", &orders, report),
        base: fields.span("base", report),
        max: fields.span("max", report),
    }
}

fn requires_layer(fields: &Fields<'_>, report: &mut Report) -> RequiresLayer {
    // Every provider of this release streams: checked for its type, and kept by all.
    fields.flag("streaming", report);
    RequiresLayer {
        modalities: fields.choices("modalities", MODALITIES, report),
        tools: fields.flag("tools", report),
        parallel_tool_calls: fields.flag("parallel_tool_calls", report),
        structured_output: structured_output(fields, report),
        context_window_min: fields.count("context_window_min", 1, report),
        max_output_tokens_min: fields.count("max_output_tokens_min", 1, report),
    }
}

/// The value of `structured_output`, for models and contracts alike.
pub(crate) fn structured_output(fields: &Fields<'_>, report: &mut Report) -> Option<StructuredOutput> {
    let words = [
        ("none", StructuredOutput::No),
        ("json_object", StructuredOutput::JsonObject),
        ("json_schema", StructuredOutput::JsonSchema),
    ];
    fields.choice("structured_output", &words, report)
}

fn substitution_layer(fields: &Fields<'_>, report: &mut Report) -> SubstitutionLayer {
    SubstitutionLayer {
        allowed: fields.flag("allowed", report),
        price_ceiling: fields.number("price_ceiling", report),
        wait: fields.span_or_zero("wait", report),
        on_policy: fields.choice(
            "on_policy",
            &[("stop", OnPolicy::Stop), ("fallback", OnPolicy::Fallback)],
            report,
        ),
    }
}

fn stream_layer(fields: &Fields<'_>, report: &mut Report) -> StreamLayer {
    let gathers = [("auto", GatherPolicy::Auto), ("on", GatherPolicy::On), ("off", GatherPolicy::Off)];
    StreamLayer {
        hold: fields.count("hold", 0, report),
        buffer: fields.flag("buffer", report),
        gather: fields.choice("gather", &gathers, report),
    }
}

fn slow_layer(breaker: &Fields<'_>, section: &'static Section, report: &mut Report) -> SlowLayer {
    let Some(field) = breaker.get("slow") else { return SlowLayer::default() };
    if is_off(&field) {
        return SlowLayer { off: Some(true), ..SlowLayer::default() };
    }
    if matches!(field.node.value, Value::Scalar(_)) {
        field.wrong::<()>(report, "must be `off` or `{ factor, share, min_calls }`");
        return SlowLayer::default();
    }
    let Some(slow) = breaker.below("slow", section, report) else { return SlowLayer::default() };
    SlowLayer {
        off: Some(false),
        factor: slow.number("factor", report),
        share: slow.share("share", report),
        min_calls: slow.count("min_calls", 1, report),
    }
}

fn is_off(field: &Field<'_>) -> bool {
    matches!(&field.node.value, Value::Scalar(scalar) if scalar.text == "off")
}

fn cooldown_layer(fields: &Fields<'_>, report: &mut Report) -> CooldownLayer {
    let counts = [("openings", CooldownCount::Openings), ("failures", CooldownCount::Failures)];
    CooldownLayer {
        count: fields.choice("count", &counts, report),
        failures: fields.count("failures", 1, report),
        window: fields.span("window", report),
        base: fields.span("base", report),
        max: fields.span("max", report),
    }
}
