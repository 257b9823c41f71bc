//! Routes of programs: reports, exports, tokens, probes and metrics.

pub(super) mod client_span;
pub(super) mod export;
pub(super) mod export_api;
pub(super) mod health;
pub(super) mod metrics;
pub(super) mod preload;
pub(super) mod profile_export;
pub(super) mod report;
pub(super) mod scheduler_token;
