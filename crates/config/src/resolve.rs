//! The file as a whole: every section in turn, then what spans them. All errors are collected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pointsman_core::target::{Catalog, Governance, Model, Route, Target};

use crate::catalog;
use crate::config::{Config, Key, ServerConfig, Source, Upstream};
use crate::contract;
use crate::govern;
use crate::grammar::{FILE, Section};
use crate::layer::Layer;
use crate::names::Names;
use crate::problem::{Mark, Report};
use crate::reader::{Field, Fields};
use crate::sections;
use crate::target::{self, Reached};
use crate::tree::{Node, shown};

/// Reads the tree of a file; whatever is wrong is in the report. `None` if there is nothing to go on with.
pub(crate) fn file(root: &Node, name: &str, report: &mut Report) -> Option<Config> {
    let file = Fields::open(&Field::root(root), Mark { line: 1, column: 1 }, &FILE, report)?;
    let targets = Targets::read(&file, report);
    let names = targets.names(&file);
    let models = models(&file, &names, report);
    let (defaults, base) = defaults(&file, report);
    let mut catalog = Catalog { targets: targets.known(), models, defaults, ..Catalog::default() };
    catalog::complete(&mut catalog);
    let known = Known { names: &names, models: &catalog.models };
    catalog.routes = routes(&file, &base, &known, report);
    let keys = keys(&file, &names, report);
    let server = sections::server(&file, file.get("keys").is_some_and(|field| !field.is_empty()), report);
    let admin = sections::admin(&file, server.listen, report);
    targets.check(&server, report);
    let upstreams: Vec<Upstream> = targets.reached.into_iter().map(|(_, r)| r.upstream).collect();
    Some(Config {
        admin,
        catalog,
        upstreams,
        process: sections::process(&file, report),
        keys,
        telemetry: sections::telemetry(&file, report),
        watch: file.flag("watch", report).unwrap_or(false),
        source: Source::File(PathBuf::from(name)),
        server,
    })
}

/// The targets that could be read, and the names that also the broken ones claim.
struct Targets {
    reached: Vec<(Mark, Reached)>,
    /// Provider and model of every target, `*` for a wildcard; `None` where they cannot be read.
    claims: Vec<Option<(String, String)>>,
}

impl Targets {
    fn read(file: &Fields<'_>, report: &mut Report) -> Self {
        let mut targets = Self { reached: Vec::new(), claims: Vec::new() };
        let Some(section) = FILE.section_of("targets") else { return targets };
        let named = file.named("targets", report);
        if named.is_empty() && file.get("targets").is_some_and(|field| field.is_empty()) {
            report.error(file.mark("targets"), "`targets` is empty: there would be nothing to serve");
        }
        for (name, at, field) in named {
            check_name("targets", &name, at, report);
            let Some(fields) = Fields::open(&field, at, section, report) else {
                targets.claims.push(None);
                continue;
            };
            targets.claims.push(claim(&fields));
            let reached = target::read(&name, &fields, section, report);
            targets.reached.extend(reached.map(|reached| (at, reached)));
        }
        targets
    }

    fn known(&self) -> Vec<Target> {
        self.reached.iter().map(|(_, reached)| reached.target.clone()).collect()
    }

    fn names(&self, file: &Fields<'_>) -> Names {
        let routes = file.get("routes").map(|field| field.keys()).unwrap_or_default();
        Names::new(&self.claims, routes)
    }

    /// What holds between targets, and between targets and listeners.
    fn check(&self, server: &ServerConfig, report: &mut Report) {
        let own = format!("http://{}", server.listen);
        for (at, reached) in self.reached.iter().filter(|(_, r)| r.target.endpoint == own) {
            report.error(
                *at,
                format!("`targets.{}` points at this gateway's own `server.listen`", reached.target.name),
            );
        }
        let mut weights: BTreeMap<(&str, Option<&str>), (Mark, u32)> = BTreeMap::new();
        for (at, Reached { target, .. }) in &self.reached {
            let provider = if target.model.is_some() { "" } else { target.provider.as_str() };
            let sum = weights.entry((provider, target.model.as_deref())).or_insert((*at, 0));
            sum.1 = sum.1.saturating_add(target.weight);
        }
        for ((_, model), (at, _)) in weights.iter().filter(|(_, (_, sum))| *sum == 0) {
            let model = model.unwrap_or("*");
            report.error(
                *at,
                format!("every target of model `{model}` has `weight: 0`; give one of them a share"),
            );
        }
    }
}

fn claim(fields: &Fields<'_>) -> Option<(String, String)> {
    // Read aside: what is wrong with them is reported where the target is read.
    let mut aside = Report::new("");
    let provider = fields.text("provider", &mut aside).unwrap_or_default();
    let model = fields.text("model", &mut aside)?;
    let is_wildcard = model.strip_suffix("/*") == Some(provider.as_str());
    Some((provider, if is_wildcard { "*".to_owned() } else { model }))
}

/// Names end up in headers, URLs and reasons such as `openai-us:overloaded>azure-eu`.
fn check_name(what: &str, name: &str, at: Mark, report: &mut Report) {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.chars().all(valid) || name.len() > 128 {
        report.error(
            at,
            format!("`{what}.{}`: a name has at most 128 letters, digits, `-`, `_` and `.`", shown(name)),
        );
    }
}

fn models(file: &Fields<'_>, names: &Names, report: &mut Report) -> BTreeMap<String, Model> {
    let mut models = BTreeMap::new();
    let Some(section) = FILE.section_of("models") else { return models };
    for (name, at, field) in file.named("models", report) {
        if !names.serves(&name) {
            report.warn(
                at,
                format!(
                    "`models.{}` is served by no target{}",
                    shown(&name),
                    names.did_you_mean_model(&name)
                ),
            );
        }
        if let Some(fields) = Fields::open(&field, at, section, report) {
            models.insert(name, sections::model(&fields, section, report));
        }
    }
    models
}

fn defaults(file: &Fields<'_>, report: &mut Report) -> (Governance, Layer) {
    let opened =
        FILE.section_of("defaults").and_then(|s| file.section("defaults", s, report).map(|f| (f, s)));
    let Some((fields, section)) = opened else { return (Governance::default(), Layer::default()) };
    let layer = Layer::read(&fields, section, report);
    let governance = govern::governance(&layer, 1);
    govern::check(&fields, &layer, &governance, report);
    (governance, layer)
}

/// What a route may refer to.
struct Known<'k> {
    names: &'k Names,
    models: &'k BTreeMap<String, Model>,
}

fn routes(
    file: &Fields<'_>,
    base: &Layer,
    known: &Known<'_>,
    report: &mut Report,
) -> BTreeMap<String, Route> {
    let mut routes = BTreeMap::new();
    let Some(section) = FILE.section_of("routes") else { return routes };
    for (name, at, field) in file.named("routes", report) {
        let Some(fields) = Fields::open(&field, at, section, report) else { continue };
        if let Some(route) = route(&name, &fields, section, base, known, report) {
            routes.insert(name, route);
        }
    }
    routes
}

fn route(
    name: &str,
    fields: &Fields<'_>,
    section: &'static Section,
    base: &Layer,
    known: &Known<'_>,
    report: &mut Report,
) -> Option<Route> {
    check_route_name(name, fields, report);
    let version = fields.count("version", 1, report).unwrap_or(1);
    let layer = Layer::read(fields, section, report).over(base);
    let models = route_models(fields, known.names, report);
    let governance = govern::governance(&layer, models.len());
    govern::check(fields, &layer, &governance, report);
    warn_of_silence(fields, &models, &governance, known, report);
    let first = models.first()?;
    if known.names.is_model(name) && first != name {
        let path = &fields.path;
        let mend = format!("rename the route, or put `{name}` first in its `models`");
        report.error(fields.at, format!("`{path}` hides the model of the same name; {mend}"));
    }
    Some(Route { name: name.to_owned(), version, models, governance })
}

fn check_route_name(name: &str, fields: &Fields<'_>, report: &mut Report) {
    let sendable = |c: char| c.is_ascii_graphic() && c != '@';
    if !name.chars().all(sendable) || name.len() > 128 {
        let rule = "a name has at most 128 printable ASCII characters, no space and no `@`";
        report.error(fields.at, format!("`routes.{}`: {rule}", shown(name)));
    }
}

/// Warns of models that the route lists and that will never answer.
fn warn_of_silence(
    fields: &Fields<'_>,
    models: &[String],
    governance: &Governance,
    known: &Known<'_>,
    report: &mut Report,
) {
    let path = &fields.path;
    let allowed = governance.substitution.allowed;
    if models.len() > 1 && !allowed {
        let count = models.len();
        report.warn(
            fields.mark("models"),
            format!("`{path}` lists {count} models, but `substitution.allowed: false` keeps all but the first from \
                 answering"),
        );
    }
    let first = models.first().map_or("", |name| known.names.described(name));
    let no_measure =
        models.len() > 1 && allowed && contract::lacks_measure(governance, known.models.get(first));
    if no_measure && known.names.serves(first) {
        let first = shown(first);
        let why = format!(
            "the price of `{first}` is not known, so `substitution.price_ceiling` lets no other model answer; \
             say it under `models.{first}.price`"
        );
        report.warn(fields.mark("models"), format!("`{path}`: {why}"));
    }
    let answering = models.iter().take(if allowed { usize::MAX } else { 1 });
    for (place, name) in answering.enumerate().filter(|(_, name)| known.names.serves(name)) {
        let name = known.names.described(name);
        let keys = contract::unkept(governance, known.models.get(name), place > 0 && !no_measure);
        if !keys.is_empty() {
            let keys = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            let (name, at) = (shown(name), fields.mark("models"));
            let why = format!(
                "model `{name}` is not known to keep {keys}; unless `models.{name}` says more, it never answers here"
            );
            report.warn(at, format!("`{path}`: {why}"));
        }
    }
}

fn route_models(fields: &Fields<'_>, names: &Names, report: &mut Report) -> Vec<String> {
    let Some(listed) = fields.texts("models", report) else { return Vec::new() };
    if listed.is_empty() && fields.get("models").is_some_and(|field| field.is_empty()) {
        report.error(
            fields.mark("models"),
            format!("`{}.models` is empty; name at least one model", fields.path),
        );
    }
    for (model, at) in listed.iter().filter(|(model, _)| !names.serves(model)) {
        let why = names.did_you_mean_model(model);
        report.error(*at, format!("`{}.models`: no target serves `{}`{why}", fields.path, shown(model)));
    }
    listed.into_iter().map(|(model, _)| model).collect()
}

fn keys(file: &Fields<'_>, names: &Names, report: &mut Report) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    let Some(section) = FILE.section_of("keys") else { return keys };
    let mut hashes: BTreeSet<[u8; 32]> = BTreeSet::new();
    for (name, at, field) in file.named("keys", report) {
        check_name("keys", &name, at, report);
        let Some(fields) = Fields::open(&field, at, section, report) else { continue };
        let (key, granted) = sections::api_key(&name, &fields, report);
        for (wanted, at) in granted.iter().filter(|(wanted, _)| !names.grants(wanted)) {
            let why = names.did_you_mean_grant(wanted);
            report.error(
                *at,
                format!("`{}.models`: there is no route or model `{}`{why}", fields.path, shown(wanted)),
            );
        }
        let Some(key) = key else { continue };
        if !hashes.insert(key.hash) {
            report
                .error(fields.mark("hash"), format!("`{}.hash` is the hash of another key too", fields.path));
        }
        keys.push(key);
    }
    keys
}
