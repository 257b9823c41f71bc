//! The interface of objects with a global identifier, and their lookup.

use async_graphql::{ID, Interface};

use super::{
    account::Account, cluster::Cluster, computation::Computation, error::ApiError, error_group::ErrorGroup,
    error_occurrence::ErrorOccurrence, id::GlobalId, scope::AccountScope, span::Span, task_group::TaskGroup,
    user::User, worker::Worker,
};

/// An object with a global identifier.
#[derive(Interface)]
#[graphql(field(
    name = "id",
    ty = "ID",
    desc = "The global identifier. It is opaque; `Query.node` returns the object."
))]
pub(super) enum Node {
    Account(Account),
    User(User),
    Cluster(Box<Cluster>),
    Computation(Computation),
    TaskGroup(Box<TaskGroup>),
    ErrorOccurrence(Box<ErrorOccurrence>),
    ErrorGroup(Box<ErrorGroup>),
    Worker(Box<Worker>),
    Span(Box<Span>),
}

impl Node {
    /// Returns the object with the identifier `id`. Returns `None` if it does not exist, if it belongs
    /// to another account, or if the text is no identifier; a client cannot distinguish these cases.
    pub(super) async fn find(scope: &AccountScope, id: &ID) -> Result<Option<Self>, ApiError> {
        let Some(id) = GlobalId::parse(id).filter(|id| id.account() == scope.account.id) else {
            return Ok(None);
        };
        Ok(match id {
            GlobalId::Account(_) => Some(Self::Account(Account(scope.clone()))),
            GlobalId::User(_, id) => User::find(scope, id).await?.map(Self::User),
            GlobalId::Cluster(_, id) => {
                Cluster::find(scope, id).await?.map(|node| Self::Cluster(Box::new(node)))
            }
            GlobalId::Computation(_, cluster, id) => {
                Computation::find(scope, (cluster, id)).await?.map(Self::Computation)
            }
            GlobalId::TaskGroup(_, cluster, id) => {
                TaskGroup::find(scope, (cluster, id)).await?.map(|node| Self::TaskGroup(Box::new(node)))
            }
            GlobalId::ErrorOccurrence(_, cluster, id) => ErrorOccurrence::find(scope, cluster, id)
                .await?
                .map(|node| Self::ErrorOccurrence(Box::new(node))),
            GlobalId::ErrorGroup(_, id) => {
                ErrorGroup::find(scope, id).await?.map(|node| Self::ErrorGroup(Box::new(node)))
            }
            GlobalId::Worker(_, cluster, id) => {
                Worker::find(scope, (cluster, id)).await?.map(|node| Self::Worker(Box::new(node)))
            }
            GlobalId::Span(_, cluster, id) => {
                Span::find(scope, (cluster, id)).await?.map(|node| Self::Span(Box::new(node)))
            }
        })
    }
}
