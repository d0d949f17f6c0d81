//! From a catalog to lanes: which domains a call to each target crosses.

use alloc::format;

use super::{
    BTreeMap, Catalog, Domain, DomainIndex, DomainKind, FORGOTTEN_AFTER, Fleet, Instant, LONGEST_MODEL, Lane,
    LaneIndex, NamedLane, String, Target, TargetIndex, TargetState, Vec, WILDCARD_LANES,
};

/// The lanes of one catalog's targets. Keep it with the catalog that it was made from.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    lanes: Vec<LaneIndex>,
}

impl Fleet {
    /// Finds or makes the domains of every target. Domains keep their health as long as what they are about stays the
    /// same; a changed credential, base URL, upstream model or account starts afresh. Kills stay with the name.
    pub fn bind(&mut self, catalog: &Catalog) -> Bindings {
        self.bound += 1;
        let lanes = catalog.targets.iter().map(|target| {
            let upstream = target.upstream_model.as_deref().or(target.model.as_deref()).unwrap_or("*");
            self.make_lane(target, upstream, "", None)
        });
        let bindings = Bindings { lanes: lanes.collect() };
        let wildcards = catalog.targets.iter().filter(|t| t.model.is_none()).map(Target::identity_key);
        for key in wildcards {
            let lanes =
                self.wildcard_lanes.range((key.clone(), String::new())..).take_while(|((k, _), _)| *k == key);
            for lane in lanes.map(|(_, named)| named.lane).collect::<Vec<_>>() {
                self.keep_in_view(lane);
            }
        }
        bindings
    }

    /// The lane of a target for this upstream model. Only a wildcard target has more than one; their number is bounded,
    /// when none was idle for long enough to be forgotten, models beyond it share the target's own.
    pub fn lane(
        &mut self,
        catalog: &Catalog,
        bindings: &Bindings,
        index: TargetIndex,
        upstream_model: &str,
        now: Instant,
    ) -> Option<LaneIndex> {
        let target = catalog.target(index)?;
        let own = *bindings.lanes.get(index.0)?;
        if target.model.is_some() {
            return Some(own);
        }
        let key = (target.identity_key(), String::from(upstream_model));
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
        let lane = self.make_lane(target, upstream_model, &format!("/{upstream_model}"), freed);
        self.wildcard_lanes.insert(key, NamedLane { lane, used: now });
        Some(lane)
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
        suffix: &str,
        freed: Option<LaneIndex>,
    ) -> LaneIndex {
        let name = format!("{}{suffix}", target.name);
        let key = format!("{name}#{}", target.identity);
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
