//! What is tried with bytes that nobody chose: what reads text from outside, with what holds of it whatever the text is.
//!
//! What reads is private where it stands, and so are most of the promises: each part has a module `fuzzing` of its own, and this
//! is the one door to them. It is there with the feature `fuzzing`, for the programs in `fuzz/`, and in unit tests, which try once
//! what those programs have found worth keeping.

mod questions;
mod served;

use std::cell::LazyCell;

pub use self::served::Served;
use crate::{auth, domain, graphql, guard, http};

/// What is tried by itself.
type Trial = fn(&[u8]);

/// What is tried with a server and its store.
type ServedTrial = fn(&Served, &[u8]);

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
    /// What a client tells of a span is understood as far as it fits, or refused where it does not.
    client_span: http::fuzzing::client_span,
    /// A position in a list or a stream is read as it was written, and in no other order or stream.
    cursor: graphql::fuzzing::cursor,
    /// A GraphQL document with its variables is refused for some reasons that have codes, or costs no more than it may.
    document: guard::fuzzing::document,
    /// Whoever asks through proxies is who the last one that is not trusted says.
    forwarded: domain::fuzzing::forwarded,
    /// A global identifier has one notation.
    global_id: graphql::fuzzing::global_id,
    /// A performance report arrives as the bytes that were sent, in pieces that are bounded.
    performance_report: http::fuzzing::performance_report,
    /// A report is understood however it is encoded, or refused at a place that it has.
    report: http::fuzzing::report,
    /// Where a browser is sent after it signed in lies on the same server.
    return_path: domain::fuzzing::return_path,
    /// What is said on a socket is understood in at most one way, and what is answered is JSON.
    socket: http::fuzzing::socket,
    /// Credentials that are believed were signed, are good now and give no more than they say.
    token: auth::fuzzing::token,
}

macro_rules! served_targets {
    ($($(#[$about:meta])* $name:ident: $trial:path),+ $(,)?) => {
        $(
            $(#[$about])*
            ///
            /// # Panics
            /// When that does not hold.
            pub fn $name(served: &Served, bytes: &[u8]) {
                $trial(served, bytes);
            }
        )+

        /// All of these, by their names.
        pub const SERVED_TARGETS: &[(&str, ServedTrial)] = &[$((stringify!($name), $trial)),+];
    };
}

served_targets! {
    /// What the `coiled` client asks is answered, or refused for a reason that has a code.
    coiled: Served::coiled,
    /// Whatever the arguments of a field are, the store can be asked with them.
    filter: Served::filter,
    /// A report that is understood can be stored.
    stored_report: Served::stored_report,
}

/// What a future comes to. All work is done here, but what goes to threads of its own.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: LazyCell<tokio::runtime::Runtime> = const { LazyCell::new(served::runtime) };
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// The lines of a text, of which the last one is all the rest.
pub(crate) fn lines<const N: usize>(bytes: &[u8]) -> [&[u8]; N] {
    let mut rest = bytes;
    std::array::from_fn(|place| {
        let end = rest.iter().position(|byte| *byte == b'\n').filter(|_| place + 1 < N);
        let (line, behind) = end.map_or((rest, &rest[rest.len()..]), |end| (&rest[..end], &rest[end + 1..]));
        rest = behind;
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

    /// Tries everything in the corpus of a target, and names what fails.
    fn try_corpus(target: &str, trial: impl Fn(&[u8])) {
        let mut tried = 0;
        for entry in fs::read_dir(fuzz("corpus").join(target)).expect(target) {
            let path = entry.expect("an entry").path();
            let bytes = fs::read(&path).expect("a file");
            let outcome = catch_unwind(AssertUnwindSafe(|| trial(&bytes)));
            assert!(outcome.is_ok(), "{} fails: the panic is above", path.display());
            tried += 1;
        }
        assert!(tried > 0, "{target} has a corpus");
    }

    #[test]
    fn what_was_found_holds() {
        for (target, trial) in TARGETS {
            try_corpus(target, trial);
        }
    }

    #[test]
    fn what_was_found_with_a_server_holds() {
        let served = Served::start();
        for (target, trial) in SERVED_TARGETS {
            try_corpus(target, |bytes| trial(&served, bytes));
        }
    }

    #[test]
    fn each_target_has_a_program_and_a_corpus_and_nothing_else_has() {
        let targets =
            TARGETS.iter().map(|(name, _)| *name).chain(SERVED_TARGETS.iter().map(|(name, _)| *name));
        // What imports files is written in Python, as what tries it.
        let targets: BTreeSet<String> = targets.chain(["importer"]).map(str::to_owned).collect();
        for directory in ["fuzz_targets", "corpus"] {
            let entries = fs::read_dir(fuzz(directory)).expect(directory);
            let names = entries.map(|entry| entry.expect("an entry").path());
            let names = names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
            // Python keeps there what it compiled.
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
