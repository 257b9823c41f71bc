//! Saved views: named searches of a page, of one member or shared with the account.

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{audit_entry::Action, ids::SavedViewId, saved_view::Model};

use super::account::Account;
use crate::{
    app::saved_view::{self, Refusal},
    domain::{
        audit::Target,
        permission::{Permission, Reach},
        saved_view::{MAX_VIEWS, ViewInput},
    },
    graphql::{
        access::user::User,
        engine::{
            connection::{Connection, PageArguments, total_count_by},
            error::ApiError,
            id::GlobalId,
            projection::inline_fields,
            scope::AccountScope,
            user_error::{UserError, UserErrorCode},
        },
        schema,
    },
    store::{SavedViewFilter, SavedViewSort},
};

/// A named search of a page.
pub(crate) struct SavedView {
    scope: AccountScope,
    row: Model,
}

impl SavedView {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A named search of a page of a dashboard or another client. It is private to the user who created it, or
/// shared with all members of the account. A private view is deleted with its user's membership. The texts
/// are stored unencrypted.
#[Object]
impl SavedView {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::SavedView(self.row.account_id, self.row.id).into()
    }

    /// The name.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// The page that the view belongs to, as its client names it.
    async fn page(&self) -> &str {
        &self.row.page
    }

    /// The search parameters of the page, as its client wrote them.
    async fn parameters(&self) -> &str {
        &self.row.parameters
    }

    /// True if all members of the account see the view.
    async fn is_shared(&self) -> bool {
        self.row.owner_id.is_none()
    }

    /// The user who created the view. Null if the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.created_by).await
    }

    /// The time at which the view was created, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The time of the last change, by the server's clock.
    async fn changed_at(&self) -> DateTime<Utc> {
        self.row.changed_at.0
    }

    /// True if the viewer may change the view with `updateSavedView`, and delete it with `deleteSavedView`.
    async fn viewer_can_change(&self) -> bool {
        saved_view::may_change(self.scope.rights, &self.row)
    }
}

inline_fields! { SavedView: id, name, page, parameters, is_shared, created_at, changed_at, viewer_can_change }

/// All properties of a saved view.
#[derive(Clone, Debug, InputObject)]
pub(crate) struct SavedViewInput {
    /// The name, 1 to 100 characters.
    name: String,
    /// The page that the view belongs to, 1 to 50 of the characters a to z, 0 to 9, `-` and `/`.
    page: String,
    /// The search parameters of the page, at most 2,048 bytes.
    parameters: String,
    /// True for a view that all members of the account see.
    #[graphql(default)]
    is_shared: bool,
}

/// The outcome of `createSavedView` and `updateSavedView`.
#[derive(SimpleObject)]
pub(crate) struct SavedViewPayload {
    /// The view after the change. Null if nothing was changed.
    saved_view: Option<SavedView>,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// The outcome of `deleteSavedView`.
#[derive(SimpleObject)]
pub(crate) struct DeleteSavedViewPayload {
    /// The account without the view.
    account: Account,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// The saved views of an account that the viewer sees, and the permission to share some.
pub(crate) struct AccountViews(pub(crate) AccountScope);

/// The saved views of an account that the viewer sees, and the permission to share some.
#[Object]
impl AccountViews {
    /// The saved views that the viewer sees: the shared ones and their own, in the order in which they were
    /// created.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn saved_views(
        &self,
        #[graphql(desc = "Only views of this page. Null for all pages.")] page: Option<String>,
        #[graphql(desc = "True for shared views only, false for private ones only. Null for both.")]
        shared: Option<bool>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<SavedView>, ApiError> {
        let scope = &self.0;
        if page.as_ref().is_some_and(|page| page.contains('\0')) {
            return Err(ApiError::invalid("page", "must not contain U+0000"));
        }
        let sort = SavedViewSort::OldestFirst;
        let request = PageArguments { first, after, last, before }.request(scope, sort)?;
        let filter = SavedViewFilter { reader: scope.rights.user, page, is_shared: shared };
        let page = scope.store.saved_view_page(&filter, sort, &request).await?;
        let store = scope.store.clone();
        let total = total_count_by(move || {
            let (store, filter) = (store.clone(), filter.clone());
            async move { store.saved_view_count(&filter).await }
        });
        Ok(Connection::new(page, sort, |row| SavedView::new(scope, row), total))
    }

    /// True if the viewer may create private views with `createSavedView`.
    async fn viewer_can_save_view(&self) -> bool {
        self.0.rights.reach(Permission::KeepView) != Reach::Nothing
    }

    /// True if the viewer may create shared views with `createSavedView`.
    async fn viewer_can_share_view(&self) -> bool {
        self.0.rights.reach(Permission::ShareView) != Reach::Nothing
    }
}

/// The changes of saved views.
pub(crate) struct SavedViewMutations;

/// The changes of saved views.
#[Object]
impl SavedViewMutations {
    /// Creates a saved view. Users of every role may create private views; this needs credentials with all
    /// scopes of the role. Users with the role MEMBER may also create shared views.
    async fn create_saved_view(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The properties of the view.")] input: SavedViewInput,
    ) -> Result<SavedViewPayload, ApiError> {
        create(context, input).await
    }

    /// Replaces all properties of a saved view. Users of every role may do this to their own private views.
    /// Users with the role MEMBER may also do this to shared views that they created.
    async fn update_saved_view(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The view's global identifier.")] id: ID,
        #[graphql(desc = "The new properties of the view.")] input: SavedViewInput,
    ) -> Result<SavedViewPayload, ApiError> {
        update(context, &id, input).await
    }

    /// Deletes a saved view. Users of every role may do this to their own private views. Users with the role
    /// MEMBER may also do this to shared views that they created.
    async fn delete_saved_view(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The view's global identifier.")] id: ID,
    ) -> Result<DeleteSavedViewPayload, ApiError> {
        delete(context, &id).await
    }
}

impl From<SavedViewInput> for ViewInput {
    fn from(input: SavedViewInput) -> Self {
        let SavedViewInput { name, page, parameters, is_shared } = input;
        Self { name: name.trim().to_owned(), page, parameters, is_shared }
    }
}

async fn create(context: &Context<'_>, input: SavedViewInput) -> Result<SavedViewPayload, ApiError> {
    let scope = &schema::request_context(context).scope;
    let permission = if input.is_shared { Permission::ShareView } else { Permission::KeepView };
    let created = saved_view::create(&scope.store, scope.rights, input.into(), scope.now.into()).await?;
    change_payload(scope, created, (Action::CreateSavedView, Target::Account, permission)).await
}

async fn update(context: &Context<'_>, id: &ID, input: SavedViewInput) -> Result<SavedViewPayload, ApiError> {
    let scope = &schema::request_context(context).scope;
    let id = parse_id(scope, id)?;
    let changed = saved_view::update(&scope.store, scope.rights, id, input.into(), scope.now.into()).await?;
    change_payload(scope, changed, (Action::UpdateSavedView, Target::SavedView(id), Permission::ShareView))
        .await
}

async fn delete(context: &Context<'_>, id: &ID) -> Result<DeleteSavedViewPayload, ApiError> {
    let scope = &schema::request_context(context).scope;
    let id = parse_id(scope, id)?;
    let errors = match saved_view::delete(&scope.store, scope.rights, id).await? {
        Ok(()) => None,
        Err(refusal) => {
            let attempt = (Action::DeleteSavedView, Target::SavedView(id), Permission::ShareView);
            Some(refusal_errors(scope, refusal, attempt).await?)
        }
    };
    let account = Account(scope.with_empty_caches());
    Ok(DeleteSavedViewPayload { account, user_errors: errors.unwrap_or_default() })
}

/// Parses the identifier of a view in a mutation.
fn parse_id(scope: &AccountScope, id: &ID) -> Result<SavedViewId, ApiError> {
    match GlobalId::parse(id) {
        Some(GlobalId::SavedView(account, view)) if account == scope.account.id => Ok(view),
        _ => Err(ApiError::NotFound("saved view")),
    }
}

async fn change_payload(
    scope: &AccountScope,
    outcome: Result<Model, Refusal>,
    attempt: (Action, Target, Permission),
) -> Result<SavedViewPayload, ApiError> {
    Ok(match outcome {
        Ok(row) => {
            let view = SavedView::new(&scope.with_empty_caches(), row);
            SavedViewPayload { saved_view: Some(view), user_errors: Vec::new() }
        }
        Err(refusal) => {
            let user_errors = refusal_errors(scope, refusal, attempt).await?;
            SavedViewPayload { saved_view: None, user_errors }
        }
    })
}

/// Returns the errors of a refused change. A caller without the permission for any view gets an error of the
/// whole field, and the attempt is recorded.
async fn refusal_errors(
    scope: &AccountScope,
    refusal: Refusal,
    (action, target, permission): (Action, Target, Permission),
) -> Result<Vec<UserError>, ApiError> {
    Ok(match refusal {
        Refusal::NotFound => return Err(ApiError::NotFound("saved view")),
        Refusal::Texts(errors) => {
            errors.iter().map(|(field, error)| UserError::from_rule(field, error)).collect()
        }
        Refusal::TooMany => {
            let message =
                format!("a user can have {MAX_VIEWS} private views, and an account {MAX_VIEWS} shared ones");
            vec![UserError::new("name", UserErrorCode::TooMany, message)]
        }
        Refusal::NotCreator => {
            let message = "only its creator can make a shared view private";
            vec![UserError::new("isShared", UserErrorCode::Forbidden, message)]
        }
        Refusal::NotPermitted => {
            let denial = scope.rights.denial(permission);
            scope.record_denial(action, target, denial).await?;
            if scope.rights.reach(permission) == Reach::Nothing {
                return Err(denial.into());
            }
            vec![UserError::not_owner("id")]
        }
    })
}
