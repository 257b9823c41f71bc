//! Metrics of the store: statements, transactions, and waits for connections.

use std::time::{Duration, Instant};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::seconds;

/// The metrics of the store.
#[derive(Clone, Debug)]
pub(crate) struct StoreMetrics {
    statements: Counter,
    failures: Counter,
    durations: Histogram,
    transactions: Family<OutcomeLabels, Counter>,
    waits: Histogram,
    transaction_durations: Histogram,
    connections: Family<PoolStateLabels, Gauge>,
    max_connections: Family<PoolLabels, Gauge>,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransactionOutcome {
    /// The transaction was committed.
    Committed,
    /// The transaction collided with another one. It is retried or given up.
    Contention,
    /// A unique key is taken.
    Conflict,
    /// No connection was available within the timeout.
    NoConnection,
    /// The database is unavailable, full or busy.
    Unavailable,
    /// An internal error, or a case that the caller handles.
    Failed,
}

impl TransactionOutcome {
    const ALL: [Self; 6] = [
        Self::Committed,
        Self::Contention,
        Self::Conflict,
        Self::NoConnection,
        Self::Unavailable,
        Self::Failed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Contention => "contention",
            Self::Conflict => "conflict",
            Self::NoConnection => "no_connection",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolStateLabels {
    pool: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    pool: &'static str,
}

/// The current connections of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connections {
    /// The purpose of the pool.
    pub(crate) pool: &'static str,
    pub(crate) idle: usize,
    pub(crate) in_use: usize,
    pub(crate) max: usize,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        let transactions = Family::<OutcomeLabels, Counter>::default();
        for outcome in TransactionOutcome::ALL.map(TransactionOutcome::name) {
            // Created with the value 0, so that alerts see the first event as an increase.
            drop(transactions.get_or_create(&OutcomeLabels { outcome }));
        }
        Self {
            statements: Counter::default(),
            failures: Counter::default(),
            durations: seconds(),
            transactions,
            waits: seconds(),
            transaction_durations: seconds(),
            connections: Family::default(),
            max_connections: Family::default(),
        }
    }
}

impl StoreMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("statements", "Statements sent to the database", self.statements.clone());
        registry.register("statement_failures", "Failed statements", self.failures.clone());
        registry.register(
            "statement_seconds",
            "Execution time of statements, without the wait for a connection",
            self.durations.clone(),
        );
        registry.register(
            "transactions",
            "Transactions on accounts by outcome; a conflicting one is retried, and each attempt counts",
            self.transactions.clone(),
        );
        registry.register(
            "wait_seconds",
            "Time that transactions waited to start: for a connection, and with SQLite for other writers",
            self.waits.clone(),
        );
        registry.register(
            "transaction_seconds",
            "Duration of transactions",
            self.transaction_durations.clone(),
        );
        registry.register(
            "connections",
            "Connections to the database, by pool and state",
            self.connections.clone(),
        );
        registry.register("connections_max", "Limit of connections of a pool", self.max_connections.clone());
    }

    /// Records a statement.
    pub(crate) fn statement(&self, duration: Duration, has_failed: bool) {
        self.statements.inc();
        if has_failed {
            self.failures.inc();
        }
        self.durations.observe(duration.as_secs_f64());
    }

    /// Returns the number of statements so far.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.get()
    }

    /// Records a transaction that was requested at `requested_at` and started at `started_at`, if it started.
    pub(crate) fn transaction(
        &self,
        requested_at: Instant,
        started_at: Option<Instant>,
        outcome: TransactionOutcome,
    ) {
        let wait = started_at.map_or_else(|| requested_at.elapsed(), |started_at| started_at - requested_at);
        self.waits.observe(wait.as_secs_f64());
        if let Some(started_at) = started_at {
            self.transaction_durations.observe(started_at.elapsed().as_secs_f64());
        }
        self.transactions.get_or_create(&OutcomeLabels { outcome: outcome.name() }).inc();
    }

    /// Sets the gauges of the pools.
    pub(crate) fn set_pools(&self, pools: &[Connections]) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for &Connections { pool, idle, in_use, max } in pools {
            for (state, count) in [("idle", idle), ("in_use", in_use)] {
                self.connections.get_or_create(&PoolStateLabels { pool, state }).set(gauge(count));
            }
            self.max_connections.get_or_create(&PoolLabels { pool }).set(gauge(max));
        }
    }
}
