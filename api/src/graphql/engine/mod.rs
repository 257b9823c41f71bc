//! The parts of the schema that belong to no noun: errors, identifiers, scalars, pages, batches of reads and
//! JSON.

pub(super) mod argument;
pub(super) mod batch;
pub(super) mod connection;
pub(super) mod error;
pub(super) mod id;
pub(super) mod json;
pub(super) mod loaders;
pub(super) mod object_template;
pub(super) mod phrase;
pub(super) mod projection;
pub(super) mod rate_limit;
pub(super) mod recent_refusals;
pub(super) mod response;
pub(super) mod row_fields;
pub(super) mod scalar;
pub(super) mod scope;
pub(super) mod user_error;
