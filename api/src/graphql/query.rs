//! The root type of queries.

use async_graphql::{Context, ID, Object};

use super::{
    access::viewer::Viewer,
    accounts::account::Account,
    clusters::cluster::Cluster,
    engine::{error::ApiError, rate_limit::RateLimit, scalar::BigInt},
    node::Node,
    numbered::{self, NumberedType},
    schema::{self, RequestContext},
};

/// The root type of queries.
pub(super) struct Query;

/// The root of all queries. All fields return data of one account, the account of the request: the one that
/// the header `Galvo-Account` names, or the viewer's default account. Data of another account looks as if it
/// did not exist.
#[Object]
impl Query {
    /// The user of the request, and the permissions of its credentials.
    async fn viewer(&self, context: &Context<'_>) -> Viewer {
        let RequestContext { viewer, scope, .. } = schema::request_context(context);
        Viewer { scope: scope.clone(), viewer: viewer.clone() }
    }

    /// The account of the request, if this is its short name. Null for every other account, also for one that
    /// the viewer is a member of.
    async fn account(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] slug: String,
    ) -> Option<Account> {
        let RequestContext { scope, .. } = schema::request_context(context);
        (scope.account.slug == slug).then(|| Account(scope.clone()))
    }

    /// The cluster with this identifier in the account of the request. Null if there is none.
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

    /// The worker, span or error of a cluster with this `number`. Clients can use the number for short URLs.
    /// Null if there is none.
    async fn numbered(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier, or its `number`.")] cluster: ID,
        #[graphql(name = "type", desc = "The type of the object.")] object_type: NumberedType,
        #[graphql(desc = "The object's number in the cluster.")] number: BigInt,
    ) -> Result<Option<Node>, ApiError> {
        let RequestContext { scope, .. } = schema::request_context(context);
        match Cluster::parse_id_or_number(scope, &cluster) {
            Some(cluster) => numbered::find_numbered(scope, cluster, object_type, number.0).await,
            None => Ok(None),
        }
    }

    /// The rate limit of the viewer's token.
    async fn rate_limit(&self, context: &Context<'_>) -> RateLimit {
        schema::request_context(context).rate_limit.clone()
    }
}
