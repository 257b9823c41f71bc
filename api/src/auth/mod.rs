//! Who is asking. A [`Viewer`] can only be made from verified credentials, and everything that reads or writes
//! an account's rows asks for one.
//!
//! Credentials are of several kinds, and all come together in one place. A kind is a module that verifies what was
//! [`Shown`] and ends in one of two calls of the [`Authenticator`]:
//! - what belongs to one account, as an API token, brings its account, user and membership along and becomes a
//!   `Proof` at once;
//! - what is a user's own, as a JWT or a browser's session, opens every account the user is a member of:
//!   `Authenticator::admit` finds the one that is meant, and whether the membership is not over.
//!
//! Whom an issuer sends and nobody knows yet, `Authenticator::receive` may make a member before.
//!
//! What else a kind has to say is in [`Credential`]: whose limits count, whether it stands for the user in all accounts,
//! and how long what is given with it may last.

mod authenticator;
mod credential;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod jwks;
mod jwt;
mod newcomer;
mod oidc;
mod session;
mod token_use;
mod viewer;

pub use authenticator::{AuthError, Authenticator, Shown};
pub use credential::{Credential, LimitKey};
pub use jwks::JwksError;
pub(crate) use jwks::usable_keys;
pub use jwt::JwtVerifier;
pub use oidc::{CALLBACK, OidcError, OidcProvider, Returned};
pub use session::{Proof, Session, Sessions};
pub use token_use::TokenUses;
pub use viewer::Viewer;
