//! The events, log lines and series of a cluster.

pub(super) mod event;
pub(super) mod log_line;
pub(super) mod series;
