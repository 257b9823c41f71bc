//! Who is asking. A [`Viewer`] can only be made from verified credentials, and everything that reads or writes
//! an account's rows asks for one.

mod authenticator;
mod viewer;

pub use authenticator::{AuthError, Authenticator};
pub use viewer::Viewer;
