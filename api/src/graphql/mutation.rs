//! What can be changed.

use async_graphql::{Context, ID, Object, SimpleObject};
use entity::api_token::Scope;

use super::{
    cluster::{Cluster, DesiredState},
    error::{ApiError, missing_scope},
    id::GlobalId,
    schema::{self, RequestContext},
};

/// What can be changed.
pub(super) struct Mutation;

/// What can be changed. Every field needs a token with the scope `admin`.
#[Object]
impl Mutation {
    /// Says what the account wants of a cluster. The scheduler learns it with the answer to its next report, so
    /// it takes one report interval, and has no effect on a cluster that does not report any more.
    async fn set_desired_state(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier.")] cluster: ID,
        #[graphql(desc = "What is wanted.")] state: DesiredState,
    ) -> Result<SetDesiredStatePayload, ApiError> {
        let RequestContext { viewer, scope } = schema::request(context);
        if !viewer.may(Scope::Admin) {
            return Err(missing_scope(Scope::Admin));
        }
        let Some(GlobalId::Cluster(account, id)) = GlobalId::parse(&cluster) else {
            return Err(ApiError::NotFound("cluster"));
        };
        if account != scope.account.id {
            return Err(ApiError::NotFound("cluster"));
        }
        let row =
            scope.store.set_desired_state(id, state.into()).await?.ok_or(ApiError::NotFound("cluster"))?;
        Ok(SetDesiredStatePayload { cluster: Cluster::new(&scope.after_change(), row) })
    }
}

/// The outcome of `setDesiredState`.
#[derive(SimpleObject)]
struct SetDesiredStatePayload {
    /// The cluster as it is now.
    cluster: Cluster,
}
