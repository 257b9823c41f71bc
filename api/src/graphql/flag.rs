//! What was noticed of clusters.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Enum, Object, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::{
    cluster_flag::{self, LASTS, Model},
    flag_mute,
    ids::ClusterId,
};

use super::{
    argument::at_most,
    cluster::Cluster,
    connection::{Connection, PageArguments, connect, counted},
    error::ApiError,
    error_group::ErrorGroup,
    in_place::in_place,
    json::names,
    loaders::{ParentList, Reader, TagsOf},
    scope::AccountScope,
    worker::Worker,
};
use crate::{
    domain::{flag::Rule, tag::Tag},
    store::{
        AccountFlags, AccountStore, FlagFilter, FlagParent, FlagSort, StoreError,
        page::{Page, PageRequest},
    },
};

/// Kinds that an argument names at the most.
pub(super) const MAX_KINDS: usize = 20;

/// Something that was noticed of a cluster, once.
pub(super) struct Flag {
    scope: AccountScope,
    row: Model,
}

impl Flag {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    fn rule(&self) -> &'static Rule {
        Rule::of(self.row.kind)
    }
}

/// Something that was noticed of a cluster, once: since when, until when, and how bad it was. `Account.flagRules` tells when
/// what is noticed.
#[Object]
impl Flag {
    /// What was noticed.
    async fn kind(&self) -> FlagKind {
        self.row.kind.into()
    }

    /// The same in one sentence, with the worst value.
    async fn text(&self) -> String {
        self.rule().say(self.row.value, self.row.name.as_deref())
    }

    /// The cluster.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// Since when it is so, by the scheduler's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.row.since.0
    }

    /// Until when it was so, by the scheduler's clock; null while it is.
    async fn until(&self) -> Option<DateTime<Utc>> {
        (self.row.ended_key < LASTS).then(|| DateTime::from_timestamp_millis(self.row.ended_key)).flatten()
    }

    /// Whether it is so, as of the cluster's last report.
    async fn is_active(&self) -> bool {
        self.row.ended_key == LASTS
    }

    /// The worst value since then, in the unit.
    async fn value(&self) -> f64 {
        self.row.value
    }

    /// The value from which on it was noticed, in the unit.
    async fn threshold(&self) -> f64 {
        self.row.threshold
    }

    /// What the values count; a share is from 0 to 1.
    async fn unit(&self) -> &str {
        self.rule().unit
    }

    /// The worker that was worst; null when it is not about one, or about the scheduler.
    async fn worker(&self) -> Result<Option<Worker>, ApiError> {
        Worker::of(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// The commonest of the errors; null when it is not about errors, or they are kept no more.
    async fn error_group(&self) -> Result<Option<ErrorGroup>, ApiError> {
        match self.row.error_group_id {
            Some(group) => ErrorGroup::find(&self.scope, group).await,
            None => Ok(None),
        }
    }

    /// The function that most of the tasks ran; null when it is not about tasks, or none was reported.
    async fn function(&self) -> Option<&str> {
        self.row.name.as_deref().filter(|_| self.row.kind == cluster_flag::Kind::OversizedGraph)
    }

    /// The packages that differ, by name; none when it is not about packages.
    async fn packages(&self) -> Vec<&str> {
        let names = self.row.name.as_deref().filter(|_| self.row.kind == cluster_flag::Kind::VersionMismatch);
        names.map(|names| names.split(", ").collect()).unwrap_or_default()
    }

    /// Whether the account does not want to be told of it now.
    async fn is_muted(&self) -> Result<bool, ApiError> {
        let mutes =
            self.scope.loader.load_one(MutesAt(self.scope.now.timestamp_millis())).await?.unwrap_or_default();
        let mutes: Vec<_> = mutes.iter().filter(|mute| mute.kind == self.row.kind).collect();
        if mutes.iter().any(|mute| mute.tag_key.is_empty()) {
            return Ok(true);
        }
        if mutes.is_empty() {
            return Ok(false);
        }
        let tags: Vec<Tag> =
            self.scope.loader.load_one(TagsOf(self.row.cluster_id)).await?.unwrap_or_default();
        let has = |mute: &&&flag_mute::Model| {
            let value = |tag: &Tag| mute.any_value || tag.value().unwrap_or_default() == mute.tag_value;
            tags.iter().any(|tag| tag.key() == mute.tag_key && value(tag))
        };
        Ok(mutes.iter().any(|mute| has(&mute)))
    }
}

in_place! { Flag: kind, text, since, until, is_active, value, threshold, unit, function, packages }

/// What can be noticed of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "cluster_flag::Kind")]
pub(super) enum FlagKind {
    /// All workers together use much of their memory.
    MemoryPressure,
    /// One worker uses much of its memory.
    WorkerMemoryPressure,
    /// The disk that a worker spills to is nearly full.
    DiskNearlyFull,
    /// Results lie on disk for want of memory.
    Spilling,
    /// Some workers have nothing to do while tasks wait for others.
    UnbalancedWorkers,
    /// Threads wait for Python's lock.
    GilContention,
    /// An event loop of a worker or the scheduler does not get to its work.
    EventLoopBlocked,
    /// Many tasks erred.
    ManyFailures,
    /// The scheduler holds very many tasks.
    OversizedGraph,
    /// Processes run on different versions of a package.
    VersionMismatch,
    /// There has been nothing to do for long.
    Idle,
}

names!(FlagKind);

/// Which flags are meant by arguments.
pub(super) fn filter(active: Option<bool>, kinds: Option<Vec<FlagKind>>) -> Result<FlagFilter, ApiError> {
    at_most("kinds", kinds.as_deref(), MAX_KINDS)?;
    let kinds = kinds.map(|kinds| kinds.into_iter().map(Into::into).collect());
    Ok(FlagFilter { kinds, lasting: active })
}

/// A page of the flags of a cluster.
pub(super) async fn of_cluster(
    scope: &AccountScope,
    cluster: ClusterId,
    filter: FlagFilter,
    page: PageArguments,
) -> Result<Connection<Flag>, ApiError> {
    connect(scope, FlagParent { cluster, filter }, FlagSort::LastingFirst, page, Flag::new).await
}

/// A page of the flags of all clusters of an account.
pub(super) async fn of_account(
    scope: &AccountScope,
    of: AccountFlags,
    page: PageArguments,
) -> Result<Connection<Flag>, ApiError> {
    let sort = FlagSort::LastingFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.flag_page(&of, sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let (store, of) = (store.clone(), of.clone());
        async move { store.flag_count(&of).await }
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

/// The key of what the account has muted at a moment, in epoch milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MutesAt(i64);

impl Loader<MutesAt> for Reader {
    type Value = Vec<flag_mute::Model>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[MutesAt]) -> Result<HashMap<MutesAt, Self::Value>, Self::Error> {
        let mut found = HashMap::new();
        // A request has one moment.
        for key in keys {
            found.insert(*key, self.0.flag_mutes(key.0).await?);
        }
        Ok(found)
    }
}
