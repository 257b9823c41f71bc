//! The store: its statements, its transactions, and the connections they wait for.

use std::time::{Duration, Instant};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::seconds;

/// What is counted of the store.
#[derive(Clone, Debug)]
pub(crate) struct StoreMetrics {
    statements: Counter,
    failures: Counter,
    durations: Histogram,
    transactions: Family<Ended, Counter>,
    waits: Histogram,
    transaction_durations: Histogram,
    connections: Family<Pooled, Gauge>,
    max_connections: Family<Pool, Gauge>,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransactionOutcome {
    /// All of it is stored.
    Committed,
    /// It collided with another, and was tried again or given up.
    Contention,
    /// It names something that is taken.
    Conflict,
    /// There was no connection within the time.
    NoConnection,
    /// The database is away, full or busy.
    Unavailable,
    /// A defect, or something that has to be decided otherwise.
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
struct Ended {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pooled {
    pool: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    pool: &'static str,
}

/// The connections of a pool, as they are now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connections {
    /// What they are for.
    pub(crate) pool: &'static str,
    pub(crate) idle: usize,
    pub(crate) in_use: usize,
    pub(crate) max: usize,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        let transactions = Family::<Ended, Counter>::default();
        for outcome in TransactionOutcome::ALL.map(TransactionOutcome::name) {
            // So that an alert sees the first of them as a change.
            drop(transactions.get_or_create(&Ended { outcome }));
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
        registry.register("statement_failures", "Statements that failed", self.failures.clone());
        registry.register(
            "statement_seconds",
            "Time that statements took, once there was a connection",
            self.durations.clone(),
        );
        registry.register(
            "transactions",
            "Transactions on accounts, by outcome; one that collides is tried again, and each attempt counts",
            self.transactions.clone(),
        );
        registry.register(
            "wait_seconds",
            "Time that transactions waited to begin: for a connection, and on SQLite for other writers",
            self.waits.clone(),
        );
        registry.register(
            "transaction_seconds",
            "Time from the beginning of a transaction to its end",
            self.transaction_durations.clone(),
        );
        registry.register(
            "connections",
            "Connections to the database, by pool and state",
            self.connections.clone(),
        );
        registry.register(
            "connections_max",
            "Connections that a pool may have",
            self.max_connections.clone(),
        );
    }

    /// A statement ended.
    pub(crate) fn statement(&self, took: Duration, failed: bool) {
        self.statements.inc();
        if failed {
            self.failures.inc();
        }
        self.durations.observe(took.as_secs_f64());
    }

    /// Statements until now.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.get()
    }

    /// A transaction that was asked for at `asked` and began at `begun`, if it did, ended.
    pub(crate) fn transaction(&self, asked: Instant, begun: Option<Instant>, outcome: TransactionOutcome) {
        let waited = begun.map_or_else(|| asked.elapsed(), |begun| begun - asked);
        self.waits.observe(waited.as_secs_f64());
        if let Some(begun) = begun {
            self.transaction_durations.observe(begun.elapsed().as_secs_f64());
        }
        self.transactions.get_or_create(&Ended { outcome: outcome.name() }).inc();
    }

    /// Takes down how the pools are now.
    pub(crate) fn take_down(&self, pools: &[Connections]) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for &Connections { pool, idle, in_use, max } in pools {
            for (state, count) in [("idle", idle), ("in_use", in_use)] {
                self.connections.get_or_create(&Pooled { pool, state }).set(gauge(count));
            }
            self.max_connections.get_or_create(&Pool { pool }).set(gauge(max));
        }
    }
}
