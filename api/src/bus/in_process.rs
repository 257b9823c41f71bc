//! The subscribers within one process.

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

use super::{Bus, ChangeKinds, Changes, Notice};

/// The limit of clusters for which a subscriber keeps notices. More are reported as a gap.
const MAX_CLUSTERS: usize = 5_000;

/// The bus of one process.
#[derive(Clone, Debug, Default)]
pub struct InProcess(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The number of subscribers. With none, publishing reads only this counter.
    subscriber_count: AtomicUsize,
    subscribers: RwLock<HashMap<AccountId, Vec<Arc<Subscriber>>>>,
    /// Notified when an account gets its first subscriber or loses its last one.
    accounts: Notify,
}

/// The notices that a subscriber has received and not taken yet.
#[derive(Debug)]
struct Subscriber {
    what: ChangeKinds,
    heard: Mutex<Pending>,
    called: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    clusters: BTreeMap<ClusterId, Notice>,
    gap: bool,
    account: ChangeKinds,
}

/// A subscription to an account's changes. It ends when it is dropped.
#[derive(Debug)]
pub struct BusSubscription {
    bus: InProcess,
    account: AccountId,
    ear: Arc<Subscriber>,
}

impl InProcess {
    /// Reports a gap to all subscribers of an account.
    pub(super) fn publish_gap(&self, account: AccountId) {
        self.notify_subscribers(account, |_| true, |pending| pending.gap = true);
    }

    /// Reports a gap to all subscribers of each account.
    pub(super) fn publish_gaps<'a>(&self, accounts: impl IntoIterator<Item = &'a AccountId>) {
        for account in accounts {
            self.publish_gap(*account);
        }
    }

    /// Returns the accounts that have a subscriber.
    pub(super) fn accounts(&self) -> Vec<AccountId> {
        self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Waits until the set of accounts with a subscriber changes.
    pub(super) async fn accounts_changed(&self) {
        self.0.accounts.notified().await;
    }

    fn notify_subscribers(
        &self,
        account: AccountId,
        whom: impl Fn(&Subscriber) -> bool,
        what: impl Fn(&mut Pending),
    ) {
        if self.0.subscriber_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let ears = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        for ear in ears.get(&account).into_iter().flatten().filter(|ear| whom(ear)) {
            what(&mut ear.next_changes());
            ear.called.notify_one();
        }
    }
}

impl Bus for InProcess {
    fn publish(&self, account: AccountId, notice: Notice) {
        self.notify_subscribers(
            account,
            |ear| ear.what.intersects(notice.changed),
            |pending| pending.add(notice),
        );
    }

    fn publish_account(&self, account: AccountId, changed: ChangeKinds) {
        // Most messages of other servers are about clusters alone.
        if changed == ChangeKinds::NOTHING {
            return;
        }
        self.notify_subscribers(
            account,
            |ear| ear.what.intersects(changed),
            |pending| pending.account = pending.account | changed,
        );
    }

    fn watch(&self, account: AccountId, what: ChangeKinds) -> BusSubscription {
        let ear = Arc::new(Subscriber { what, heard: Mutex::default(), called: Notify::new() });
        let mut ears = self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        let of_account = ears.entry(account).or_default();
        of_account.push(Arc::clone(&ear));
        self.0.subscriber_count.fetch_add(1, Ordering::Release);
        if of_account.len() == 1 {
            self.0.accounts.notify_one();
        }
        BusSubscription { bus: self.clone(), account, ear }
    }

    fn force_resync(&self, account: AccountId) {
        self.publish_gap(account);
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

impl Subscriber {
    fn next_changes(&self) -> MutexGuard<'_, Pending> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn add(&mut self, notice: Notice) {
        if let Some(known) = self.clusters.get_mut(&notice.cluster) {
            *known = known.merge(notice);
        } else if self.clusters.len() < MAX_CLUSTERS {
            self.clusters.insert(notice.cluster, notice);
        } else {
            self.gap = true;
        }
    }

    fn is_empty(&self) -> bool {
        self.clusters.is_empty() && !self.gap && self.account == ChangeKinds::NOTHING
    }
}

impl BusSubscription {
    /// Waits for changes, and returns all since the last call.
    pub async fn next_changes(&mut self) -> Changes {
        loop {
            {
                let mut pending = self.ear.next_changes();
                if !pending.is_empty() {
                    let Pending { clusters, gap, account } = mem::take(&mut *pending);
                    return Changes { clusters: clusters.into_values().collect(), gap, account };
                }
            }
            self.ear.called.notified().await;
        }
    }
}

impl Drop for BusSubscription {
    fn drop(&mut self) {
        let inner = &self.bus.0;
        let mut ears = inner.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_account) = ears.get_mut(&self.account) {
            of_account.retain(|ear| !Arc::ptr_eq(ear, &self.ear));
            if of_account.is_empty() {
                ears.remove(&self.account);
                inner.accounts.notify_one();
            }
        }
        inner.subscriber_count.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use uuid::Uuid;

    use super::*;

    const ADA: AccountId = AccountId(Uuid::from_u128(1));
    const BOB: AccountId = AccountId(Uuid::from_u128(2));

    fn notice(cluster: i64, changed: ChangeKinds, arrival: i64) -> Notice {
        Notice { cluster: ClusterId(cluster), changed, arrival, after: arrival - 1, since: None }
    }

    #[tokio::test]
    async fn a_cluster_has_one_notice_however_often_it_changes() {
        let bus = InProcess::default();
        bus.publish(ADA, notice(1, ChangeKinds::STATE, 1));
        let mut watch = bus.watch(ADA, ChangeKinds::STATE | ChangeKinds::LOGS);
        let mut other = bus.watch(BOB, ChangeKinds::STATE);
        bus.publish(ADA, Notice { since: Some(7), ..notice(1, ChangeKinds::LOGS, 3) });
        bus.publish(ADA, Notice { since: Some(5), ..notice(1, ChangeKinds::STATE, 2) });
        bus.publish(ADA, notice(2, ChangeKinds::ERRORS, 4));
        let both =
            Notice { since: Some(5), after: 1, ..notice(1, ChangeKinds::STATE | ChangeKinds::LOGS, 3) };
        assert_eq!(watch.next_changes().await, Changes { clusters: vec![both], ..Changes::default() });
        assert_eq!(watch.next_changes().now_or_never(), None);
        assert_eq!(other.next_changes().now_or_never(), None);
        drop((watch, other));
        assert_eq!((bus.accounts(), bus.0.subscriber_count.load(Ordering::Acquire)), (vec![], 0));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_a_gap() {
        let bus = InProcess::default();
        let mut watch = bus.watch(ADA, ChangeKinds::STATE);
        for cluster in 0..=i64::try_from(MAX_CLUSTERS).expect("it is small") {
            bus.publish(ADA, notice(cluster, ChangeKinds::STATE, 1));
        }
        let heard = watch.next_changes().await;
        assert_eq!((heard.clusters.len(), heard.gap), (MAX_CLUSTERS, true));
        bus.publish_gap(ADA);
        assert_eq!(watch.next_changes().await, Changes { gap: true, ..Changes::default() });
    }

    #[tokio::test]
    async fn a_change_of_an_account_is_told_to_those_who_asked_for_its_kind() {
        let bus = InProcess::default();
        let (mut access, mut alerts) =
            (bus.watch(ADA, ChangeKinds::ACCESS), bus.watch(ADA, ChangeKinds::ALERTS));
        bus.publish_account(ADA, ChangeKinds::ACCESS);
        assert_eq!(
            access.next_changes().await,
            Changes { account: ChangeKinds::ACCESS, ..Changes::default() }
        );
        assert_eq!(alerts.next_changes().now_or_never(), None);
        bus.publish_account(BOB, ChangeKinds::ALERTS);
        assert_eq!(alerts.next_changes().now_or_never(), None);
    }
}
