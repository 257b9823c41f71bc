//! Partitions for the weeks to come, and an end to those that every account has given up.

use super::{Jobs, Progress};
use crate::{
    domain::retention::{Age, RULES, cutoff, week},
    store::{StoreError, partition::PARTITIONED},
};

/// How many weeks have a partition, this one included.
const WEEKS_AHEAD: i64 = 3;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (store, now) = (jobs.system(), jobs.now());
    let mut progress = Progress::default();
    if !store.has_partitions() {
        return Ok(progress);
    }
    let this_week = week::start(now.timestamp_millis());
    for (table, column) in PARTITIONED {
        let present = store.partitions(table).await?;
        for start in (0..WEEKS_AHEAD).map(|weeks| this_week + weeks * week::LENGTH) {
            if !present.contains(&start) {
                let moved = store.make_partition(table, column, start).await?;
                progress.add("made", 1);
                progress.add("rows_moved", moved);
            }
        }
        let rule = RULES.iter().find(|rule| rule.table == table && rule.age == Age::Row(column));
        let rule = rule.expect("what is partitioned goes by the same age");
        let days = store.retention_of(rule.class).await?.into_iter().map(|keeps| rule.days(keeps.days()));
        let oldest = cutoff(now, days.max().expect("there is a default"));
        for start in present.into_iter().filter(|start| start + week::LENGTH <= oldest) {
            store.drop_partition(table, start).await?;
            progress.add("dropped", 1);
        }
    }
    Ok(progress)
}
