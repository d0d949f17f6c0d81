//! From a catalog to lanes: which domains a call to each target crosses.

use alloc::format;

use super::{
    BTreeMap, Catalog, Domain, DomainIndex, DomainKind, FORGOTTEN_AFTER, Fleet, Instant, LONGEST_MODEL, Lane,
    LaneIndex, NamedLane, String, Target, TargetState, Vec, WILDCARD_LANES, Wanted,
};

/// The lanes of one catalog's targets. Keep it with the catalog that it was made from.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    lanes: Vec<LaneIndex>,
}

/// Which of a target's lanes.
#[derive(Clone, Copy, Debug, Default)]
struct Path<'a> {
    /// What the model of a wildcard target adds to its name.
    suffix: &'a str,
    endpoint: Option<&'static str>,
}

impl Fleet {
    /// Finds or makes the domains of every target. Domains keep their health as long as what they are about stays the
    /// same; a changed credential, base URL, upstream model or account starts afresh. Kills stay with the name.
    pub fn bind(&mut self, catalog: &Catalog) -> Bindings {
        self.bound += 1;
        let lanes = catalog.targets.iter().map(|target| {
            let upstream = target.upstream_model.as_deref().or(target.model.as_deref()).unwrap_or("*");
            self.make_lane(target, upstream, Path::default(), None)
        });
        let bindings = Bindings { lanes: lanes.collect() };
        for key in catalog.targets.iter().map(Target::identity_key) {
            let of_models = self.wildcard_lanes.range((key.clone(), String::new(), None)..);
            let of_models = of_models.take_while(|((k, ..), _)| *k == key).map(|(_, named)| named.lane);
            let of_endpoints = self.endpoint_lanes.range((key.clone(), "")..);
            let of_endpoints = of_endpoints.take_while(|((k, _), _)| *k == key).map(|(_, lane)| *lane);
            for lane in of_models.chain(of_endpoints).collect::<Vec<_>>() {
                self.keep_in_view(lane);
            }
        }
        bindings
    }

    /// The lane of a target for this upstream model and API. One for an API of its own is made when it is first asked
    /// for: what a target makes of it says nothing of others, and a model that is asked for what it is not made for is
    /// not to be lost to those who ask for what it is.
    ///
    /// Only a wildcard target has one for each model; their number is bounded, when none was idle for long enough to be
    /// forgotten, models beyond it share the target's own.
    pub fn lane(
        &mut self,
        catalog: &Catalog,
        bindings: &Bindings,
        wanted: &Wanted<'_>,
        now: Instant,
    ) -> Option<LaneIndex> {
        let Wanted { target: index, upstream_model, endpoint } = *wanted;
        let target = catalog.target(index)?;
        let own = *bindings.lanes.get(index.0)?;
        match (&target.model, endpoint) {
            (Some(_), None) => return Some(own),
            (Some(_), Some(endpoint)) => {
                return Some(self.endpoint_lane(target, upstream_model, endpoint, own));
            }
            (None, _) => {}
        }
        let key = (target.identity_key(), String::from(upstream_model), endpoint);
        if let Some(named) = self.wildcard_lanes.get_mut(&key) {
            named.used = now;
            return Some(named.lane);
        }
        // Names come from clients: neither their number nor their length may grow what is kept.
        if upstream_model.len() > LONGEST_MODEL {
            return Some(own);
        }
        let full = self.wildcard_lanes.len() >= WILDCARD_LANES;
        let freed = if full { self.forget_idlest(now) } else { None };
        if full && freed.is_none() {
            return Some(own);
        }
        let path = Path { suffix: &format!("/{upstream_model}"), endpoint };
        let lane = self.make_lane(target, upstream_model, path, freed);
        self.inherit_isolation(own, lane);
        self.wildcard_lanes.insert(key, NamedLane { lane, used: now });
        Some(lane)
    }

    fn endpoint_lane(
        &mut self,
        target: &Target,
        upstream_model: &str,
        endpoint: &'static str,
        own: LaneIndex,
    ) -> LaneIndex {
        let key = (target.identity_key(), endpoint);
        if let Some(lane) = self.endpoint_lanes.get(&key) {
            return *lane;
        }
        let path = Path { suffix: "", endpoint: Some(endpoint) };
        let lane = self.make_lane(target, upstream_model, path, None);
        self.inherit_isolation(own, lane);
        self.endpoint_lanes.insert(key, lane);
        lane
    }

    /// What an operator took out stays out also where it is asked for something new.
    fn inherit_isolation(&mut self, from: LaneIndex, to: LaneIndex) {
        let target_of = |lane: LaneIndex| self.lanes.get(lane.0).map(|lane| lane.target);
        let (Some(from), Some(to)) = (target_of(from), target_of(to)) else { return };
        let isolation = self.domains.get(from.0).and_then(|domain| domain.isolation);
        if let Some(isolation) = isolation.filter(|isolation| isolation.cause.is_none())
            && let Some(domain) = self.domains.get_mut(to.0)
        {
            domain.isolation = Some(isolation);
        }
    }

    /// Frees the lane of the model that was asked for least recently, unless that is not long ago: nobody may fill the
    /// table for good. What is still under way on it ends in an older epoch and changes nothing.
    fn forget_idlest(&mut self, now: Instant) -> Option<LaneIndex> {
        let (key, idlest) = self.wildcard_lanes.iter().min_by_key(|(_, named)| named.used)?;
        if now.since(idlest.used) < FORGOTTEN_AFTER {
            return None;
        }
        let (key, place) = (key.clone(), idlest.lane);
        self.wildcard_lanes.remove(&key);
        let lane = self.lanes.get(place.0)?.clone();
        for index in [lane.rate, lane.target].into_iter().chain(lane.capabilities) {
            let others = self.lanes.iter().enumerate().filter(|(other, _)| *other != place.0);
            if !others.flat_map(|(_, other)| other.domains()).any(|other| other == index) {
                self.by_name.retain(|_, named| *named != index);
                self.free.push(index);
                // Out of view until it is something else.
                if let Some(domain) = self.domains.get_mut(index.0) {
                    domain.bound = 0;
                }
            }
        }
        Some(place)
    }

    fn make_lane(
        &mut self,
        target: &Target,
        upstream_model: &str,
        path: Path<'_>,
        freed: Option<LaneIndex>,
    ) -> LaneIndex {
        let Path { suffix, endpoint } = path;
        let own = format!("{}{suffix}", target.name);
        let (name, key) = match endpoint {
            None => (own.clone(), format!("{own}#{}", target.identity)),
            Some(endpoint) => {
                (format!("{own} ({endpoint})"), format!("{own}#{}#{endpoint}", target.identity))
            }
        };
        let capability = |fleet: &mut Self, word: &str| {
            fleet.find_or_make(DomainKind::Capability, format!("{key}/{word}"), format!("{name}/{word}"))
        };
        let lane = Lane {
            endpoint: self.find_or_make(
                DomainKind::Endpoint,
                target.endpoint.clone(),
                target.endpoint.clone(),
            ),
            account: self.find_or_make(DomainKind::Account, target.account.clone(), target.account.clone()),
            rate: {
                let name = format!("{}/{upstream_model}", target.account);
                self.find_or_make(DomainKind::Rate, name.clone(), name)
            },
            target: self.find_or_make(DomainKind::Target, key.clone(), name.clone()),
            capabilities: [
                capability(self, "tools"),
                capability(self, "structured"),
                capability(self, "vision"),
            ],
            state: self.find_or_make_state(target),
            wildcard: target.model.is_none(),
            any_model: target.model.is_none() && suffix.is_empty(),
            apart: endpoint.is_some(),
        };
        // A reload that changes nothing about a target must not grow the table.
        let known = self.lanes.iter().position(|known| *known == lane);
        let place = known.or_else(|| freed.map(|freed| freed.0)).unwrap_or(self.lanes.len());
        match self.lanes.get_mut(place) {
            Some(reused) => *reused = lane,
            None => self.lanes.push(lane),
        }
        self.keep_in_view(LaneIndex(place));
        LaneIndex(place)
    }

    /// Notes that the present binding leads to the lane's domains: an operator sees these and no older ones.
    fn keep_in_view(&mut self, lane: LaneIndex) {
        let Some(lane) = self.lanes.get(lane.0) else { return };
        for index in lane.domains() {
            if let Some(domain) = self.domains.get_mut(index.0) {
                domain.bound = self.bound;
            }
        }
    }

    fn find_or_make(&mut self, kind: DomainKind, key: String, name: String) -> DomainIndex {
        if let Some(index) = self.by_name.get(&(kind, key.clone())) {
            return *index;
        }
        if let Some(index) = self.free.pop()
            && let Some(domain) = self.domains.get_mut(index.0)
        {
            domain.reset();
            let breaker = core::mem::take(&mut domain.breaker);
            *domain = Domain { breaker, ..Domain::new(kind, name) };
            self.by_name.insert((kind, key), index);
            return index;
        }
        let index = DomainIndex(self.domains.len());
        self.domains.push(Domain::new(kind, name));
        self.by_name.insert((kind, key), index);
        index
    }

    fn find_or_make_state(&mut self, target: &Target) -> usize {
        let place = match self.target_by_name.get(&target.name) {
            Some(place) => *place,
            None => {
                self.targets.push(TargetState::default());
                self.target_by_name.insert(target.name.clone(), self.targets.len() - 1);
                self.targets.len() - 1
            }
        };
        if let Some(state) = self.targets.get_mut(place) {
            state.limits = target.limits;
        }
        place
    }

    /// Targets by name, with what is known of them.
    pub fn targets(&self) -> impl Iterator<Item = (&str, &TargetState)> {
        let by_name: &BTreeMap<String, usize> = &self.target_by_name;
        by_name.iter().filter_map(|(name, place)| Some((name.as_str(), self.targets.get(*place)?)))
    }
}

impl Target {
    fn identity_key(&self) -> String {
        format!("{}#{}", self.name, self.identity)
    }
}
