//! One account as a request sees it: the store's view of it and the loaders that share its statements.

use std::sync::Arc;

use async_graphql::dataloader::{DataLoader, HashMapCache};
use entity::account;

use super::loaders::Reader;
use crate::{auth::Viewer, store::AccountStore};

/// What every node holds to find its relatives. Made per request, so nothing loaded outlives one or is shared
/// by two viewers.
#[derive(Clone)]
pub(super) struct AccountScope {
    pub(super) account: Arc<account::Model>,
    pub(super) store: AccountStore,
    pub(super) loader: Arc<Loader>,
}

/// Lists or rows read by one statement at the most: as many as a page has.
const MAX_BATCH: usize = 100;

/// Remembers what it read, so that nothing is read twice for one request.
pub(super) type Loader = DataLoader<Reader, HashMapCache>;

impl AccountScope {
    pub(super) fn new(viewer: &Viewer, store: AccountStore) -> Self {
        let (account, loader) = (Arc::new(viewer.account().clone()), loader(&store));
        Self { account, store, loader }
    }

    /// The same account for what is read after a change.
    pub(super) fn after_change(&self) -> Self {
        Self { loader: loader(&self.store), ..self.clone() }
    }
}

fn loader(store: &AccountStore) -> Arc<Loader> {
    let loader = DataLoader::with_cache(Reader(store.clone()), tokio::spawn, HashMapCache::default());
    Arc::new(loader.max_batch_size(MAX_BATCH))
}
