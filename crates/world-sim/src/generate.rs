//! Scenarios from a seed: every one another fleet, another configuration, other clients and other misfortunes.

use pointsman_core::policy::Strategy;
use serde_json::Value;

use crate::random::Stream;
use crate::scenario::{
    Arrival, ClientSpec, Fault, FaultSpec, ModelSpec, PolicySpec, RateSpec, Scenario, TargetSpec,
};

const REGIONS: [&str; 3] = ["east", "west", "north"];

/// The scenario of this seed, in which about so many requests come.
pub fn scenario(seed: u64, requests: u64) -> Scenario {
    let mut luck = Stream::of(seed, "scenario");
    // Long enough for cooldowns and isolations to begin and end while there is traffic.
    let span = luck.between(120.0, 1_800.0);
    let models = models(&mut luck);
    let targets = targets(&mut luck, &models, requests as f64 / span);
    let policy = policy(&mut luck);
    let clients = clients(&mut luck, &models, requests as f64 / span, span);
    let faults = faults(&mut luck, &targets, span);
    rounded(Scenario {
        name: format!("seed {seed}"),
        about: String::new(),
        seed,
        requests,
        replicas: if luck.chance(0.7) { 1 } else { u32::try_from(luck.whole(2, 3)).unwrap_or(2) },
        models,
        targets,
        policy,
        clients,
        faults,
    })
}

/// The same with nine digits to each number: a file then holds exactly what was played.
fn rounded(scenario: Scenario) -> Scenario {
    let value = serde_json::to_value(&scenario).map(round);
    value.and_then(serde_json::from_value).unwrap_or(scenario)
}

fn round(value: Value) -> Value {
    match value {
        Value::Array(all) => all.into_iter().map(round).collect(),
        Value::Object(all) => all.into_iter().map(|(name, value)| (name, round(value))).collect(),
        Value::Number(number) if number.is_f64() => {
            let digits = number.as_f64().and_then(|n| format!("{n:.8e}").parse::<f64>().ok());
            digits.map_or(Value::Number(number), Value::from)
        }
        value => value,
    }
}

fn models(luck: &mut Stream) -> Vec<ModelSpec> {
    let count = luck.whole(1, 2);
    let known = [None, Some(true), Some(true), Some(false)];
    let model = |number: u64| ModelSpec {
        name: format!("m{number}"),
        // The requested model takes tools, or it is not known that it does not.
        tools: luck.pick(&known).copied().flatten().filter(|has| *has || number > 0),
        window: luck.chance(0.5).then(|| 8_000 << luck.whole(0, 4)),
    };
    (0..count).map(model).collect()
}

fn targets(luck: &mut Stream, models: &[ModelSpec], per_second: f64) -> Vec<TargetSpec> {
    let mut targets: Vec<TargetSpec> = Vec::new();
    for model in models {
        for _ in 0..luck.whole(1, 4) {
            let number = targets.len();
            let shared = targets.last().filter(|_| luck.chance(0.15)).cloned();
            targets.push(target(luck, number, &model.name, shared.as_ref(), per_second));
        }
    }
    targets
}

fn target(
    luck: &mut Stream,
    number: usize,
    model: &str,
    shared: Option<&TargetSpec>,
    per_second: f64,
) -> TargetSpec {
    let first_token = luck.between(0.1, 1.5);
    let answer = luck.between(0.3, 6.0);
    // By Little's law about so many requests are in flight when all of them come here.
    let load = per_second * (first_token + answer);
    let most = |share: f64| (load * share).ceil().clamp(2.0, 1e6) as u32;
    let per_minute = |share: f64| (per_second * 60.0 * share).ceil().clamp(30.0, 1e6) as u32;
    TargetSpec {
        name: format!("t{number}"),
        model: model.into(),
        region: luck.pick(&REGIONS).copied().unwrap_or_default().into(),
        account: shared.filter(|_| luck.chance(0.5)).map(TargetSpec::account),
        endpoint: shared.filter(|_| luck.chance(0.7)).map(TargetSpec::endpoint),
        priority: u32::try_from(luck.whole(1, 10)).unwrap_or(1).div_ceil(8),
        weight: u32::try_from(luck.whole(1, 5)).unwrap_or(1),
        first_token,
        answer,
        spread: luck.between(0.1, 0.7),
        capacity: luck.chance(0.5).then(|| most(luck.between(0.5, 3.0))),
        rate: luck
            .chance(0.2)
            .then(|| RateSpec { per_minute: per_minute(luck.between(0.3, 1.2)), guidance: luck.chance(0.6) }),
        unreliable: if luck.chance(0.4) { luck.between(0.0, 0.05) } else { 0.0 },
        rpm: luck.chance(0.15).then(|| per_minute(luck.between(0.2, 1.0))),
        concurrency: luck.chance(0.2).then(|| most(luck.between(0.3, 1.5))),
    }
}

fn policy(luck: &mut Stream) -> PolicySpec {
    let profiles = ["standard", "standard", "interactive", "interactive", "agent", "batch"];
    let strategy = luck.pick(&Strategy::NAMES).map_or("priority", |(name, _)| *name);
    PolicySpec {
        profile: luck.pick(&profiles).copied().unwrap_or("standard").into(),
        strategy: strategy.into(),
        retry_first: luck.chance(0.3),
        substitution: luck.chance(0.7),
        substitution_wait: if luck.chance(0.2) { luck.between(0.2, 4.0) } else { 0.0 },
        policy_fallback: luck.chance(0.2),
        deadline: luck.chance(0.2).then(|| luck.between(15.0, 90.0)),
        max_attempts: luck.chance(0.2).then(|| u32::try_from(luck.whole(1, 6)).unwrap_or(4)),
        failures: u32::try_from(luck.whole(1, 5)).unwrap_or(3),
        open_for: luck.between(2.0, 40.0),
        probes: u32::try_from(luck.whole(1, 3)).unwrap_or(2),
        slow: luck.chance(0.8),
        queue: luck.pick(&[0, 5, 50, 1_000]).copied().unwrap_or(1_000),
        queue_wait: luck.between(1.0, 6.0),
        retry_ratio: luck.between(0.0, 0.4),
        retry_floor: u32::try_from(luck.whole(0, 10)).unwrap_or(10),
    }
}

fn clients(luck: &mut Stream, models: &[ModelSpec], per_second: f64, span: f64) -> Vec<ClientSpec> {
    let steady = per_second * luck.between(0.4, 0.9);
    let mut clients = vec![client(luck, 0, Arrival::Poisson { per_second: steady })];
    if luck.chance(0.5) {
        let every = luck.between(span / 40.0, span / 10.0);
        let size = ((per_second - steady) * every).ceil().clamp(2.0, 1_000.0) as u32;
        clients.push(client(luck, clients.len(), Arrival::Bursts { every, size }));
    }
    if luck.chance(0.5) {
        let users = u32::try_from(luck.whole(1, 20)).unwrap_or(5);
        let pause = (f64::from(users) / per_second.max(0.01)).max(0.5);
        clients.push(client(luck, clients.len(), Arrival::Closed { users, pause }));
    }
    // Somebody with no time at all, and somebody who cannot spell: neither may hurt the others.
    let mut hasty = client(luck, clients.len(), Arrival::Poisson { per_second: per_second * 0.05 });
    hasty.deadline = luck.chance(0.6).then(|| luck.between(0.05, 6.0));
    hasty.patience = luck.chance(0.6).then(|| luck.between(0.01, 2.0));
    hasty.typos = if luck.chance(0.5) { 0.7 } else { 0.1 };
    clients.push(hasty);
    if let Some(model) = models.last().filter(|_| luck.chance(0.2)) {
        let mut direct = client(luck, clients.len(), Arrival::Poisson { per_second: per_second * 0.1 });
        direct.model = Some(model.name.clone());
        clients.push(direct);
    }
    clients
}

fn client(luck: &mut Stream, number: usize, arrival: Arrival) -> ClientSpec {
    let mut some = |chance: f64, most: f64| if luck.chance(chance) { luck.between(0.0, most) } else { 0.0 };
    ClientSpec {
        name: format!("c{number}"),
        arrival,
        streams: some(0.9, 1.0),
        tools: some(0.5, 0.6),
        unsafe_share: some(0.5, 0.4),
        typos: some(0.4, 0.1),
        refused: some(0.3, 0.1),
        too_long: some(0.3, 0.1),
        sdk_retries: some(0.3, 0.2),
        slow_readers: some(0.3, 0.3),
        bound: some(0.3, 0.1),
        patience: Some(some(0.5, 60.0)).filter(|median| *median > 0.5),
        ..ClientSpec::default()
    }
}

fn faults(luck: &mut Stream, targets: &[TargetSpec], span: f64) -> Vec<FaultSpec> {
    let count = luck.whole(0, 7);
    (0..count).map(|_| fault(luck, targets, span)).collect()
}

fn fault(luck: &mut Stream, targets: &[TargetSpec], span: f64) -> FaultSpec {
    let what = kind(luck);
    let from = luck.between(0.0, span * 0.8);
    let lasts = luck.pick(&[5.0, 20.0, 60.0, 200.0, 600.0]).copied().unwrap_or(60.0) * luck.between(0.3, 1.5);
    let whole_region = luck.chance(0.2);
    let victims = luck.whole(1, 2);
    let names = (0..victims).filter_map(|_| luck.pick(targets).map(|t| t.name.clone()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    let partly = luck.chance(0.3);
    FaultSpec {
        what,
        targets: if whole_region { Vec::new() } else { names },
        region: whole_region.then(|| luck.pick(&REGIONS).copied().unwrap_or_default().to_owned()),
        from,
        until: from + lasts,
        share: if partly { luck.between(0.05, 0.9) } else { 1.0 },
        flapping: luck.chance(0.2).then(|| luck.between(0.2, 40.0)),
    }
}

fn kind(luck: &mut Stream) -> Fault {
    let factor = luck.between(3.0, 60.0);
    let retry_after =
        luck.chance(0.6).then(|| luck.pick(&[0.0, 0.5, 2.0, 20.0, 90.0, 86_400.0]).copied()).flatten();
    let status = luck.pick(&[500, 500, 502, 503, 504]).copied().unwrap_or(500);
    let kinds = [
        Fault::BadResponse,
        Fault::BrownOut { factor },
        Fault::Cut,
        Fault::DeadKey,
        Fault::Hang,
        Fault::Killed,
        Fault::ModelGone,
        Fault::Overloaded,
        Fault::Permission,
        Fault::Quota,
        Fault::RateLimit { retry_after },
        Fault::Refused,
        Fault::Refused,
        Fault::Reset,
        Fault::Silence,
        Fault::SlowStart { factor },
        Fault::Stall,
        Fault::Status { status },
        Fault::Status { status },
        Fault::ToolsBroken,
        Fault::Unsupported,
    ];
    luck.pick(&kinds).copied().unwrap_or(Fault::Refused)
}
