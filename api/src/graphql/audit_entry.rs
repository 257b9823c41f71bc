//! What was done in an account, and by whom.

use std::{num::NonZeroUsize, sync::Mutex};

use async_graphql::{Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, TimeDelta, Utc};
use entity::audit_entry::{self, Action, Model};
use lru::LruCache;
use serde_json::{Value, json};

use super::{
    connection::{Connection, PageArguments, counted},
    error::ApiError,
    id::GlobalId,
    in_place::{Placed, in_place, in_place_members},
    json::names,
    member::AccessUserError,
    scalar::Json,
    scope::AccountScope,
    user::User,
};
use crate::{
    app::member::Refusal,
    auth::LimitKey,
    domain::{
        access::AccessError,
        audit::{Entry, Target},
        token::ApiToken,
    },
    store::{self, AuditSort, StoreError},
};

/// Something that was done, or tried, in the account.
pub(super) struct AuditEntry {
    scope: AccountScope,
    row: Model,
}

/// Something that was done, or tried, in the account.
#[Object]
impl AuditEntry {
    /// When the request came it was done by, by the server's clock.
    async fn at(&self) -> DateTime<Utc> {
        self.row.happened_at.0
    }

    /// What was done.
    async fn action(&self) -> AuditAction {
        self.row.action.into()
    }

    /// What came of it.
    async fn outcome(&self) -> AuditOutcome {
        self.row.outcome.into()
    }

    /// Who did it; null for an operator, and for somebody who is no member any more.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.row.user_id {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// What who did it was called, also if no member any more; null for an operator.
    async fn user_name(&self) -> Option<&str> {
        self.row.user_name.as_deref()
    }

    /// How they proved who they are.
    async fn credential(&self) -> AuditCredential {
        self.row.credential.into()
    }

    /// The public half of the token they did it with; null for other credentials.
    async fn token_identifier(&self) -> Option<&str> {
        self.row.token_identifier.as_deref()
    }

    /// The IP address it came from; null if it came over no network.
    async fn address(&self) -> Option<&str> {
        self.row.address.as_deref()
    }

    /// The request it was done by, as its answer's header `X-Request-Id` and the server's log name it, a UUID; null if it was
    /// none.
    async fn request_id(&self) -> Option<String> {
        self.row.request_id.map(|id| id.to_string())
    }

    /// What it was done to.
    async fn target(&self) -> Placed<AuditTarget> {
        Placed(AuditTarget::of(&self.scope, &self.row.target))
    }

    /// What there is to know besides, by action: what was set, or of roles what was before and after. No secret is ever in
    /// it, and no text that is encrypted elsewhere.
    async fn detail(&self) -> Json {
        Json::of(&self.row.detail)
    }
}

in_place! {
    AuditEntry: at, action, outcome, user_name, credential, token_identifier, address, request_id, detail;
    target: Placed<AuditTarget>
}

/// What something was done to.
#[derive(SimpleObject)]
struct AuditTarget {
    /// What it is.
    kind: AuditTargetKind,
    /// Its global identifier; of tokens and invitations the public half, and of alert rules and performance reports what
    /// mutations name them by. It may be gone.
    id: ID,
}

in_place_members! { AuditTarget: kind, id }

impl AuditTarget {
    /// What cannot be read, as what a newer server wrote, is shown as the account itself.
    fn of(scope: &AccountScope, stored: &str) -> Self {
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
        };
        Self { kind, id }
    }
}

/// What something can be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
enum AuditTargetKind {
    /// The account itself.
    Account,
    /// A cluster.
    Cluster,
    /// A group of errors.
    ErrorGroup,
    /// A user.
    User,
    /// A token.
    ApiToken,
    /// An invitation.
    Invitation,
    /// An alert rule.
    AlertRule,
    /// A performance report.
    PerformanceReport,
}

names!(AuditTargetKind);

/// What can be done in an account. What a mutation does has the mutation's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Action")]
pub(super) enum AuditAction {
    /// An invitation was accepted.
    AcceptInvitation,
    /// Somebody became a member.
    AddMember,
    /// The account was made.
    CreateAccount,
    /// An alert rule was made.
    CreateAlertRule,
    /// A token was made.
    CreateToken,
    /// An alert rule was removed.
    DeleteAlertRule,
    /// A rate was removed.
    DeleteCostRate,
    /// A performance report was removed.
    DeletePerformanceReport,
    /// An invitation was made.
    InviteMember,
    /// Somebody became a member by signing in with credentials of another issuer.
    JoinBySignIn,
    /// A cluster was kept from being stopped for being idle.
    KeepAlive,
    /// An issuer's name for a user was written down, by which the issuer can sign the user in.
    LinkUser,
    /// A kind of flag was muted.
    MuteFlag,
    /// Code was decrypted for a request: one entry, however much it was.
    ReadCode,
    /// Profiles or performance reports, which hold lines of code, were decrypted for a request: one entry, however many they
    /// were.
    ReadProfiles,
    /// A membership was ended.
    RemoveMember,
    /// An invitation was ended.
    RevokeInvitation,
    /// A token was ended.
    RevokeToken,
    /// A cluster's notes were written or removed.
    SetClusterNotes,
    /// A cluster's tags were set.
    SetClusterTags,
    /// A rate was set.
    SetCostRate,
    /// It was said what is accepted of a class of data, and for how long it is kept.
    SetDataPolicy,
    /// A user chose the account that is meant when none is named.
    SetDefaultAccount,
    /// It was said what is wanted of a cluster.
    SetDesiredState,
    /// It was said what is to be thought of a group of errors.
    SetErrorGroupStatus,
    /// It was said what is wanted of clusters that have nothing to do.
    SetIdlePolicy,
    /// A member got another role or end.
    SetMemberRole,
    /// A user got a password; told in all accounts of the user.
    SetPassword,
    /// A user signed in with a browser; told in all accounts of the user.
    SignIn,
    /// A user ended the sessions of all browsers; told in all accounts of the user.
    SignOutEverywhere,
    /// A performance report was stored.
    StorePerformanceReport,
    /// Messages were sent to try whether those of an alert rule arrive.
    TestAlertRule,
    /// A kind of flag was muted no more.
    UnmuteFlag,
    /// An alert rule was changed.
    UpdateAlertRule,
}

names!(AuditAction);

/// What can come of what somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "audit_entry::Outcome")]
pub(super) enum AuditOutcome {
    /// It was done.
    Done,
    /// It was tried without the right to it. Of one action by the same credentials that is written down once a minute.
    Refused,
}

names!(AuditOutcome);

/// How somebody proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "audit_entry::Credential")]
pub(super) enum AuditCredential {
    /// By an API token.
    ApiToken,
    /// By a JWT of the issuer that is trusted.
    Jwt,
    /// By the session of a browser.
    Session,
    /// By the command line of the server.
    Operator,
}

names!(AuditCredential);

/// Which entries are meant: every condition that is given has to hold.
#[derive(Debug, Default, InputObject)]
pub(super) struct AuditFilter {
    /// Only what is this.
    action: Option<AuditAction>,
    /// Only what came to this.
    outcome: Option<AuditOutcome>,
    /// Only what the user with this global identifier did.
    user: Option<ID>,
    /// Only what was done to the thing with this global identifier, to the token or invitation with this public half, or to
    /// the alert rule or performance report with this identifier.
    target: Option<ID>,
    /// Only what was done at this time or later.
    since: Option<DateTime<Utc>>,
    /// Only what was done before this time.
    until: Option<DateTime<Utc>>,
}

impl AuditFilter {
    fn check(self, scope: &AccountScope) -> Result<store::AuditFilter, ApiError> {
        Ok(store::AuditFilter {
            action: self.action.map(Into::into),
            outcome: self.outcome.map(Into::into),
            user: self.user.map(|user| User::identified(scope, "user", &user)).transpose()?,
            targets: self.target.map(|target| targets(scope, &target)),
            since: self.since.map(Into::into),
            until: self.until.map(Into::into),
        })
    }
}

/// What an identifier of this account may name; those of another account name nothing.
fn targets(scope: &AccountScope, id: &ID) -> Vec<Target> {
    match GlobalId::parse(id) {
        Some(named) if named.account() != scope.account.id => Vec::new(),
        Some(GlobalId::Account(_)) => vec![Target::Account],
        Some(GlobalId::Cluster(_, id)) => vec![Target::Cluster(id)],
        Some(GlobalId::ErrorGroup(_, id)) => vec![Target::ErrorGroup(id)],
        Some(GlobalId::User(_, id)) => vec![Target::User(id)],
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

/// A page of what was done in the account.
pub(super) async fn audit_log(
    scope: &AccountScope,
    filter: AuditFilter,
    page: PageArguments,
) -> Result<Connection<AuditEntry>, ApiError> {
    let (sort, filter) = (AuditSort::NewestFirst, filter.check(scope)?);
    let request = page.request(scope, sort)?;
    let page = scope.store.audit_page(&filter, sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.audit_count(&filter).await }
    });
    Ok(Connection::new(page, sort, |row| AuditEntry { scope: scope.clone(), row }, total))
}

/// Kinds of refusals that are remembered at one time.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is more than none");

/// For how long the same is not written down again.
const REPEATED: TimeDelta = TimeDelta::minutes(1);

/// Which attempts were written down lately. Whoever may do nothing could otherwise fill the log.
pub(super) struct Refusals(Mutex<LruCache<(LimitKey, Action), DateTime<Utc>>>);

impl Default for Refusals {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Refusals {
    /// Whether an attempt is to be written down.
    fn is_new(&self, by: LimitKey, action: Action, now: DateTime<Utc>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_new = known.get(&(by, action)).is_none_or(|last| now - *last >= REPEATED);
        if is_new {
            known.put((by, action), now);
        }
        is_new
    }
}

impl AccountScope {
    /// Writes down that something was tried that is refused.
    pub(super) async fn refused(
        &self,
        action: Action,
        target: Target,
        detail: Value,
    ) -> Result<(), ApiError> {
        Ok(self.note_refusal(Entry::refused(action, target, detail)).await?)
    }

    /// Writes down that somebody tried what takes the scope `admin`, which their credentials lack.
    pub(super) async fn lacks_admin(&self, action: Action) -> Result<(), StoreError> {
        let detail = json!({ "missing_scope": "admin" });
        self.note_refusal(Entry::refused(action, Target::Account, detail)).await
    }

    async fn note_refusal(&self, entry: Entry) -> Result<(), StoreError> {
        if self.refusals.is_new(self.limit_key, entry.action, self.now) {
            self.store.audit_refusal(entry).await?;
        }
        Ok(())
    }

    /// What speaks against a change, if it is a rule, which is written down. `field` says what each is about.
    pub(super) async fn refused_by(
        &self,
        (action, target): (Action, Target),
        refusal: Refusal,
        what: &'static str,
        field: impl Fn(AccessError) -> &'static str,
    ) -> Result<Vec<AccessUserError>, ApiError> {
        let reasons = match &refusal {
            Refusal::NotFound => None,
            Refusal::NoMember => Some(vec!["you are not a member of the account".to_owned()]),
            Refusal::Rules(errors) => Some(errors.iter().map(ToString::to_string).collect()),
        };
        if let Some(reasons) = reasons {
            self.refused(action, target, json!({ "reasons": reasons })).await?;
        }
        AccessUserError::of(refusal, what, field)
    }
}
