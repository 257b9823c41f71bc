//! The system under test and those who use it, as tests speak of them.
#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a test that cannot set up its world fails"
)]

mod app;
mod browser;
mod database;
mod hostile;
mod issuer;
mod program;
mod receiver;
mod report;
mod socket;

pub use app::{Member, TestApp};
pub use browser::{Browser, Page};
pub use database::{Database, Outage};
pub use hostile::{HostileRequest, hostile_requests};
pub use issuer::{
    AUDIENCE, ISSUER, KeyServer, SHARED_SECRET, SigningKey, claims, jwt_config, key_set, shared_jwt_config,
};
pub use program::Program;
pub use receiver::{Answer, Mail, MailReceiver, Received, WebhookReceiver};
pub use report::{
    ReportBuilder, STARTED_AT, code, code_frame, computation, error, event, log_line, profile, sample, span,
    task_group, threads, usage, uuid, worker,
};
pub use socket::{Heard, Socket};
