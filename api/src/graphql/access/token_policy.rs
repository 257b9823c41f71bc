//! The account's policy for the tokens of schedulers.

use async_graphql::{InputObject, SimpleObject};
use chrono::{DateTime, Utc};

use crate::graphql::engine::{error::ApiError, scope::AccountScope, user_error::UserError};

/// The tokens that an account accepts from schedulers. Code that runs on a scheduler can read the
/// scheduler's token, so the token should permit reports only.
#[derive(SimpleObject)]
pub(crate) struct TokenPolicy {
    /// True if schedulers are refused whose token permits more than reports.
    refuses_broad_tokens: bool,
    /// The time at which a scheduler last used such a token, by the server's clock, at most a minute
    /// late. Null if none did. `ApiToken.broadUseAt` shows which token it was.
    last_broad_use_at: Option<DateTime<Utc>>,
}

impl TokenPolicy {
    pub(crate) async fn find(scope: &AccountScope) -> Result<Self, ApiError> {
        let refuses_broad_tokens = scope.store.refuses_broad_tokens().await?;
        let last_broad_use_at = scope.store.last_broad_use().await?.map(|at| at.0);
        Ok(Self { refuses_broad_tokens, last_broad_use_at })
    }
}

/// The complete new policy for the tokens of schedulers.
#[derive(InputObject)]
pub(crate) struct SetTokenPolicyInput {
    /// True to refuse schedulers whose token permits more than reports.
    refuses_broad_tokens: bool,
}

/// The outcome of `setTokenPolicy`.
#[derive(SimpleObject)]
pub(crate) struct SetTokenPolicyPayload {
    /// The current policy.
    token_policy: TokenPolicy,
    /// The errors in the input. Always empty, because every policy is allowed.
    user_errors: Vec<UserError>,
}

pub(crate) async fn set_token_policy(
    scope: &AccountScope,
    input: SetTokenPolicyInput,
) -> Result<SetTokenPolicyPayload, ApiError> {
    scope.store.set_token_policy(input.refuses_broad_tokens).await?;
    Ok(SetTokenPolicyPayload { token_policy: TokenPolicy::find(scope).await?, user_errors: Vec::new() })
}
