//! The events, log lines and samples of clusters.

pub(super) mod event;
pub(super) mod log_line;
pub(super) mod sample_chunk;
