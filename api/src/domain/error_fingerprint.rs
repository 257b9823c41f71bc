//! Fingerprints of errors, which identify occurrences of the same failure with different data.
//!
//! Two errors have the same fingerprint if their origin, exception type, message and place in the
//! program's own code are equal. Everything in messages that varies between runs is removed, so that a
//! title shows no data. A word that may or may not be data is kept: two groups for one failure are
//! noticed by users, but one group for two failures hides one of them.

use std::{collections::HashSet, sync::LazyLock};

use entity::ids::ErrorGroupId;
use regex::{Captures, Regex};
use sha2::{Digest, Sha256};

use super::report::{ErrorOrigin, ErrorReport};

/// The largest length of a title, in characters, after the removal of variable parts.
const MAX_TITLE: usize = 200;

/// The largest length of the examined part of a message, in characters.
const MAX_MESSAGE: usize = 4_000;

/// The number of frames that identify a failure outside the program's own code.
const LIBRARY_FRAMES: usize = 3;

/// Exceptions whose text is only a value: the missing key, or the task that killed its workers.
const VALUES_ONLY: [&str; 2] = ["KeyError", "KilledWorker"];

/// The fingerprint of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The id of the error group.
    pub group: ErrorGroupId,
    /// The message without its variable parts.
    pub title: String,
}

impl Fingerprint {
    /// Computes the fingerprint of an error.
    #[must_use]
    pub fn of(report: &ErrorReport) -> Self {
        let exception = exception_of(report);
        let (message, traceback) = (report.message.as_str(), report.traceback.as_str());
        Self::new(report.origin(), exception, message, report.key.as_str(), traceback)
    }

    fn new(origin: ErrorOrigin, exception: Option<&str>, message: &str, key: &str, traceback: &str) -> Self {
        let title = normalised(exception, message, key);
        let mut hash = Sha256::new();
        let mut hash_part = |text: &str| {
            // Each part is preceded by its length, so that different parts cannot result in the same
            // bytes.
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        hash_part(match origin {
            ErrorOrigin::User => "user",
            ErrorOrigin::Dask => "dask",
            ErrorOrigin::Unknown => "unknown",
        });
        hash_part(exception.unwrap_or_default());
        hash_part(&title);
        for (file, function) in frames(traceback) {
            hash_part(&file);
            hash_part(&function);
        }
        let digest = hash.finalize();
        let bytes = *digest.first_chunk().expect("a SHA-256 is longer than a UUID");
        let title = if title.is_empty() { exception.unwrap_or("error").to_owned() } else { title };
        Self { group: ErrorGroupId(uuid::Builder::from_custom_bytes(bytes).into_uuid()), title }
    }
}

/// Returns the exception's class. An empty class counts as none, so that both result in the same group.
#[must_use]
pub fn exception_of(report: &ErrorReport) -> Option<&str> {
    report.exception_type.as_ref().map(super::validated::Text::as_str).filter(|name| !name.is_empty())
}

/// The placeholder for variable parts.
const ANY: &str = "…";

/// Returns the first line of a message without its variable parts.
fn normalised(exception: Option<&str>, message: &str, key: &str) -> String {
    let message = message.char_indices().nth(MAX_MESSAGE).map_or(message, |(end, _)| &message[..end]);
    let mut text = exception_text(exception, message);
    // The key of the task itself, in plain form and as in a quoted string.
    if key.len() >= 3 {
        for key in [key.to_owned(), key.replace('\'', "\\'")] {
            text = text.replace(&key, ANY);
        }
    }
    let first_line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let replaced =
        VARIABLE_PARTS.replace_all(first_line, |captures: &Captures<'_>| match captures.name("class") {
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

/// The variable parts, in the order in which they are tried at each place.
static VARIABLE_PARTS: LazyLock<Regex> = LazyLock::new(|| {
    let differs = [
        // Objects, of which only the class is kept: `<WorkerState 'tcp://…', status: closed>`.
        r"<(?P<class>[A-Za-z_][\w.]*):?\s[^<>]*>",
        // Quoted text. An apostrophe within a word does not delimit it.
        r"\B'(?:[^'\\]|\\.|\b'\b)*'\B",
        r#"\B"(?:[^"\\]|\\.)*"\B"#,
        r"\B`[^`]*`\B",
        // URLs, and hosts with ports.
        r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'"<>()\[\]{},;]+"#,
        r"\b(?:localhost|[\w-]+(?:\.[\w-]+)+):\d+\b",
        // Identifiers, and keys of tasks that end in one.
        r"\b(?:[\w.]+-)*[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
        r"\b(?:[\w.]+-)*[0-9a-f]{32,64}\b",
        // Paths: absolute ones, those relative to a home directory, and relative ones that end in a file.
        r"\B(?:~|\.{1,2})?(?:/[\w.@%+=~-]+)+/?",
        r#"\b[A-Za-z]:\\[^\s'"<>|]+"#,
        r"\b(?:[\w.-]+/)+[\w-]+\.\w+\b",
        // Numbers with their units, times, versions, and memory addresses.
        r"(?:\B[-+])?\b\d+(?:[-:.,/]\d+)*\w*%?",
        // Hexadecimal numbers that begin with a letter.
        r"\b[a-f][0-9a-f]*[0-9][0-9a-f]{6,}\b",
    ];
    Regex::new(&differs.join("|")).expect("the expression is constant")
});

/// A sequence of placeholders counts as one, because lists have different lengths.
static ENUMERATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"…(?:\s*[,;]?\s*…)+").expect("the expression is constant"));

/// Returns the text of an exception: only the string of `ValueError('no such column')`.
fn exception_text(exception: Option<&str>, message: &str) -> String {
    let Some((name, arguments)) = message.trim_start().split_once('(') else { return message.to_owned() };
    let short = name.rsplit('.').next().unwrap_or(name);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let is_repr_of_exception = match exception {
        Some(exception) => exception.rsplit('.').next() == Some(short),
        None => message.trim_end().ends_with(')'),
    };
    if !is_name || !is_repr_of_exception {
        return message.to_owned();
    }
    if VALUES_ONLY.contains(&short) {
        return String::new();
    }
    let arguments = arguments.trim_end().strip_suffix(')').unwrap_or(arguments);
    // Operating system errors begin with a number.
    let numbered = arguments.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(", ");
    match parse_python_string(numbered.unwrap_or(arguments)) {
        Some((text, remainder)) => {
            let remainder = remainder.trim_start_matches([',', ' ']);
            if remainder.is_empty() { text } else { format!("{text}, {remainder}") }
        }
        None => arguments.to_owned(),
    }
}

/// Parses a Python string at the start of a text. Returns it with the rest of the text.
fn parse_python_string(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (mut content, mut chars) = (String::new(), text.char_indices().skip(1));
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => content.push('\n'),
                Some((_, 't')) => content.push(' '),
                Some((_, c)) => content.push(c),
                None => {}
            },
            c if c == quote => return Some((content, &text[index + c.len_utf8()..])),
            c => content.push(c),
        }
    }
    // The text was truncated within the string.
    Some((content, ""))
}

/// Returns the frames of a traceback that identify the failure, as file and function. Each occurs once,
/// so that the depth of a recursion does not matter. These are the frames of the program's own code, or
/// the last ones if all frames are of libraries.
fn frames(traceback: &str) -> Vec<(String, String)> {
    let all_frames: Vec<(&str, &str)> = traceback.lines().filter_map(frame).collect();
    let own_frames: Vec<(&str, &str)> =
        all_frames.iter().copied().filter(|(path, _)| !is_library(path)).collect();
    let (frames, max_frames) =
        if own_frames.is_empty() { (all_frames, LIBRARY_FRAMES) } else { (own_frames, usize::MAX) };
    let mut seen_frames = HashSet::new();
    let named_frames = frames.into_iter().map(|(path, function)| (file_name(path), function.to_owned()));
    let distinct_frames: Vec<(String, String)> =
        named_frames.filter(|frame| seen_frames.insert(frame.clone())).collect();
    distinct_frames[distinct_frames.len().saturating_sub(max_frames)..].to_vec()
}

/// Parses path and function of a line such as `  File "a.py", line 1, in f`.
fn frame(line: &str) -> Option<(&str, &str)> {
    let remainder = line.trim_start_matches([' ', '\t', '|']).strip_prefix("File \"")?;
    let (path, remainder) = remainder.rsplit_once("\", line ")?;
    Some((path, remainder.split_once(", in ").map_or("", |(_, function)| function.trim())))
}

/// Returns true if the file is not part of the program's own code: an installed package, Python, Dask, or
/// generated code.
fn is_library(path: &str) -> bool {
    let path = path.replace('\\', "/");
    if path.starts_with("<frozen") || path.ends_with(" internals>") {
        return true;
    }
    let parts: Vec<&str> = path.split('/').collect();
    let directories = &parts[..parts.len().saturating_sub(1)];
    directories.iter().enumerate().any(|(index, part)| match *part {
        "site-packages" | "dist-packages" => true,
        // A user may have this name.
        "dask" | "distributed" => index == 0 || !matches!(directories[index - 1], "home" | "Users"),
        part => part.starts_with("python") && index > 0 && matches!(directories[index - 1], "lib" | "lib64"),
    }) || directories.windows(2).any(|pair| pair[0].starts_with("Python3") && pair[1] == "Lib")
}

/// Returns the name of a file without its directory. Notebook cells have a new file name in each run.
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
