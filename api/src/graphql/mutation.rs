//! The root type of mutations.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    audit_entry::Action,
    ids::{ClusterId, UserId},
};

use super::{
    access::{
        api_token::{self, CreateTokenInput, CreateTokenPayload, RevokeTokenPayload},
        invitation::{self, InviteMemberInput, InviteMemberPayload, RevokeInvitationPayload},
        member::{self, AddMemberInput, DeleteUserInput, DeleteUserPayload, MemberPayload, MemberRole},
        membership::{self, AcceptInvitationPayload, SetDefaultAccountPayload},
        permission::{authorize, authorize_own},
        session::{self, EndSessionPayload},
        token_policy::{SetTokenPolicyInput, SetTokenPolicyPayload, set_token_policy},
    },
    accounts::{
        account::Account,
        account_removal::{
            self, DeleteAccountInput, DeleteAccountPayload, DeleteDataInput, DeleteDataPayload,
        },
        data_policy::{SetDataPolicyInput, SetDataPolicyPayload, set_data_policy},
        performance_report::{self, DeletePerformanceReportPayload},
        saved_view::SavedViewMutations,
    },
    alerts::{
        alert_delivery::{self, TestAlertRulePayload},
        alert_rule::{self, AlertRuleInput, AlertRulePayload, DeleteAlertRulePayload},
        flag_rule::{self, FlagMutesPayload, MuteFlagInput, UnmuteFlagInput},
    },
    analysis::{
        idle_policy::{SetIdlePolicyInput, SetIdlePolicyPayload, set_idle_policy},
        idleness::keep_alive,
    },
    clusters::{
        cluster::Cluster,
        cluster_note::set_cluster_notes,
        cluster_owner::{HandOverClusterInput, hand_over_cluster},
        cluster_removal::{
            self, DeleteClusterInput, DeleteClusterPayload, ForgetTokenInput, ForgetTokenPayload,
            RestoreTokenInput, RestoreTokenPayload,
        },
        cluster_state::DesiredState,
        cluster_tag::{ClusterPayload, Tag, set_cluster_tags},
    },
    costs::cost::{CostRateInput, CostRatesPayload},
    engine::{
        error::ApiError,
        id::GlobalId,
        scalar::Date,
        scope::AccountScope,
        user_error::{UserError, UserErrorCode},
    },
    errors::error_status::{ErrorGroupTriageStatus, SetErrorGroupStatusPayload, set_error_group_status},
    schema,
};
use crate::{domain::stop::StopReason, store::DesiredStateRequest};

/// The root type of mutations.
pub(super) struct Mutation;

/// The changes that the API can make. A field requires credentials with the scope `admin` unless its
/// description says otherwise. Users whose role does not cover `admin` need all scopes of their role for
/// the changes that they may make.
#[Object]
impl Mutation {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn saved_views(&self) -> SavedViewMutations {
        SavedViewMutations
    }

    /// Sets the desired state of a cluster. The scheduler receives it with the response to its next report,
    /// so it takes one report interval. It has no effect on a cluster that no longer reports. Users with the
    /// role MEMBER may do this to their own clusters.
    async fn set_desired_state(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier, or its `number`.")] cluster: ID,
        #[graphql(desc = "The desired state.")] state: DesiredState,
        #[graphql(
            desc = "The reason, shown in `stopRequest` and in the cluster's `closeReason`. At most 200 \
                    characters, stored unencrypted. Stored only with STOPPED."
        )]
        reason: Option<String>,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = authorize_own(context, Action::SetDesiredState).await?;
        let cluster = parse_cluster_id(scope, &cluster)?;
        let reason = match StopReason::new(reason.as_deref().unwrap_or_default()) {
            Ok(reason) => reason,
            Err(error) => {
                return ClusterPayload::refused(scope, cluster, UserError::from_rule("reason", &error)).await;
            }
        };
        let request = DesiredStateRequest {
            state: state.into(),
            user: Some(acting_user(context)),
            owner: scope.required_owner(Action::SetDesiredState),
            reason,
            at: scope.now.into(),
        };
        let outcome = scope.store.request_desired_state(cluster, request).await?;
        ClusterPayload::from_outcome(scope, (Action::SetDesiredState, cluster), outcome).await
    }

    /// Prevents a cluster from being stopped for being idle, by the account's idle policy or by its own
    /// setting `galvo.idle.timeout`. Replaces an earlier `keepAlive`. It does not affect Dask's own
    /// `scheduler.idle-timeout`. The scheduler receives it with the response to its next report. Users with
    /// the role MEMBER may do this to their own clusters.
    async fn keep_alive(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier, or its `number`.")] cluster: ID,
        #[graphql(
            desc = "The time for which the cluster is protected, from now, in seconds, 0 to 2,592,000. 0 ends \
                    an earlier `keepAlive`."
        )]
        seconds: i32,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = authorize_own(context, Action::KeepAlive).await?;
        keep_alive(scope, acting_user(context), parse_cluster_id(scope, &cluster)?, seconds).await
    }

    /// Replaces all tags of a cluster. Tags are stored unencrypted, because clusters are searched by them.
    /// Users with the role MEMBER may do this to their own clusters.
    async fn set_cluster_tags(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier, or its `number`.")] cluster: ID,
        #[graphql(desc = "The new tags, at most 50, with distinct keys.")] tags: Vec<Tag>,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = authorize_own(context, Action::SetClusterTags).await?;
        set_cluster_tags(scope, parse_cluster_id(scope, &cluster)?, &tags).await
    }

    /// Replaces the notes of a cluster. Notes are stored encrypted. Users with the role MEMBER may do this to
    /// their own clusters.
    async fn set_cluster_notes(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster's global identifier, or its `number`.")] cluster: ID,
        #[graphql(desc = "The text, at most 10,000 characters. An empty text removes the notes.")]
        text: String,
    ) -> Result<ClusterPayload, ApiError> {
        let scope = authorize_own(context, Action::SetClusterNotes).await?;
        set_cluster_notes(scope, acting_user(context), parse_cluster_id(scope, &cluster)?, &text).await
    }

    /// Makes another member the owner of a cluster. Only the owner's credentials can report it. Its
    /// usage, past and future, counts as the new owner's.
    async fn hand_over_cluster(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster and its new owner.")] input: HandOverClusterInput,
    ) -> Result<ClusterPayload, ApiError> {
        hand_over_cluster(authorize(context, Action::HandOverCluster).await?, input).await
    }

    /// Deletes a cluster with all of its data. It disappears at once from lists, exports and sums, except
    /// sums by day, from which it disappears within a minute. It is removed from the database in the
    /// background. Later reports of its scheduler are refused with the code `CLUSTER_DELETED`. This cannot be
    /// undone.
    async fn delete_cluster(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The cluster to delete.")] input: DeleteClusterInput,
    ) -> Result<DeleteClusterPayload, ApiError> {
        cluster_removal::delete_cluster(authorize(context, Action::DeleteCluster).await?, input).await
    }

    /// Removes all stored data of a class, of one cluster or of all clusters. Data that running clusters
    /// report later is stored again unless `setDataPolicy` refuses the class. This cannot be undone.
    async fn delete_data(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The data to remove.")] input: DeleteDataInput,
    ) -> Result<DeleteDataPayload, ApiError> {
        account_removal::delete_data(authorize(context, Action::DeleteData).await?, input).await
    }

    /// Deletes the account with all of its data. Requires the role OWNER. All memberships end at once,
    /// so that no credentials open the account. The data is removed in the background. This cannot be
    /// undone.
    async fn delete_account(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account to delete, named as a confirmation.")] input: DeleteAccountInput,
    ) -> Result<DeleteAccountPayload, ApiError> {
        let scope = authorize(context, Action::DeleteAccount).await?;
        account_removal::delete_account(scope, &schema::request_context(context).viewer, input).await
    }

    /// Ends a membership as `removeMember` does, and deletes the user's clusters and performance reports
    /// as `deleteCluster` does. The last owner cannot be deleted. This cannot be undone.
    async fn delete_user(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The user to delete.")] input: DeleteUserInput,
    ) -> Result<DeleteUserPayload, ApiError> {
        member::delete_user(authorize(context, Action::DeleteUser).await?, acting_user(context), input).await
    }

    /// Removes the clusters that were reported with a token, for example one that was stolen, in two steps.
    /// The first call, without `confirm`, quarantines the clusters: they are hidden as if they were deleted,
    /// and `restoreToken` restores them. A second call with `confirm` deletes the quarantined clusters, which
    /// cannot be undone. Reports that arrived before the server recorded their tokens are not covered.
    async fn forget_token(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The token, and the start of the period.")] input: ForgetTokenInput,
    ) -> Result<ForgetTokenPayload, ApiError> {
        cluster_removal::forget_token(authorize(context, Action::ForgetToken).await?, input).await
    }

    /// Restores all clusters that are quarantined for a token. Clusters whose removal was confirmed are
    /// not restored.
    async fn restore_token(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The token.")] input: RestoreTokenInput,
    ) -> Result<RestoreTokenPayload, ApiError> {
        cluster_removal::restore_token(authorize(context, Action::RestoreToken).await?, input).await
    }

    /// Sets the triage status of an error group. Reports do not change it, but a resolved group is REGRESSED
    /// when its error happens again. Users with the role MEMBER may do this if one of the group's newest
    /// 1,000 errors happened on a cluster that they own.
    async fn set_error_group_status(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The group's global identifier.")] group: ID,
        #[graphql(desc = "The new triage status.")] status: ErrorGroupTriageStatus,
    ) -> Result<SetErrorGroupStatusPayload, ApiError> {
        let scope = authorize_own(context, Action::SetErrorGroupStatus).await?;
        match GlobalId::parse(&group) {
            Some(GlobalId::ErrorGroup(account, id)) if account == scope.account.id => {
                set_error_group_status(scope, acting_user(context), id, status).await
            }
            _ => Err(ApiError::NotFound("error group")),
        }
    }

    /// Sets the account's policy for idle clusters. Schedulers receive it with the responses to their
    /// reports.
    async fn set_idle_policy(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The complete new policy.")] input: SetIdlePolicyInput,
    ) -> Result<SetIdlePolicyPayload, ApiError> {
        set_idle_policy(authorize(context, Action::SetIdlePolicy).await?, acting_user(context), input).await
    }

    /// Mutes a kind of flag. Replaces an earlier mute with the same kind and tag. An account can have at
    /// most 100 mutes.
    async fn mute_flag(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The kind of flag to mute, and its scope.")] input: MuteFlagInput,
    ) -> Result<FlagMutesPayload, ApiError> {
        flag_rule::mute(authorize(context, Action::MuteFlag).await?, acting_user(context), input).await
    }

    /// Ends the mute of a kind of flag.
    async fn unmute_flag(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The mute to end.")] input: UnmuteFlagInput,
    ) -> Result<FlagMutesPayload, ApiError> {
        flag_rule::unmute(authorize(context, Action::UnmuteFlag).await?, input).await
    }

    /// Creates an alert rule. The secret that signs its webhook requests is shown once.
    async fn create_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The new rule.")] input: AlertRuleInput,
    ) -> Result<AlertRulePayload, ApiError> {
        alert_rule::create(authorize(context, Action::CreateAlertRule).await?, acting_user(context), input)
            .await
    }

    /// Replaces all properties of an alert rule. If its condition, its users or its tags change, or if it is
    /// disabled, its active alerts end without a message.
    async fn update_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rule's identifier.")] identifier: String,
        #[graphql(
            desc = "All new properties of the rule. If `webhooks` or `emails` is null, the rule keeps its \
                    current ones."
        )]
        input: AlertRuleInput,
        #[graphql(desc = "True to sign requests with a new secret.", default)] new_secret: bool,
    ) -> Result<AlertRulePayload, ApiError> {
        let scope = authorize(context, Action::UpdateAlertRule).await?;
        alert_rule::update(scope, acting_user(context), &identifier, input, new_secret).await
    }

    /// Deletes an alert rule with its alerts and its pending messages.
    async fn delete_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rule's identifier.")] identifier: String,
    ) -> Result<DeleteAlertRulePayload, ApiError> {
        alert_rule::delete(authorize(context, Action::DeleteAlertRule).await?, &identifier).await
    }

    /// Sends a test message to each receiver of an alert rule, at most once a minute, and for at most ten
    /// rules of an account a minute.
    async fn test_alert_rule(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rule's identifier.")] identifier: String,
    ) -> Result<TestAlertRulePayload, ApiError> {
        alert_delivery::test(authorize(context, Action::TestAlertRule).await?, &identifier).await
    }

    /// Creates an API token. Its scopes, its expiry and its user's role must not exceed those of the
    /// caller's token. Users of every role may create tokens of their own.
    async fn create_token(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The new token.")] input: CreateTokenInput,
    ) -> Result<CreateTokenPayload, ApiError> {
        let scope = authorize_own(context, Action::CreateToken).await?;
        api_token::create_token(scope, &schema::request_context(context).viewer, input).await
    }

    /// Revokes a token, effective immediately. A token that was revoked before stays as it is. The token of a
    /// member with a higher role cannot be revoked. Users of every role may revoke their own tokens; to users
    /// who are neither owner nor admin, the tokens of others appear not to exist.
    async fn revoke_token(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The token's identifier: the part before the dash.")] identifier: String,
    ) -> Result<RevokeTokenPayload, ApiError> {
        let scope = authorize_own(context, Action::RevokeToken).await?;
        api_token::revoke_token(scope, &schema::request_context(context).viewer, identifier).await
    }

    /// Adds a member. It creates no token; use `createToken`.
    async fn add_member(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The user and the role.")] input: AddMemberInput,
    ) -> Result<MemberPayload, ApiError> {
        member::add_member(authorize(context, Action::AddMember).await?, acting_user(context), input).await
    }

    /// Sets a member's role, and the end of a guest's membership. The change limits the member's tokens
    /// at once. The last owner cannot get another role.
    async fn set_member_role(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The user's global identifier.")] user: ID,
        #[graphql(desc = "The new role. It must not exceed the caller's role.")] role: MemberRole,
        #[graphql(desc = "The end of the membership. Required for a GUEST, else not allowed.")] until: Option<
            DateTime<Utc>,
        >,
    ) -> Result<MemberPayload, ApiError> {
        member::set_member_role(
            authorize(context, Action::SetMemberRole).await?,
            acting_user(context),
            &user,
            (role, until),
        )
        .await
    }

    /// Ends a membership and all tokens of the member, effective immediately. The data that the member's
    /// clusters reported stays. The last owner cannot be removed.
    async fn remove_member(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The user's global identifier.")] user: ID,
    ) -> Result<MemberPayload, ApiError> {
        member::remove_member(authorize(context, Action::RemoveMember).await?, acting_user(context), &user)
            .await
    }

    /// Creates an invitation. The invited user becomes a member with `acceptInvitation`.
    async fn invite_member(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The recipient and the role.")] input: InviteMemberInput,
    ) -> Result<InviteMemberPayload, ApiError> {
        invitation::invite_member(
            authorize(context, Action::InviteMember).await?,
            acting_user(context),
            input,
        )
        .await
    }

    /// Revokes an invitation, effective immediately. An invitation that was revoked or accepted before
    /// stays as it is.
    async fn revoke_invitation(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The identifier: the part of the secret before the dash.")] identifier: String,
    ) -> Result<RevokeInvitationPayload, ApiError> {
        invitation::revoke_invitation(
            authorize(context, Action::RevokeInvitation).await?,
            acting_user(context),
            identifier,
        )
        .await
    }

    /// Makes the viewer a member of the account that an invitation belongs to. It requires no role. It
    /// requires credentials with all permissions of the user, such as a browser session; an API token is not
    /// sufficient.
    async fn accept_invitation(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The secret that `inviteMember` returned.")] secret: String,
    ) -> Result<AcceptInvitationPayload, ApiError> {
        membership::accept_invitation(context, &secret).await
    }

    /// Sets the account that the viewer's requests use if they name none. It requires no role. It requires
    /// credentials with all permissions of the user, such as a browser session; an API token is not
    /// sufficient.
    async fn set_default_account(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] slug: String,
    ) -> Result<SetDefaultAccountPayload, ApiError> {
        membership::set_default_account(context, &slug).await
    }

    /// Ends a session of the viewer's browsers, effective with its next request. It requires no role. It
    /// requires credentials with all permissions of the user, such as a browser session; an API token is not
    /// sufficient.
    async fn end_session(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The session's identifier, as in `Viewer.sessions`.")] identifier: String,
    ) -> Result<EndSessionPayload, ApiError> {
        session::end_session(context, &identifier).await
    }

    /// Sets the cost rate from a day on. Replaces a rate that begins on the same day.
    async fn set_cost_rate(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The rate.")] input: CostRateInput,
    ) -> Result<CostRatesPayload, ApiError> {
        let scope = authorize(context, Action::SetCostRate).await?;
        match input.check() {
            Ok(rate) => {
                scope.store.set_cost_rate(&rate).await?;
                Ok(CostRatesPayload { account: Account(scope.with_empty_caches()), user_errors: Vec::new() })
            }
            Err(user_errors) => Ok(CostRatesPayload { account: Account(scope.clone()), user_errors }),
        }
    }

    /// Deletes the rate that begins on a day. The rate before it then continues.
    async fn delete_cost_rate(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first day of the rate.")] valid_from: Date,
    ) -> Result<CostRatesPayload, ApiError> {
        let scope = authorize(context, Action::DeleteCostRate).await?;
        let deleted = scope.store.delete_cost_rate(valid_from.number()).await?;
        let not_found_error = (!deleted)
            .then(|| UserError::new("validFrom", UserErrorCode::NotFound, "no rate begins on this day"));
        Ok(CostRatesPayload {
            account: Account(scope.with_empty_caches()),
            user_errors: not_found_error.into_iter().collect(),
        })
    }

    /// Deletes a performance report. Reports are uploaded over REST, see `coiled.performance_report`.
    async fn delete_performance_report(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The report's identifier.")] identifier: String,
    ) -> Result<DeletePerformanceReportPayload, ApiError> {
        let scope = authorize(context, Action::DeletePerformanceReport).await?;
        performance_report::delete_performance_report(scope, &identifier).await
    }

    /// Sets whether the account accepts a class of data, and how long it is kept. Schedulers receive the
    /// policy with the response to their next report; data of a refused class that arrives before is
    /// dropped.
    async fn set_data_policy(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The complete new policy of a class.")] input: SetDataPolicyInput,
    ) -> Result<SetDataPolicyPayload, ApiError> {
        set_data_policy(authorize(context, Action::SetDataPolicy).await?, input).await
    }

    /// Sets which tokens the account accepts from schedulers.
    async fn set_token_policy(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The complete new policy.")] input: SetTokenPolicyInput,
    ) -> Result<SetTokenPolicyPayload, ApiError> {
        set_token_policy(authorize(context, Action::SetTokenPolicy).await?, input).await
    }
}

/// Returns the user who makes the change.
fn acting_user(context: &Context<'_>) -> UserId {
    schema::request_context(context).viewer.user_id()
}

/// Returns the cluster that an identifier of this account names. An identifier of another account is not
/// found.
fn parse_cluster_id(scope: &AccountScope, id: &ID) -> Result<ClusterId, ApiError> {
    Cluster::parse_id(scope, "cluster", id).map_err(|_| ApiError::NotFound("cluster"))
}
