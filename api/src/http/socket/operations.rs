//! Which operations are under way on a socket. It knows their names and nothing of what they do.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::AbortHandle;

/// How many operations may be under way on one socket.
pub(super) const MAX_OPERATIONS: usize = 200;

/// Bytes of the messages that asked for them: documents and variables are kept for as long as they last.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// The operations under way on a socket.
#[derive(Default)]
pub(super) struct Operations(Mutex<Table>);

#[derive(Default)]
struct Table {
    running: HashMap<Box<str>, Running>,
    bytes: usize,
}

struct Running {
    operation: Arc<Operation>,
    /// What to abort. It is missing until the task is there.
    task: Option<AbortHandle>,
    bytes: usize,
}

/// One of them.
pub(super) struct Operation {
    id: Box<str>,
    /// Whether the client wants to hear no more of it, not even what waits to be sent.
    unwanted: AtomicBool,
}

/// Why one cannot begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Crowded {
    /// Another one has this name.
    Taken,
    /// There are too many, or they say too much.
    Full,
}

impl Operation {
    /// What the client calls it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the client still wants to hear of it.
    pub(super) fn is_wanted(&self) -> bool {
        !self.unwanted.load(Ordering::Relaxed)
    }
}

impl Operations {
    /// Begins one that so many bytes asked for.
    pub(super) fn begin(&self, id: &str, bytes: usize) -> Result<Arc<Operation>, Crowded> {
        let Table { running, bytes: held } = &mut *self.table();
        let (count, bytes_then) = (running.len(), *held + bytes);
        let Entry::Vacant(place) = running.entry(id.into()) else { return Err(Crowded::Taken) };
        if count >= MAX_OPERATIONS || bytes_then > MAX_BYTES {
            return Err(Crowded::Full);
        }
        let operation = Arc::new(Operation { id: place.key().clone(), unwanted: AtomicBool::default() });
        place.insert(Running { operation: Arc::clone(&operation), task: None, bytes });
        *held = bytes_then;
        Ok(operation)
    }

    /// Says which task does it, unless it is over already.
    pub(super) fn is_done_by(&self, operation: &Arc<Operation>, task: AbortHandle) {
        if let Some(running) = self.table().running.get_mut(&operation.id)
            && Arc::ptr_eq(&running.operation, operation)
        {
            running.task = Some(task);
        }
    }

    /// Ends one by itself. Whether its client is to be told so: not one that ended it before. Its name is free from
    /// then on, so that a client which hears that it is over can use it again.
    pub(super) fn end(&self, operation: &Arc<Operation>) -> bool {
        let mut table = self.table();
        let is_it = |running: &Running| Arc::ptr_eq(&running.operation, operation);
        let known = table.running.get(&operation.id).is_some_and(is_it);
        if known {
            table.remove(&operation.id);
        }
        known
    }

    /// Ends one for the client. Whether there was one of that name.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let Some(running) = self.table().remove(id) else { return false };
        running.operation.unwanted.store(true, Ordering::Relaxed);
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
        let first = operations.begin("a", 1).expect("the first");
        assert_eq!(operations.begin("a", 1).err(), Some(Crowded::Taken));
        assert!(operations.end(&first) && !operations.end(&first));
        let second = operations.begin("a", 1).expect("the second");
        assert!(operations.cancel("a") && !operations.cancel("a"));
        assert!(first.is_wanted() && !second.is_wanted());
        // What the client ended it is not told of, however late, and neither does it end what has the name now.
        let third = operations.begin("a", 1).expect("the third");
        assert!(!operations.end(&second));
        assert!(operations.end(&third));
    }

    #[test]
    fn they_are_bounded_in_number_and_in_what_they_hold() {
        let operations = Operations::default();
        for number in 0..MAX_OPERATIONS {
            assert!(operations.begin(&number.to_string(), 1_000).is_ok());
        }
        assert_eq!(operations.begin("one more", 1).err(), Some(Crowded::Full));
        assert_eq!(operations.begin("7", 1).err(), Some(Crowded::Taken), "which is worse");
        assert!(operations.cancel("7"));
        assert_eq!(operations.begin("7", MAX_BYTES).err(), Some(Crowded::Full));
        assert!(operations.begin("7", MAX_BYTES - 199_000).is_ok());
        assert!(operations.cancel("7"), "what it held is free");
        assert!(operations.begin("7", MAX_BYTES - 199_000).is_ok());
    }
}
