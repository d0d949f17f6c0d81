//! A target: what it serves, where it is, and what proves who pays.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pointsman_core::policy::TimeOverrides;
use pointsman_core::target::{DataTerms, Target, TargetLimits};
use secrecy::ExposeSecret;

use crate::aws;
use crate::base_url::{self, AzurePath, Place};
use crate::config::{AwsSource, Azure, Credential, HttpPreference, Upstream};
use crate::grammar::{DIALECTS, Section};
use crate::layer::time_overrides;
use crate::problem::Report;
use crate::provider::{self, NOT_BUILT, PROVIDERS, Provider};
use crate::reader::{Field, Fields};
use crate::secret;
use crate::tree::Value;

/// The version of Azure's classic data plane that is used if none is written: the latest that is generally available
/// (Azure OpenAI, API version lifecycle).
pub(crate) const AZURE_API_VERSION: &str = "2024-10-21";

/// A target and how it is reached.
pub(crate) struct Reached {
    pub(crate) target: Target,
    pub(crate) upstream: Upstream,
}

/// What identifies a target, before the details.
pub(crate) struct Essentials {
    pub(crate) name: String,
    pub(crate) provider: &'static Provider,
    /// `None` is a wildcard.
    pub(crate) model: Option<String>,
    pub(crate) upstream_model: Option<String>,
    pub(crate) place: Place,
    pub(crate) azure: Option<Azure>,
    pub(crate) credential: Credential,
}

impl Essentials {
    /// The target with everything else at its default.
    pub(crate) fn reach(self) -> Reached {
        let account = account(self.provider, &self.place, &self.credential);
        let upstream_name = self.upstream_model.as_deref().or(self.model.as_deref()).unwrap_or("*");
        let identity = stable_hash(&[&self.place.base_url, upstream_name, &account]);
        let target = Target {
            name: self.name,
            provider: self.provider.name.to_owned(),
            model: self.model,
            upstream_model: self.upstream_model,
            known: None,
            endpoint: self.place.endpoint,
            account,
            identity: format!("{identity:016x}"),
            region: None,
            data: DataTerms::default(),
            tags: BTreeSet::new(),
            priority: 1,
            weight: 1,
            limits: TargetLimits::default(),
            times: TimeOverrides::default(),
            caller_key: matches!(self.credential, Credential::Caller),
            // What a provider has beside its dialects the server knows, where calls are made.
            serves: None,
            dialects: self.provider.dialects.iter().map(|d| (*d).to_owned()).collect(),
            stream_carries_everything: self.provider.stream_carries_everything,
        };
        let upstream = Upstream {
            provider: self.provider.name.to_owned(),
            base_url: self.place.base_url,
            azure: self.azure,
            credential: self.credential,
            http: HttpPreference::Auto,
            ca_file: None,
        };
        Reached { target, upstream }
    }
}

/// The failure domain of a credential: recognisable, and not the credential.
fn account(provider: &Provider, place: &Place, credential: &Credential) -> String {
    let mark = match credential {
        // Without a credential only the address tells two servers apart: one that limits its rate says nothing about
        // its neighbour on another port.
        Credential::None => return format!("{}@{}#none", provider.name, place.endpoint),
        Credential::Caller => "caller".to_owned(),
        Credential::Aws(aws) => match &aws.source {
            AwsSource::Chain => "aws".to_owned(),
            AwsSource::Profile(profile) => format!("aws-{profile}"),
            AwsSource::Static { access_key_id, .. } => {
                let hash = stable_hash(&[provider.name, &place.host, access_key_id.expose_secret()]);
                format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
            }
        },
        Credential::Secret(secret) => {
            let hash = stable_hash(&[provider.name, &place.host, secret.expose_secret()]);
            format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
        }
    };
    format!("{}@{}#{mark}", provider.name, place.host)
}

/// FNV-1a (64 bit) over the parts, each closed by a zero byte: the same on every machine and in every release.
fn stable_hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain(std::iter::once(0)));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What a target serves.
enum Served {
    /// Any model of its provider.
    Wildcard,
    Model(String),
}

impl Served {
    fn model(&self) -> Option<&String> {
        match self {
            Self::Wildcard => None,
            Self::Model(model) => Some(model),
        }
    }
}

/// Reads one target; `None` if something that it cannot do without is wrong (then reported).
pub(crate) fn read(
    name: &str,
    fields: &Fields<'_>,
    section: &'static Section,
    report: &mut Report,
) -> Option<Reached> {
    let provider = provider_row(fields, report);
    let served = fields.get("model").and_then(|field| served(&field, provider, report));
    let upstream_model = fields.text("upstream_model", report);
    let details = Details::read(fields, section, provider, report);
    let Some(provider) = provider else {
        // Without its provider they can only be checked for their type.
        for key in ["base_url", "api_key", "api_version"].into_iter().chain(aws::KEYS) {
            fields.text(key, report);
        }
        return None;
    };
    let place = place(fields, section, provider, report);
    let credential = credential(fields, section, provider, place.as_ref(), report);
    if let (Some(Served::Wildcard), Some(_)) = (&served, &upstream_model) {
        let why = "a wildcard serves every model under its own name; remove `upstream_model`";
        report.error(fields.mark("upstream_model"), format!("`{}`: {why}", fields.path));
    }
    let api_version = fields.text("api_version", report);
    let (place, served, credential) = (place?, served?, credential?);
    let written = Written { upstream_model, api_version };
    let (azure, upstream_model) = match &place.azure {
        Some(path) => {
            let (azure, upstream_model) = written.azure(path, &served, fields, report)?;
            (Some(azure), upstream_model)
        }
        None => (None, written.elsewhere(provider, fields, report)),
    };
    let model = served.model().cloned();
    let name = name.to_owned();
    let essentials = Essentials { name, provider, model, upstream_model, place, azure, credential };
    Some(details.on(essentials.reach()))
}

fn provider_row(fields: &Fields<'_>, report: &mut Report) -> Option<&'static Provider> {
    let words: Vec<(&str, &str)> = PROVIDERS.iter().map(|row| (row.name, row.name)).collect();
    let name = fields.get("provider")?.choice(&words, NOT_BUILT, report)?;
    provider::named(name)
}

/// The one dialect that a target is kept to.
fn dialect(fields: &Fields<'_>, provider: Option<&Provider>, report: &mut Report) -> Option<&'static str> {
    let words: Vec<(&str, &'static str)> = DIALECTS.iter().map(|name| (*name, *name)).collect();
    let field = fields.get("dialect")?;
    let dialect = field.choice(&words, &[], report)?;
    match provider {
        Some(provider) if !provider.dialects.contains(&dialect) => field.wrong(report, &provider.speaks()),
        _ => Some(dialect),
    }
}

/// The model that a target serves: a name, or `*` or `provider/*`.
fn served(field: &Field<'_>, provider: Option<&Provider>, report: &mut Report) -> Option<Served> {
    let model = field.text(report)?;
    let is_wildcard = match (model.strip_suffix("/*"), provider) {
        (Some(prefix), Some(provider)) => prefix == provider.name,
        // A provider that is wrong itself was reported.
        (Some(_), None) => true,
        (None, _) => model == "*",
    };
    match model.as_str() {
        _ if is_wildcard => Some(Served::Wildcard),
        text if text.contains('*') => {
            field.wrong(report, "a wildcard is written `\"*\"`; nothing else may hold a `*`")
        }
        text if text.chars().any(char::is_whitespace) => field.wrong(report, "a model's name has no spaces"),
        _ => Some(Served::Model(model)),
    }
}

fn place(
    fields: &Fields<'_>,
    section: &'static Section,
    provider: &'static Provider,
    report: &mut Report,
) -> Option<Place> {
    let Some(field) = fields.get("base_url") else {
        if let Some(ended) = provider.ended {
            let why = format!("`{}`: {} {ended}; every call will fail", fields.path, provider.name);
            report.warn(fields.mark("provider"), why);
        }
        if provider.is_aws() {
            return aws::place(fields, provider, report);
        }
        return match base_url::default_of(provider) {
            Ok(place) => Some(place),
            Err(_) if fields.means_to_have("base_url", section) => None,
            Err(why) => {
                report.error(fields.at, format!("`{}`: {why}", fields.path));
                None
            }
        };
    };
    let text = field.text(report)?;
    match base_url::read(&text, provider) {
        Ok(place) => {
            for note in &place.notes {
                report.warn(field.node.at, format!("`{}` {note}", field.path));
            }
            Some(place)
        }
        // The URL itself is not repeated: it may hold a credential.
        Err(why) => {
            report.error(field.node.at, format!("`{}` {why}", field.path));
            None
        }
    }
}

fn credential(
    fields: &Fields<'_>,
    section: &'static Section,
    provider: &'static Provider,
    place: Option<&Place>,
    report: &mut Report,
) -> Option<Credential> {
    let key = fields.get("api_key");
    if !provider.is_aws() {
        aws::refuse(fields, "only Bedrock takes one", report);
    } else if key.is_some() {
        aws::refuse(fields, "`api_key` is a credential already", report);
    } else if !fields.means_to_have("api_key", section) {
        return aws::credential(fields, place?, report);
    }
    match key {
        Some(field) if matches!(&field.node.value, Value::Scalar(s) if s.text == "caller") => {
            Some(Credential::Caller)
        }
        Some(field) => secret::read(&field, report).map(Credential::Secret),
        None if fields.means_to_have("api_key", section) => None,
        None => match provider.key_variable {
            // Behind an address of its own a provider may be a proxy or a test server that asks for nothing.
            Some(variable) if provider.base_url.is_none() || fields.get("base_url").is_none() => {
                let how = format!(
                    "write `api_key: ${{{variable}}}`, or `api_key: caller` if each caller brings one"
                );
                report.error(fields.at, format!("`{}` needs `api_key`: {how}", fields.path));
                None
            }
            _ => Some(Credential::None),
        },
    }
}

/// What a target says itself that a classic Azure URL may say too.
struct Written {
    upstream_model: Option<String>,
    api_version: Option<String>,
}

impl Written {
    /// The parts of a classic Azure URL, and the upstream model that goes with them.
    fn azure(
        self,
        path: &AzurePath,
        served: &Served,
        fields: &Fields<'_>,
        report: &mut Report,
    ) -> Option<(Azure, Option<String>)> {
        let contradicts =
            |own: &Option<String>, url: &Option<String>| own.is_some() && url.is_some() && own != url;
        for (key, own, url) in [
            ("api_version", &self.api_version, &path.api_version),
            ("upstream_model", &self.upstream_model, &path.deployment),
        ] {
            if contradicts(own, url) {
                let why = format!("`{}`: `base_url` and `{key}` contradict each other", fields.path);
                report.error(fields.mark(key), why);
            }
        }
        let upstream_model = self.upstream_model.or_else(|| path.deployment.clone());
        let Some(deployment) = upstream_model.as_ref().or_else(|| served.model()).cloned() else {
            let why = "an Azure wildcard needs the v1 URL, `https://NAME.openai.azure.com/openai/v1`";
            report.error(fields.mark("model"), format!("`{}`: {why}", fields.path));
            return None;
        };
        let api_version = self.api_version.or_else(|| path.api_version.clone());
        let api_version = api_version.unwrap_or_else(|| AZURE_API_VERSION.to_owned());
        Some((Azure { deployment, api_version }, upstream_model))
    }

    /// The upstream model where no classic Azure URL is involved.
    fn elsewhere(self, provider: &Provider, fields: &Fields<'_>, report: &mut Report) -> Option<String> {
        if self.api_version.is_some() {
            let why = match provider.name {
                "azure" => "Azure's `/openai/v1` takes no version",
                _ => "only Azure's classic URLs take one",
            };
            let path = &fields.path;
            report.error(fields.mark("api_version"), format!("`{path}.api_version`: {why}; remove it"));
        }
        self.upstream_model
    }
}

/// Everything about a target that has a default.
struct Details {
    dialect: Option<&'static str>,
    region: Option<String>,
    data: DataTerms,
    tags: BTreeSet<String>,
    priority: Option<u32>,
    weight: Option<u32>,
    limits: TargetLimits,
    times: TimeOverrides,
    http: Option<HttpPreference>,
    ca_file: Option<PathBuf>,
}

impl Details {
    fn read(
        fields: &Fields<'_>,
        section: &'static Section,
        provider: Option<&Provider>,
        report: &mut Report,
    ) -> Self {
        let https = [("auto", HttpPreference::Auto), ("1", HttpPreference::One), ("2", HttpPreference::Two)];
        let tags = fields.texts("tags", report).unwrap_or_default();
        Self {
            dialect: dialect(fields, provider, report),
            region: fields.text("region", report),
            data: fields.below("data", section, report).map(|data| terms(&data, report)).unwrap_or_default(),
            tags: tags.into_iter().map(|(tag, _)| tag).collect(),
            priority: fields.count("priority", 0, report),
            weight: fields.count("weight", 0, report),
            limits: fields.below("limits", section, report).map(|l| limits(&l, report)).unwrap_or_default(),
            times: fields
                .below("budget", section, report)
                .map(|b| time_overrides(&b, report))
                .unwrap_or_default(),
            http: fields.choice("http", &https, report),
            ca_file: ca_file(fields, report),
        }
    }

    fn on(self, mut reached: Reached) -> Reached {
        let target = &mut reached.target;
        if let Some(dialect) = self.dialect {
            target.dialects = vec![dialect.to_owned()];
        }
        target.region = self.region;
        target.data = self.data;
        target.tags = self.tags;
        target.priority = self.priority.unwrap_or(target.priority);
        target.weight = self.weight.unwrap_or(target.weight);
        target.limits = self.limits;
        target.times = self.times;
        reached.upstream.http = self.http.unwrap_or_default();
        reached.upstream.ca_file = self.ca_file;
        reached
    }
}

fn terms(fields: &Fields<'_>, report: &mut Report) -> DataTerms {
    DataTerms {
        zero_retention: fields.choice("retention", &[("none", true), ("default", false)], report),
        training: fields.flag("training", report),
    }
}

fn limits(fields: &Fields<'_>, report: &mut Report) -> TargetLimits {
    TargetLimits {
        rpm: fields.count("rpm", 1, report),
        tpm: fields.count("tpm", 1, report),
        concurrency: fields.count("concurrency", 1, report),
    }
}

fn ca_file(fields: &Fields<'_>, report: &mut Report) -> Option<PathBuf> {
    let field = fields.get("ca_file")?;
    let path = PathBuf::from(field.text(report)?);
    if path.is_file() { Some(path) } else { field.wrong(report, "there is no such file") }
}
