//! The quotas of accounts, their changes, and their usage, which is cached in memory and checked before a
//! report is stored.
//!
//! The transaction that stores a report counts it (`store/accounts/ingest_day.rs`). The cache adds the
//! reports this server stores and is refreshed every minute, so reports to other servers count up to a minute
//! later.
//!
//! In a day, a credential may use as much of a quota as it leaves to the account's other credentials, if
//! others report. Each server counts this in memory, and starts again when it restarts.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use entity::{Timestamp, ids::AccountId, quota};
use lru::LruCache;
use serde_json::{Value, json};

use crate::{
    auth::Viewer,
    clock::Clock,
    domain::{
        quota::{CredentialUsage, LimitedParty, Quota, QuotaStatus, QuotaUse},
        retention::DAY,
    },
    shares::GroupMember,
    store::{Store, StoreError},
};

/// The maximum number of cached accounts.
const MAX_CACHED_ACCOUNTS: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is more than none");

/// The lifetime of a cached entry, in milliseconds.
const CACHE_LIFETIME_MS: i64 = 60 * 1_000;

/// The time after its last report in which a credential counts as active, in milliseconds.
const ACTIVE_PERIOD_MS: i64 = 7 * DAY;

/// The maximum number of cached credentials of an account. If there are more, the one with the earliest last
/// report is removed.
const MAX_CREDENTIALS: usize = 1_000;

/// The retry delay for an account that stores too much, in seconds: the retention job takes up to an
/// hour.
const RETRY_SECONDS: i64 = 3_600;

/// A change of an account's quotas. The outer `None` keeps a quota; the inner `None` restores the
/// server's setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaChange {
    /// Bytes of stored reports.
    pub stored_bytes: Option<Option<i64>>,
    /// Bytes of reports in a day.
    pub daily_bytes: Option<Option<i64>>,
    /// New clusters in a day.
    pub daily_clusters: Option<Option<i64>>,
    /// The threads of a cluster that count as usage.
    pub cluster_threads: Option<Option<i64>>,
    /// The maximum retention of data of any class, in days.
    pub retention_days: Option<Option<i64>>,
}

impl QuotaChange {
    /// Returns the row of an account after the change.
    pub(super) fn apply(
        self,
        account: AccountId,
        current: Option<&quota::Model>,
        now: Timestamp,
    ) -> quota::Model {
        let changed_or_current = |change: Option<Option<i64>>, field: fn(&quota::Model) -> Option<i64>| {
            change.unwrap_or_else(|| current.and_then(field))
        };
        quota::Model {
            account_id: account,
            stored_bytes: changed_or_current(self.stored_bytes, |row| row.stored_bytes),
            daily_bytes: changed_or_current(self.daily_bytes, |row| row.daily_bytes),
            daily_clusters: changed_or_current(self.daily_clusters, |row| row.daily_clusters),
            cluster_threads: changed_or_current(self.cluster_threads, |row| row.cluster_threads),
            retention_days: changed_or_current(self.retention_days, |row| row.retention_days),
            changed_at: now,
        }
    }
}

/// Returns an account's quotas as the detail of an audit entry.
pub(super) fn quota_detail(row: &quota::Model) -> Value {
    let limit_value = |limit: Option<i64>| match limit {
        Some(quota::UNLIMITED) => json!("none"),
        limit => json!(limit),
    };
    json!({
        "stored_bytes": limit_value(row.stored_bytes),
        "daily_bytes": limit_value(row.daily_bytes),
        "daily_clusters": limit_value(row.daily_clusters),
        "cluster_threads": limit_value(row.cluster_threads),
        "retention_days": limit_value(row.retention_days),
    })
}

/// A cache of the quota usage of accounts.
#[derive(Clone)]
pub struct Quotas {
    store: Store,
    clock: Arc<dyn Clock>,
    cached_usage: Arc<Mutex<LruCache<AccountId, CachedUsage>>>,
}

struct CachedUsage {
    /// The time of the read, in epoch milliseconds.
    at: i64,
    status: QuotaStatus,
    credentials: Credentials,
}

/// The credentials that sent reports of an account to this server, with their part of the daily quotas.
#[derive(Default)]
struct Credentials(HashMap<GroupMember, Credential>);

#[derive(Clone, Copy)]
struct Credential {
    /// The time of the last report, in epoch milliseconds.
    at: i64,
    /// The usage on the day of the last report.
    usage: CredentialUsage,
}

impl Credentials {
    /// Returns the usage of a credential today. `None` if no other one was active.
    fn usage_of(&self, member: GroupMember, now: i64) -> Option<CredentialUsage> {
        let is_active = |credential: &Credential| now - credential.at < ACTIVE_PERIOD_MS;
        let has_active_other =
            self.0.iter().any(|(other_member, credential)| *other_member != member && is_active(credential));
        has_active_other.then(|| self.usage_today(member, now))
    }

    fn usage_today(&self, member: GroupMember, now: i64) -> CredentialUsage {
        let credential = self.0.get(&member);
        let active_today =
            credential.filter(|credential| credential.at.div_euclid(DAY) == now.div_euclid(DAY));
        active_today.map(|credential| credential.usage).unwrap_or_default()
    }

    fn add(&mut self, member: GroupMember, now: i64, bytes: i64, clusters: i64) {
        let CredentialUsage { daily_bytes, daily_clusters } = self.usage_today(member, now);
        let usage = CredentialUsage {
            daily_bytes: daily_bytes.saturating_add(bytes),
            daily_clusters: daily_clusters.saturating_add(clusters),
        };
        self.0.insert(member, Credential { at: now, usage });
        if self.0.len() > MAX_CREDENTIALS {
            let earliest =
                self.0.iter().min_by_key(|(_, credential)| credential.at).map(|(member, _)| *member);
            earliest.and_then(|member| self.0.remove(&member));
        }
    }
}

impl Quotas {
    /// Returns an empty cache over `store`.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, cached_usage: Arc::new(Mutex::new(LruCache::new(MAX_CACHED_ACCOUNTS))) }
    }

    /// Returns the cached usage of the viewer's account and credential. `None` if it is not cached, is
    /// too old, or is from another day.
    #[must_use]
    pub fn cached_usage_of(&self, viewer: &Viewer) -> Option<QuotaStatus> {
        let now = self.clock.timestamp().timestamp_millis();
        let mut cached = self.lock();
        let entry = cached.get(&viewer.account_id())?;
        let is_fresh = (entry.at..entry.at + CACHE_LIFETIME_MS).contains(&now);
        let is_today = entry.at.div_euclid(DAY) == now.div_euclid(DAY);
        (is_fresh && is_today).then(|| entry.status_for(viewer.quota_member(), now))
    }

    /// Returns the usage of the viewer's account.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn load_usage(&self, viewer: &Viewer) -> Result<QuotaStatus, StoreError> {
        if let Some(status) = self.cached_usage_of(viewer) {
            return Ok(status);
        }
        let now = self.clock.timestamp();
        let status = self.store.for_viewer(viewer).quota_status(now).await?;
        let (account, at) = (viewer.account_id(), now.timestamp_millis());
        let mut cached = self.lock();
        let credentials = cached.pop(&account).map(|entry| entry.credentials).unwrap_or_default();
        let entry = CachedUsage { at, status, credentials };
        let status = entry.status_for(viewer.quota_member(), at);
        cached.put(account, entry);
        Ok(status)
    }

    /// Adds stored data to the cached usage of the viewer's account and credential.
    pub fn add(&self, viewer: &Viewer, bytes: i64, clusters: i64) {
        let now = self.clock.timestamp().timestamp_millis();
        if let Some(entry) = self.lock().peek_mut(&viewer.account_id()) {
            entry.status.add(bytes, clusters);
            entry.credentials.add(viewer.quota_member(), now, bytes, clusters);
        }
    }

    /// Returns the retry delay after an exceeded quota, in seconds.
    #[must_use]
    pub fn retry_after(&self, exceeded: &QuotaUse) -> u64 {
        let now = self.clock.timestamp().timestamp_millis();
        let seconds = match (exceeded.quota, exceeded.applies_to) {
            (Quota::StoredBytes, LimitedParty::Account) => RETRY_SECONDS,
            _ => (DAY - now.rem_euclid(DAY)) / 1_000 + 1,
        };
        seconds.unsigned_abs()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<AccountId, CachedUsage>> {
        self.cached_usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedUsage {
    /// Returns the usage of the account, and of its credential `member`.
    fn status_for(&self, member: GroupMember, now: i64) -> QuotaStatus {
        QuotaStatus { credential_usage: self.credentials.usage_of(member, now), ..self.status }
    }
}
