//! The GraphQL type of the audit log of an account, and the recording of refused attempts.

use async_graphql::{Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::audit_entry::{self, Action, Model};
use serde_json::json;

use super::{member::AccessUserError, user::User};
use crate::{
    app::member::Refusal,
    domain::{access::AccessError, audit::Target, token::ApiToken},
    graphql::engine::{
        argument::check_range_of,
        connection::{Connection, PageArguments, total_count_by},
        error::ApiError,
        id::GlobalId,
        json::write_enums_by_name,
        projection::{Inline, inline_fields, inline_members},
        scalar::Json,
        scope::AccountScope,
    },
    store::{self, AuditSort},
};

/// An action that was done or attempted in the account.
pub(crate) struct AuditEntry {
    scope: AccountScope,
    row: Model,
}

impl AuditEntry {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// An action that was done or attempted in the account.
#[Object]
impl AuditEntry {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::AuditEntry(self.scope.account.id, self.row.id).into()
    }

    /// The time at which the request of the action arrived, by the server's clock.
    async fn at(&self) -> DateTime<Utc> {
        self.row.happened_at.0
    }

    /// The action.
    async fn action(&self) -> AuditAction {
        self.row.action.into()
    }

    /// The outcome of the action.
    async fn outcome(&self) -> AuditOutcome {
        self.row.outcome.into()
    }

    /// The user who did it. Null for an operator, and if the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.row.user_id {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// The name of the user, even if the user left the account. Null for an operator.
    async fn user_name(&self) -> Option<&str> {
        self.row.user_name.as_deref()
    }

    /// The kind of credential that authenticated the request.
    async fn credential(&self) -> AuditCredential {
        self.row.credential.into()
    }

    /// The public half of the token of the request. Null for other credentials.
    async fn token_identifier(&self) -> Option<&str> {
        self.row.token_identifier.as_deref()
    }

    /// The IP address of the client. Null if the action used no network.
    async fn address(&self) -> Option<&str> {
        self.row.address.as_deref()
    }

    /// The identifier of the request, a UUID, as in the response header `X-Request-Id` and in the
    /// server's log. Null if there was no request.
    async fn request_id(&self) -> Option<String> {
        self.row.request_id.map(|id| id.to_string())
    }

    /// The object of the action.
    async fn target(&self) -> Inline<AuditTarget> {
        Inline(AuditTarget::parse(&self.scope, &self.row.target))
    }

    /// Further details, depending on the action: the new values, or the role before and after. They
    /// contain no secrets, and no text that is encrypted elsewhere.
    async fn detail(&self) -> Json {
        Json::from_text(&self.row.detail)
    }
}

inline_fields! {
    AuditEntry: id, at, action, outcome, user_name, credential, token_identifier, address, request_id, detail;
    target: Inline<AuditTarget>
}

/// The object of an action.
#[derive(SimpleObject)]
struct AuditTarget {
    /// The kind of object.
    kind: AuditTargetKind,
    /// The global identifier of the object. For tokens and invitations, the public half; for alert rules
    /// and performance reports, their `identifier`. The object may have been deleted.
    id: ID,
}

inline_members! { AuditTarget: kind, id }

impl AuditTarget {
    /// Parses a stored object. An object that cannot be parsed, for example because a newer server wrote
    /// it, becomes the account itself.
    fn parse(scope: &AccountScope, stored: &str) -> Self {
        let account = scope.account.id;
        let (kind, id) = match stored.parse().unwrap_or(Target::Account) {
            Target::Account => (AuditTargetKind::Account, GlobalId::Account(account).into()),
            Target::Cluster(id) => (AuditTargetKind::Cluster, GlobalId::Cluster(account, id).into()),
            Target::ErrorGroup(id) => (AuditTargetKind::ErrorGroup, GlobalId::ErrorGroup(account, id).into()),
            Target::User(id) => (AuditTargetKind::User, GlobalId::User(account, id).into()),
            Target::ApiToken(identifier) => (AuditTargetKind::ApiToken, ID(identifier)),
            Target::Invitation(identifier) => (AuditTargetKind::Invitation, ID(identifier)),
            Target::AlertRule(id) => (AuditTargetKind::AlertRule, ID(id.to_string())),
            Target::PerformanceReport(id) => (AuditTargetKind::PerformanceReport, ID(id.to_string())),
            Target::SavedView(id) => (AuditTargetKind::SavedView, GlobalId::SavedView(account, id).into()),
        };
        Self { kind, id }
    }
}

/// A kind of object of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
enum AuditTargetKind {
    /// The account itself.
    Account,
    /// A cluster.
    Cluster,
    /// A group of similar errors.
    ErrorGroup,
    /// A user.
    User,
    /// An API token.
    ApiToken,
    /// An invitation.
    Invitation,
    /// An alert rule.
    AlertRule,
    /// A performance report.
    PerformanceReport,
    /// A saved view.
    SavedView,
}

write_enums_by_name!(AuditTargetKind);

/// An action in an account. The action of a mutation has the name of the mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Action")]
pub(crate) enum AuditAction {
    /// An invitation was accepted.
    AcceptInvitation,
    /// A user became a member.
    AddMember,
    /// The account was created.
    CreateAccount,
    /// An alert rule was created.
    CreateAlertRule,
    /// A shared view was created.
    CreateSavedView,
    /// An operator, or the start of the server, created a link with which a user can sign in once. Recorded
    /// in all accounts of the user.
    CreateSignInLink,
    /// A token was created.
    CreateToken,
    /// The deletion of the account was requested, and is under way.
    DeleteAccount,
    /// An alert rule was deleted.
    DeleteAlertRule,
    /// A cluster was deleted, with all data reported for it.
    DeleteCluster,
    /// A cost rate was deleted.
    DeleteCostRate,
    /// Data of one class was deleted.
    DeleteData,
    /// A performance report was deleted.
    DeletePerformanceReport,
    /// A shared view was deleted.
    DeleteSavedView,
    /// A membership was ended, and the user's clusters and performance reports were deleted.
    DeleteUser,
    /// A session of a user in a browser was ended.
    EndSession,
    /// The clusters reported with a token were quarantined, or deleted after their quarantine.
    ForgetToken,
    /// A cluster was transferred to another owner.
    HandOverCluster,
    /// An invitation was created.
    InviteMember,
    /// A user became a member by signing in through an OpenID provider or a JWT issuer.
    JoinBySignIn,
    /// A cluster was protected from being stopped for idleness.
    KeepAlive,
    /// A user was linked to a name at an issuer. The issuer can sign the user in since then.
    LinkUser,
    /// A kind of flag was muted.
    MuteFlag,
    /// Code was decrypted for a request. There is one entry for each request, regardless of the amount
    /// of code.
    ReadCode,
    /// Profiles or performance reports, which contain lines of code, were decrypted for a request. There
    /// is one entry for each request, regardless of their number.
    ReadProfiles,
    /// A membership was ended.
    RemoveMember,
    /// The quarantine of the clusters reported with a token was lifted.
    RestoreToken,
    /// An invitation was revoked.
    RevokeInvitation,
    /// A token was revoked.
    RevokeToken,
    /// The notes on a cluster were written or deleted.
    SetClusterNotes,
    /// The tags of a cluster were set.
    SetClusterTags,
    /// A cost rate was set.
    SetCostRate,
    /// The acceptance and the retention of a class of data were set.
    SetDataPolicy,
    /// A user chose the default account, which applies when a request names none.
    SetDefaultAccount,
    /// The desired state of a cluster was set.
    SetDesiredState,
    /// The status of a group of errors was set.
    SetErrorGroupStatus,
    /// The policy for idle clusters was set.
    SetIdlePolicy,
    /// The role of a member, or the end of the membership, was changed.
    SetMemberRole,
    /// A user's password was set. Recorded in all accounts of the user.
    SetPassword,
    /// An operator set the quotas of the account.
    SetQuota,
    /// The policy for the tokens of schedulers was set.
    SetTokenPolicy,
    /// A user signed in with a browser. Recorded in all accounts of the user.
    SignIn,
    /// A user ended all browser sessions. Recorded in all accounts of the user.
    SignOutEverywhere,
    /// A performance report was stored.
    StorePerformanceReport,
    /// Test messages of an alert rule were sent.
    TestAlertRule,
    /// A kind of flag was unmuted.
    UnmuteFlag,
    /// An alert rule was changed.
    UpdateAlertRule,
    /// A shared view was changed, or a view was shared or made private.
    UpdateSavedView,
}

write_enums_by_name!(AuditAction);

/// An outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "audit_entry::Outcome")]
pub(crate) enum AuditOutcome {
    /// The action was done.
    Done,
    /// The action was refused, because the viewer lacks the right to it. Repeated attempts at one action
    /// with the same credentials are recorded once a minute.
    Refused,
}

write_enums_by_name!(AuditOutcome);

/// A kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "audit_entry::Credential")]
pub(crate) enum AuditCredential {
    /// An API token.
    ApiToken,
    /// A JWT of the trusted issuer.
    Jwt,
    /// A browser session.
    Session,
    /// The command line of the server.
    Operator,
}

write_enums_by_name!(AuditCredential);

/// Conditions on entries of the audit log. An entry has to meet all given conditions.
#[derive(Debug, Default, InputObject)]
pub(crate) struct AuditFilter {
    /// Only entries with this action.
    action: Option<AuditAction>,
    /// Only entries with this outcome.
    outcome: Option<AuditOutcome>,
    /// Only actions of the user with this global identifier.
    user: Option<ID>,
    /// Only actions on the object with this global identifier, on the token or invitation with this
    /// public half, or on the alert rule or performance report with this identifier.
    target: Option<ID>,
    /// Only actions at this time or later.
    since: Option<DateTime<Utc>>,
    /// Only actions before this time.
    until: Option<DateTime<Utc>>,
}

impl AuditFilter {
    fn check(self, scope: &AccountScope) -> Result<store::AuditFilter, ApiError> {
        check_range_of("since", "must not be later than 'until'", self.since, self.until)?;
        Ok(store::AuditFilter {
            action: self.action.map(Into::into),
            outcome: self.outcome.map(Into::into),
            user: self.user.map(|user| User::parse_id(scope, "user", &user)).transpose()?,
            targets: self.target.map(|target| parse_targets(scope, &target)),
            since: self.since.map(Into::into),
            until: self.until.map(Into::into),
        })
    }
}

/// Returns the objects of this account that an identifier may name. An identifier of another account
/// names none.
fn parse_targets(scope: &AccountScope, id: &ID) -> Vec<Target> {
    match GlobalId::parse(id) {
        Some(id) if id.account() != scope.account.id => Vec::new(),
        Some(GlobalId::Account(_)) => vec![Target::Account],
        Some(GlobalId::Cluster(_, id)) => vec![Target::Cluster(id)],
        Some(GlobalId::ErrorGroup(_, id)) => vec![Target::ErrorGroup(id)],
        Some(GlobalId::User(_, id)) => vec![Target::User(id)],
        Some(GlobalId::AlertRule(_, id)) => vec![Target::AlertRule(id)],
        Some(GlobalId::PerformanceReport(_, id)) => vec![Target::PerformanceReport(id)],
        Some(GlobalId::SavedView(_, id)) => vec![Target::SavedView(id)],
        None if ApiToken::is_identifier(id) => {
            vec![Target::ApiToken(id.to_string()), Target::Invitation(id.to_string())]
        }
        None => {
            let rule = id.parse().map(Target::AlertRule).into_iter();
            rule.chain(id.parse().map(Target::PerformanceReport)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a page of the account's audit log.
pub(crate) async fn audit_log(
    scope: &AccountScope,
    filter: AuditFilter,
    page: PageArguments,
) -> Result<Connection<AuditEntry>, ApiError> {
    let (sort, filter) = (AuditSort::NewestFirst, filter.check(scope)?);
    let request = page.request(scope, sort)?;
    let page = scope.store.audit_page(&filter, sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.audit_count(&filter).await }
    });
    Ok(Connection::new(page, sort, |row| AuditEntry::new(scope, row), total))
}

impl AccountScope {
    /// Returns the reasons why a change was refused. A refusal by a rule is recorded in the audit log.
    /// `kind` is the kind of object that may be missing. `field` names the input field of each reason.
    pub(crate) async fn refusal_errors(
        &self,
        (action, target): (Action, Target),
        refusal: Refusal,
        kind: &'static str,
        field: impl Fn(AccessError) -> &'static str,
    ) -> Result<Vec<AccessUserError>, ApiError> {
        let reasons = match &refusal {
            Refusal::NotFound => None,
            Refusal::NoMember => Some(vec!["you are not a member of the account".to_owned()]),
            Refusal::Rules(errors) => Some(errors.iter().map(ToString::to_string).collect()),
        };
        if let Some(reasons) = reasons {
            self.record_refusal(action, target, json!({ "reasons": reasons })).await?;
        }
        AccessUserError::from_refusal(refusal, kind, field)
    }
}
