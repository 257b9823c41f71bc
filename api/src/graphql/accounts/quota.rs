//! The quotas of an account, and the used parts of them.

use async_graphql::SimpleObject;
use entity::quota::UNLIMITED;

use crate::{
    domain::quota::{Limits, Quota, QuotaUse},
    graphql::engine::{error::ApiError, scalar::BigInt, scope::AccountScope},
};

/// The quotas of an account, and how much of each is used. The quotas in bytes count the decompressed JSON of
/// reports and of clients' spans, and performance reports. Only data that the account's policy accepts on the
/// day of its arrival counts, for as long as it is kept.
#[derive(SimpleObject)]
pub(crate) struct AccountQuota {
    /// The stored data, in bytes.
    stored_bytes: QuotaUsed,
    /// The data received today (UTC), in bytes.
    daily_bytes: QuotaUsed,
    /// The number of clusters that first reported today (UTC).
    daily_clusters: QuotaUsed,
    /// The maximum number of threads of one cluster that count as usage at one time. Usage of further threads
    /// does not count, and `Usage.isComplete` is then false. Null if unlimited.
    cluster_threads: Option<BigInt>,
    /// The maximum retention of any class of data, in days. Null if unlimited.
    retention_days: Option<i32>,
}

/// A quota and its used part.
#[derive(SimpleObject)]
pub(crate) struct QuotaUsed {
    /// The used part.
    used: BigInt,
    /// The limit. Null if unlimited. A report that would exceed it is refused with the code
    /// `QUOTA_EXCEEDED`.
    limit: Option<BigInt>,
}

impl AccountQuota {
    pub(crate) async fn load(scope: &AccountScope) -> Result<Self, ApiError> {
        let status = scope.store.quota_status(scope.now.into()).await?;
        let quota_used = |quota| QuotaUsed::from(status.usage_of(quota));
        let Limits { cluster_threads, retention_days, .. } = status.limits;
        Ok(Self {
            stored_bytes: quota_used(Quota::StoredBytes),
            daily_bytes: quota_used(Quota::DailyBytes),
            daily_clusters: quota_used(Quota::DailyClusters),
            cluster_threads: (cluster_threads != UNLIMITED).then_some(BigInt(cluster_threads)),
            retention_days: (retention_days != UNLIMITED)
                .then(|| i32::try_from(retention_days).unwrap_or(i32::MAX)),
        })
    }
}

impl From<QuotaUse> for QuotaUsed {
    fn from(QuotaUse { used, limit, .. }: QuotaUse) -> Self {
        Self { used: BigInt(used), limit: (limit != UNLIMITED).then_some(BigInt(limit)) }
    }
}
