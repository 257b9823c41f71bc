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

/// The maximum number of clusters for which a subscriber keeps notices. Beyond it, a gap is reported.
const MAX_CLUSTERS: usize = 5_000;

/// The bus within one process.
#[derive(Clone, Debug, Default)]
pub struct InProcess(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The number of subscribers. With none, publishing reads only this counter.
    subscriber_count: AtomicUsize,
    subscribers: RwLock<HashMap<AccountId, Vec<Arc<Subscriber>>>>,
    /// Notified when an account gets its first subscriber or loses its last one.
    accounts_changed: Notify,
}

/// A subscriber to the changes of an account, with the notices that it has not read yet.
#[derive(Debug)]
struct Subscriber {
    kinds: ChangeKinds,
    unread: Mutex<UnreadChanges>,
    /// Notified when a change is added to `unread`.
    change_added: Notify,
}

/// The changes that a subscriber has not read yet.
#[derive(Debug, Default)]
struct UnreadChanges {
    clusters: BTreeMap<ClusterId, Notice>,
    gap: bool,
    account: ChangeKinds,
}

/// A subscription to an account's changes. It ends when it is dropped.
#[derive(Debug)]
pub struct BusSubscription {
    bus: InProcess,
    account: AccountId,
    subscriber: Arc<Subscriber>,
}

impl InProcess {
    /// Reports a gap to all subscribers of an account.
    pub(super) fn publish_gap(&self, account: AccountId) {
        self.notify_subscribers(account, |_| true, |unread| unread.gap = true);
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
        self.0.accounts_changed.notified().await;
    }

    fn notify_subscribers(
        &self,
        account: AccountId,
        is_concerned: impl Fn(&Subscriber) -> bool,
        update: impl Fn(&mut UnreadChanges),
    ) {
        if self.0.subscriber_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        for subscriber in
            subscribers.get(&account).into_iter().flatten().filter(|subscriber| is_concerned(subscriber))
        {
            update(&mut subscriber.lock_unread());
            subscriber.change_added.notify_one();
        }
    }
}

impl Bus for InProcess {
    fn publish(&self, account: AccountId, notice: Notice) {
        self.notify_subscribers(
            account,
            |subscriber| subscriber.kinds.intersects(notice.changed),
            |unread| unread.add(notice),
        );
    }

    fn publish_account(&self, account: AccountId, changed: ChangeKinds) {
        // The messages of other servers mostly describe clusters only, and have no changes of the account.
        if changed == ChangeKinds::NOTHING {
            return;
        }
        self.notify_subscribers(
            account,
            |subscriber| subscriber.kinds.intersects(changed),
            |unread| unread.account = unread.account | changed,
        );
    }

    fn subscribe(&self, account: AccountId, kinds: ChangeKinds) -> BusSubscription {
        let subscriber =
            Arc::new(Subscriber { kinds, unread: Mutex::default(), change_added: Notify::new() });
        let mut subscribers = self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        let account_subscribers = subscribers.entry(account).or_default();
        account_subscribers.push(Arc::clone(&subscriber));
        self.0.subscriber_count.fetch_add(1, Ordering::Release);
        if account_subscribers.len() == 1 {
            self.0.accounts_changed.notify_one();
        }
        BusSubscription { bus: self.clone(), account, subscriber }
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
    fn lock_unread(&self) -> MutexGuard<'_, UnreadChanges> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnreadChanges {
    fn add(&mut self, notice: Notice) {
        if let Some(unread_notice) = self.clusters.get_mut(&notice.cluster) {
            *unread_notice = unread_notice.merge(notice);
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
    /// Waits for changes, and returns those since the last call.
    pub async fn next_changes(&mut self) -> Changes {
        loop {
            {
                let mut unread = self.subscriber.lock_unread();
                if !unread.is_empty() {
                    let UnreadChanges { clusters, gap, account } = mem::take(&mut *unread);
                    return Changes { clusters: clusters.into_values().collect(), gap, account };
                }
            }
            self.subscriber.change_added.notified().await;
        }
    }
}

impl Drop for BusSubscription {
    fn drop(&mut self) {
        let inner = &self.bus.0;
        let mut subscribers = inner.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(account_subscribers) = subscribers.get_mut(&self.account) {
            account_subscribers.retain(|subscriber| !Arc::ptr_eq(subscriber, &self.subscriber));
            if account_subscribers.is_empty() {
                subscribers.remove(&self.account);
                inner.accounts_changed.notify_one();
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
        Notice {
            cluster: ClusterId(cluster),
            changed,
            arrival,
            previous_arrival: arrival - 1,
            oldest_item_ms: None,
        }
    }

    #[tokio::test]
    async fn a_cluster_has_one_notice_however_often_it_changes() {
        let bus = InProcess::default();
        bus.publish(ADA, notice(1, ChangeKinds::STATE, 1));
        let mut watch = bus.subscribe(ADA, ChangeKinds::STATE | ChangeKinds::LOGS);
        let mut other = bus.subscribe(BOB, ChangeKinds::STATE);
        bus.publish(ADA, Notice { oldest_item_ms: Some(7), ..notice(1, ChangeKinds::LOGS, 3) });
        bus.publish(ADA, Notice { oldest_item_ms: Some(5), ..notice(1, ChangeKinds::STATE, 2) });
        bus.publish(ADA, notice(2, ChangeKinds::ERRORS, 4));
        let both = Notice {
            oldest_item_ms: Some(5),
            previous_arrival: 1,
            ..notice(1, ChangeKinds::STATE | ChangeKinds::LOGS, 3)
        };
        assert_eq!(watch.next_changes().await, Changes { clusters: vec![both], ..Changes::default() });
        assert_eq!(watch.next_changes().now_or_never(), None);
        assert_eq!(other.next_changes().now_or_never(), None);
        drop((watch, other));
        assert_eq!((bus.accounts(), bus.0.subscriber_count.load(Ordering::Acquire)), (vec![], 0));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_a_gap() {
        let bus = InProcess::default();
        let mut watch = bus.subscribe(ADA, ChangeKinds::STATE);
        for cluster in 0..=i64::try_from(MAX_CLUSTERS).expect("it is small") {
            bus.publish(ADA, notice(cluster, ChangeKinds::STATE, 1));
        }
        let changes = watch.next_changes().await;
        assert_eq!((changes.clusters.len(), changes.gap), (MAX_CLUSTERS, true));
        bus.publish_gap(ADA);
        assert_eq!(watch.next_changes().await, Changes { gap: true, ..Changes::default() });
    }

    #[tokio::test]
    async fn a_change_of_an_account_is_told_to_those_who_asked_for_its_kind() {
        let bus = InProcess::default();
        let (mut access, mut alerts) =
            (bus.subscribe(ADA, ChangeKinds::ACCESS), bus.subscribe(ADA, ChangeKinds::ALERTS));
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
