//! What can be changed.

use async_graphql::{Context, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    api_token::Scope,
    audit_entry::Action,
    ids::{ClusterId, UserId},
};

use super::{
    account::Account,
    alert_delivery::{self, TestAlertRulePayload},
    alert_rule::{self, AlertRuleInput, AlertRulePayload, DeleteAlertRulePayload},
    api_token::{self, CreateTokenInput, CreateTokenPayload, RevokeTokenPayload},
    cluster::{Cluster, DesiredState},
    cluster_note::set_cluster_notes,
    cluster_tag::{ClusterPayload, Tag, set_cluster_tags},
    cost::CostRateInput,
    data_policy::{SetDataPolicyInput, SetDataPolicyPayload, set_data_policy},
    error::{ApiError, missing_scope},
    error_status::{ErrorGroupVerdict, SetErrorGroupStatusPayload, set_error_group_status},
    flag_rule::{self, FlagMutesPayload, MuteFlagInput, UnmuteFlagInput},
    id::GlobalId,
    idle_policy::{SetIdlePolicyInput, SetIdlePolicyPayload, set_idle_policy},
    idleness::keep_alive,
    invitation::{self, InviteMemberInput, InviteMemberPayload, RevokeInvitationPayload},
    member::{self, AddMemberInput, MemberPayload, MemberRole},
    membership::{self, AcceptInvitationPayload, SetDefaultAccountPayload},
    performance_report::{self, DeletePerformanceReportPayload},
    scalar::Date,
    schema::{self, RequestContext},
    scope::AccountScope,
    user_error::{UserError, UserErrorCode},
};
use crate::{domain::stop::Reason, store::Wish};

/// What can be changed.
pub(super) struct Mutation;

/// What can be changed. Every field that does not say otherwise needs credentials with the scope `admin`.
#[Object]
impl Mutation {
    /// Says what the account wants of a cluster. The scheduler learns it with the answer to its next report, so
    /// it takes one report interval, and has no effect on a cluster that does not report any more.
    async fn set_desired_state(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier.")] cluster: ID,
        #[graphql(desc = "What is wanted.")] state: DesiredState,
        #[graphql(
            desc = "Why, for `stopRequest` and the cluster's `closeReason`: at most 200 characters, which lie in the open in \
                    the database. Kept of STOPPED alone."
        )]
        reason: Option<String>,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = admin_for(context, Action::SetDesiredState).await?;
        let cluster = cluster_of(scope, &cluster)?;
        let reason = match Reason::new(reason.as_deref().unwrap_or_default()) {
            Ok(reason) => reason,
            Err(error) => {
                return ClusterPayload::refused(scope, cluster, UserError::of("reason", &error)).await;
            }
        };
        let wish = Wish { state: state.into(), user: Some(actor(context)), reason, at: scope.now.into() };
        let row = scope.store.wish_of_cluster(cluster, wish).await?;
        Ok(ClusterPayload::done(scope, row.ok_or(ApiError::NotFound("cluster"))?))
    }

    /// Keeps a cluster from being stopped for being idle, by the account's idle policy or by its own setting
    /// `galvo.idle.timeout`, in place of what was said so before. Dask's own `scheduler.idle-timeout` is not Galvo's to
    /// hold up. The scheduler learns it with the answer to its next report.
    async fn keep_alive(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier.")] cluster: ID,
        #[graphql(desc = "For how long from now on, 0 to 2,592,000 seconds; 0 ends it.")] seconds: i32,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = admin_for(context, Action::KeepAlive).await?;
        keep_alive(scope, actor(context), cluster_of(scope, &cluster)?, seconds).await
    }

    /// Puts tags on a cluster, in place of all it has. Tags lie in the open in the database, since clusters are found
    /// by them.
    async fn set_cluster_tags(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier.")] cluster: ID,
        #[graphql(desc = "All tags it is to have, at most 50, each key once.")] tags: Vec<Tag>,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = admin_for(context, Action::SetClusterTags).await?;
        set_cluster_tags(scope, cluster_of(scope, &cluster)?, &tags).await
    }

    /// Writes notes about a cluster, in place of those it has. They are encrypted where they lie.
    async fn set_cluster_notes(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier.")] cluster: ID,
        #[graphql(desc = "The text, at most 10,000 characters; an empty one removes the notes.")]
        text: String,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = admin_for(context, Action::SetClusterNotes).await?;
        set_cluster_notes(scope, actor(context), cluster_of(scope, &cluster)?, &text).await
    }

    /// Says what is to be thought of a group of errors. Reports do not change that; but of a group that was resolved and
    /// happens again the status is REGRESSED.
    async fn set_error_group_status(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The group's global identifier.")] group: ID,
        #[graphql(desc = "What is to be thought of it.")] status: ErrorGroupVerdict,
    ) -> Result<SetErrorGroupStatusPayload, ApiError> {
        let scope = admin_for(context, Action::SetErrorGroupStatus).await?;
        match GlobalId::parse(&group) {
            Some(GlobalId::ErrorGroup(account, id)) if account == scope.account.id => {
                set_error_group_status(scope, actor(context), id, status).await
            }
            _ => Err(ApiError::NotFound("error group")),
        }
    }

    /// Says what the account wants of clusters that have nothing to do. Schedulers learn it with the answers to their
    /// reports.
    async fn set_idle_policy(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What is wanted, all of it.")] input: SetIdlePolicyInput,
    ) -> Result<SetIdlePolicyPayload, ApiError> {
        set_idle_policy(admin_for(context, Action::SetIdlePolicy).await?, actor(context), input).await
    }

    /// Mutes a kind of flag, in place of what was said of the same before. The account may have muted 100 at the most.
    async fn mute_flag(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What is to be muted.")] input: MuteFlagInput,
    ) -> Result<FlagMutesPayload, ApiError> {
        flag_rule::mute(admin_for(context, Action::MuteFlag).await?, actor(context), input).await
    }

    /// Ends that a kind of flag is muted.
    async fn unmute_flag(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What is to be muted no more.")] input: UnmuteFlagInput,
    ) -> Result<FlagMutesPayload, ApiError> {
        flag_rule::unmute(admin_for(context, Action::UnmuteFlag).await?, input).await
    }

    /// Makes an alert rule. What its requests are signed with is shown once.
    async fn create_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What it is to be.")] input: AlertRuleInput,
    ) -> Result<AlertRulePayload, ApiError> {
        alert_rule::create(admin_for(context, Action::CreateAlertRule).await?, actor(context), input).await
    }

    /// Changes an alert rule. What it told is over, without a word, if it tells something else now or nothing any more.
    async fn update_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rule's identifier.")] identifier: String,
        #[graphql(desc = "What it is to be, all of it but its addresses.")] input: AlertRuleInput,
        #[graphql(desc = "Whether requests are to be signed with something new.", default)] new_secret: bool,
    ) -> Result<AlertRulePayload, ApiError> {
        let scope = admin_for(context, Action::UpdateAlertRule).await?;
        alert_rule::update(scope, actor(context), &identifier, input, new_secret).await
    }

    /// Removes an alert rule, and with it what it told and was to tell.
    async fn delete_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rule's identifier.")] identifier: String,
    ) -> Result<DeleteAlertRulePayload, ApiError> {
        alert_rule::delete(admin_for(context, Action::DeleteAlertRule).await?, &identifier).await
    }

    /// Sends a message to each address of an alert rule, to try whether it arrives.
    async fn test_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rule's identifier.")] identifier: String,
    ) -> Result<TestAlertRulePayload, ApiError> {
        alert_delivery::test(admin_for(context, Action::TestAlertRule).await?, &identifier).await
    }

    /// Makes a token. Nobody gives more than they have: its scopes, its life and its user's role are at most those of the
    /// token that asks for it.
    async fn create_token(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What it is to be.")] input: CreateTokenInput,
    ) -> Result<CreateTokenPayload, ApiError> {
        let scope = admin_for(context, Action::CreateToken).await?;
        api_token::create_token(scope, &schema::request(context).viewer, input).await
    }

    /// Ends a token at once; one that has ended stays as it is. That of a member with a higher role cannot be ended.
    async fn revoke_token(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The public half: what stands in front of the dash.")] identifier: String,
    ) -> Result<RevokeTokenPayload, ApiError> {
        let scope = admin_for(context, Action::RevokeToken).await?;
        api_token::revoke_token(scope, &schema::request(context).viewer, identifier).await
    }

    /// Makes somebody a member. A token for them is made by `createToken`.
    async fn add_member(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Who, and as what.")] input: AddMemberInput,
    ) -> Result<MemberPayload, ApiError> {
        member::add_member(admin_for(context, Action::AddMember).await?, actor(context), input).await
    }

    /// Gives a member another role, or a guest another end. Tokens of the member are good for no more than that at once. The
    /// last owner stays one.
    async fn set_member_role(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The user's global identifier.")] user: ID,
        #[graphql(desc = "What the member may do; not more than whoever asks.")] role: MemberRole,
        #[graphql(desc = "Until when: needed for a GUEST, and taken for nobody else.")] until: Option<
            DateTime<Utc>,
        >,
    ) -> Result<MemberPayload, ApiError> {
        member::set_member_role(
            admin_for(context, Action::SetMemberRole).await?,
            actor(context),
            &user,
            (role, until),
        )
        .await
    }

    /// Ends a membership, and with it at once all tokens of the member. What the member's clusters reported stays. The last
    /// owner cannot be removed.
    async fn remove_member(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The user's global identifier.")] user: ID,
    ) -> Result<MemberPayload, ApiError> {
        member::remove_member(admin_for(context, Action::RemoveMember).await?, actor(context), &user).await
    }

    /// Makes an invitation. Whoever is invited becomes a member by `acceptInvitation`.
    async fn invite_member(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Who, and as what.")] input: InviteMemberInput,
    ) -> Result<InviteMemberPayload, ApiError> {
        invitation::invite_member(admin_for(context, Action::InviteMember).await?, actor(context), input)
            .await
    }

    /// Ends an invitation at once; one that has ended, or was accepted, stays as it is.
    async fn revoke_invitation(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The public half: what stands in front of the dash.")] identifier: String,
    ) -> Result<RevokeInvitationPayload, ApiError> {
        invitation::revoke_invitation(
            admin_for(context, Action::RevokeInvitation).await?,
            actor(context),
            identifier,
        )
        .await
    }

    /// Makes the viewer a member of the account that made an invitation. It needs no role anywhere, but credentials that are
    /// the user's own and not restricted: no API token.
    async fn accept_invitation(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What `inviteMember` showed.")] secret: String,
    ) -> Result<AcceptInvitationPayload, ApiError> {
        membership::accept_invitation(context, &secret).await
    }

    /// Says which of the viewer's accounts is meant when none is named. It needs no role anywhere, but credentials that are
    /// the user's own and not restricted: no API token.
    async fn set_default_account(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] slug: String,
    ) -> Result<SetDefaultAccountPayload, ApiError> {
        membership::set_default_account(context, &slug).await
    }

    /// Sets what things cost from a day on, in place of a rate that began on the same day.
    async fn set_cost_rate(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rate.")] input: CostRateInput,
    ) -> Result<CostRatesPayload, ApiError> {
        let scope = admin_for(context, Action::SetCostRate).await?;
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
        let scope = admin_for(context, Action::DeleteCostRate).await?;
        let deleted = scope.store.delete_cost_rate(valid_from.number()).await?;
        let missing = (!deleted)
            .then(|| UserError::new("validFrom", UserErrorCode::NotFound, "no rate begins on this day"));
        Ok(CostRatesPayload {
            account: Account(scope.after_change()),
            user_errors: missing.into_iter().collect(),
        })
    }

    /// Removes a performance report. It is stored over REST, as `coiled.performance_report` does.
    async fn delete_performance_report(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The report's identifier.")] identifier: String,
    ) -> Result<DeletePerformanceReportPayload, ApiError> {
        let scope = admin_for(context, Action::DeletePerformanceReport).await?;
        performance_report::delete_performance_report(scope, &identifier).await
    }

    /// Says what the account accepts of a class of data and for how long it keeps it. Schedulers learn it with the
    /// answer to their next report; what arrives until then is dropped here.
    async fn set_data_policy(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "What is wanted.")] input: SetDataPolicyInput,
    ) -> Result<SetDataPolicyPayload, ApiError> {
        set_data_policy(admin_for(context, Action::SetDataPolicy).await?, input).await
    }
}

/// The account, for those who may change it.
pub(super) fn admin<'a>(context: &Context<'a>) -> Result<&'a AccountScope, ApiError> {
    let RequestContext { viewer, scope, .. } = schema::request(context);
    if viewer.may(Scope::Admin) { Ok(scope) } else { Err(missing_scope(Scope::Admin)) }
}

/// The account, for those who may change it. That others tried is written down.
async fn admin_for<'a>(context: &Context<'a>, action: Action) -> Result<&'a AccountScope, ApiError> {
    let refusal = match admin(context) {
        Ok(scope) => return Ok(scope),
        Err(refusal) => refusal,
    };
    let RequestContext { scope, .. } = schema::request(context);
    scope.lacks_admin(action).await?;
    Err(refusal)
}

/// Who changes something.
fn actor(context: &Context<'_>) -> UserId {
    schema::request(context).viewer.user_id()
}

/// The cluster an identifier of this account names; those of another account name nothing.
fn cluster_of(scope: &AccountScope, id: &ID) -> Result<ClusterId, ApiError> {
    Cluster::identified(scope, "cluster", id).map_err(|_| ApiError::NotFound("cluster"))
}

/// The outcome of a change of rates.
#[derive(SimpleObject)]
struct CostRatesPayload {
    /// The account with its rates as they are now.
    account: Account,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}
