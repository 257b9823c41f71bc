//! The baseline of a cluster, the backtest of idle timeouts, and the idle policy.

pub(super) mod baseline;
pub(super) mod idle_backtest;
pub(super) mod idle_policy;
