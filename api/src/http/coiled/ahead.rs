//! Pages of clusters that are read before they are asked for.
//!
//! The client asks for one page after the other, until one is empty, and takes as long to read a page as making it takes.
//! So whoever is shown a full page is about to ask for the next, which is made while they read. Whoever then asks for it
//! walks through the list, and several behind it are made. So a list takes as long as the slower of the two, and not as
//! long as both.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use entity::ids::{AccountId, UserId};
use lru::LruCache;
use tokio::{task::JoinHandle, time::timeout};

use super::cluster::Page;
use crate::{http::problem::Problem, store::page::Slice};

/// How old a page may be when it is shown. Rows of a list that is walked through page by page are not all as old anyway.
const AT_MOST: Duration = Duration::from_secs(1);

/// Pages that are kept at one time, of up to a megabyte: those that were begun last.
const PAGES: NonZeroUsize = NonZeroUsize::new(32).expect("it is more than none");

/// What a page is about. Everybody in an account sees the same on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) account: AccountId,
    /// Only clusters of these users.
    pub(super) users: Option<Vec<UserId>>,
    /// The age that was asked for, in the client's words: it is meant from now on each time.
    pub(super) since: Option<String>,
    pub(super) slice: Slice,
}

/// A page that is being read, or was.
struct Reading {
    begun: Instant,
    page: JoinHandle<Option<Page>>,
}

impl Reading {
    fn is_fresh(&self) -> bool {
        self.begun.elapsed() <= AT_MOST
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.page.abort();
    }
}

/// The pages that are likely to be asked for next.
pub(in crate::http) struct Ahead {
    /// How long reading one may take.
    patience: Duration,
    pages: Mutex<LruCache<Wanted, Reading>>,
}

impl Ahead {
    pub(in crate::http) fn new(patience: Duration) -> Self {
        Self { patience, pages: Mutex::new(LruCache::new(PAGES)) }
    }

    /// Begins to read a page, if it was not begun lately.
    pub(super) fn begin(
        &self,
        wanted: Wanted,
        read: impl Future<Output = Result<Page, Problem>> + Send + 'static,
    ) {
        let mut pages = self.pages();
        if pages.peek(&wanted).is_some_and(Reading::is_fresh) {
            return;
        }
        let read = timeout(self.patience, read);
        // Whoever asks for one that could not be read reads it again, and is told why not.
        let page = tokio::spawn(async { read.await.ok()?.ok() });
        pages.push(wanted, Reading { begun: Instant::now(), page });
    }

    /// A page, if it was begun and is not too old.
    pub(super) async fn take(&self, wanted: &Wanted) -> Option<Page> {
        let known = self.pages().pop(wanted);
        let mut known = known.filter(Reading::is_fresh)?;
        (&mut known.page).await.ok()?
    }

    fn pages(&self) -> MutexGuard<'_, LruCache<Wanted, Reading>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
