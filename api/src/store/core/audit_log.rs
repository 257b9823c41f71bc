//! The writes of the audit log: an entry is added in the transaction of the action that it records. The
//! reads are those of the noun, `audit_entry.rs`.

use std::sync::atomic::{AtomicU64, Ordering};

use entity::{
    api_token,
    audit_entry::{Action, Entity, Model},
    ids::{AccountId, AuditEntryId, UserId},
    membership,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter,
    QuerySelect, sea_query::OnConflict,
};
use serde_json::json;
use uuid::Uuid;

use super::{error::StoreError, scoped::AccountStore, statement_time};
use crate::domain::audit::{Actor, Entry, Target};

/// The largest number of entries that one statement writes.
const ROWS: usize = 500;

/// The numbers of texts that may hold code and were decrypted for a request.
#[derive(Debug, Default)]
pub(crate) struct DecryptionCounts {
    snippets: AtomicU64,
    profiles: AtomicU64,
}

impl DecryptionCounts {
    /// Counts a decrypted text of a table.
    pub(crate) fn count_decryption(&self, table: &[u8]) {
        let count = match table {
            b"code_snippets" => &self.snippets,
            // Performance reports show profiles, which hold lines of code.
            b"profiles" | b"performance_report_pieces" => &self.profiles,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl AccountStore {
    /// Records an action in the transaction of the action.
    ///
    /// # Errors
    /// Returns [`StoreError::Unexpected`] if the actor is unknown, and an error if the database does not
    /// answer.
    pub(crate) async fn record_audit_entry(&self, entry: Entry) -> Result<(), StoreError> {
        let unknown_actor =
            || StoreError::Unexpected(DbErr::Custom("it is not known who changes this".to_owned()));
        let actor = self.actor().ok_or_else(unknown_actor)?;
        // The log names the token by its public half, which people know and which stays readable after the
        // token is deleted.
        let token: Option<String> = match actor.token {
            Some(id) => {
                let token = self.select::<api_token::Entity>().filter(api_token::Column::Id.eq(id));
                let identifier = token.select_only().column(api_token::Column::Identifier);
                identifier.into_tuple().one(&self.write_executor()).await?
            }
            None => None,
        };
        let row = Model { token_identifier: token, ..row(self.account_id(), actor, &entry) };
        self.insert::<Entity>(vec![row], &OnConflict::new().do_nothing().to_owned()).await?;
        statement_time::add_audit_entry();
        Ok(())
    }

    /// Records an attempt that a rule refused.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.audit_entry.add_refusal", skip_all)]
    pub(crate) async fn record_audit_refusal(&self, entry: Entry) -> Result<(), StoreError> {
        self.record_audit_entry(entry).await
    }

    /// Records the decryption of texts that may hold code since this store was created: one entry per class
    /// of data, with the number of texts.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. The decrypted texts must not be returned then.
    pub(crate) async fn record_decryptions(&self) -> Result<(), StoreError> {
        let counts = {
            let decrypted = self.decrypted();
            [(Action::ReadCode, &decrypted.snippets), (Action::ReadProfiles, &decrypted.profiles)]
                .map(|(action, count)| (action, count.swap(0, Ordering::Relaxed)))
        };
        for (action, count) in counts {
            if count > 0 {
                self.record_audit_entry(Entry::done(action, Target::Account, json!({ "texts": count })))
                    .await?;
            }
        }
        Ok(())
    }

    /// Returns true if a decryption is not recorded yet.
    pub(crate) fn has_unrecorded_decryptions(&self) -> bool {
        let decrypted = self.decrypted();
        [&decrypted.snippets, &decrypted.profiles].iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// Records an action that no account view carries out: an action of an operator, or of a user who is not a
/// member yet.
#[expect(clippy::disallowed_methods, reason = "the actor is not a member of the account")]
pub(crate) async fn insert_audit_entry(
    connection: &impl ConnectionTrait,
    account: AccountId,
    actor: &Actor,
    entry: Entry,
) -> Result<(), StoreError> {
    let row = row(account, actor, &entry).into_active_model().reset_all();
    Entity::insert_many([row]).exec_without_returning(connection).await?;
    Ok(())
}

/// Records an action that concerns a user in every account that the user is a member of.
#[expect(clippy::disallowed_methods, reason = "the action concerns a user and not an account")]
pub(crate) async fn insert_user_audit_entries(
    connection: &impl ConnectionTrait,
    user: UserId,
    actor: &Actor,
    entry: &Entry,
) -> Result<(), StoreError> {
    let accounts = membership::Entity::find().filter(membership::Column::UserId.eq(user));
    let accounts = accounts.select_only().column(membership::Column::AccountId).into_tuple();
    let accounts: Vec<AccountId> = accounts.all(connection).await?;
    for chunk in accounts.chunks(ROWS) {
        let rows = chunk.iter().map(|account| row(*account, actor, entry).into_active_model().reset_all());
        Entity::insert_many(rows).exec_without_returning(connection).await?;
    }
    Ok(())
}

fn row(account: AccountId, actor: &Actor, entry: &Entry) -> Model {
    let (user_id, user_name) = actor.user.clone().unzip();
    Model {
        account_id: account,
        id: AuditEntryId(Uuid::now_v7()),
        happened_at: actor.at,
        action: entry.action,
        outcome: entry.outcome,
        user_id,
        user_name,
        credential: actor.credential,
        token_identifier: None,
        address: actor.origin.map(|origin| origin.address.to_string()),
        request_id: actor.origin.map(|origin| origin.request_id),
        target: entry.target.to_string(),
        detail: entry.detail.to_string(),
    }
}
