//! The mutation that transfers a cluster to another owner.

use async_graphql::{ID, InputObject};

use super::{cluster::Cluster, cluster_tag::ClusterPayload};
use crate::{
    graphql::{
        access::user::User,
        engine::{
            error::ApiError,
            scope::AccountScope,
            user_error::{UserError, UserErrorCode},
        },
    },
    store::HandOverOutcome,
};

/// The cluster to transfer, and its new owner.
#[derive(InputObject)]
pub(crate) struct HandOverClusterInput {
    /// The cluster's global identifier, or its `number`.
    cluster_id: ID,
    /// The global identifier of the member who becomes the owner.
    user_id: ID,
}

pub(crate) async fn hand_over_cluster(
    scope: &AccountScope,
    input: HandOverClusterInput,
) -> Result<ClusterPayload, ApiError> {
    let not_found = || ApiError::NotFound("cluster");
    let cluster = Cluster::parse_id(scope, "clusterId", &input.cluster_id).map_err(|_| not_found())?;
    let user = User::parse_id(scope, "userId", &input.user_id).map_err(|_| ApiError::NotFound("user"))?;
    match scope.store.transfer_cluster(cluster, user, scope.now.into()).await? {
        HandOverOutcome::Done(row) => Ok(ClusterPayload::changed(scope, *row)),
        HandOverOutcome::NoMember => {
            let error = UserError::new("userId", UserErrorCode::NotFound, "is not a member of the account");
            ClusterPayload::refused(scope, cluster, error).await
        }
        HandOverOutcome::Missing => Err(not_found()),
    }
}
