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

/// Evaluates a rule. `holding_values` are the subjects for which the condition holds now, with their values.
/// `episodes` are the continuing ones and those that ended within the cooldown.
#[must_use]
pub fn evaluate_episodes(
    now: i64,
    cool_down: i64,
    episodes: &[Episode],
    holding_values: &BTreeMap<Subject, f64>,
) -> Decision {
    let mut decision = Decision::default();
    for (subject, value) in holding_values {
        let subject_episodes = episodes.iter().filter(|episode| episode.subject == *subject);
        let latest = subject_episodes.max_by_key(|episode| episode.ended_key);
        let current =
            latest.filter(|latest| latest.ended_key == NOT_ENDED_KEY || now - latest.ended_key < cool_down);
        let mut episode = match current {
            Some(current) => Episode { ended_key: NOT_ENDED_KEY, value: *value, ..current.clone() },
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
        let must_send =
            !episode.start_sent && episode.last_sent_at.is_none_or(|sent_at| now - sent_at >= cool_down);
        if must_send {
            (episode.start_sent, episode.last_sent_at) = (true, Some(now));
            decision.started.push(decision.changed.len());
        }
        if current != Some(&episode) {
            decision.changed.push(episode);
        }
    }
    for current in episodes.iter().filter(|episode| {
        episode.ended_key == NOT_ENDED_KEY && !holding_values.contains_key(&episode.subject)
    }) {
        if current.start_sent {
            decision.ended.push(decision.changed.len());
        }
        decision.changed.push(Episode { ended_key: now, start_sent: false, ..current.clone() });
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
        let mut episodes: Vec<Episode> = Vec::new();
        let mut ids = 1_u128..;
        for (second, holding_values, expected_started, expected_ended) in steps {
            let subject = |number: &i64| Subject::Cluster(ClusterId(*number));
            let holding_values =
                holding_values.iter().map(|(number, value)| (subject(number), *value)).collect();
            let decision = evaluate_episodes(second * 1_000, 3_600_000, &episodes, &holding_values);
            let subjects_of = |indexes: &[usize]| {
                let mut subjects: Vec<_> =
                    indexes.iter().map(|index| decision.changed[*index].subject).collect();
                subjects.sort();
                subjects
            };
            assert_eq!(
                subjects_of(&decision.started),
                expected_started.iter().map(subject).collect::<Vec<_>>(),
                "{second}"
            );
            assert_eq!(
                subjects_of(&decision.ended),
                expected_ended.iter().map(subject).collect::<Vec<_>>(),
                "{second}"
            );
            for mut episode in decision.changed {
                episode.id = episode.id.or_else(|| ids.next().map(|id| AlertId(uuid::Uuid::from_u128(id))));
                episodes.retain(|stored| stored.id != episode.id);
                episodes.push(episode);
            }
            let repeated = evaluate_episodes(second * 1_000, 3_600_000, &episodes, &holding_values);
            assert_eq!(repeated, Decision::default(), "{second}: the same again changes nothing");
        }
        let episode_starts: Vec<i64> = episodes
            .iter()
            .filter(|episode| episode.value > 5.0)
            .map(|episode| episode.since / 1_000)
            .collect();
        assert_eq!(episode_starts, [0, 7_300]);
    }
}
