//! The errors of tasks and workers, in groups.

pub(super) mod error_group;
pub(super) mod error_occurrence;
pub(super) mod error_status;
