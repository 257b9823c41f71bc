//! What was done in an account, and by whom. Entries are added, in the transaction of what they tell of; nothing here changes
//! or removes one, and what would does not compile.

use std::sync::atomic::{AtomicU64, Ordering};

use entity::{
    Timestamp, api_token,
    audit_entry::{Action, Column, Entity, Model, Outcome},
    ids::{AccountId, AuditEntryId, UserId},
    membership,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QuerySelect, Select, sea_query::OnConflict,
};
use serde_json::json;
use uuid::Uuid;

use super::{
    error::StoreError,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
};
use crate::domain::audit::{Actor, Entry, Target};

/// Entries that are written by one statement at the most.
const ROWS: usize = 500;

/// The orders entries can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuditSort {
    /// What was done last comes first.
    NewestFirst,
}

impl Sort for AuditSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "audit_happened_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::HappenedAt, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.happened_at.into(), row.id.into()])
    }
}

/// Which entries are meant: every condition that is given has to hold.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only what is this.
    pub action: Option<Action>,
    /// Only what came to this.
    pub outcome: Option<Outcome>,
    /// Only what this user did.
    pub user: Option<UserId>,
    /// Only what was done to one of these.
    pub targets: Option<Vec<Target>>,
    /// Only what was done at this time or later.
    pub since: Option<Timestamp>,
    /// Only what was done before this time.
    pub until: Option<Timestamp>,
}

/// What was decrypted for a request of what may hold code.
#[derive(Debug, Default)]
pub(super) struct Decrypted {
    snippets: AtomicU64,
    profiles: AtomicU64,
}

impl Decrypted {
    /// Notes that a text of a table was decrypted.
    pub(super) fn note(&self, table: &[u8]) {
        let count = match table {
            b"code_snippets" => &self.snippets,
            // What Dask draws of profiles is no less.
            b"profiles" | b"performance_report_pieces" => &self.profiles,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl AccountStore {
    /// Writes down what is done, in the transaction in which it is done.
    ///
    /// # Errors
    /// [`StoreError::Unexpected`] when it is not known who does it, and when the database does not answer.
    pub(crate) async fn audit(&self, entry: Entry) -> Result<(), StoreError> {
        let nobody = || StoreError::Unexpected(DbErr::Custom("it is not known who changes this".to_owned()));
        let actor = self.actor().ok_or_else(nobody)?;
        // By its public half, which people know, and which is to be read when the token is gone.
        let token: Option<String> = match actor.token {
            Some(id) => {
                let token = self.select::<api_token::Entity>().filter(api_token::Column::Id.eq(id));
                let identifier = token.select_only().column(api_token::Column::Identifier);
                identifier.into_tuple().one(&self.writes()).await?
            }
            None => None,
        };
        let row = Model { token_identifier: token, ..row(self.account_id(), actor, &entry) };
        self.insert::<Entity>(vec![row], &OnConflict::new().do_nothing().to_owned()).await?;
        Ok(())
    }

    /// Writes down that something was tried that a rule speaks against.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.audit_entry.add_refusal", skip_all)]
    pub(crate) async fn audit_refusal(&self, entry: Entry) -> Result<(), StoreError> {
        self.audit(entry).await
    }

    /// Writes down what was decrypted since this store was made of what may hold code: one entry for each class of data,
    /// however much it was.
    ///
    /// # Errors
    /// When the database does not answer; nobody is to see then what was decrypted.
    pub(crate) async fn audit_reads(&self) -> Result<(), StoreError> {
        let counts = {
            let decrypted = self.decrypted();
            [(Action::ReadCode, &decrypted.snippets), (Action::ReadProfiles, &decrypted.profiles)]
                .map(|(action, count)| (action, count.swap(0, Ordering::Relaxed)))
        };
        for (action, count) in counts {
            if count > 0 {
                self.audit(Entry::done(action, Target::Account, json!({ "texts": count }))).await?;
            }
        }
        Ok(())
    }

    /// Whether something was decrypted that is to be written down.
    pub(crate) fn read_what_is_audited(&self) -> bool {
        let decrypted = self.decrypted();
        [&decrypted.snippets, &decrypted.profiles].iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// A page of what was done.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.audit_entry.page", skip_all)]
    pub async fn audit_page(
        &self,
        filter: &AuditFilter,
        sort: AuditSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.audit_entries(filter), sort, request).await
    }

    /// How much was done.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.audit_entry.count", skip_all)]
    pub async fn audit_count(&self, filter: &AuditFilter) -> Result<u64, StoreError> {
        Ok(self.audit_entries(filter).count(&self.reads()).await?)
    }

    fn audit_entries(&self, filter: &AuditFilter) -> Select<Entity> {
        let targets = filter.targets.as_ref().map(|targets| targets.iter().map(Target::to_string));
        let conditions = [
            filter.action.map(|action| Column::Action.eq(action)),
            filter.outcome.map(|outcome| Column::Outcome.eq(outcome)),
            filter.user.map(|user| Column::UserId.eq(user)),
            targets.map(|targets| Column::Target.is_in(targets)),
            filter.since.map(|since| Column::HappenedAt.gte(since)),
            filter.until.map(|until| Column::HappenedAt.lt(until)),
        ];
        conditions.into_iter().flatten().fold(self.select::<Entity>(), QueryFilter::filter)
    }
}

/// Writes down what is done where there is no view of the account: by operators, and by those who are no members yet.
#[expect(clippy::disallowed_methods, reason = "whoever does this is no member of the account")]
pub(super) async fn add(
    connection: &impl ConnectionTrait,
    account: AccountId,
    actor: &Actor,
    entry: Entry,
) -> Result<(), StoreError> {
    let row = row(account, actor, &entry).into_active_model().reset_all();
    Entity::insert_many([row]).exec_without_returning(connection).await?;
    Ok(())
}

/// Writes down what concerns somebody in all accounts they are a member of, in each of these.
#[expect(clippy::disallowed_methods, reason = "it is about somebody, and not about an account")]
pub(super) async fn add_of_user(
    connection: &impl ConnectionTrait,
    user: UserId,
    actor: &Actor,
    entry: &Entry,
) -> Result<(), StoreError> {
    let accounts = membership::Entity::find().filter(membership::Column::UserId.eq(user));
    let accounts = accounts.select_only().column(membership::Column::AccountId).into_tuple();
    let accounts: Vec<AccountId> = accounts.all(connection).await?;
    for some in accounts.chunks(ROWS) {
        let rows = some.iter().map(|account| row(*account, actor, entry).into_active_model().reset_all());
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
