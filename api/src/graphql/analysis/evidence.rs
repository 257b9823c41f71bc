//! Evidence: the facts that support an answer.

use async_graphql::Object;

use crate::{
    domain::answer::{self, Subject},
    graphql::{
        clusters::{cluster::Cluster, worker::Worker},
        computations::computation::Computation,
        engine::{
            error::ApiError,
            phrase::{AnswerArgument, AnswerCode},
            projection::InlineList,
            scope::AccountScope,
        },
        errors::error_group::ErrorGroup,
        node::Node,
    },
};

/// One piece of evidence for an answer.
pub(crate) struct Evidence {
    scope: AccountScope,
    evidence: answer::Evidence,
}

impl Evidence {
    pub(crate) fn new(scope: &AccountScope, evidence: answer::Evidence) -> Self {
        Self { scope: scope.clone(), evidence }
    }
}

/// One piece of evidence for an answer.
#[Object]
impl Evidence {
    /// The description of the evidence, in English.
    async fn label(&self) -> String {
        self.evidence.phrase.text()
    }

    /// The code of the description, from which a client phrases it itself.
    async fn code(&self) -> AnswerCode {
        self.evidence.phrase.code.into()
    }

    /// The arguments of the code: each number, time and name in the description.
    async fn arguments(&self) -> InlineList<AnswerArgument> {
        AnswerArgument::list(&self.evidence.phrase.arguments)
    }

    /// The number, in `unit`. Null if there is none.
    async fn value(&self) -> Option<f64> {
        self.evidence.value.as_ref().map(|(value, _)| *value)
    }

    /// The unit of the value: a unit of answers, `bytes`, `clients`, `thread-hours`, or `share` from 0
    /// to 1. Null if the value is null.
    async fn unit(&self) -> Option<&str> {
        self.evidence.value.as_ref().map(|(_, unit)| &**unit)
    }

    /// The subject of the evidence: a computation, a group of similar errors, a worker or a cluster.
    /// Null for other subjects, and if the subject is no longer stored.
    async fn node(&self) -> Result<Option<Node>, ApiError> {
        let scope = &self.scope;
        let Some(subject) = self.evidence.subject else { return Ok(None) };
        Ok(match subject {
            Subject::Computation(cluster, id) => {
                Computation::find(scope, (cluster, id)).await?.map(Node::Computation)
            }
            Subject::ErrorGroup(id) => {
                ErrorGroup::find(scope, id).await?.map(|node| Node::ErrorGroup(Box::new(node)))
            }
            Subject::Worker(cluster, id) => {
                Worker::find(scope, (cluster, id)).await?.map(|node| Node::Worker(Box::new(node)))
            }
            Subject::Cluster(id) => Cluster::find(scope, id).await?.map(|node| Node::Cluster(Box::new(node))),
        })
    }
}
