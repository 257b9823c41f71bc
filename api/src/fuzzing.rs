//! The entry points of the fuzz targets: each passes arbitrary bytes to a parser of external input and
//! checks its invariants.
//!
//! Parsers and most of their invariants are private, so each module has a `fuzzing` module of its own;
//! this one exposes them. It exists with the feature `fuzzing`, for the programs in `fuzz/`, and in unit
//! tests, which replay the corpus.

mod schema_queries;
mod server_targets;

use std::cell::LazyCell;

pub use self::server_targets::FuzzServer;
use crate::{auth, domain, graphql, guard, http};

/// A fuzz target that needs only the input.
type Trial = fn(&[u8]);

/// A fuzz target that needs a server and its database.
type ServedTrial = fn(&FuzzServer, &[u8]);

macro_rules! targets {
    ($($(#[$about:meta])* $name:ident: $trial:path),+ $(,)?) => {
        $(
            $(#[$about])*
            ///
            /// # Panics
            /// When that does not hold.
            pub fn $name(bytes: &[u8]) {
                $trial(bytes);
            }
        )+

        /// All of these, by their names.
        pub const TARGETS: &[(&str, Trial)] = &[$((stringify!($name), $trial)),+];
    };
}

targets! {
    /// Checks that the report of a client about a span is parsed or rejected with an error.
    client_span: http::fuzzing::client_span,
    /// Checks that a cursor of a list or a stream decodes to the encoded value, and is rejected for any
    /// other order or stream.
    cursor: graphql::fuzzing::check_cursor,
    /// Checks that a GraphQL document with variables is rejected with a known error code or stays within
    /// the cost limit.
    document: guard::fuzzing::document,
    /// Checks that the client address comes from the last trusted proxy, and that a client cannot forge it.
    forwarded: domain::fuzzing::forwarded,
    /// Checks that a global ID has exactly one encoding.
    global_id: graphql::fuzzing::check_global_id,
    /// Checks that a performance report arrives as the bytes that were sent, in chunks of bounded size.
    performance_report: http::fuzzing::performance_report,
    /// Checks that a report is parsed the same in every encoding, or rejected with the path of an
    /// existing value.
    report: http::fuzzing::report,
    /// Checks that the redirect after signing in stays on this server.
    return_path: domain::fuzzing::return_path,
    /// Checks that a WebSocket message has at most one interpretation, and that responses are JSON.
    socket: http::fuzzing::socket,
    /// Checks that accepted credentials are signed, currently valid, and grant no more than they state.
    token: auth::fuzzing::token,
}

macro_rules! served_targets {
    ($($(#[$about:meta])* $name:ident: $trial:path),+ $(,)?) => {
        $(
            $(#[$about])*
            ///
            /// # Panics
            /// When that does not hold.
            pub fn $name(server: &FuzzServer, bytes: &[u8]) {
                $trial(server, bytes);
            }
        )+

        /// All of these, by their names.
        pub const SERVED_TARGETS: &[(&str, ServedTrial)] = &[$((stringify!($name), $trial)),+];
    };
}

served_targets! {
    /// Checks that requests of the `coiled` client are answered or rejected with an error code.
    coiled: FuzzServer::coiled,
    /// Checks that the database accepts the query of a field for all arguments.
    filter: FuzzServer::filter,
    /// Checks that a report that parses can be stored.
    stored_report: FuzzServer::stored_report,
}

/// Runs a future to completion on the current thread. Only blocking tasks run on other threads.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: LazyCell<tokio::runtime::Runtime> = const { LazyCell::new(server_targets::runtime) };
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Splits the input into `N` lines. The last one contains the rest of the input.
pub(crate) fn lines<const N: usize>(bytes: &[u8]) -> [&[u8]; N] {
    let mut remaining = bytes;
    std::array::from_fn(|index| {
        let end = remaining.iter().position(|byte| *byte == b'\n').filter(|_| index + 1 < N);
        let (line, after_line) = match end {
            Some(end) => (&remaining[..end], &remaining[end + 1..]),
            None => (remaining, &remaining[remaining.len()..]),
        };
        remaining = after_line;
        line
    })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        panic::{AssertUnwindSafe, catch_unwind},
        path::{Path, PathBuf},
    };

    use super::*;

    fn fuzz(directory: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(directory)
    }

    /// Runs a target with every file of its corpus. Panics with the names of the failing files.
    fn try_corpus(target: &str, trial: impl Fn(&[u8])) {
        let entries = fs::read_dir(fuzz("corpus").join(target)).expect(target);
        let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        let fails = |path: &&PathBuf| {
            let bytes = fs::read(path).expect("a file");
            catch_unwind(AssertUnwindSafe(|| trial(&bytes))).is_err()
        };
        let failed: Vec<&PathBuf> = paths.iter().filter(fails).collect();
        assert!(failed.is_empty(), "{failed:?}: the panics are above");
        assert!(!paths.is_empty(), "{target} has a corpus");
    }

    #[test]
    fn what_was_found_holds() {
        for (target, trial) in TARGETS {
            try_corpus(target, trial);
        }
    }

    #[test]
    fn what_was_found_with_a_server_holds() {
        let served = FuzzServer::start();
        for (target, trial) in SERVED_TARGETS {
            try_corpus(target, |bytes| trial(&served, bytes));
        }
    }

    #[test]
    fn each_target_has_a_program_and_a_corpus_and_nothing_else_has() {
        let targets =
            TARGETS.iter().map(|(name, _)| *name).chain(SERVED_TARGETS.iter().map(|(name, _)| *name));
        // The importer of files is written in Python, and so is its fuzz target.
        let targets: BTreeSet<String> = targets.chain(["importer"]).map(str::to_owned).collect();
        for directory in ["fuzz_targets", "corpus"] {
            let entries = fs::read_dir(fuzz(directory)).expect(directory);
            let names = entries.map(|entry| entry.expect("an entry").path());
            let names = names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
            // Python stores compiled modules there.
            let names: BTreeSet<String> = names.filter(|name| name != "__pycache__").collect();
            assert_eq!(names, targets, "{directory}");
        }
    }

    #[test]
    fn the_last_line_is_the_rest() {
        let text = |lines: [&[u8]; 3]| lines.map(|line| String::from_utf8_lossy(line).into_owned());
        assert_eq!(text(lines(b"a\nb\nc\nd")), ["a", "b", "c\nd"]);
        assert_eq!(text(lines(b"a\n")), ["a", "", ""]);
        assert_eq!(text(lines(b"")), ["", "", ""]);
    }
}
