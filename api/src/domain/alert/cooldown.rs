//! Episodes and cooldown of alerts: the start of an episode is sent once, and one that ends and returns
//! within the rule's cooldown is not sent again.

use std::collections::BTreeMap;

use entity::{cluster_flag::NOT_ENDED_KEY, ids::AlertId};

use super::Subject;

/// A period in which an alert's condition holds. All times are epoch milliseconds of the server's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// The id of the stored alert. `None` if it is new.
    pub id: Option<AlertId>,
    /// The subject.
    pub subject: Subject,
    /// The start.
    pub since: i64,
    /// The end. [`NOT_ENDED_KEY`] while the condition holds.
    pub ended_key: i64,
    /// The value at the last evaluation.
    pub value: f64,
    /// The time of the last message about its start.
    pub last_sent_at: Option<i64>,
    /// True if a message about its last start was sent.
    pub start_sent: bool,
}

/// The changes to the alerts of a rule, and the messages to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// New and changed episodes.
    pub changed: Vec<Episode>,
    /// The indexes of the changed episodes whose start must be sent.
    pub started: Vec<usize>,
    /// The indexes of the changed episodes whose end must be sent.
    pub ended: Vec<usize>,
}

/// Evaluates a rule. `holds` are the subjects for which the condition holds now, with their values.
/// `known` are the continuing episodes and those that ended within the cooldown, `rest`.
#[must_use]
pub fn evaluate_episodes(now: i64, rest: i64, known: &[Episode], holds: &BTreeMap<Subject, f64>) -> Decision {
    let mut decision = Decision::default();
    for (subject, value) in holds {
        let of_subject = known.iter().filter(|episode| episode.subject == *subject);
        let last = of_subject.max_by_key(|episode| episode.ended_key);
        let before = last.filter(|last| last.ended_key == NOT_ENDED_KEY || now - last.ended_key < rest);
        let mut episode = match before {
            Some(before) => Episode { ended_key: NOT_ENDED_KEY, value: *value, ..before.clone() },
            None => Episode {
                id: None,
                subject: *subject,
                since: now,
                ended_key: NOT_ENDED_KEY,
                value: *value,
                last_sent_at: None,
                start_sent: false,
            },
        };
        let is_told = !episode.start_sent && episode.last_sent_at.is_none_or(|told_at| now - told_at >= rest);
        if is_told {
            (episode.start_sent, episode.last_sent_at) = (true, Some(now));
            decision.started.push(decision.changed.len());
        }
        if before != Some(&episode) {
            decision.changed.push(episode);
        }
    }
    for before in
        known.iter().filter(|known| known.ended_key == NOT_ENDED_KEY && !holds.contains_key(&known.subject))
    {
        if before.start_sent {
            decision.ended.push(decision.changed.len());
        }
        decision.changed.push(Episode { ended_key: now, start_sent: false, ..before.clone() });
    }
    decision
}

#[cfg(test)]
mod tests {
    use entity::ids::ClusterId;

    use super::*;

    /// A step: the second, the values by cluster, and the clusters whose start and whose end is sent.
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
            // The cooldown of an hour has passed, and cluster 1 has an episode whose start was not sent.
            (3_600, &[(1, 8.0), (2, 1.0)], &[1], &[]),
            (3_630, &[], &[], &[1, 2]),
            // An episode that ended before the cooldown period starts again.
            (7_300, &[(1, 9.0)], &[1], &[]),
        ];
        let mut known: Vec<Episode> = Vec::new();
        let mut ids = 1_u128..;
        for (second, holds, began, ended) in steps {
            let subject = |number: &i64| Subject::Cluster(ClusterId(*number));
            let holds = holds.iter().map(|(number, value)| (subject(number), *value)).collect();
            let decision = evaluate_episodes(second * 1_000, 3_600_000, &known, &holds);
            let of = |places: &[usize]| {
                let mut subjects: Vec<_> =
                    places.iter().map(|place| decision.changed[*place].subject).collect();
                subjects.sort();
                subjects
            };
            assert_eq!(of(&decision.started), began.iter().map(subject).collect::<Vec<_>>(), "{second}");
            assert_eq!(of(&decision.ended), ended.iter().map(subject).collect::<Vec<_>>(), "{second}");
            for mut episode in decision.changed {
                episode.id = episode.id.or_else(|| ids.next().map(|id| AlertId(uuid::Uuid::from_u128(id))));
                known.retain(|known| known.id != episode.id);
                known.push(episode);
            }
            let again = evaluate_episodes(second * 1_000, 3_600_000, &known, &holds);
            assert_eq!(again, Decision::default(), "{second}: the same again changes nothing");
        }
        let of_1: Vec<i64> =
            known.iter().filter(|known| known.value > 5.0).map(|known| known.since / 1_000).collect();
        assert_eq!(of_1, [0, 7_300]);
    }
}
