//! `audit_entries`: what was done in an account, and by whom. Rows are added, and never changed or removed. They name people
//! and things without referring to them, since they outlive both.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, AuditEntryId, UserId},
    positional::positional,
};

/// What was done. What a mutation does has the mutation's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Action {
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
    /// An issuer's name for a user was written down.
    LinkUser,
    /// A kind of flag was muted.
    MuteFlag,
    /// Code was decrypted.
    ReadCode,
    /// Profiles, which hold lines of code, were decrypted.
    ReadProfiles,
    /// A membership was ended.
    RemoveMember,
    /// An invitation was ended.
    RevokeInvitation,
    /// A token was ended.
    RevokeToken,
    /// A cluster's notes were written.
    SetClusterNotes,
    /// A cluster's tags were set.
    SetClusterTags,
    /// A rate was set.
    SetCostRate,
    /// It was said what is accepted of a class of data.
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
    /// A user got a password.
    SetPassword,
    /// Somebody signed in with a browser.
    SignIn,
    /// Somebody ended their sessions in all browsers.
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

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was tried, and a rule spoke against it.
    Refused,
}

/// How somebody proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Credential {
    /// By an API token.
    ApiToken,
    /// By a JWT of the issuer that is trusted.
    Jwt,
    /// By the session of a browser.
    Session,
    /// By the command line of the server.
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
        /// Who did it; none for an operator.
        pub user_id: Option<UserId>,
        /// What the user was called.
        pub user_name: Option<String>,
        pub credential: Credential,
        /// The public half of the token, if it was one.
        pub token_identifier: Option<String>,
        /// The IP address it came from, if it came over the network.
        pub address: Option<String>,
        /// The request it was done by, as its answer and the log name it.
        pub request_id: Option<Uuid>,
        /// What it was done to: a word and an identifier.
        pub target: String,
        /// What there is to know besides, as JSON, without secrets.
        pub detail: String,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const APPEND_ONLY: bool = true;
}
