//! Authentication. A [`Viewer`] can be made only from verified credentials, and all code that reads or
//! writes an account's rows requires one.
//!
//! Each kind of credentials has a module that verifies the [`PresentedCredentials`] value and ends in
//! one of two ways:
//!
//! - Credentials for one account, such as an API token, determine the account, the user and the membership.
//! - Credentials of a user, such as a JWT or a browser session, are valid for every account that the user is
//!   a member of. `Authenticator::resolve_viewer` selects the account and checks that the membership has not
//!   ended. `Authenticator::provision_user` may first create a user whom an issuer authenticated.
//!
//! [`Credential`] holds the other differences: the key of rate limits, whether the credentials represent
//! the user in all accounts, and the latest expiry of tokens created with them.

mod authenticator;
mod credential;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod jwks;
mod jwt;
mod oidc;
mod provisioning;
mod session;
mod token_use;
mod viewer;

pub use authenticator::{AuthError, Authenticator, PresentedCredentials};
pub use credential::{Credential, LimitKey, SessionHash};
pub use jwks::JwksError;
pub(crate) use jwks::count_usable_keys;
pub use jwt::JwtVerifier;
pub use oidc::{CALLBACK, OidcError, OidcProvider, RedirectParameters};
pub use session::{Session, Sessions, SignInMethod};
pub use token_use::TokenUses;
pub use viewer::Viewer;
