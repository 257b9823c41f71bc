//! A cache of checked documents, so that a repeated query is not checked again.

use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use sha2::{Digest, Sha256};

/// The limit of cached documents.
const MAX_DOCUMENTS: usize = 500;

/// The limit of the size of their texts, in bytes. A checked document needs about fifty times its text.
const MAX_BYTES: usize = 512 << 10;

/// The identity of a document and its selected operation.
pub(super) type Key = [u8; 32];

/// A cache of the most recently used documents.
pub(super) struct Cache<T>(Mutex<CachedDocuments<T>>);

struct CachedDocuments<T> {
    documents: LruCache<Key, (Arc<T>, usize)>,
    bytes: usize,
}

/// Returns the key of a document and its selected operation.
pub(super) fn document_key(document: &str, operation: Option<&str>) -> Key {
    let mut hash = Sha256::new();
    // The length separates the document from the operation's name.
    hash.update(document.len().to_le_bytes());
    hash.update(document);
    hash.update([u8::from(operation.is_some())]);
    hash.update(operation.unwrap_or_default());
    hash.finalize().into()
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::new(CachedDocuments { documents: LruCache::unbounded(), bytes: 0 }))
    }
}

impl<T> Cache<T> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<T>> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.documents.get(key).map(|(document, _)| Arc::clone(document))
    }

    /// Adds a document whose text has this many bytes, and drops the least recently used ones beyond the
    /// limits.
    pub(super) fn put(&self, key: Key, document: Arc<T>, bytes: usize) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = cached.documents.put(key, (document, bytes));
        cached.bytes = cached.bytes + bytes - replaced.map_or(0, |(_, bytes)| bytes);
        while cached.bytes > MAX_BYTES || cached.documents.len() > MAX_DOCUMENTS {
            let Some((_, (_, bytes))) = cached.documents.pop_lru() else { break };
            cached.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let cache = Cache::default();
        let keys: Vec<Key> =
            (0..=MAX_DOCUMENTS).map(|number| document_key(&number.to_string(), None)).collect();
        for (number, key) in keys.iter().enumerate() {
            cache.put(*key, Arc::new(number), 1);
        }
        assert_eq!(cache.get(&keys[0]), None);
        assert_eq!(cache.get(&keys[1]).as_deref(), Some(&1));
        cache.put(keys[0], Arc::new(0), MAX_BYTES);
        assert_eq!(cache.get(&keys[1]), None);
        assert_eq!(cache.get(&keys[0]).as_deref(), Some(&0));
        cache.put(keys[2], Arc::new(2), MAX_BYTES + 1);
        assert_eq!((cache.get(&keys[0]), cache.get(&keys[2])), (None, None));
        cache.put(keys[3], Arc::new(3), 1);
        cache.put(keys[3], Arc::new(4), 2);
        assert_eq!(cache.0.lock().unwrap_or_else(PoisonError::into_inner).bytes, 2);
    }

    #[test]
    fn documents_and_operations_have_keys_of_their_own() {
        let keys = [
            document_key("a", None),
            document_key("a", Some("")),
            document_key("a", Some("b")),
            document_key("ab", None),
            document_key("", Some("ab")),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
    }
}
