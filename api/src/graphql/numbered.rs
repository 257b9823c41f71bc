//! Objects by their number in a cluster.

use async_graphql::Enum;
use entity::{error_occurrence, ids::ClusterId, span, worker};

use super::{
    clusters::worker::Worker,
    computations::span::Span,
    engine::{error::ApiError, scope::AccountScope},
    errors::error_occurrence::ErrorOccurrence,
    node::Node,
};

/// The types of objects that have a number in their cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum NumberedType {
    /// An `ErrorOccurrence`.
    Error,
    /// A `Span`.
    Span,
    /// A `Worker`.
    Worker,
}

/// Returns the object of a cluster with this number; `None` if there is none.
pub(super) async fn find_numbered(
    scope: &AccountScope,
    cluster: ClusterId,
    object_type: NumberedType,
    number: i64,
) -> Result<Option<Node>, ApiError> {
    let store = &scope.store;
    Ok(match object_type {
        NumberedType::Error => {
            let row = store.numbered::<error_occurrence::Entity>(cluster, number).await?;
            row.map(|row| Node::ErrorOccurrence(Box::new(ErrorOccurrence::new(scope, row))))
        }
        NumberedType::Span => {
            let row = store.numbered::<span::Entity>(cluster, number).await?;
            row.map(|row| Node::Span(Box::new(Span::new(scope, row))))
        }
        NumberedType::Worker => {
            let row = store.numbered::<worker::Entity>(cluster, number).await?;
            row.map(|row| Node::Worker(Box::new(Worker::new(scope, row))))
        }
    })
}
