//! What can be changed.

use async_graphql::{Context, ID, Object, SimpleObject};
use entity::api_token::Scope;

use super::{
    account::Account,
    cluster::{Cluster, DesiredState},
    cost::{CostRateInput, UserError},
    data_policy::{SetDataPolicyInput, SetDataPolicyPayload, set_data_policy},
    error::{ApiError, missing_scope},
    id::GlobalId,
    scalar::Date,
    schema::{self, RequestContext},
    scope::AccountScope,
};

/// What can be changed.
pub(super) struct Mutation;

/// What can be changed. Every field needs a token with the scope `admin`.
#[Object]
impl Mutation {
    /// Says what the account wants of a cluster. The scheduler learns it with the answer to its next report, so
    /// it takes one report interval, and has no effect on a cluster that does not report any more.
    async fn set_desired_state(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier.")] cluster: ID,
        #[graphql(desc = "What is wanted.")] state: DesiredState,
    ) -> Result<SetDesiredStatePayload, ApiError> {
        let scope = admin(context)?;
        let Some(GlobalId::Cluster(account, id)) = GlobalId::parse(&cluster) else {
            return Err(ApiError::NotFound("cluster"));
        };
        if account != scope.account.id {
            return Err(ApiError::NotFound("cluster"));
        }
        let row =
            scope.store.set_desired_state(id, state.into()).await?.ok_or(ApiError::NotFound("cluster"))?;
        Ok(SetDesiredStatePayload { cluster: Cluster::new(&scope.after_change(), row) })
    }

    /// Sets what things cost from a day on, in place of a rate that began on the same day.
    async fn set_cost_rate(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rate.")] input: CostRateInput,
    ) -> Result<CostRatesPayload, ApiError> {
        let scope = admin(context)?;
        match input.check() {
            Ok(rate) => {
                scope.store.set_cost_rate(&rate).await?;
                Ok(CostRatesPayload { account: Account(scope.after_change()), user_errors: Vec::new() })
            }
            Err(user_errors) => Ok(CostRatesPayload { account: Account(scope.clone()), user_errors }),
        }
    }

    /// Removes the rate that begins on a day, so that the one before it goes on.
    async fn delete_cost_rate(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The day it begins on.")] valid_from: Date,
    ) -> Result<CostRatesPayload, ApiError> {
        let scope = admin(context)?;
        let deleted = scope.store.delete_cost_rate(valid_from.number()).await?;
        let missing = (!deleted).then(|| UserError::new("validFrom", "no rate begins on this day"));
        Ok(CostRatesPayload {
            account: Account(scope.after_change()),
            user_errors: missing.into_iter().collect(),
        })
    }

    /// Says what the account accepts of a class of data and for how long it keeps it. Schedulers learn it with the
    /// answer to their next report; what arrives until then is dropped here.
    async fn set_data_policy(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What is wanted.")] input: SetDataPolicyInput,
    ) -> Result<SetDataPolicyPayload, ApiError> {
        set_data_policy(admin(context)?, input).await
    }
}

/// The account, for those who may change it.
fn admin<'a>(context: &Context<'a>) -> Result<&'a AccountScope, ApiError> {
    let RequestContext { viewer, scope, .. } = schema::request(context);
    if viewer.may(Scope::Admin) { Ok(scope) } else { Err(missing_scope(Scope::Admin)) }
}

/// The outcome of a change of rates.
#[derive(SimpleObject)]
struct CostRatesPayload {
    /// The account with its rates as they are now.
    account: Account,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

/// The outcome of `setDesiredState`.
#[derive(SimpleObject)]
struct SetDesiredStatePayload {
    /// The cluster as it is now.
    cluster: Cluster,
}
