//! Creates the partitions of the weeks to come, and drops those whose rows no account keeps.

use entity::data_policy::DataClass;

use super::{Jobs, Progress};
use crate::{
    domain::retention::{AgeSource, RULES, cutoff, week},
    store::{StoreError, maintenance::partition::PARTITIONED},
};

/// The number of weeks that have a partition, including this week.
const WEEKS_AHEAD: i64 = 3;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (store, now) = (jobs.system(), jobs.now());
    let mut progress = Progress::default();
    if !store.has_partitions() {
        return Ok(progress);
    }
    let this_week = week::start(now.timestamp_millis());
    for (table, column) in PARTITIONED {
        let existing = store.partitions(table).await?;
        for start in (0..WEEKS_AHEAD).map(|weeks| this_week + weeks * week::LENGTH) {
            if !existing.contains(&start) {
                let moved = store.make_partition(table, column, start).await?;
                progress.add("made", 1);
                progress.add("rows_moved", moved);
            }
        }
    }
    Ok(progress)
}

/// Drops the partitions that end before the longest time that an account keeps their class of data, in
/// days. Returns their number.
///
/// Retention calls it, because a partition is dropped only if the same rows could be deleted one by one.
pub(super) async fn drop_old(
    jobs: &Jobs,
    longest_retention: impl Fn(DataClass) -> i64,
) -> Result<u64, StoreError> {
    let (store, now) = (jobs.system(), jobs.now());
    let mut dropped = 0;
    if !store.has_partitions() {
        return Ok(dropped);
    }
    for (table, column) in PARTITIONED {
        let rule = RULES.iter().find(|rule| rule.table == table && rule.age == AgeSource::Row(column));
        let rule = rule.expect("a partitioned table has a rule with the same column");
        let oldest_kept = cutoff(now, rule.days(Some(longest_retention(rule.class))));
        for start in
            store.partitions(table).await?.into_iter().filter(|start| start + week::LENGTH <= oldest_kept)
        {
            store.drop_partition(table, start).await?;
            dropped += 1;
        }
    }
    Ok(dropped)
}
