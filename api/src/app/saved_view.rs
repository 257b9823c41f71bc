//! Changes of saved views. Changes of shared ones are in the audit log.

use entity::{
    Timestamp,
    audit_entry::Action,
    ids::{SavedViewId, UserId},
    saved_view::Model,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    domain::{
        audit::{Entry, Target},
        permission::{Permission, Rights},
        saved_view::{MAX_VIEWS, ViewError, ViewInput},
    },
    store::{AccountStore, StoreError},
};

/// The reason why a view was not created, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The view does not exist, or is another member's.
    NotFound,
    /// The texts are invalid. Each entry has a field and its error.
    Texts(Vec<(&'static str, ViewError)>),
    /// The member, or the account for shared views, has [`MAX_VIEWS`] views.
    TooMany,
    /// The caller may not share views, or not change this shared one.
    NotPermitted,
    /// Only the creator can make a shared view private, because nobody else would see it any more.
    NotCreator,
}

type Outcome<T> = Result<Result<T, Refusal>, StoreError>;

/// Creates a view.
pub(crate) async fn create(
    store: &AccountStore,
    rights: Rights,
    input: ViewInput,
    now: Timestamp,
) -> Outcome<Model> {
    let errors = input.check();
    if !errors.is_empty() {
        return Ok(Err(Refusal::Texts(errors)));
    }
    let permission = if input.is_shared { Permission::ShareView } else { Permission::KeepView };
    if !rights.permit(permission, Some(rights.user)) {
        return Ok(Err(Refusal::NotPermitted));
    }
    store
        .write(move |store| {
            let input = input.clone();
            Box::pin(async move {
                store.lock_members(&[rights.user]).await?;
                if has_too_many(&store, rights.user, input.is_shared).await? {
                    return Ok(Err(Refusal::TooMany));
                }
                let view = Model {
                    account_id: store.account_id(),
                    id: SavedViewId(Uuid::now_v7()),
                    owner_id: (!input.is_shared).then_some(rights.user),
                    created_by: rights.user,
                    name: input.name,
                    page: input.page,
                    parameters: input.parameters,
                    created_at: now,
                    changed_at: now,
                };
                store.upsert_saved_view(view.clone()).await?;
                record(&store, Action::CreateSavedView, None, Some(&view)).await?;
                Ok(Ok(view))
            })
        })
        .await
}

/// Replaces all properties of a view.
pub(crate) async fn update(
    store: &AccountStore,
    rights: Rights,
    id: SavedViewId,
    input: ViewInput,
    now: Timestamp,
) -> Outcome<Model> {
    let errors = input.check();
    if !errors.is_empty() {
        return Ok(Err(Refusal::Texts(errors)));
    }
    store
        .write(move |store| {
            let input = input.clone();
            Box::pin(async move {
                // The member is locked before the view, in the order of the removal of a member, to avoid
                // deadlocks.
                store.lock_members(&[rights.user]).await?;
                let Some(current) = store.lock_saved_view(rights.user, id).await? else {
                    return Ok(Err(Refusal::NotFound));
                };
                if !may_change(rights, &current)
                    || input.is_shared && !rights.permit(Permission::ShareView, Some(current.created_by))
                {
                    return Ok(Err(Refusal::NotPermitted));
                }
                let was_shared = current.owner_id.is_none();
                if was_shared && !input.is_shared && current.created_by != rights.user {
                    return Ok(Err(Refusal::NotCreator));
                }
                if was_shared != input.is_shared && has_too_many(&store, rights.user, input.is_shared).await?
                {
                    return Ok(Err(Refusal::TooMany));
                }
                let view = Model {
                    owner_id: (!input.is_shared).then_some(rights.user),
                    name: input.name,
                    page: input.page,
                    parameters: input.parameters,
                    changed_at: now,
                    ..current.clone()
                };
                store.upsert_saved_view(view.clone()).await?;
                record(&store, Action::UpdateSavedView, Some(&current), Some(&view)).await?;
                Ok(Ok(view))
            })
        })
        .await
}

/// Deletes a view.
pub(crate) async fn delete(store: &AccountStore, rights: Rights, id: SavedViewId) -> Outcome<()> {
    store
        .write(move |store| {
            Box::pin(async move {
                let Some(view) = store.lock_saved_view(rights.user, id).await? else {
                    return Ok(Err(Refusal::NotFound));
                };
                if !may_change(rights, &view) {
                    return Ok(Err(Refusal::NotPermitted));
                }
                store.delete_saved_view(id).await?;
                record(&store, Action::DeleteSavedView, Some(&view), None).await?;
                Ok(Ok(()))
            })
        })
        .await
}

/// Returns true if the caller may change and delete a view that they see.
pub(crate) fn may_change(rights: Rights, view: &Model) -> bool {
    match view.owner_id {
        Some(owner) => rights.permit(Permission::KeepView, Some(owner)),
        None => rights.permit(Permission::ShareView, Some(view.created_by)),
    }
}

/// Returns true if there is no room for another view. Callers lock the member first, so that concurrent
/// requests cannot exceed the limit.
async fn has_too_many(store: &AccountStore, user: UserId, is_shared: bool) -> Result<bool, StoreError> {
    Ok(store.count_saved_views_of((!is_shared).then_some(user)).await? >= MAX_VIEWS)
}

/// Records a change in the audit log, if the view is or was shared.
async fn record(
    store: &AccountStore,
    action: Action,
    before: Option<&Model>,
    after: Option<&Model>,
) -> Result<(), StoreError> {
    let is_shared = |view: Option<&Model>| view.is_some_and(|view| view.owner_id.is_none());
    let Some(view) = after.or(before).filter(|_| is_shared(before) || is_shared(after)) else {
        return Ok(());
    };
    store.record_audit_entry(Entry::done(action, Target::SavedView(view.id), detail(before, after))).await
}

/// Returns the logged detail of a change: the sharing, and the names of shared views, without parameters.
/// Readers of the audit log see no private views.
fn detail(before: Option<&Model>, after: Option<&Model>) -> Value {
    let view_detail = |view: &Model| match view.owner_id {
        None => json!({ "name": view.name, "page": view.page, "shared": true }),
        Some(_) => json!({ "shared": false }),
    };
    match (before, after) {
        (Some(before), Some(after)) => json!({ "before": view_detail(before), "after": view_detail(after) }),
        (Some(view), None) | (None, Some(view)) => view_detail(view),
        (None, None) => json!({}),
    }
}
