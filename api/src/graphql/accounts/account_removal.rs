//! Removal of an account's data: of one class, or of the whole account.

use async_graphql::{ID, InputObject, SimpleObject};

use super::{account::Account, data_policy::DataClass};
use crate::{
    auth::Viewer,
    graphql::{
        clusters::cluster::Cluster,
        engine::{
            error::ApiError,
            scalar::BigInt,
            scope::AccountScope,
            user_error::{UserError, UserErrorCode},
        },
    },
};

/// The data to remove.
#[derive(InputObject)]
pub(crate) struct DeleteDataInput {
    /// The class of data.
    class: DataClass,
    /// The global identifier or the `number` of the cluster whose data is removed. Null for the data of all
    /// clusters. With a cluster, data that belongs to no single cluster, such as code snippets and
    /// performance reports, is kept.
    cluster_id: Option<ID>,
}

/// The outcome of `deleteData`.
#[derive(SimpleObject)]
pub(crate) struct DeleteDataPayload {
    /// The account after the removal.
    account: Account,
    /// The number of removed rows.
    rows: BigInt,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// The account to delete.
#[derive(InputObject)]
pub(crate) struct DeleteAccountInput {
    /// The short name of the account of this request, as a confirmation.
    confirm_slug: String,
}

/// The outcome of `deleteAccount`.
#[derive(SimpleObject)]
pub(crate) struct DeleteAccountPayload {
    /// The short name of the account that is being deleted. Null if none is.
    slug: Option<String>,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

pub(crate) async fn delete_data(
    scope: &AccountScope,
    input: DeleteDataInput,
) -> Result<DeleteDataPayload, ApiError> {
    let cluster = match &input.cluster_id {
        Some(id) => {
            let not_found = |_| ApiError::NotFound("cluster");
            let cluster = Cluster::parse_id(scope, "clusterId", id).map_err(not_found)?;
            // A cluster that does not exist, or belongs to another account, has no data to remove: this
            // is `NOT_FOUND`.
            Cluster::load_existing(scope, cluster).await?;
            Some(cluster)
        }
        None => None,
    };
    let removed = scope.store.remove_class(input.class.into(), cluster, scope.now.into()).await?;
    Ok(DeleteDataPayload {
        account: Account(scope.with_empty_caches()),
        rows: BigInt(i64::try_from(removed).unwrap_or(i64::MAX)),
        user_errors: Vec::new(),
    })
}

pub(crate) async fn delete_account(
    scope: &AccountScope,
    viewer: &Viewer,
    input: DeleteAccountInput,
) -> Result<DeleteAccountPayload, ApiError> {
    if input.confirm_slug != scope.account.slug {
        let message = "must be the short name of the account of the request";
        let error = UserError::new("confirmSlug", UserErrorCode::Invalid, message);
        return Ok(DeleteAccountPayload { slug: None, user_errors: vec![error] });
    }
    scope.store.delete_account(scope.now.into()).await?;
    tracing::warn!(account = scope.account.slug, user = viewer.user().name, "account deletion started");
    Ok(DeleteAccountPayload { slug: Some(scope.account.slug.clone()), user_errors: Vec::new() })
}
