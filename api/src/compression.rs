//! Compression of stored data with zstd. Each thread keeps its own contexts, because creating them takes
//! longer than compressing or decompressing most texts.

use std::cell::RefCell;

use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe::get_frame_content_size,
};

struct Contexts {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Default for Contexts {
    fn default() -> Self {
        Self {
            compressor: Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).expect("the level exists"),
            decompressor: Decompressor::new().expect("the default settings are valid"),
        }
    }
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Compresses `plain`. The output is deterministic.
///
/// # Panics
/// Panics if no memory is left.
pub(crate) fn compress(plain: &[u8]) -> Vec<u8> {
    let compressed = CONTEXTS.with_borrow_mut(|contexts| contexts.compressor.compress(plain));
    compressed.expect("the buffer has the maximum compressed length")
}

/// Decompresses data. Returns `None` if it is malformed or longer than `max_length` bytes. The frame header
/// states the length, so no more memory is allocated.
pub(crate) fn decompress(compressed: &[u8], max_length: usize) -> Option<Vec<u8>> {
    let length = plain_length(compressed)?;
    if length > max_length {
        return None;
    }
    CONTEXTS.with_borrow_mut(|contexts| contexts.decompressor.decompress(compressed, length)).ok()
}

/// Returns the decompressed length stated in the frame header. `None` if there is none.
pub(crate) fn plain_length(compressed: &[u8]) -> Option<usize> {
    usize::try_from(get_frame_content_size(compressed).ok()??).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_is_read_again_and_is_the_same_whatever_came_before() {
        let long = vec![7; 100_000];
        let texts: [&[u8]; 4] = [b"", b"galvo", &long, b"galvo"];
        let compressed = texts.map(compress);
        for (plain, compressed) in texts.into_iter().zip(&compressed) {
            assert_eq!(decompress(compressed, plain.len()).as_deref(), Some(plain));
            assert_eq!(zstd::bulk::compress(plain, 3).expect("a buffer that is long enough"), *compressed);
        }
        assert_eq!(compressed[1], compressed[3]);
    }

    #[test]
    fn what_is_too_long_or_damaged_is_not_read() {
        let compressed = compress(&[7; 1_000]);
        assert_eq!(decompress(&compressed, 999), None);
        assert_eq!(decompress(&compressed[..compressed.len() - 1], 1_000), None);
        assert_eq!(decompress(b"galvo", 1_000), None);
        assert_eq!(decompress(b"", 1_000), None);
        // The total length of two concatenated frames exceeds the length that the first one states.
        assert_eq!(decompress(&[&compressed[..], &compressed].concat(), 5_000), None);
    }
}
