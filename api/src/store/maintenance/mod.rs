//! Work of the operator and of jobs: backups, keys, partitions, retention.

pub(crate) mod backup;
pub(super) mod database_diagnostics;
pub(super) mod job_lock;
pub(super) mod key;
pub(super) mod operator;
pub mod partition;
pub mod reencrypt;
pub mod retention;
pub(super) mod retention_watch;
