//! CPU-bound work outside the async runtime's worker threads.

use std::{
    cell::Cell,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use tokio::sync::oneshot;

use crate::shares::acquire_thread;

/// The nice value that a blocking thread adds to the server's own. A thread of the async runtime that wakes
/// up then runs at once, also when every processor is busy with long work.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

thread_local! {
    static HAS_LOW_PRIORITY: Cell<bool> = const { Cell::new(false) };
}

/// Returns the number of processors available to this process, at least one.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs `work` on a blocking thread, so that other requests do not wait for it. Waits for the request's
/// fair turn first.
///
/// # Panics
/// Panics if `work` does.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread_slot = acquire_thread().await;
    // The slot moves into the closure: the thread keeps working if the caller is dropped.
    let result = tokio::task::spawn_blocking(move || {
        lower_priority();
        (work(), thread_slot)
    })
    .await;
    result.unwrap_or_else(|panic| resume_unwind(panic.into_panic())).0
}

/// Runs `work` on a thread of its own, with the priority of the runtime. The caller must bound the amount of
/// such work. An example is the hash of a password, for which a user waits: with a low priority, it would
/// wait for the long work of other requests.
///
/// # Panics
/// Panics if `work` does, or if the system starts no thread.
pub(crate) async fn run_at_usual_priority<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = oneshot::channel();
    // The threads of tokio's pool keep the low priority once it is set.
    thread::Builder::new()
        .name("galvo-hash".to_owned())
        .spawn(move || {
            // Nobody receives the result if the caller was dropped.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
        })
        .expect("the system starts a thread");
    let result = receiver.await.expect("the thread sends a result, also of a panic");
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Lowers the priority of the current thread, once. Only Linux has a nice value by thread. A system that
/// refuses the change runs the work with the usual priority.
fn lower_priority() {
    if HAS_LOW_PRIORITY.replace(true) {
        return;
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[tokio::test]
    async fn long_work_has_a_lower_priority_than_the_runtime() {
        let nice = || getpriority_process(None).expect("the nice value of this thread");
        let usual = nice();
        for _ in 0..3 {
            assert_eq!(run_blocking(nice).await, (usual + NICENESS).min(19));
        }
        assert_eq!(nice(), usual);
    }

    #[tokio::test]
    async fn bounded_work_has_the_priority_of_the_runtime() {
        let nice = || getpriority_process(None).expect("the nice value of this thread");
        let usual = nice();
        run_blocking(|| ()).await;
        assert_eq!(run_at_usual_priority(nice).await, usual);
    }

    #[tokio::test]
    #[should_panic(expected = "of the work")]
    async fn a_panic_of_the_work_is_one_of_the_caller() {
        run_at_usual_priority(|| panic!("of the work")).await;
    }
}
