//! The clusters and error groups that stopped passing the filter of a subscription. Each is sent once, until
//! it passes the filter again.

use std::collections::HashSet;

use crate::{domain::stream_cursor::ArrivalKey, graphql::Rows};

/// The limit of clusters and groups that are remembered. With more, some are sent again.
const MAX_KEYS: usize = 10_000;

/// The clusters and groups that were sent as not passing the filter.
#[derive(Default)]
pub(super) struct ReportedRemovals(HashSet<ArrivalKey>);

impl ReportedRemovals {
    /// Leaves out the rows that do not pass the filter and were sent as such before. Returns true if a row is
    /// left.
    pub(super) fn retain_new(&mut self, rows: &mut Rows) -> bool {
        if self.0.len() > MAX_KEYS {
            self.0.clear();
        }
        match rows {
            Rows::Cluster(row, true) => {
                self.0.remove(&ArrivalKey::from(row.id));
                true
            }
            Rows::Cluster(row, false) => self.0.insert(row.id.into()),
            Rows::ErrorGroups(rows, unmatched) => {
                for row in rows.iter() {
                    self.0.remove(&ArrivalKey::from(row.id.0));
                }
                unmatched.retain(|row| self.0.insert(row.id.0.into()));
                !rows.is_empty() || !unmatched.is_empty()
            }
            Rows::Clusters(_)
            | Rows::Computations(_)
            | Rows::Errors(_)
            | Rows::Events(_)
            | Rows::Logs(_)
            | Rows::Alerts(_) => true,
        }
    }
}
