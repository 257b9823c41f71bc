//! What was noticed of clusters: listed by cluster and by account, and what changes it.

use std::collections::{BTreeMap, HashMap};

use entity::{
    Timestamp, cluster,
    cluster_flag::{Column, Entity, Kind, LASTS, Model},
    ids::{AccountId, ClusterId, FlagId},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, FromQueryResult, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select, Statement,
    sea_query::{Expr, ExprTrait, Query, SelectStatement},
};

use super::{
    error::StoreError,
    flag_mute,
    identity::SystemStore,
    lists,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::replace,
};
use crate::domain::flag::{Decision, Flag};

/// The orders flags can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlagSort {
    /// Those that last come first, and of the others those that ended last.
    LastingFirst,
}

impl Sort for FlagSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "flag_ended_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::EndedKey, Column::Since, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![KeyPart::Integer(row.ended_key), row.since.into(), row.id.into()])
    }
}

/// Which flags are wanted: those that pass every condition that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlagFilter {
    /// Of these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Those that last, or those that ended.
    pub lasting: Option<bool>,
}

/// Which flags of which cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlagParent {
    /// The cluster.
    pub cluster: ClusterId,
    /// Which of its flags.
    pub filter: FlagFilter,
}

impl FlagFilter {
    fn condition(&self) -> Condition {
        let lasting = |lasting| if lasting { Column::EndedKey.eq(LASTS) } else { Column::EndedKey.lt(LASTS) };
        Condition::all()
            .add_option(self.kinds.as_ref().map(|kinds| Column::Kind.is_in(kinds.iter().copied())))
            .add_option(self.lasting.map(lasting))
    }
}

/// Which flags of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountFlags {
    /// Of these clusters, if they are named.
    pub clusters: Option<Vec<ClusterId>>,
    /// Which of their flags.
    pub filter: FlagFilter,
    /// Only what is not muted at this time; also what is muted if there is none.
    pub unmuted_at: Option<Timestamp>,
}

/// Which flags clusters have to have, one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flagged {
    /// Of one of these kinds.
    pub kinds: Vec<Kind>,
    /// Not muted now.
    pub at: Timestamp,
}

/// What clusters are asked for that have a flag of one of some kinds, which lasts and is not muted.
pub(super) fn flagged(Flagged { kinds, at }: &Flagged) -> Expr {
    let mut flags = flags_of_cluster(kinds);
    Expr::exists(flags.and_where(Column::EndedKey.eq(LASTS)).and_where(flag_mute::muted(*at).not()).take())
}

/// What clusters are asked for that have or had a flag of one of some kinds.
pub(super) fn ever_flagged(kinds: &[Kind]) -> Expr {
    Expr::exists(flags_of_cluster(kinds))
}

fn flags_of_cluster(kinds: &[Kind]) -> SelectStatement {
    let column = |column: Column| Expr::col((Entity, column));
    Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(column(Column::AccountId).equals((cluster::Entity, cluster::Column::AccountId)))
        .and_where(column(Column::ClusterId).equals((cluster::Entity, cluster::Column::Id)))
        .and_where(Column::Kind.is_in(kinds.iter().copied()))
        .take()
}

/// A cluster whose flags have to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromQueryResult)]
pub struct DueCluster {
    /// Whose.
    pub account_id: AccountId,
    /// Which.
    pub cluster_id: ClusterId,
    /// How many workers it has.
    pub workers: i64,
}

/// Clusters that are looked up at once.
pub(crate) const MAX_DUE_CLUSTERS: u64 = 1_000;

impl SystemStore {
    /// Clusters that reported since `seen_since`, or did not and have flags that last; at most a thousand, behind the one
    /// `after`. Of those that closed, only what did so after `closed_since`, by their own clocks: others are not read.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.due", skip_all)]
    pub async fn clusters_to_flag(
        &self,
        seen_since: i64,
        closed_since: i64,
        after: Option<(AccountId, ClusterId)>,
    ) -> Result<Vec<DueCluster>, StoreError> {
        let backend = self.pools.reader.get_database_backend();
        let (account, cluster) = after.unwrap_or((AccountId(uuid::Uuid::nil()), ClusterId(i64::MIN)));
        // To SQLite the words `CROSS JOIN` say what comes first, which all indexes begin with.
        let sql = format!(
            "SELECT account_id, cluster_id, workers FROM (
                 SELECT c.account_id, c.id AS cluster_id, c.workers FROM accounts a CROSS JOIN clusters c
                 WHERE c.account_id = a.id AND c.ended_key >= $2 AND c.last_seen_at >= $1
                 UNION
                 SELECT c.account_id, c.id, c.workers FROM accounts a CROSS JOIN cluster_flags f CROSS JOIN clusters c
                 WHERE f.account_id = a.id AND f.ended_key = {LASTS}
                     AND c.account_id = f.account_id AND c.id = f.cluster_id
             ) AS due WHERE (account_id, cluster_id) > ($3, $4)
             ORDER BY account_id, cluster_id LIMIT {MAX_DUE_CLUSTERS}"
        );
        let values = [seen_since.into(), closed_since.into(), account.0.into(), cluster.0.into()];
        let rows =
            self.pools.reader.query_all_raw(Statement::from_sql_and_values(backend, sql, values)).await?;
        Ok(rows.iter().map(|row| DueCluster::from_query_result(row, "")).collect::<Result<_, _>>()?)
    }
}

impl AccountStore {
    /// A page of the account's flags; with `unmuted_at`, only of those that are not muted then.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.page", skip_all)]
    pub async fn flag_page(
        &self,
        of: &AccountFlags,
        sort: FlagSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.flags(of), sort, request).await
    }

    /// How many of the account's flags there are.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.count", skip_all)]
    pub async fn flag_count(&self, of: &AccountFlags) -> Result<u64, StoreError> {
        Ok(self.flags(of).count(&self.reads()).await?)
    }

    fn flags(&self, AccountFlags { clusters, filter, unmuted_at }: &AccountFlags) -> Select<Entity> {
        let condition = filter
            .condition()
            .add_option(clusters.as_ref().map(|clusters| Column::ClusterId.is_in(clusters.iter().copied())))
            .add_option(unmuted_at.map(|now| flag_mute::muted(now).not()));
        self.select::<Entity>().filter(condition)
    }

    /// The same page of the flags of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.pages", skip_all)]
    pub async fn flag_pages(
        &self,
        parents: &[FlagParent],
        sort: FlagSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |parent: &FlagParent| {
            let select = self.select::<Entity>().filter(Column::ClusterId.eq(parent.cluster));
            select.filter(parent.filter.condition())
        };
        lists::fetch_each(&self.reads(), parents.iter().map(of).collect(), sort, request).await
    }

    /// How many flags each parent has; parents without any may be missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.counts", skip_all)]
    pub async fn flag_counts(&self, parents: &[FlagParent]) -> Result<HashMap<FlagParent, i64>, StoreError> {
        let mut alike: HashMap<&FlagFilter, Vec<ClusterId>> = HashMap::new();
        for parent in parents {
            alike.entry(&parent.filter).or_default().push(parent.cluster);
        }
        let mut counts = HashMap::new();
        for (filter, clusters) in alike {
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_in(clusters))
                .filter(filter.condition())
                .group_by(Column::ClusterId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            let parent = |cluster| FlagParent { cluster, filter: filter.clone() };
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        Ok(counts)
    }

    /// All flags of some clusters, as rules know them; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.of", skip_all)]
    pub(crate) async fn flags_of(
        &self,
        clusters: &[ClusterId],
    ) -> Result<BTreeMap<ClusterId, Vec<Flag>>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_in(clusters.iter().copied()));
        let mut found: BTreeMap<ClusterId, Vec<Flag>> = BTreeMap::new();
        for row in select.order_by_asc(Column::ClusterId).order_by_asc(Column::Id).all(&self.reads()).await? {
            found.entry(row.cluster_id).or_default().push(flag(row));
        }
        Ok(found)
    }

    /// Holds clusters against reports and others who flag them until the transaction ends. Returns those that are there, with the
    /// places of their last changes.
    pub(crate) async fn lock_clusters(&self, ids: &[ClusterId]) -> Result<Vec<(ClusterId, i64)>, StoreError> {
        let columns = [cluster::Column::Id, cluster::Column::ChangedAt];
        let select = self.select::<cluster::Entity>().select_only().columns(columns);
        let select = select.filter(cluster::Column::Id.is_in(ids.iter().copied()));
        let locked = select.order_by_asc(cluster::Column::Id).lock_exclusive();
        Ok(locked.into_tuple().all(&self.writes()).await?)
    }

    /// Writes what was decided of the flags of some clusters; `new_id` makes identifiers.
    pub(crate) async fn record_flags(
        &self,
        decisions: &BTreeMap<ClusterId, Decision>,
        new_id: impl Fn() -> FlagId,
    ) -> Result<(), StoreError> {
        let mut rows = Vec::new();
        for (cluster, decision) in decisions {
            if !decision.removed.is_empty() {
                let removed = self.delete::<Entity>().filter(Column::ClusterId.eq(*cluster));
                let removed = removed.filter(Column::Id.is_in(decision.removed.iter().copied()));
                removed.exec(&self.writes()).await?;
            }
            rows.extend(decision.changed.iter().map(|flag| Model {
                account_id: self.account_id(),
                cluster_id: *cluster,
                id: flag.id.unwrap_or_else(&new_id),
                kind: flag.kind,
                since: time(flag.since),
                ended_key: flag.ended_key,
                threshold: flag.threshold,
                value: flag.value,
                worker_id: flag.worker,
                error_group_id: flag.error_group,
                name: flag.name.clone(),
            }));
        }
        self.insert::<Entity>(rows, &replace::<Entity>()).await?;
        Ok(())
    }
}

fn flag(row: Model) -> Flag {
    Flag {
        id: Some(row.id),
        kind: row.kind,
        since: row.since.timestamp_millis(),
        ended_key: row.ended_key,
        threshold: row.threshold,
        value: row.value,
        worker: row.worker_id,
        error_group: row.error_group_id,
        name: row.name,
    }
}

fn time(milliseconds: i64) -> Timestamp {
    chrono::DateTime::from_timestamp_millis(milliseconds).unwrap_or_default().into()
}
