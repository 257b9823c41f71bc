//! `audit_entries`: the audit log of an account. Rows are only added. They are deleted only with their
//! account. They name users and objects without foreign keys, because they outlive both.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, AuditEntryId, UserId},
};

/// The action. The action of a mutation has the mutation's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Action {
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
    /// A link with which a user can sign in once was created.
    CreateSignInLink,
    /// A token was created.
    CreateToken,
    /// The account was marked for removal.
    DeleteAccount,
    /// An alert rule was deleted.
    DeleteAlertRule,
    /// A cluster was deleted.
    DeleteCluster,
    /// A cost rate was deleted.
    DeleteCostRate,
    /// The data of one class was deleted.
    DeleteData,
    /// A performance report was deleted.
    DeletePerformanceReport,
    /// A shared view was deleted.
    DeleteSavedView,
    /// A membership was ended, and the user's clusters and performance reports were deleted.
    DeleteUser,
    /// The clusters that were reported with a token were hidden, or the hidden ones were deleted.
    ForgetToken,
    /// A session of a user in a browser was ended.
    EndSession,
    /// A cluster got another owner.
    HandOverCluster,
    /// An invitation was created.
    InviteMember,
    /// A user became a member by signing in through an OpenID provider or a JWT issuer.
    JoinBySignIn,
    /// A cluster was protected from being stopped for idleness.
    KeepAlive,
    /// An issuer's name for a user was linked to the user.
    LinkUser,
    /// A kind of flag was muted.
    MuteFlag,
    /// Code was decrypted.
    ReadCode,
    /// Profiles, which hold lines of code, were decrypted.
    ReadProfiles,
    /// A membership was ended.
    RemoveMember,
    /// The hidden clusters that were reported with a token were restored.
    RestoreToken,
    /// An invitation was revoked.
    RevokeInvitation,
    /// A token was revoked.
    RevokeToken,
    /// A cluster's notes were set or removed.
    SetClusterNotes,
    /// A cluster's tags were set.
    SetClusterTags,
    /// A cost rate was set.
    SetCostRate,
    /// The acceptance or retention of a class of data was set.
    SetDataPolicy,
    /// A user chose the account that is used when a request names none.
    SetDefaultAccount,
    /// The desired state of a cluster was set.
    SetDesiredState,
    /// The status of a group of errors was set.
    SetErrorGroupStatus,
    /// The idle policy was set.
    SetIdlePolicy,
    /// The role or the end of a membership was changed.
    SetMemberRole,
    /// The password of a user was set.
    SetPassword,
    /// A quota of the account was set.
    SetQuota,
    /// The policy on tokens of schedulers was set.
    SetTokenPolicy,
    /// A user signed in with a browser.
    SignIn,
    /// A user ended their sessions in all browsers.
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

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Outcome {
    /// The action was carried out.
    Done,
    /// The action was attempted, and a rule refused it.
    Refused,
}

/// The kind of credential that authenticated the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Credential {
    /// An API token.
    ApiToken,
    /// A JWT of the trusted issuer.
    Jwt,
    /// A browser session.
    Session,
    /// The command line of the server.
    Operator,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "audit_entries")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: AuditEntryId,
        pub happened_at: Timestamp,
        pub action: Action,
        pub outcome: Outcome,
        /// The user who acted. Null for an operator.
        pub user_id: Option<UserId>,
        /// The user's name at the time of the action. Null for an operator.
        pub user_name: Option<String>,
        pub credential: Credential,
        /// The public half of the token. Null if the credential was no token.
        pub token_identifier: Option<String>,
        /// The IP address of the client. Null if the action did not arrive over the network.
        pub address: Option<String>,
        /// The identifier of the request, as in its response and in the log. Null if the action did not
        /// arrive over the network.
        pub request_id: Option<Uuid>,
        /// The target of the action: a word and an identifier.
        pub target: String,
        /// Further details as JSON, without secrets.
        pub detail: String,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
    const APPEND_ONLY: bool = true;
}
