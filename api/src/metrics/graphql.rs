//! GraphQL operations, however they came.

use std::time::Instant;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::seconds;

/// What is counted of operations.
#[derive(Clone, Debug)]
pub(crate) struct GraphQlMetrics {
    operations: Family<Ended, Counter>,
    durations: Family<Begun, Histogram>,
    cost: Counter,
}

/// What an operation does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationKind {
    Query,
    Mutation,
    Subscription,
    /// It was refused before that was known.
    Unknown,
}

impl OperationKind {
    fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Mutation => "mutation",
            Self::Subscription => "subscription",
            Self::Unknown => "unknown",
        }
    }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationOutcome {
    /// It was answered without errors; a subscription has begun.
    Ok,
    /// It was answered, and some of its fields could not be, for reasons that its sender can do something about.
    Errors,
    /// Its document, its variables or the way it came were wrong.
    Refused,
    /// Its sender asks too much.
    RateLimited,
    /// It took too long.
    Timeout,
    /// The store could not be asked.
    Unavailable,
    /// A defect of the server.
    Failed,
    /// Its sender did not wait for the answer.
    Cancelled,
}

impl OperationOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Errors => "errors",
            Self::Refused => "refused",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    r#type: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Begun {
    r#type: &'static str,
}

impl GraphQlMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            operations: Family::default(),
            durations: Family::new_with_constructor(seconds),
            cost: Counter::default(),
        };
        registry.register(
            "operations",
            "Operations of those who signed in, by type and outcome; of subscriptions, that they begin",
            metrics.operations.clone(),
        );
        registry.register(
            "operation_duration_seconds",
            "Time from a request that was signed in to what becomes of it; of subscriptions, until they begin",
            metrics.durations.clone(),
        );
        registry.register("cost", "Points that operations cost", metrics.cost.clone());
        metrics
    }

    /// An operation was asked for.
    pub(crate) fn begin(&self) -> Operation {
        let (kind, outcome) = (OperationKind::Unknown, OperationOutcome::Cancelled);
        Operation { metrics: self.clone(), kind, outcome, begun: Instant::now() }
    }
}

/// An operation that is under way. What became of it is counted when it is dropped.
#[derive(Debug)]
pub(crate) struct Operation {
    metrics: GraphQlMetrics,
    kind: OperationKind,
    outcome: OperationOutcome,
    begun: Instant,
}

impl Operation {
    /// What it does is known.
    pub(crate) fn is(&mut self, kind: OperationKind) {
        self.kind = kind;
    }

    /// So many points were taken for it.
    pub(crate) fn costs(&self, points: u64) {
        self.metrics.cost.inc_by(points);
    }

    /// What became of it.
    pub(crate) fn ended(mut self, outcome: OperationOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let (kind, outcome) = (self.kind.name(), self.outcome.name());
        self.metrics.operations.get_or_create(&Ended { r#type: kind, outcome }).inc();
        let durations = self.metrics.durations.get_or_create(&Begun { r#type: kind });
        durations.observe(self.begun.elapsed().as_secs_f64());
    }
}
