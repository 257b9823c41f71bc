//! When something is told, and when it is not: what begins is told once, and what comes and goes within the rule's rest is
//! not told each time.

use std::collections::BTreeMap;

use entity::{cluster_flag::LASTS, ids::AlertId};

use super::Subject;

/// A time for which something was so. All times are epoch milliseconds of the server's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// Which one; none if it is new.
    pub id: Option<AlertId>,
    /// What it is about.
    pub subject: Subject,
    /// Since when.
    pub since: i64,
    /// Until when; [`LASTS`] while it is so.
    pub ended_key: i64,
    /// The value when it was last looked at.
    pub value: f64,
    /// When it was last told that it is so.
    pub told_at: Option<i64>,
    /// Whether that was told since it last began.
    pub told: bool,
}

/// What becomes of the alerts of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Those that are new or not as they were.
    pub changed: Vec<Episode>,
    /// Of these, what is to be told to have begun, by their places.
    pub began: Vec<usize>,
    /// And to have ended.
    pub ended: Vec<usize>,
}

/// What becomes of the alerts of a rule, now that it holds for some subjects. `known` are those that last and those that
/// ended within the rest.
#[must_use]
pub fn decide(now: i64, rest: i64, known: &[Episode], holds: &BTreeMap<Subject, f64>) -> Decision {
    let mut decision = Decision::default();
    for (subject, value) in holds {
        let of_subject = known.iter().filter(|episode| episode.subject == *subject);
        let last = of_subject.max_by_key(|episode| episode.ended_key);
        let before = last.filter(|last| last.ended_key == LASTS || now - last.ended_key < rest);
        let mut episode = match before {
            Some(before) => Episode { ended_key: LASTS, value: *value, ..before.clone() },
            None => Episode {
                id: None,
                subject: *subject,
                since: now,
                ended_key: LASTS,
                value: *value,
                told_at: None,
                told: false,
            },
        };
        let is_told = !episode.told && episode.told_at.is_none_or(|told_at| now - told_at >= rest);
        if is_told {
            (episode.told, episode.told_at) = (true, Some(now));
            decision.began.push(decision.changed.len());
        }
        if before != Some(&episode) {
            decision.changed.push(episode);
        }
    }
    for before in known.iter().filter(|known| known.ended_key == LASTS && !holds.contains_key(&known.subject))
    {
        if before.told {
            decision.ended.push(decision.changed.len());
        }
        decision.changed.push(Episode { ended_key: now, told: false, ..before.clone() });
    }
    decision
}

#[cfg(test)]
mod tests {
    use entity::ids::ClusterId;

    use super::*;

    /// Each step: seconds, the values of clusters by number, and what is told to have begun and ended.
    type Step = (i64, &'static [(i64, f64)], &'static [i64], &'static [i64]);

    #[test]
    fn what_begins_is_told_once_and_not_again_before_the_rest_is_over() {
        let steps: &[Step] = &[
            (0, &[(1, 5.0)], &[1], &[]),
            (30, &[(1, 6.0), (2, 1.0)], &[2], &[]),
            (60, &[(2, 1.0)], &[], &[1]),
            (90, &[(1, 7.0), (2, 1.0)], &[], &[]),
            (120, &[(2, 1.0)], &[], &[]),
            (150, &[(1, 7.0), (2, 1.0)], &[], &[]),
            // The rest of an hour is over: 1 lasts, which has not been told.
            (3_600, &[(1, 8.0), (2, 1.0)], &[1], &[]),
            (3_630, &[], &[], &[1, 2]),
            // What ended longer ago than the rest begins anew.
            (7_300, &[(1, 9.0)], &[1], &[]),
        ];
        let mut known: Vec<Episode> = Vec::new();
        let mut ids = 1_u128..;
        for (second, holds, began, ended) in steps {
            let subject = |number: &i64| Subject::Cluster(ClusterId(*number));
            let holds = holds.iter().map(|(number, value)| (subject(number), *value)).collect();
            let decision = decide(second * 1_000, 3_600_000, &known, &holds);
            let of = |places: &[usize]| {
                let mut subjects: Vec<_> =
                    places.iter().map(|place| decision.changed[*place].subject).collect();
                subjects.sort();
                subjects
            };
            assert_eq!(of(&decision.began), began.iter().map(subject).collect::<Vec<_>>(), "{second}");
            assert_eq!(of(&decision.ended), ended.iter().map(subject).collect::<Vec<_>>(), "{second}");
            for mut episode in decision.changed {
                episode.id = episode.id.or_else(|| ids.next().map(|id| AlertId(uuid::Uuid::from_u128(id))));
                known.retain(|known| known.id != episode.id);
                known.push(episode);
            }
            let again = decide(second * 1_000, 3_600_000, &known, &holds);
            assert_eq!(again, Decision::default(), "{second}: the same again changes nothing");
        }
        let of_1: Vec<i64> =
            known.iter().filter(|known| known.value > 5.0).map(|known| known.since / 1_000).collect();
        assert_eq!(of_1, [0, 7_300]);
    }
}
