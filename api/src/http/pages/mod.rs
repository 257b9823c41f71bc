//! Pages for people: signing in, reports and the dashboard.

pub(super) mod activate_token;
pub(super) mod api_token;
pub(super) mod cluster_page;
pub(super) mod dashboard;
pub(super) mod invitation;
pub(super) mod landing;
pub(super) mod oidc;
pub(super) mod page;
pub(super) mod page_caller;
pub(super) mod report_page;
pub(super) mod session;
pub(super) mod sign_in;
pub(super) mod sign_in_link;
pub(super) mod sign_in_services;
pub(super) mod static_file;
