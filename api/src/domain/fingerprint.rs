//! What errors have in common: which of them are the same failure, seen at different times with different data.
//!
//! Two errors are alike when their origin, exception type, message and place in the program's own code are. From
//! messages everything goes that differs from one run to the next, so that a title shows no data. Where it is
//! unclear whether a word is data it stays: two groups for one failure are seen and understood, one group for two
//! failures hides one of them.

use std::{collections::HashSet, sync::LazyLock};

use entity::ids::ErrorGroupId;
use regex::{Captures, Regex};
use sha2::{Digest, Sha256};

use super::report::{ErrorOrigin, ErrorReport};

/// Characters of a message that count, without what was taken out.
const MAX_TITLE: usize = 200;

/// Characters of a message that are looked at.
const MAX_MESSAGE: usize = 4_000;

/// Frames that stand for a failure outside the program's own code.
const LIBRARY_FRAMES: usize = 3;

/// Exceptions whose only text is a value: the key that was not found, the task that killed its workers.
const VALUES_ONLY: [&str; 2] = ["KeyError", "KilledWorker"];

/// What an error has in common with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The group of errors that have it.
    pub group: ErrorGroupId,
    /// The message without what differs.
    pub title: String,
}

impl Fingerprint {
    /// The fingerprint of an error.
    #[must_use]
    pub fn of(report: &ErrorReport) -> Self {
        let exception = exception_of(report);
        let (message, traceback) = (report.message.as_str(), report.traceback.as_str());
        Self::new(report.origin, exception, message, report.key.as_str(), traceback)
    }

    fn new(origin: ErrorOrigin, exception: Option<&str>, message: &str, key: &str, traceback: &str) -> Self {
        let title = normalised(exception, message, key);
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            // With their lengths, so that no two parts run together into the same bytes.
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        part(match origin {
            ErrorOrigin::User => "user",
            ErrorOrigin::Dask => "dask",
        });
        part(exception.unwrap_or_default());
        part(&title);
        for (file, function) in frames(traceback) {
            part(&file);
            part(&function);
        }
        let digest = hash.finalize();
        let bytes = *digest.first_chunk().expect("a SHA-256 is longer than a UUID");
        let title = if title.is_empty() { exception.unwrap_or("error").to_owned() } else { title };
        Self { group: ErrorGroupId(uuid::Builder::from_custom_bytes(bytes).into_uuid()), title }
    }
}

/// The exception's class. An empty one tells as little as none, so it must not make two groups, or one with two faces.
#[must_use]
pub fn exception_of(report: &ErrorReport) -> Option<&str> {
    report.exception_type.as_ref().map(super::bounded::Text::as_str).filter(|name| !name.is_empty())
}

/// What stands for everything that differs.
const ANY: &str = "…";

/// The first line of a message without what differs from one error to the next.
fn normalised(exception: Option<&str>, message: &str, key: &str) -> String {
    let message = message.char_indices().nth(MAX_MESSAGE).map_or(message, |(end, _)| &message[..end]);
    let mut text = said(exception, message);
    // The key of the task itself, as it is and within quotes.
    if key.len() >= 3 {
        for key in [key.to_owned(), key.replace('\'', "\\'")] {
            text = text.replace(&key, ANY);
        }
    }
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let replaced = DIFFERS.replace_all(first, |found: &Captures<'_>| match found.name("class") {
        Some(class) => format!("<{} {ANY}>", class.as_str()),
        None => ANY.to_owned(),
    });
    let joined = ENUMERATION.replace_all(&replaced, ANY).replace("…,)", "…)");
    let joined = joined.split_whitespace().collect::<Vec<_>>().join(" ");
    match joined.char_indices().nth(MAX_TITLE) {
        Some((end, _)) => joined[..end].to_owned(),
        None => joined,
    }
}

/// What differs, in the order it is looked for at each place.
static DIFFERS: LazyLock<Regex> = LazyLock::new(|| {
    let differs = [
        // Objects, of which the class stays: `<WorkerState 'tcp://…', status: closed>`.
        r"<(?P<class>[A-Za-z_][\w.]*):?\s[^<>]*>",
        // Quoted text. An apostrophe within a word is none of its ends.
        r"\B'(?:[^'\\]|\\.|\b'\b)*'\B",
        r#"\B"(?:[^"\\]|\\.)*"\B"#,
        r"\B`[^`]*`\B",
        // Addresses, and hosts with ports.
        r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'"<>()\[\]{},;]+"#,
        r"\b(?:localhost|[\w-]+(?:\.[\w-]+)+):\d+\b",
        // Identifiers, and keys of tasks that end in one.
        r"\b(?:[\w.]+-)*[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
        r"\b(?:[\w.]+-)*[0-9a-f]{32,64}\b",
        // Paths: absolute ones, those from a home, and relative ones that end in a file.
        r"\B(?:~|\.{1,2})?(?:/[\w.@%+=~-]+)+/?",
        r#"\b[A-Za-z]:\\[^\s'"<>|]+"#,
        r"\b(?:[\w.-]+/)+[\w-]+\.\w+\b",
        // Numbers with their units, times, versions, addresses in memory.
        r"(?:\B[-+])?\b\d+(?:[-:.,/]\d+)*\w*%?",
        // Hexadecimal numbers that begin with a letter.
        r"\b[a-f][0-9a-f]*[0-9][0-9a-f]{6,}\b",
    ];
    Regex::new(&differs.join("|")).expect("the expression is constant")
});

/// Some of what differs in a row counts as one: lists have different lengths.
static ENUMERATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"…(?:\s*[,;]?\s*…)+").expect("the expression is constant"));

/// What an exception says: of `ValueError('no such column')` the text alone.
fn said(exception: Option<&str>, message: &str) -> String {
    let Some((name, arguments)) = message.trim_start().split_once('(') else { return message.to_owned() };
    let short = name.rsplit('.').next().unwrap_or(name);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let is_its_own = match exception {
        Some(exception) => exception.rsplit('.').next() == Some(short),
        None => message.trim_end().ends_with(')'),
    };
    if !is_name || !is_its_own {
        return message.to_owned();
    }
    if VALUES_ONLY.contains(&short) {
        return String::new();
    }
    let arguments = arguments.trim_end().strip_suffix(')').unwrap_or(arguments);
    // Errors of the system have a number first.
    let numbered = arguments.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(", ");
    match literal(numbered.unwrap_or(arguments)) {
        Some((text, rest)) => {
            let rest = rest.trim_start_matches([',', ' ']);
            if rest.is_empty() { text } else { format!("{text}, {rest}") }
        }
        None => arguments.to_owned(),
    }
}

/// A Python string at the start of a text, and what follows it.
fn literal(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (mut said, mut chars) = (String::new(), text.char_indices().skip(1));
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => said.push('\n'),
                Some((_, 't')) => said.push(' '),
                Some((_, c)) => said.push(c),
                None => {}
            },
            c if c == quote => return Some((said, &text[at + c.len_utf8()..])),
            c => said.push(c),
        }
    }
    // It was cut.
    Some((said, ""))
}

/// The places of a traceback that tell what failed: file and function, each once, so that it does not matter
/// how deep a recursion went. The program's own, or the last ones when all is a library's.
fn frames(traceback: &str) -> Vec<(String, String)> {
    let all: Vec<(&str, &str)> = traceback.lines().filter_map(frame).collect();
    let own: Vec<(&str, &str)> = all.iter().copied().filter(|(path, _)| !is_library(path)).collect();
    let (frames, most) = if own.is_empty() { (all, LIBRARY_FRAMES) } else { (own, usize::MAX) };
    let mut seen = HashSet::new();
    let named = frames.into_iter().map(|(path, function)| (file_name(path), function.to_owned()));
    let once: Vec<(String, String)> = named.filter(|frame| seen.insert(frame.clone())).collect();
    once[once.len().saturating_sub(most)..].to_vec()
}

/// Path and function of a line like `  File "a.py", line 1, in f`.
fn frame(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start_matches([' ', '\t', '|']).strip_prefix("File \"")?;
    let (path, rest) = rest.rsplit_once("\", line ")?;
    Some((path, rest.split_once(", in ").map_or("", |(_, function)| function.trim())))
}

/// Whether a file is none of the program's own: installed, Python's, Dask's, or made by neither.
fn is_library(path: &str) -> bool {
    let path = path.replace('\\', "/");
    if path.starts_with("<frozen") || path.ends_with(" internals>") {
        return true;
    }
    let parts: Vec<&str> = path.split('/').collect();
    let directories = &parts[..parts.len().saturating_sub(1)];
    directories.iter().enumerate().any(|(at, part)| match *part {
        "site-packages" | "dist-packages" => true,
        // A user may be called so.
        "dask" | "distributed" => at == 0 || !matches!(directories[at - 1], "home" | "Users"),
        part => part.starts_with("python") && at > 0 && matches!(directories[at - 1], "lib" | "lib64"),
    }) || directories.windows(2).any(|pair| pair[0].starts_with("Python3") && pair[1] == "Lib")
}

/// The name of a file without its directory. Cells of notebooks have files with a new name each.
fn file_name(path: &str) -> String {
    let path = path.replace('\\', "/");
    if path.starts_with("<ipython-input-") || path.contains("/ipykernel_") {
        return "<notebook>".to_owned();
    }
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
