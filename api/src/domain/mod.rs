//! Rules and arithmetic: no async, no SeaORM queries, no async-graphql, no clock. What comes from outside is
//! parsed here, once, into types that need no second check.

pub mod bounded;
pub mod cluster_id;
pub mod report;
pub mod role;
pub mod slug;
pub mod token;
