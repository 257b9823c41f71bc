//! The running operations of a socket. This module knows their identifiers, not their work.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::AbortHandle;

/// The limit of running operations on one socket.
pub(super) const MAX_OPERATIONS: usize = 200;

/// The size limit of their request messages together, in bytes: documents and variables are kept while
/// they run.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// The running operations of a socket.
#[derive(Default)]
pub(super) struct Operations(Mutex<Table>);

#[derive(Default)]
struct Table {
    running: HashMap<Box<str>, Running>,
    bytes: usize,
}

struct Running {
    operation: Arc<Operation>,
    /// The handle for aborting the task. None until the task is spawned.
    task: Option<AbortHandle>,
    bytes: usize,
}

/// A running operation.
pub(super) struct Operation {
    id: Box<str>,
    /// True after the client stopped the operation: its queued results are discarded too.
    is_stopped: AtomicBool,
}

/// The reason why an operation cannot start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LimitError {
    /// Another operation has this identifier.
    Taken,
    /// The socket has reached its limit of operations or of bytes.
    Full,
}

impl Operation {
    /// Returns the client's identifier of the operation.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns true unless the client has stopped the operation.
    pub(super) fn is_active(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed)
    }
}

impl Operations {
    /// Starts an operation whose request message has this many bytes.
    pub(super) fn start(&self, id: &str, bytes: usize) -> Result<Arc<Operation>, LimitError> {
        let Table { running, bytes: total_bytes } = &mut *self.table();
        let (count, new_total) = (running.len(), *total_bytes + bytes);
        let Entry::Vacant(entry) = running.entry(id.into()) else { return Err(LimitError::Taken) };
        if count >= MAX_OPERATIONS || new_total > MAX_BYTES {
            return Err(LimitError::Full);
        }
        let operation = Arc::new(Operation { id: entry.key().clone(), is_stopped: AtomicBool::default() });
        entry.insert(Running { operation: Arc::clone(&operation), task: None, bytes });
        *total_bytes = new_total;
        Ok(operation)
    }

    /// Records the task of an operation, unless the operation has already ended.
    pub(super) fn set_task(&self, operation: &Arc<Operation>, task: AbortHandle) {
        if let Some(running) = self.table().running.get_mut(&operation.id)
            && Arc::ptr_eq(&running.operation, operation)
        {
            running.task = Some(task);
        }
    }

    /// Ends a completed operation. Returns true if the client has to be notified, which is not the case
    /// after it stopped the operation itself. The identifier is then free, so a client may reuse it once
    /// it is notified.
    pub(super) fn end(&self, operation: &Arc<Operation>) -> bool {
        let mut table = self.table();
        let is_same = |running: &Running| Arc::ptr_eq(&running.operation, operation);
        let is_running = table.running.get(&operation.id).is_some_and(is_same);
        if is_running {
            table.remove(&operation.id);
        }
        is_running
    }

    /// Stops an operation for the client. Returns true if one had this identifier.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let Some(running) = self.table().remove(id) else { return false };
        running.operation.is_stopped.store(true, Ordering::Relaxed);
        if let Some(task) = running.task {
            task.abort();
        }
        true
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, id: &str) -> Option<Running> {
        let running = self.running.remove(id)?;
        self.bytes -= running.bytes;
        Some(running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_when_its_operation_is_over() {
        let operations = Operations::default();
        let first = operations.start("a", 1).expect("the first");
        assert_eq!(operations.start("a", 1).err(), Some(LimitError::Taken));
        assert!(operations.end(&first) && !operations.end(&first));
        let second = operations.start("a", 1).expect("the second");
        assert!(operations.cancel("a") && !operations.cancel("a"));
        assert!(first.is_active() && !second.is_active());
        // The client is not notified of an operation that it stopped, however late it ends, and its end
        // does not affect the operation that now has its identifier.
        let third = operations.start("a", 1).expect("the third");
        assert!(!operations.end(&second));
        assert!(operations.end(&third));
    }

    #[test]
    fn they_are_bounded_in_number_and_in_what_they_hold() {
        let operations = Operations::default();
        for number in 0..MAX_OPERATIONS {
            assert!(operations.start(&number.to_string(), 1_000).is_ok());
        }
        assert_eq!(operations.start("one more", 1).err(), Some(LimitError::Full));
        assert_eq!(operations.start("7", 1).err(), Some(LimitError::Taken), "which is worse");
        assert!(operations.cancel("7"));
        assert_eq!(operations.start("7", MAX_BYTES).err(), Some(LimitError::Full));
        assert!(operations.start("7", MAX_BYTES - 199_000).is_ok());
        assert!(operations.cancel("7"), "what it held is free");
        assert!(operations.start("7", MAX_BYTES - 199_000).is_ok());
    }
}
