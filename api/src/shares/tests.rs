use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use entity::ids::{AccountId, ApiTokenId, UserId};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{turns::MAX_WAITING, *};

/// The only token of a user, who has the same number.
fn holder(account: u128, token: u128) -> Holder {
    token_of(account, token, token)
}

fn token_of(account: u128, user: u128, token: u128) -> Holder {
    let (user, token) = (UserId(Uuid::from_u128(user)), ApiTokenId(Uuid::from_u128(token)));
    Holder::signed_in(AccountId(Uuid::from_u128(account)), GroupMember::Token(user, token))
}

fn session_of(account: u128, user: u128) -> Holder {
    Holder::signed_in(AccountId(Uuid::from_u128(account)), GroupMember::User(UserId(Uuid::from_u128(user))))
}

fn create_slots(total: usize) -> Slots {
    FairShares::default().slots("test", total)
}

/// Takes all slots that a holder can get.
fn take_all(slots: &Slots, holder: Holder) -> Vec<HeldSlot> {
    std::iter::from_fn(|| slots.try_take(holder).ok()).collect()
}

#[test]
fn one_holder_leaves_half_and_an_account_a_fifth() {
    let slots = create_slots(12);
    let ada = take_all(&slots, holder(1, 1));
    assert_eq!(ada.len(), 6);
    let colleague = take_all(&slots, holder(1, 2));
    assert_eq!(colleague.len(), 3, "half of what is left");
    let bob = take_all(&slots, holder(2, 3));
    assert_eq!(bob.len(), 2);
    let others: Vec<_> = (4..).map_while(|token| slots.try_take(holder(token, token)).ok()).collect();
    assert_eq!((others.len(), slots.is_full()), (1, true), "who holds nothing gets what is left");
    drop((ada, others));
    assert_eq!(take_all(&slots, holder(2, 3)).len(), 3, "five of nine that are held or free");
}

#[test]
fn tokens_of_a_user_leave_slots_to_their_sessions_their_colleagues_and_other_accounts() {
    let slots = create_slots(12);
    let tokens: Vec<_> = (1..9).flat_map(|token| take_all(&slots, token_of(1, 1, token))).collect();
    assert_eq!(tokens.len(), 8, "two thirds");
    let session = take_all(&slots, session_of(1, 1));
    let colleague = take_all(&slots, session_of(1, 2));
    let other = take_all(&slots, session_of(2, 3));
    assert_eq!((session.len(), colleague.len(), other.len()), (1, 1, 1));
    assert!(slots.try_take(session_of(1, 4)).is_err(), "the last one is for an account without any");
    assert!(slots.try_take(session_of(3, 5)).is_ok());
}

#[tokio::test]
async fn users_of_an_account_have_their_turn_however_many_tokens_a_colleague_has() {
    let slots = create_slots(1);
    let held = slots.try_take(holder(9, 9)).expect("a slot");
    let (mut tasks, mut order) = (JoinSet::new(), Vec::new());
    let waiting =
        [token_of(1, 1, 1), token_of(1, 1, 2), token_of(1, 1, 3), session_of(1, 1), session_of(1, 2)];
    for (number, holder) in waiting.into_iter().enumerate() {
        let slots = slots.clone();
        tasks.spawn(async move {
            let slot = slots.take(holder, Duration::from_mins(1)).await;
            slot.map(|slot| (slot, number))
        });
        tokio::task::yield_now().await;
    }
    drop(held);
    while let Some(taken) = tasks.join_next().await {
        let (_slot, number) = taken.expect("no panic").expect("a slot");
        order.push(number);
    }
    assert_eq!(order, [0, 4, 3, 1, 2], "the colleague second, and the session before the other tokens");
}

#[test]
fn a_place_is_free_again_when_it_is_dropped_and_may_be_handed_on() {
    let slots = create_slots(8);
    let mut first = slots.try_take(Holder::for_unauthenticated([192, 0, 2, 1].into(), 7)).expect("a slot");
    let ada = take_all(&slots, holder(1, 1));
    assert_eq!(ada.len(), 4);
    assert_eq!(first.transfer_to(holder(1, 1)), Err(Refused), "it would be one too many");
    assert_eq!(first.transfer_to(holder(2, 2)), Ok(()));
    drop((first, ada));
    assert_eq!(take_all(&slots, holder(3, 3)).len(), 4);
}

#[test]
fn of_few_places_one_may_hold_all() {
    for total in 1..MIN_SHARED_SLOTS {
        assert_eq!(take_all(&create_slots(total), holder(1, 1)).len(), total);
    }
}

#[test]
fn work_leaves_processors_to_those_who_were_active_lately() {
    let slots = FairShares::default().work_slots("test", 12, 2);
    // The server's own work for another account is no activity of it.
    drop(slots.try_take(Holder::server(AccountId(Uuid::from_u128(3)))));
    assert_eq!(take_all(&slots, holder(1, 1)).len(), 6, "alone it has its half");
    drop(slots.try_take(holder(1, 2)));
    let ada = take_all(&slots, holder(1, 1));
    let colleagues: Vec<_> = (2..5).flat_map(|token| take_all(&slots, holder(1, token))).collect();
    assert_eq!(
        (ada.len(), colleagues.len()),
        (2, 6),
        "two each, and eight of twelve of an account that is alone"
    );
    drop((ada, colleagues));
    drop(slots.try_take(holder(2, 9)));
    let ada = take_all(&slots, holder(1, 1));
    let colleagues: Vec<_> = (2..5).flat_map(|token| take_all(&slots, holder(1, token))).collect();
    assert_eq!((ada.len(), colleagues.len()), (2, 2), "four of an account beside another one");
    assert_eq!(take_all(&slots, holder(2, 9)).len(), 2);
}

#[test]
fn activity_ends_after_a_while() {
    let (mut activity, begin) = (Activity::default(), Instant::now());
    let after = |seconds| begin + Duration::from_secs(seconds);
    assert!(!activity.includes_others('a', begin));
    activity.record('a', begin);
    activity.record('a', after(1));
    assert!(!activity.includes_others('a', after(1)) && activity.includes_others('b', after(10)));
    activity.record('b', after(5));
    activity.record('b', after(6));
    assert!(activity.includes_others('a', after(15)) && !activity.includes_others('a', after(16)));
    assert!(activity.includes_others('b', after(10)) && !activity.includes_others('b', after(11)));
}

#[tokio::test]
async fn accounts_have_their_turn_and_then_their_tokens() {
    let slots = create_slots(1);
    let held = slots.try_take(holder(9, 9)).expect("a slot");
    let (mut tasks, mut order) = (JoinSet::new(), Vec::new());
    for (account, token) in [(1, 1), (1, 1), (1, 1), (1, 2), (2, 3), (3, 4)] {
        let slots = slots.clone();
        tasks.spawn(async move {
            let slot = slots.take(holder(account, token), Duration::from_mins(1)).await;
            slot.map(|slot| (slot, account, token))
        });
        tokio::task::yield_now().await;
    }
    drop(held);
    while let Some(taken) = tasks.join_next().await {
        let (_slot, account, token) = taken.expect("no panic").expect("a slot");
        order.push((account, token));
    }
    assert_eq!(order, [(1, 1), (2, 3), (3, 4), (1, 2), (1, 1), (1, 1)]);
}

#[tokio::test]
async fn who_waits_too_long_or_too_often_is_refused_and_loses_nothing() {
    let slots = create_slots(1);
    let held = slots.try_take(holder(1, 1)).expect("a slot");
    let patience = Duration::from_millis(5);
    assert_eq!(slots.take(holder(2, 2), patience).await.err(), Some(Refused));
    let mut waiting = Vec::new();
    for _ in 0..MAX_WAITING {
        let mut request = Box::pin(slots.take(holder(2, 2), Duration::from_mins(1)));
        assert!(futures::poll!(&mut request).is_pending());
        waiting.push(request);
    }
    assert_eq!(slots.take(holder(2, 2), patience).await.err(), Some(Refused), "too many wait");
    let mut other = Box::pin(slots.take(holder(3, 3), patience));
    assert!(futures::poll!(&mut other).is_pending(), "of another holder none does");
    drop((waiting, other));
    drop(held);
    assert!(slots.try_take(holder(3, 3)).is_ok(), "those who left hold nothing");
}

#[tokio::test]
async fn a_connection_that_waits_gives_way_to_those_of_others() {
    let connections = FairShares::default().connections("test", 8);
    let (crowd, alone) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    let mut first = connections.admit(crowd, true).await;
    let answering = first.mark_busy();
    let mut waiting = Vec::new();
    for _ in 0..7 {
        waiting.push(connections.admit(crowd, true).await);
    }
    // One slot is left, and at least three times as many connections wait: the oldest waiting one
    // closes, and the busy one does not.
    let ends = tokio::time::timeout(Duration::from_millis(50), waiting[0].wait_for_eviction());
    assert!(ends.await.is_ok());
    assert!(tokio::time::timeout(Duration::from_millis(50), first.wait_for_eviction()).await.is_err());
    waiting.remove(0);
    drop(connections.admit(alone, true).await);
    drop(answering);
    first = connections.admit(crowd, true).await;
    drop((first, waiting));
    assert!(tokio::time::timeout(Duration::from_secs(1), connections.all_ended()).await.is_ok());
}

#[tokio::test]
async fn where_all_are_taken_the_one_that_waited_longest_gives_way_after_a_while() {
    let connections = FairShares::default().connections("test", 2);
    let proxy = IpAddr::from([192, 0, 2, 1]);
    let (oldest, busy) = (connections.admit(proxy, false).await, connections.admit(proxy, false).await);
    let _answering = busy.mark_busy();
    let began = Instant::now();
    let ending = async move {
        oldest.wait_for_eviction().await;
        began.elapsed()
    };
    let (after, _third) = tokio::join!(ending, connections.admit(proxy, false));
    assert!(after >= Duration::from_millis(950) && after < Duration::from_secs(20), "{after:?}");
}

/// An address of a network, by its last byte.
fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// Takes a slot for an unverified request that waits for its client.
fn waiting_request(slots: &UnverifiedSlots, last: u8) -> UnverifiedSlot {
    let slot = slots.try_take(address(last)).expect("a slot");
    slot.begin_wait();
    slot
}

#[test]
fn unverified_requests_that_wait_give_way_to_those_of_their_address() {
    let slots = FairShares::default().unverified("test", 8);
    let crowd: Vec<_> = (0..6).map(|_| waiting_request(&slots, 1)).collect();
    // An address leaves a fourth of the slots. The server works for the first one.
    crowd[0].end_wait();
    let working = slots.try_take(address(1)).expect("another one gives way");
    let evicted: Vec<bool> = crowd.iter().map(UnverifiedSlot::is_evicted).collect();
    assert_eq!(evicted, [false, true, false, false, false, false]);
    // A request that received a part of its body is as old as before, and gives way before the others.
    crowd[2].end_wait();
    crowd[2].begin_wait();
    let newer = waiting_request(&slots, 1);
    assert!(crowd[2].is_evicted() && !crowd[3].is_evicted());
    // Where the server works for all of them, none gives way.
    for slot in &crowd[3..] {
        slot.end_wait();
    }
    drop(newer);
    let last = slots.try_take(address(1)).expect("a slot is free");
    assert_eq!(slots.try_take(address(1)).err(), Some(Refused));
    drop((crowd, working, last));
    let again: Vec<_> = (0..8).map_while(|_| slots.try_take(address(1)).ok()).collect();
    assert_eq!(again.len(), 6, "all were returned");
}

#[test]
fn without_a_free_slot_the_oldest_of_all_gives_way_to_an_address_that_holds_none() {
    let slots = FairShares::default().unverified("test", 4);
    let crowd: Vec<_> = (0..3).map(|_| waiting_request(&slots, 1)).collect();
    let other = waiting_request(&slots, 2);
    let third = waiting_request(&slots, 3);
    assert!(crowd[0].is_evicted() && !other.is_evicted() && !third.is_evicted());
    // One that holds slots takes no slot of others.
    let _again = waiting_request(&slots, 2);
    assert!(other.is_evicted() && !crowd[1].is_evicted() && !third.is_evicted());
}

#[tokio::test]
async fn the_work_of_an_unverified_request_ends_when_it_gives_way_and_goes_on_when_it_is_verified() {
    let shares = FairShares::default();
    let (slots, requests) = (shares.unverified("test", 4), shares.slots("verified", 4));
    let work = || {
        let slot = slots.try_take(address(1)).expect("a slot");
        let stranger = Holder::for_unauthenticated(address(1), 1);
        RequestWork::new(
            RequestSlot::Unverified(slot, stranger),
            requests.clone(),
            shares.slots("threads", 1),
        )
    };
    let (waiting, verified) = (work(), work());
    let waits = (waiting.wait_for_client(), verified.wait_for_client());
    assert_eq!(verified.transfer_to(holder(1, 1)), Ok(()));
    let ended = Arc::clone(&waiting).run_future(std::future::pending::<()>());
    let goes_on = Arc::clone(&verified).run_future(tokio::time::sleep(Duration::from_millis(50)));
    // Two more fit beside the first, and a third one is too much.
    let others = [work(), work(), work()];
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), ended).await, Ok(None));
    assert_eq!(goes_on.await, Some(()));
    assert!(verified.is_verified() && !others[0].is_verified());
    drop(waits);
}

/// Allowed bounds without shares: the file, the construct, the number of occurrences, and the reason.
const EXCEPTIONS: [(&str, &str, usize, &str); 9] = [
    ("blocking_work.rs", "spawn_blocking", 1, "its callers acquire a thread slot right before"),
    (
        "blocking_work.rs",
        "thread::Builder",
        1,
        "for callers that hold a slot, such as one for the hash of a password",
    ),
    ("blocking_work.rs", "oneshot::channel", 1, "the result of that thread, for which only its caller waits"),
    ("telemetry/traces.rs", "spawn_blocking", 1, "once, when the server stops"),
    (
        "app/alert_delivery.rs",
        "buffer_unordered(",
        1,
        "the messages that a job sends at a time, of those due in the store",
    ),
    (
        "http/graphql/socket/connection.rs",
        "mpsc::channel",
        1,
        "the queue of one socket, which nobody else waits for",
    ),
    (
        "store/core/connect.rs",
        ".max_connections(",
        3,
        "the pools, whose users acquire a slot before; migrations",
    ),
    (
        "store/maintenance/backup.rs",
        ".max_connections(",
        1,
        "a command of the operator, which runs in its own process",
    ),
    ("shares/turns.rs", "oneshot::channel", 1, "grants a slot to a waiting request"),
];

/// The constructs that bound a resource or make callers wait for it.
const BOUNDS: [&str; 11] = [
    "Semaphore",
    "mpsc::channel",
    "mpsc::sync_channel",
    "mpsc::unbounded_channel",
    "broadcast::channel",
    "oneshot::channel",
    "spawn_blocking",
    ".max_connections(",
    "buffer_unordered(",
    "concurrency_limit",
    "thread::Builder",
];

#[test]
fn nothing_is_bounded_without_shares_or_a_reason() {
    let mut found: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in files_below(&sources) {
        let name = file.strip_prefix(&sources).expect("it lies below").to_string_lossy().replace('\\', "/");
        if name == "shares/tests.rs" {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for bound in BOUNDS.into_iter().filter(|bound| line.contains(bound)) {
                *found.entry((name.clone(), bound)).or_default() += 1;
            }
        }
    }
    let excepted: BTreeMap<(String, &str), usize> =
        EXCEPTIONS.into_iter().map(|(file, bound, times, _)| ((file.to_owned(), bound), times)).collect();
    assert_eq!(found, excepted, "grant it by shares::Slots, or give the reason in EXCEPTIONS");
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = directories.iter().flat_map(|directory| files_below(directory));
    below
        .chain(files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")))
        .collect()
}
