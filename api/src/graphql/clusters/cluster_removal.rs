//! The mutations that remove clusters: a single one, or all clusters that were reported with a token.

use async_graphql::{ID, InputObject, SimpleObject};
use chrono::{DateTime, Utc};

use super::cluster::Cluster;
use crate::{
    domain::token,
    graphql::{
        accounts::account::Account,
        engine::{
            error::ApiError,
            scalar::BigInt,
            scope::AccountScope,
            user_error::{UserError, UserErrorCode},
        },
    },
    store,
};

/// The cluster to delete.
#[derive(InputObject)]
pub(crate) struct DeleteClusterInput {
    /// The cluster's global identifier, or its `number`.
    cluster_id: ID,
}

/// The outcome of `deleteCluster`.
#[derive(SimpleObject)]
pub(crate) struct DeleteClusterPayload {
    /// The account without the cluster.
    account: Account,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// The token whose reported data is quarantined or removed.
#[derive(InputObject)]
pub(crate) struct ForgetTokenInput {
    /// The token's `identifier`: the part before the dash. The token may have expired or been revoked, and
    /// its user may have left the account.
    token_id: String,
    /// The start of the affected period, by the server's clock. A cluster is affected as a whole if it
    /// was reported with the token at this time or later.
    since: DateTime<Utc>,
    /// If false, the mutation quarantines data, which can be undone with `restoreToken`. If true, it removes
    /// the data that an earlier call quarantined for the token, and quarantines no further data. The removal
    /// cannot be undone.
    #[graphql(default)]
    confirm: bool,
}

/// The token whose quarantined data is restored.
#[derive(InputObject)]
pub(crate) struct RestoreTokenInput {
    /// The token's `identifier`: the part before the dash.
    token_id: String,
}

/// The outcome of `forgetToken`.
#[derive(SimpleObject)]
pub(crate) struct ForgetTokenPayload {
    /// The account without the quarantined data.
    account: Account,
    /// The data that is quarantined for the token, or was until its removal was confirmed.
    counts: RemovalCounts,
    /// True if the data is being removed.
    is_confirmed: bool,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// The outcome of `restoreToken`.
#[derive(SimpleObject)]
pub(crate) struct RestoreTokenPayload {
    /// The account with the restored data.
    account: Account,
    /// The number of restored clusters.
    clusters: BigInt,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// The amount of data of quarantined clusters.
#[derive(SimpleObject)]
pub(crate) struct RemovalCounts {
    /// The number of clusters.
    clusters: BigInt,
    /// The number of these clusters that also reported before `since`. The data that they reported before
    /// `since` is included in the other counts.
    clusters_from_before: BigInt,
    /// The number of workers.
    workers: BigInt,
    /// The number of computations.
    computations: BigInt,
    /// The number of task groups.
    task_groups: BigInt,
    /// The number of spans.
    spans: BigInt,
    /// The number of errors.
    errors: BigInt,
    /// The number of events.
    events: BigInt,
    /// The number of log lines.
    log_lines: BigInt,
    /// The number of profile windows.
    profiles: BigInt,
    /// The number of hours with usage, summed over the clusters.
    usage_hours: BigInt,
}

impl From<store::RemovalCounts> for RemovalCounts {
    fn from(counts: store::RemovalCounts) -> Self {
        let number = |count: u64| BigInt(i64::try_from(count).unwrap_or(i64::MAX));
        Self {
            clusters: number(counts.clusters),
            clusters_from_before: number(counts.clusters_seen_before),
            workers: number(counts.workers),
            computations: number(counts.computations),
            task_groups: number(counts.task_groups),
            spans: number(counts.spans),
            errors: number(counts.errors),
            events: number(counts.events),
            log_lines: number(counts.log_lines),
            profiles: number(counts.profiles),
            usage_hours: number(counts.usage_hours),
        }
    }
}

pub(crate) async fn delete_cluster(
    scope: &AccountScope,
    input: DeleteClusterInput,
) -> Result<DeleteClusterPayload, ApiError> {
    let not_found = || ApiError::NotFound("cluster");
    let cluster = Cluster::parse_id(scope, "clusterId", &input.cluster_id).map_err(|_| not_found())?;
    if !scope.store.delete_cluster(cluster, scope.now.into()).await? {
        return Err(not_found());
    }
    Ok(DeleteClusterPayload { account: Account(scope.with_empty_caches()), user_errors: Vec::new() })
}

pub(crate) async fn forget_token(
    scope: &AccountScope,
    input: ForgetTokenInput,
) -> Result<ForgetTokenPayload, ApiError> {
    let ForgetTokenInput { token_id, since, confirm } = input;
    check_token_exists(scope, &token_id).await?;
    let (since, now) = (since.into(), scope.now.into());
    if !confirm {
        scope.store.quarantine_reports(&token_id, since, now).await?;
    }
    let counts = scope.store.quarantined_counts(&token_id, since).await?;
    let confirm_error = (confirm && counts.clusters == 0).then(|| {
        let message = "nothing is quarantined for the token: send the mutation without 'confirm' first, and \
                       check what it would delete";
        UserError::new("confirm", UserErrorCode::NotFound, message)
    });
    if confirm && confirm_error.is_none() {
        scope.store.remove_quarantined(&token_id, now).await?;
    }
    Ok(ForgetTokenPayload {
        account: Account(scope.with_empty_caches()),
        counts: counts.into(),
        is_confirmed: confirm && confirm_error.is_none(),
        user_errors: confirm_error.into_iter().collect(),
    })
}

pub(crate) async fn restore_token(
    scope: &AccountScope,
    RestoreTokenInput { token_id }: RestoreTokenInput,
) -> Result<RestoreTokenPayload, ApiError> {
    check_token_exists(scope, &token_id).await?;
    let restored = scope.store.restore_reports(&token_id, scope.now.into()).await?;
    Ok(RestoreTokenPayload {
        account: Account(scope.with_empty_caches()),
        clusters: BigInt(i64::try_from(restored).unwrap_or(i64::MAX)),
        user_errors: Vec::new(),
    })
}

/// Returns an error if the account has no such token, and had none while something was reported with it.
async fn check_token_exists(scope: &AccountScope, identifier: &str) -> Result<(), ApiError> {
    // Any other text names no token, and may contain characters that the database refuses.
    if token::ApiToken::is_identifier(identifier) && scope.store.has_token_or_reports(identifier).await? {
        Ok(())
    } else {
        Err(ApiError::NotFound("token"))
    }
}
