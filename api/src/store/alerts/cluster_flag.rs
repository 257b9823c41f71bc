//! The flags of clusters: lists by cluster and by account, the clusters that are due for evaluation, and
//! changes.

use std::collections::{BTreeMap, HashMap};

use entity::{
    Timestamp, cluster,
    cluster_flag::{ClusterFlagKind, Column, Entity, Model, NOT_ENDED_KEY},
    ids::{AccountId, ClusterId, FlagId},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, FromQueryResult, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select, Statement,
    sea_query::{Expr, ExprTrait, Query, SelectStatement},
};

use super::flag_mute;
use crate::{
    domain::flag::{Decision, Flag},
    store::core::{
        composite_in::IsOneOf,
        error::StoreError,
        multi_list,
        page::{self, Key, KeyPart, Page, PageRequest, Sort},
        read_rows::ReadSelect,
        scoped::AccountStore,
        system::SystemStore,
        upsert::replace,
    },
};

/// The orders flags can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlagSort {
    /// Lasting flags come first, then ended flags, the latest end first.
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

/// A filter of flags. A flag must meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlagFilter {
    /// Only flags of these kinds.
    pub kinds: Option<Vec<ClusterFlagKind>>,
    /// Only lasting flags, or only ended flags.
    pub lasting: Option<bool>,
}

/// A cluster and a filter of its flags.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlagParent {
    /// The cluster.
    pub cluster: ClusterId,
    /// The filter.
    pub filter: FlagFilter,
}

impl FlagFilter {
    fn condition(&self) -> Condition {
        let lasting = |lasting| {
            if lasting { Column::EndedKey.eq(NOT_ENDED_KEY) } else { Column::EndedKey.lt(NOT_ENDED_KEY) }
        };
        Condition::all()
            .add_option(self.kinds.as_ref().map(|kinds| Column::Kind.is_one_of(kinds.iter().copied())))
            .add_option(self.lasting.map(lasting))
    }
}

/// A filter of the flags of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountFlagFilter {
    /// Only flags of these clusters.
    pub clusters: Option<Vec<ClusterId>>,
    /// Further conditions on the flags.
    pub filter: FlagFilter,
    /// Only flags that are not muted at this time. `None` includes muted flags.
    pub unmuted_at: Option<Timestamp>,
}

impl AccountFlagFilter {
    /// Returns true if it is known without the database that no flag passes.
    fn is_of_no_cluster(&self) -> bool {
        self.clusters.as_ref().is_some_and(Vec::is_empty)
    }
}

/// A condition on clusters: at least one active flag that is not muted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlaggedFilter {
    /// The kinds of the flag.
    pub kinds: Vec<ClusterFlagKind>,
    /// The time at which the flag must not be muted.
    pub at: Timestamp,
}

/// Returns the condition that a cluster has a lasting flag of one of some kinds that is not muted.
pub(crate) fn has_flag_condition(account: AccountId, FlaggedFilter { kinds, at }: &FlaggedFilter) -> Expr {
    let mut flags = flags_of_cluster(account, kinds);
    Expr::exists(
        flags
            .and_where(Column::EndedKey.eq(NOT_ENDED_KEY))
            .and_where(flag_mute::is_muted_condition(account, *at).not())
            .take(),
    )
}

/// Returns the condition that a cluster has or had a flag of one of some kinds.
pub(crate) fn had_flag_condition(account: AccountId, kinds: &[ClusterFlagKind]) -> Expr {
    Expr::exists(flags_of_cluster(account, kinds))
}

fn flags_of_cluster(account: AccountId, kinds: &[ClusterFlagKind]) -> SelectStatement {
    let column = |column: Column| Expr::col((Entity, column));
    Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(column(Column::AccountId).eq(account.0))
        .and_where(column(Column::ClusterId).equals((cluster::Entity, cluster::Column::Id)))
        .and_where(Column::Kind.is_one_of(kinds.iter().copied()))
        .take()
}

/// A cluster whose flags are due for evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromQueryResult)]
pub struct DueCluster {
    /// The account.
    pub account_id: AccountId,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The number of its workers.
    pub workers: i64,
}

/// The largest number of clusters that one query returns.
pub(crate) const MAX_DUE_CLUSTERS: u64 = 1_000;

impl SystemStore {
    /// Returns clusters after `after`, of accounts up to `last_account`, that reported since `seen_since`,
    /// or that have lasting flags; at most 1,000, in the order of their identifiers. Of clusters that
    /// closed and have no lasting flags it returns only those that closed after `closed_since`, by their
    /// own clocks; the others are not read.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.due", skip_all)]
    pub async fn find_clusters_to_evaluate(
        &self,
        seen_since: i64,
        closed_since: i64,
        after: (AccountId, ClusterId),
        last_account: AccountId,
    ) -> Result<Vec<DueCluster>, StoreError> {
        let backend = self.pools.reader.get_database_backend();
        // SQLite reads the tables of a `CROSS JOIN` in the written order. The account comes first, as in
        // all indexes.
        let sql = format!(
            "SELECT account_id, cluster_id, workers FROM (
                 SELECT c.account_id, c.id AS cluster_id, c.workers FROM accounts a CROSS JOIN clusters c
                 WHERE a.id >= $3 AND a.id <= $5 AND c.account_id = a.id AND c.ended_key >= $2 AND c.last_seen_at >= $1
                 UNION
                 SELECT c.account_id, c.id, c.workers FROM accounts a CROSS JOIN cluster_flags f CROSS JOIN clusters c
                 WHERE a.id >= $3 AND a.id <= $5 AND f.account_id = a.id AND f.ended_key = {NOT_ENDED_KEY}
                     AND c.account_id = f.account_id AND c.id = f.cluster_id
             ) AS due WHERE (account_id, cluster_id) > ($3, $4)
             ORDER BY account_id, cluster_id LIMIT {MAX_DUE_CLUSTERS}"
        );
        let (account, cluster) = after;
        let values = [
            seen_since.into(),
            closed_since.into(),
            account.0.into(),
            cluster.0.into(),
            last_account.0.into(),
        ];
        let rows =
            self.pools.reader.query_all_raw(Statement::from_sql_and_values(backend, sql, values)).await?;
        Ok(rows.iter().map(|row| DueCluster::from_query_result(row, "")).collect::<Result<_, _>>()?)
    }
}

impl AccountStore {
    /// Returns a page of the account's flags that pass the filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.page", skip_all)]
    pub async fn flag_page(
        &self,
        filter: &AccountFlagFilter,
        sort: FlagSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        if filter.is_of_no_cluster() {
            return Ok(Page::default());
        }
        page::fetch(&self.read_executor(), self.flags(filter), sort, request).await
    }

    /// Counts the account's flags that pass the filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.count", skip_all)]
    pub async fn flag_count(&self, filter: &AccountFlagFilter) -> Result<u64, StoreError> {
        if filter.is_of_no_cluster() {
            return Ok(0);
        }
        Ok(self.flags(filter).count(&self.read_executor()).await?)
    }

    fn flags(
        &self,
        AccountFlagFilter { clusters, filter, unmuted_at }: &AccountFlagFilter,
    ) -> Select<Entity> {
        let condition = filter
            .condition()
            .add_option(
                clusters.as_ref().map(|clusters| Column::ClusterId.is_one_of(clusters.iter().copied())),
            )
            .add_option(unmuted_at.map(|now| flag_mute::is_muted_condition(self.account_id(), now).not()));
        self.select::<Entity>().filter(condition)
    }

    /// Returns the same page of the flags of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.pages", skip_all)]
    pub async fn flag_pages(
        &self,
        parents: &[FlagParent],
        sort: FlagSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let select_flags = |parent: &FlagParent| {
            let select = self.select::<Entity>().filter(Column::ClusterId.eq(parent.cluster));
            select.filter(parent.filter.condition())
        };
        multi_list::fetch_pages(
            &self.read_executor(),
            parents.iter().map(select_flags).collect(),
            sort,
            request,
        )
        .await
    }

    /// Returns a flag of a cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.get", skip_all)]
    pub async fn flag(&self, cluster: ClusterId, id: FlagId) -> Result<Option<Model>, StoreError> {
        Ok(self
            .select::<Entity>()
            .filter(Column::ClusterId.eq(cluster))
            .filter(Column::Id.eq(id))
            .one(&self.read_executor())
            .await?)
    }

    /// Counts the flags of each parent. Parents without any may be missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.counts", skip_all)]
    pub async fn flag_counts(&self, parents: &[FlagParent]) -> Result<HashMap<FlagParent, i64>, StoreError> {
        let mut clusters_by_filter: HashMap<&FlagFilter, Vec<ClusterId>> = HashMap::new();
        for parent in parents {
            clusters_by_filter.entry(&parent.filter).or_default().push(parent.cluster);
        }
        let mut counts = HashMap::new();
        for (filter, clusters) in clusters_by_filter {
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_one_of(clusters))
                .filter(filter.condition())
                .group_by(Column::ClusterId)
                .read_tuples(&self.read_executor())
                .await?;
            let parent = |cluster| FlagParent { cluster, filter: filter.clone() };
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        Ok(counts)
    }

    /// Returns all flags of some clusters, as the rules use them. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_flag.of", skip_all)]
    pub(crate) async fn load_flags(
        &self,
        clusters: &[ClusterId],
    ) -> Result<BTreeMap<ClusterId, Vec<Flag>>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_one_of(clusters.iter().copied()));
        let mut flags: BTreeMap<ClusterId, Vec<Flag>> = BTreeMap::new();
        for row in select
            .order_by_asc(Column::ClusterId)
            .order_by_asc(Column::Id)
            .read_models(&self.read_executor())
            .await?
        {
            flags.entry(row.cluster_id).or_default().push(flag_from_row(row));
        }
        Ok(flags)
    }

    /// Locks the rows of clusters against reports and other evaluations of flags until the transaction
    /// ends. Returns those that exist, with their change numbers.
    pub(crate) async fn lock_clusters(&self, ids: &[ClusterId]) -> Result<Vec<(ClusterId, i64)>, StoreError> {
        let columns = [cluster::Column::Id, cluster::Column::ChangedAt];
        let select = self.select::<cluster::Entity>().select_only().columns(columns);
        let select = select.filter(cluster::Column::Id.is_one_of(ids.iter().copied()));
        let locked = select.order_by_asc(cluster::Column::Id).lock_exclusive();
        Ok(locked.into_tuple().all(&self.write_executor()).await?)
    }

    /// Writes the decisions on the flags of some clusters. `new_id` makes the identifiers of new flags.
    pub(crate) async fn record_flags(
        &self,
        decisions: &BTreeMap<ClusterId, Decision>,
        new_id: impl Fn() -> FlagId,
    ) -> Result<(), StoreError> {
        let mut rows = Vec::new();
        for (cluster, decision) in decisions {
            if !decision.removed.is_empty() {
                let deletion = self.delete::<Entity>().filter(Column::ClusterId.eq(*cluster));
                let deletion = deletion.filter(Column::Id.is_one_of(decision.removed.iter().copied()));
                deletion.exec(&self.write_executor()).await?;
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

fn flag_from_row(row: Model) -> Flag {
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
