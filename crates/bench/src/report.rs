//! How the figures are told: medians over the rounds, from the smallest to the largest, and the ratio to the yardstick
//! of the same round.

use serde_json::{Map, Value, json};

use crate::measure::{Figure, Figures, Pace};
use crate::stage::Way;

/// Smallest, median, largest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Self { least: *sorted.first()?, median, most: *sorted.last()? })
    }

    fn text(self) -> String {
        format!("{:.1} ({:.1}–{:.1})", self.median, self.least, self.most)
    }

    fn json(self) -> Value {
        json!({ "median": self.median, "least": self.least, "most": self.most })
    }
}

impl Figure {
    fn of(&self, way: Way) -> Vec<f64> {
        let values = self.values.get(&way).cloned().unwrap_or_default();
        let direct = self.values.get(&Way::Direct).filter(|_| self.added && way != Way::Direct);
        match direct {
            Some(direct) => values.iter().zip(direct).map(|(value, direct)| value - direct).collect(),
            None => values,
        }
    }

    fn ratio(&self) -> Option<Spread> {
        let (own, yard) = self.pair.unwrap_or((Way::Gateway, Way::Nginx));
        let pairs = self.of(own).into_iter().zip(self.of(yard));
        Spread::of(&pairs.filter(|(_, yard)| *yard > 0.0).map(|(own, yard)| own / yard).collect::<Vec<_>>())
    }

    /// Whether what was asked of it holds, if anything was.
    fn verdict(&self) -> Option<bool> {
        let ratio = self.most_ratio.zip(self.ratio()).map(|(most, ratio)| ratio.median <= most);
        let value = self.most.zip(Spread::of(&self.of(Way::Gateway))).map(|(most, own)| own.median <= most);
        ratio.or(value)
    }

    fn target(&self) -> String {
        match (self.most_ratio, self.most) {
            (Some(ratio), _) => format!("≤ {ratio} ×"),
            (None, Some(most)) => format!("≤ {most}"),
            (None, None) => String::new(),
        }
    }
}

/// As a table.
pub(crate) fn text(figures: &Figures, pace: &Pace) -> String {
    let mut text = format!(
        "{:<44} {:<4} {:<22} {:<22} {:<22} {:<22} {:<18} target\n",
        "median (least–most) of the rounds", "", "direct", "nginx", "pointsman", "translated", "ratio"
    );
    for (name, figure) in figures.in_order() {
        let shown = |way| Spread::of(&figure.of(way)).map_or_else(String::new, Spread::text);
        let verdict = match figure.verdict() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let line = format!(
            "{name:<44} {:<4} {:<22} {:<22} {:<22} {:<22} {:<18} {} {verdict}",
            figure.unit,
            shown(Way::Direct),
            shown(Way::Nginx),
            shown(Way::Gateway),
            shown(Way::Translated),
            figure
                .ratio()
                .map_or_else(String::new, |r| format!("{:.2} ({:.2}–{:.2})", r.median, r.least, r.most)),
            figure.target(),
        );
        text += line.trim_end();
        text.push('\n');
    }
    for (way, (late, all)) in &figures.delayed {
        text += &format!("answers of {} that took 38 to 46 ms: {late} of {all}\n", way.name());
    }
    text += &format!("{} rounds of {} ms each\n", pace.rounds, pace.each.as_millis());
    text
}

/// As JSON.
pub(crate) fn json(figures: &Figures, pace: &Pace) -> Value {
    let measures = figures.in_order().into_iter().map(|(name, figure)| {
        let mut object = Map::new();
        object.insert("name".into(), json!(name));
        object.insert("unit".into(), json!(figure.unit));
        object.insert("added_to_direct".into(), json!(figure.added));
        for way in Way::ALL {
            let values = figure.of(way);
            if let Some(spread) = Spread::of(&values) {
                let mut value = spread.json();
                if let Some(object) = value.as_object_mut() {
                    object.insert("rounds".into(), json!(values));
                }
                object.insert(way.name().into(), value);
            }
        }
        object.insert("ratio".into(), json!(figure.ratio().map(Spread::json)));
        object.insert("target_ratio".into(), json!(figure.most_ratio));
        object.insert("target".into(), json!(figure.most));
        object.insert("met".into(), json!(figure.verdict()));
        Value::Object(object)
    });
    let delayed = figures
        .delayed
        .iter()
        .map(|(way, (late, all))| (way.name().to_owned(), json!({ "from_38_to_46_ms": late, "all": all })));
    json!({
        "rounds": pace.rounds,
        "round_ms": u64::try_from(pace.each.as_millis()).unwrap_or(u64::MAX),
        "streams": pace.streams,
        "measures": measures.collect::<Vec<_>>(),
        "delayed_acknowledgement": delayed.collect::<Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_latency_is_compared_round_by_round() {
        let values = [
            (Way::Direct, vec![10.0, 100.0, 10.0]),
            (Way::Nginx, vec![20.0, 110.0, 20.0]),
            (Way::Gateway, vec![25.0, 115.0, 30.0]),
        ];
        let figure =
            Figure { values: values.into(), added: true, most_ratio: Some(1.6), ..Figure::default() };
        assert_eq!(figure.ratio(), Some(Spread { least: 1.5, median: 1.5, most: 2.0 }));
        assert_eq!(figure.verdict(), Some(true));
    }

    #[test]
    fn a_missed_target_is_called_missed() {
        let figure =
            Figure { values: [(Way::Gateway, vec![21.0])].into(), most: Some(20.0), ..Figure::default() };
        assert_eq!(figure.verdict(), Some(false));
    }
}
