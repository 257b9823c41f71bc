//! A cache of prefetched cluster pages.
//!
//! The client requests one page after another until one is empty, and takes as long to read a page as
//! the server takes to produce it. After a full page, its next page is therefore produced in the
//! background. A client that then requests that page is iterating over the list, and several pages after
//! it are produced. The whole list then takes as long as the slower of the two sides, instead of the sum
//! of both.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use entity::ids::{AccountId, UserId};
use lru::LruCache;
use tokio::{task::JoinHandle, time::timeout};

use super::cluster::Page;
use crate::{http::extract::problem::Problem, store::core::page::Slice};

/// The maximum age of a prefetched page. The rows of a list that is read page by page differ in age
/// anyway.
const PREFETCH_MAX_AGE: Duration = Duration::from_secs(1);

/// The number of cached pages, of up to a megabyte each. The most recently started ones are kept.
const PAGES: NonZeroUsize = NonZeroUsize::new(32).expect("it is more than none");

/// The identity of a page. All members of an account see the same page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    pub(super) account: AccountId,
    /// Limits the page to clusters of these users.
    pub(super) users: Option<Vec<UserId>>,
    /// The age limit as the client sent it. It counts from the time of each request.
    pub(super) since: Option<String>,
    pub(super) slice: Slice,
}

/// A page that is being produced, or is ready.
struct PrefetchedPage {
    started_at: Instant,
    page: JoinHandle<Option<Page>>,
}

impl PrefetchedPage {
    fn is_fresh(&self) -> bool {
        self.started_at.elapsed() <= PREFETCH_MAX_AGE
    }
}

impl Drop for PrefetchedPage {
    fn drop(&mut self) {
        self.page.abort();
    }
}

/// The prefetched pages.
pub(crate) struct PagePrefetcher {
    /// The timeout for producing a page.
    page_timeout: Duration,
    pages: Mutex<LruCache<PageKey, PrefetchedPage>>,
}

impl PagePrefetcher {
    pub(crate) fn new(page_timeout: Duration) -> Self {
        Self { page_timeout, pages: Mutex::new(LruCache::new(PAGES)) }
    }

    /// Starts producing a page, unless it was started recently.
    pub(super) fn start(
        &self,
        key: PageKey,
        load: impl Future<Output = Result<Page, Problem>> + Send + 'static,
    ) {
        let mut pages = self.lock_pages();
        if pages.peek(&key).is_some_and(PrefetchedPage::is_fresh) {
            return;
        }
        let load = timeout(self.page_timeout, load);
        // If a prefetch fails, the request itself produces the page and reports the error.
        let page = tokio::spawn(async { load.await.ok()?.ok() });
        pages.push(key, PrefetchedPage { started_at: Instant::now(), page });
    }

    /// Returns a page if it was started and is not too old.
    pub(super) async fn take(&self, key: &PageKey) -> Option<Page> {
        let prefetched = self.lock_pages().pop(key);
        let mut prefetched = prefetched.filter(PrefetchedPage::is_fresh)?;
        (&mut prefetched.page).await.ok()?
    }

    fn lock_pages(&self) -> MutexGuard<'_, LruCache<PageKey, PrefetchedPage>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
