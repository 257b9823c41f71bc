//! Flags: conditions that were detected on clusters.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Enum, ID, Object, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::{
    cluster_flag::{self, Model, NOT_ENDED_KEY},
    flag_mute,
    ids::ClusterId,
};

use crate::{
    domain::{flag::Rule, tag::Tag},
    graphql::{
        clusters::{cluster::Cluster, worker::Worker},
        engine::{
            argument::check_max_len,
            connection::{Connection, PageArguments, load_connection, total_count_by},
            error::ApiError,
            id::GlobalId,
            json::write_enums_by_name,
            loaders::{ParentList, StoreReader, TagsKey},
            projection::inline_fields,
            scope::AccountScope,
        },
        errors::error_group::ErrorGroup,
    },
    store::{
        AccountFlagFilter, AccountStore, FlagFilter, FlagParent, FlagSort, StoreError,
        core::page::{Page, PageRequest},
    },
};

/// The maximum number of kinds in one argument.
pub(crate) const MAX_KINDS: usize = 20;

/// A period in which a condition held on a cluster.
pub(crate) struct Flag {
    scope: AccountScope,
    row: Model,
}

impl Flag {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    fn rule(&self) -> &'static Rule {
        Rule::of(self.row.kind)
    }
}

/// A condition that was detected on a cluster: its start, its end and its worst value.
/// `Account.flagRules` lists the conditions and their thresholds.
#[Object]
impl Flag {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Flag(self.scope.account.id, self.row.cluster_id, self.row.id).into()
    }

    /// The kind of condition, which is the stable code of `text`.
    async fn kind(&self) -> FlagKind {
        self.row.kind.into()
    }

    /// An English sentence that describes the condition, with the worst value. It contains no more
    /// information than `kind`, `value` with `unit`, `function` and `packages`, from which a client phrases
    /// it itself.
    async fn text(&self) -> String {
        self.rule().describe(self.row.value, self.row.name.as_deref())
    }

    /// The cluster that has the flag.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The start of the condition, by the scheduler's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.row.since.0
    }

    /// The end of the condition, by the scheduler's clock. Null while it lasts.
    async fn until(&self) -> Option<DateTime<Utc>> {
        (self.row.ended_key < NOT_ENDED_KEY)
            .then(|| DateTime::from_timestamp_millis(self.row.ended_key))
            .flatten()
    }

    /// True while the condition lasts, as of the cluster's last report.
    async fn is_active(&self) -> bool {
        self.row.ended_key == NOT_ENDED_KEY
    }

    /// The worst value since the start, in `unit`.
    async fn value(&self) -> f64 {
        self.row.value
    }

    /// The value from which the condition holds, in `unit`.
    async fn threshold(&self) -> f64 {
        self.row.threshold
    }

    /// The unit of `value` and `threshold`. A share is from 0 to 1.
    async fn unit(&self) -> &str {
        self.rule().unit
    }

    /// The worker with the worst value. Null if the condition does not concern a single worker, for example
    /// because it concerns the scheduler.
    async fn worker(&self) -> Result<Option<Worker>, ApiError> {
        Worker::find_optional(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// The most frequent error. Null if the condition concerns no errors, or if they are no longer
    /// stored.
    async fn error_group(&self) -> Result<Option<ErrorGroup>, ApiError> {
        match self.row.error_group_id {
            Some(group) => ErrorGroup::find(&self.scope, group).await,
            None => Ok(None),
        }
    }

    /// The function that most of the tasks ran. Null if the condition concerns no tasks, or if no
    /// function was reported.
    async fn function(&self) -> Option<&str> {
        self.row.name.as_deref().filter(|_| self.row.kind == cluster_flag::ClusterFlagKind::OversizedGraph)
    }

    /// The names of the packages whose versions differ. Empty if the condition concerns no packages.
    async fn packages(&self) -> Vec<&str> {
        let names = self
            .row
            .name
            .as_deref()
            .filter(|_| self.row.kind == cluster_flag::ClusterFlagKind::VersionMismatch);
        names.map(|names| names.split(", ").collect()).unwrap_or_default()
    }

    /// True if the account currently mutes this flag.
    async fn is_muted(&self) -> Result<bool, ApiError> {
        let mutes = self
            .scope
            .loader
            .load_one(MutesKey(self.scope.now.timestamp_millis()))
            .await?
            .unwrap_or_default();
        let mutes: Vec<_> = mutes.iter().filter(|mute| mute.kind == self.row.kind).collect();
        if mutes.iter().any(|mute| mute.tag_key.is_empty()) {
            return Ok(true);
        }
        if mutes.is_empty() {
            return Ok(false);
        }
        let tags: Vec<Tag> =
            self.scope.loader.load_one(TagsKey(self.row.cluster_id)).await?.unwrap_or_default();
        let covers_cluster = |mute: &&&flag_mute::Model| {
            let has_value = |tag: &Tag| mute.any_value || tag.value().unwrap_or_default() == mute.tag_value;
            tags.iter().any(|tag| tag.key() == mute.tag_key && has_value(tag))
        };
        Ok(mutes.iter().any(|mute| covers_cluster(&mute)))
    }
}

inline_fields! { Flag: id, kind, text, since, until, is_active, value, threshold, unit, function, packages }

/// The kinds of conditions that are detected on clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "cluster_flag::ClusterFlagKind")]
pub(crate) enum FlagKind {
    /// The workers together use a large part of their memory.
    MemoryPressure,
    /// A worker uses a large part of its memory.
    WorkerMemoryPressure,
    /// The disk that a worker spills to is nearly full.
    DiskNearlyFull,
    /// Workers hold results on disk because memory is short.
    Spilling,
    /// Some workers have no task while other workers have many ready tasks.
    UnbalancedWorkers,
    /// The GIL of the median worker is busy for a large part of the time.
    GilContention,
    /// An event loop of a worker or of the scheduler is blocked.
    EventLoopBlocked,
    /// Many tasks failed.
    ManyFailures,
    /// The scheduler holds a very large number of tasks.
    OversizedGraph,
    /// Processes run different versions of a package.
    VersionMismatch,
    /// The cluster has had no work for a long time.
    Idle,
}

write_enums_by_name!(FlagKind);

/// Returns the filter for the arguments of a list of flags.
pub(crate) fn flag_filter(
    active: Option<bool>,
    kinds: Option<Vec<FlagKind>>,
) -> Result<FlagFilter, ApiError> {
    check_max_len("kinds", kinds.as_deref(), MAX_KINDS)?;
    let kinds = kinds.map(|kinds| kinds.into_iter().map(Into::into).collect());
    Ok(FlagFilter { kinds, lasting: active })
}

/// Returns a page of a cluster's flags.
pub(crate) async fn load_cluster_flags(
    scope: &AccountScope,
    cluster: ClusterId,
    filter: FlagFilter,
    page: PageArguments,
) -> Result<Connection<Flag>, ApiError> {
    load_connection(scope, FlagParent { cluster, filter }, FlagSort::LastingFirst, page, Flag::new).await
}

/// Returns a page of the flags of all clusters of an account.
pub(crate) async fn load_account_flags(
    scope: &AccountScope,
    filter: AccountFlagFilter,
    page: PageArguments,
) -> Result<Connection<Flag>, ApiError> {
    let sort = FlagSort::LastingFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.flag_page(&filter, sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.flag_count(&filter).await }
    });
    Ok(Connection::new(page, sort, |row| Flag::new(scope, row), total))
}

impl ParentList<FlagParent, FlagSort> for AccountStore {
    type Row = Model;

    async fn pages(
        &self,
        parents: &[FlagParent],
        sort: FlagSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        self.flag_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[FlagParent]) -> Result<HashMap<FlagParent, i64>, StoreError> {
        self.flag_counts(parents).await
    }
}

/// The loader key of the account's mutes at a time, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MutesKey(i64);

impl Loader<MutesKey> for StoreReader {
    type Value = Vec<flag_mute::Model>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[MutesKey]) -> Result<HashMap<MutesKey, Self::Value>, Self::Error> {
        let mut found = HashMap::new();
        // All keys of a request have the same time, so this loop runs once.
        for key in keys {
            found.insert(*key, self.0.flag_mutes(key.0).await?);
        }
        Ok(found)
    }
}
