//! Where every question begins.

use async_graphql::{Context, ID, Object};

use super::{
    account::Account,
    cluster::Cluster,
    error::ApiError,
    id::GlobalId,
    node::Node,
    rate_limit::RateLimit,
    schema::{self, RequestContext},
    viewer::Viewer,
};

/// Where every question begins.
pub(super) struct Query;

/// Where every question begins. All of it is answered within the account the viewer signed in to: what belongs
/// to another account looks as if it did not exist.
#[Object]
impl Query {
    /// Who is asking.
    async fn viewer(&self, context: &Context<'_>) -> Viewer {
        let RequestContext { viewer, scope, .. } = schema::request(context);
        Viewer { scope: scope.clone(), viewer: viewer.clone() }
    }

    /// The account with this slug; null when there is none or the viewer is no member.
    async fn account(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] slug: String,
    ) -> Option<Account> {
        let RequestContext { scope, .. } = schema::request(context);
        (scope.account.slug == slug).then(|| Account(scope.clone()))
    }

    /// One cluster of the viewer's account; null when there is none.
    async fn cluster(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The global identifier, or the cluster's `number`.")] id: ID,
    ) -> Result<Option<Cluster>, ApiError> {
        let RequestContext { scope, .. } = schema::request(context);
        let number = match GlobalId::parse(&id) {
            Some(GlobalId::Cluster(account, number)) if account == scope.account.id => Some(number),
            Some(_) => None,
            None => id.parse().ok(),
        };
        match number {
            Some(number) => Cluster::find(scope, number).await,
            None => Ok(None),
        }
    }

    /// The thing with this global identifier; null when there is none.
    async fn node(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "A global identifier.")] id: ID,
    ) -> Result<Option<Node>, ApiError> {
        let RequestContext { scope, .. } = schema::request(context);
        Node::find(scope, &id).await
    }

    /// What queries with the viewer's token may still cost.
    async fn rate_limit(&self, context: &Context<'_>) -> RateLimit {
        schema::request(context).rate_limit.clone()
    }
}
