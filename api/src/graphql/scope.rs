//! One account as a request sees it: the store's view of it and the loaders that share its statements.

use std::sync::Arc;

use async_graphql::dataloader::DataLoader;
use entity::account;

use super::loaders::Reader;
use crate::{auth::Viewer, store::AccountStore};

/// What every node holds to find its relatives. Made per request, so nothing loaded outlives one or is shared
/// by two viewers.
#[derive(Clone)]
pub(super) struct AccountScope {
    pub(super) account: Arc<account::Model>,
    pub(super) store: AccountStore,
    pub(super) loader: Arc<DataLoader<Reader>>,
}

impl AccountScope {
    pub(super) fn new(viewer: &Viewer, store: AccountStore) -> Self {
        Self {
            account: Arc::new(viewer.account().clone()),
            loader: Arc::new(DataLoader::new(Reader(store.clone()), tokio::spawn)),
            store,
        }
    }
}
