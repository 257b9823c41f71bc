//! The system under test and its users, in the vocabulary of tests.
#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a test that cannot set up its world fails"
)]

mod app;
mod browser;
mod dashboard;
mod database;
mod hostile;
mod issuer;
mod program;
mod proxy;
mod receiver;
mod report;
mod socket;

pub use app::{Member, TestApp};
pub use browser::{Browser, Page};
pub use dashboard::{
    DOCUMENT as DASHBOARD_DOCUMENT, DOCUMENT_HASH as DASHBOARD_DOCUMENT_HASH, DashboardBuild,
    GRAPHIQL as GRAPHIQL_PAGE, PAGE as DASHBOARD_PAGE, SCRIPT as DASHBOARD_SCRIPT,
};
pub use database::{Database, Outage, numbers};
pub use hostile::{HostileRequest, hostile_requests};
pub use issuer::{
    AUDIENCE, ISSUER, KeyServer, SHARED_SECRET, SigningKey, claims, jwt_config, key_set, shared_jwt_config,
};
pub use program::Program;
pub use proxy::{Prefix, PrefixProxy};
pub use receiver::{Answer, Mail, MailReceiver, Received, WebhookReceiver};
pub use report::{
    ReportBuilder, STARTED_AT, activity, code, code_frame, computation, error, event, log_line, profile,
    sample, span, task_group, threads, usage, uuid, worker,
};
pub use socket::{Incoming, Socket};
