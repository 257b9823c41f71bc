//! Those who watch in this process.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use entity::ids::{AccountId, ClusterId};
use futures::future::{BoxFuture, ready};
use tokio::sync::Notify;

use super::{Bus, Changed, Heard, Notice};

/// Clusters that an ear keeps notices of. More are a gap.
const MAX_CLUSTERS: usize = 5_000;

/// The bus of one process.
#[derive(Clone, Debug, Default)]
pub struct InProcess(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// How many watch, so that whoever publishes for nobody looks at nothing else.
    watching: AtomicUsize,
    ears: RwLock<HashMap<AccountId, Vec<Arc<Ear>>>>,
    /// Told whenever the first watches an account, or the last leaves it.
    accounts: Notify,
}

/// What somebody who watches has heard and not yet taken.
#[derive(Debug)]
struct Ear {
    what: Changed,
    heard: Mutex<Pending>,
    called: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    clusters: BTreeMap<ClusterId, Notice>,
    gap: bool,
    access: bool,
}

/// Somebody who watches an account, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    bus: InProcess,
    account: AccountId,
    ear: Arc<Ear>,
}

impl InProcess {
    /// Tells everybody who watches an account that something may have changed of which nothing was heard.
    pub(super) fn publish_gap(&self, account: AccountId) {
        self.tell(account, |_| true, |pending| pending.gap = true);
    }

    /// The same for some accounts.
    pub(super) fn publish_gaps<'a>(&self, accounts: impl IntoIterator<Item = &'a AccountId>) {
        for account in accounts {
            self.publish_gap(*account);
        }
    }

    /// The accounts that somebody watches.
    pub(super) fn accounts(&self) -> Vec<AccountId> {
        self.0.ears.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Over when the accounts that somebody watches are others.
    pub(super) async fn accounts_changed(&self) {
        self.0.accounts.notified().await;
    }

    fn tell(&self, account: AccountId, whom: impl Fn(&Ear) -> bool, what: impl Fn(&mut Pending)) {
        if self.0.watching.load(Ordering::Acquire) == 0 {
            return;
        }
        let ears = self.0.ears.read().unwrap_or_else(PoisonError::into_inner);
        for ear in ears.get(&account).into_iter().flatten().filter(|ear| whom(ear)) {
            what(&mut ear.heard());
            ear.called.notify_one();
        }
    }
}

impl Bus for InProcess {
    fn publish(&self, account: AccountId, notice: Notice) {
        self.tell(account, |ear| ear.what.meets(notice.changed), |pending| pending.add(notice));
    }

    fn publish_access(&self, account: AccountId) {
        self.tell(account, |ear| ear.what.meets(Changed::ACCESS), |pending| pending.access = true);
    }

    fn watch(&self, account: AccountId, what: Changed) -> Watch {
        let ear = Arc::new(Ear { what, heard: Mutex::default(), called: Notify::new() });
        let mut ears = self.0.ears.write().unwrap_or_else(PoisonError::into_inner);
        let of_account = ears.entry(account).or_default();
        of_account.push(Arc::clone(&ear));
        self.0.watching.fetch_add(1, Ordering::Release);
        if of_account.len() == 1 {
            self.0.accounts.notify_one();
        }
        Watch { bus: self.clone(), account, ear }
    }

    fn look_again(&self, account: AccountId) {
        self.publish_gap(account);
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

impl Ear {
    fn heard(&self) -> MutexGuard<'_, Pending> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn add(&mut self, notice: Notice) {
        if let Some(known) = self.clusters.get_mut(&notice.cluster) {
            *known = known.with(notice);
        } else if self.clusters.len() < MAX_CLUSTERS {
            self.clusters.insert(notice.cluster, notice);
        } else {
            self.gap = true;
        }
    }

    fn is_empty(&self) -> bool {
        self.clusters.is_empty() && !self.gap && !self.access
    }
}

impl Watch {
    /// What was heard since the last time: waits until there is something.
    pub async fn heard(&mut self) -> Heard {
        loop {
            {
                let mut pending = self.ear.heard();
                if !pending.is_empty() {
                    let Pending { clusters, gap, access } = mem::take(&mut *pending);
                    return Heard { clusters: clusters.into_values().collect(), gap, access };
                }
            }
            self.ear.called.notified().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let inner = &self.bus.0;
        let mut ears = inner.ears.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_account) = ears.get_mut(&self.account) {
            of_account.retain(|ear| !Arc::ptr_eq(ear, &self.ear));
            if of_account.is_empty() {
                ears.remove(&self.account);
                inner.accounts.notify_one();
            }
        }
        inner.watching.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use uuid::Uuid;

    use super::*;

    const ADA: AccountId = AccountId(Uuid::from_u128(1));
    const BOB: AccountId = AccountId(Uuid::from_u128(2));

    fn notice(cluster: i64, changed: Changed, arrival: i64) -> Notice {
        Notice { cluster: ClusterId(cluster), changed, arrival, after: arrival - 1, since: None }
    }

    #[tokio::test]
    async fn a_cluster_has_one_notice_however_often_it_changes() {
        let bus = InProcess::default();
        bus.publish(ADA, notice(1, Changed::FIGURES, 1));
        let mut watch = bus.watch(ADA, Changed::FIGURES | Changed::LOGS);
        let mut other = bus.watch(BOB, Changed::FIGURES);
        bus.publish(ADA, Notice { since: Some(7), ..notice(1, Changed::LOGS, 3) });
        bus.publish(ADA, Notice { since: Some(5), ..notice(1, Changed::FIGURES, 2) });
        bus.publish(ADA, notice(2, Changed::ERRORS, 4));
        let both = Notice { since: Some(5), after: 1, ..notice(1, Changed::FIGURES | Changed::LOGS, 3) };
        assert_eq!(watch.heard().await, Heard { clusters: vec![both], ..Heard::default() });
        assert_eq!(watch.heard().now_or_never(), None);
        assert_eq!(other.heard().now_or_never(), None);
        drop((watch, other));
        assert_eq!((bus.accounts(), bus.0.watching.load(Ordering::Acquire)), (vec![], 0));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_a_gap() {
        let bus = InProcess::default();
        let mut watch = bus.watch(ADA, Changed::FIGURES);
        for cluster in 0..=i64::try_from(MAX_CLUSTERS).expect("it is small") {
            bus.publish(ADA, notice(cluster, Changed::FIGURES, 1));
        }
        let heard = watch.heard().await;
        assert_eq!((heard.clusters.len(), heard.gap), (MAX_CLUSTERS, true));
        bus.publish_gap(ADA);
        assert_eq!(watch.heard().await, Heard { gap: true, ..Heard::default() });
    }

    #[tokio::test]
    async fn who_may_see_an_account_is_told_to_those_who_asked() {
        let bus = InProcess::default();
        let (mut access, mut figures) = (bus.watch(ADA, Changed::ACCESS), bus.watch(ADA, Changed::FIGURES));
        bus.publish_access(ADA);
        assert_eq!(access.heard().await, Heard { access: true, ..Heard::default() });
        assert_eq!(figures.heard().now_or_never(), None);
    }
}
