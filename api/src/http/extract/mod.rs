//! Parts of a request, checked, and the refusal of a request.

pub(super) mod authentication;
pub(super) mod body;
pub(super) mod caller;
pub(super) mod cookie;
pub(super) mod credentials;
pub(super) mod encrypted_text;
pub(super) mod form;
pub(super) mod known_credentials;
pub(super) mod lone_surrogates;
pub(super) mod media_type;
pub(super) mod origin;
pub(super) mod path;
pub(super) mod problem;
