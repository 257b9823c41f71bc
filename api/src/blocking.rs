//! Work that takes long without waiting for anything.

/// Does `work` where requests that are answered meanwhile do not wait for it.
///
/// # Panics
/// When `work` does.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
