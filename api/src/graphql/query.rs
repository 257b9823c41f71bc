//! The root type of queries.

use async_graphql::{Context, ID, Object};

use super::{
    account::Account,
    cluster::Cluster,
    error::ApiError,
    node::Node,
    rate_limit::RateLimit,
    schema::{self, RequestContext},
    viewer::Viewer,
};

/// The root type of queries.
pub(super) struct Query;

/// The root of all queries. Everything is resolved within the account the viewer signed in to. Data of
/// another account looks as if it did not exist.
#[Object]
impl Query {
    /// The user of the request, and the permissions of its credentials.
    async fn viewer(&self, context: &Context<'_>) -> Viewer {
        let RequestContext { viewer, scope, .. } = schema::request_context(context);
        Viewer { scope: scope.clone(), viewer: viewer.clone() }
    }

    /// The account with this short name. Null if it does not exist or the viewer is not signed in to it.
    async fn account(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] slug: String,
    ) -> Option<Account> {
        let RequestContext { scope, .. } = schema::request_context(context);
        (scope.account.slug == slug).then(|| Account(scope.clone()))
    }

    /// The cluster of the viewer's account with this identifier. Null if there is none.
    async fn cluster(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier, or its `number`.")] id: ID,
    ) -> Result<Option<Cluster>, ApiError> {
        let RequestContext { scope, .. } = schema::request_context(context);
        match Cluster::parse_id_or_number(scope, &id) {
            Some(number) => Cluster::find(scope, number).await,
            None => Ok(None),
        }
    }

    /// The object with this global identifier. Null if there is none, or if the viewer may read no list that
    /// it is in.
    async fn node(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The global identifier.")] id: ID,
    ) -> Result<Option<Node>, ApiError> {
        Node::find(context, &id).await
    }

    /// The rate limit of the viewer's token.
    async fn rate_limit(&self, context: &Context<'_>) -> RateLimit {
        schema::request_context(context).rate_limit.clone()
    }
}
