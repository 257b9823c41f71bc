//! The rules of the source code that no lint knows. Each failure names the place and the way out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// The width of comments, as rustfmt has it for code.
const WIDTH: usize = 110;

/// Lines of a file at most, without its imports. A longer file mostly has a second noun, which needs a file
/// of its own.
const LINES: usize = 500;

/// Files that are longer, with the number of lines that they may have. The numbers only fall.
const LONG: [(&str, usize); 19] = [
    ("api/src/domain/breakdown.rs", 530),
    ("api/src/domain/validated.rs", 510),
    ("api/src/graphql/analysis/answer.rs", 530),
    ("api/src/graphql/clusters/cluster.rs", 620),
    ("api/src/store/clusters/cluster_removal.rs", 580),
    ("api/src/store/core/connect.rs", 550),
    ("tests/it/account_list.rs", 790),
    ("tests/it/alert.rs", 630),
    ("tests/it/answer.rs", 1020),
    ("tests/it/audit_entry.rs", 750),
    ("tests/it/coiled_list.rs", 520),
    ("tests/it/command_line.rs", 760),
    ("tests/it/comparison.rs", 530),
    ("tests/it/flag.rs", 560),
    ("tests/it/isolation.rs", 1220),
    ("tests/it/jwt.rs", 540),
    ("tests/it/key.rs", 580),
    ("tests/it/plan.rs", 510),
    ("tests/it/usage.rs", 660),
];

/// Names that are vague: they are verbs and participles without an object.
const VAGUE: [&str; 12] = [
    "asked", "told", "wanted", "meant", "heard", "said", "placed", "named", "tell", "hear", "begun", "unsaid",
];

/// Fields of the schema, which has no verbs.
const FIELDS: [&str; 1] = ["what_changed"];

/// Directories with Rust sources.
const SOURCES: [&str; 6] =
    ["api/src", "entity/src", "migration/src", "tests", "bench/src", "fuzz/fuzz_targets"];

struct Source {
    /// Relative to the root of the repository.
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn files_below(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir()
            && !["node_modules", "target", ".venv", "__pycache__"].iter().any(|other| name == *other)
        {
            files_below(&path, extension, found);
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
}

fn sources(directories: &[&str], extension: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    for directory in directories {
        files_below(&root().join(directory), extension, &mut paths);
    }
    paths.sort();
    assert!(paths.len() > 5, "{directories:?}");
    let source = |path: PathBuf| Source {
        path: path.strip_prefix(root()).unwrap().display().to_string(),
        text: fs::read_to_string(path).unwrap(),
    };
    paths.into_iter().map(source).collect()
}

fn rust() -> Vec<Source> {
    sources(&SOURCES, "rs")
}

fn report(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}\n{}", offences.join("\n"));
}

#[test]
fn doc_comments_are_noun_phrases_or_begin_with_a_verb() {
    let first = Regex::new(r"^\s*(///|//!) ?(.*)$").unwrap();
    let question = Regex::new(r"^(What|Whether|Whom|Whose|Whoever|How|Which|Who)\b").unwrap();
    let mut offences = Vec::new();
    for Source { path, text } in rust() {
        let mut inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            let comment = first.captures(line).map(|found| found[2].to_owned());
            let begins = !inside && comment.as_deref().is_some_and(|text| question.is_match(text));
            if begins {
                offences.push(format!("{path}:{number}: {}", line.trim()));
            }
            inside = comment.is_some_and(|text| !text.is_empty());
        }
    }
    let docstring = Regex::new(r#"^\s*[rf]?"""(What|Whether|Whom|Whose|Whoever|How|Which|Who)\b"#).unwrap();
    for Source { path, text } in sources(&["python/src", "python/tests", "tests/dask", "tests/faults"], "py")
    {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| docstring.is_match(line)) {
            offences.push(format!("{path}:{number}: {}", line.trim()));
        }
    }
    report(
        "a doc comment is a noun phrase (\"The …\") or begins with a verb (\"Returns …\", \"True if …\"):",
        &offences,
    );
}

#[test]
fn comments_keep_the_width_of_the_code() {
    let mut offences = Vec::new();
    for Source { path, text } in rust() {
        let is_wide = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > WIDTH;
        // An address cannot be wrapped.
        for (number, _) in (1..).zip(text.lines()).filter(|(_, line)| is_wide(line) && !line.contains("://"))
        {
            offences.push(format!("{path}:{number}"));
        }
    }
    report(&format!("wrap comments at {WIDTH} columns:"), &offences);
}

#[test]
fn files_have_one_noun() {
    let allowed: BTreeMap<&str, usize> = LONG.into_iter().collect();
    let import = Regex::new(r"(?m)^(?:pub(?:\([^)]*\))? )?use [^;]*;").unwrap();
    let mut offences = Vec::new();
    for Source { path, text } in rust() {
        let imports: usize = import.find_iter(&text).map(|found| found.as_str().lines().count()).sum();
        let lines = text.lines().count() - imports;
        let limit = allowed.get(path.as_str()).copied().unwrap_or(LINES);
        if lines > limit {
            offences.push(format!("{path}: {lines} lines of {limit}"));
        }
    }
    report("give the second noun of a long file a file of its own:", &offences);
}

#[test]
fn names_have_an_object() {
    let definition =
        Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:const |async )*(?:fn|struct|enum|trait|mod) (\w+)")
            .unwrap();
    let mut offences = Vec::new();
    for Source { path, text } in sources(&["api/src", "entity/src"], "rs") {
        for found in definition.captures_iter(&text) {
            let name = &found[1];
            let question = ["what_", "who_", "whoever_", "nobody_", "whom_"];
            let is_test = text[..found.get(0).unwrap().start()].trim_end().ends_with("test]");
            if !is_test
                && !FIELDS.contains(&name)
                && (VAGUE.contains(&name.to_lowercase().as_str())
                    || question.iter().any(|begin| name.starts_with(begin)))
            {
                offences.push(format!("{path}: {name}"));
            }
        }
    }
    report("name a function by a verb with its object, and a type by a noun:", &offences);
}

/// The number of words of the page on the architecture at most.
const ARCHITECTURE_WORDS: usize = 2_500;

#[test]
fn the_architecture_is_read_at_one_sitting() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let words = text.split_whitespace().count();
    assert!(
        words <= ARCHITECTURE_WORDS,
        "shorten ARCHITECTURE.md, it has {words} words of {ARCHITECTURE_WORDS}"
    );
}

/// Modules that all others use.
const EVERYWHERE: [&str; 3] = ["clock", "error", "blocking_work"];

/// `crate::a::b`.
static SINGLE_PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bcrate::(\w+(?:::\w+)*)").unwrap());
/// `use crate::{a::{b, c}, d};`, and `use crate::a::{b, c};`.
static PATH_GROUP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bcrate::((?:\w+::)*)\{([^;]*);").unwrap());
static TOKEN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[{},]|\w+").unwrap());

/// A file of `api/src` that is part of the program, without its comments and unit tests.
struct Part {
    /// Relative to `api/src`.
    path: String,
    code: String,
}

impl Part {
    /// The parts of the program, without those of tests and fuzzing.
    fn all() -> Vec<Self> {
        let comment = Regex::new(r"(?m)//.*$").unwrap();
        let mut parts = Vec::new();
        for Source { path, text } in sources(&["api/src"], "rs") {
            let path = path.strip_prefix("api/src/").unwrap().to_owned();
            let is_test =
                path.ends_with("tests.rs") || path.contains("/tests/") || path.ends_with("_tests.rs");
            if is_test || path.contains("fuzzing") || path == "lib.rs" || path == "main.rs" {
                continue;
            }
            // Unit tests stand at the end of a file.
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
            parts.push(Self { path, code: comment.replace_all(code, "").into_owned() });
        }
        parts
    }

    fn module(&self) -> &str {
        self.path.split(['/', '.']).next().unwrap()
    }

    /// The paths below `crate` that the code names, each as its segments.
    fn uses(&self) -> Vec<Vec<String>> {
        let segments = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
        let mut found: Vec<Vec<String>> =
            SINGLE_PATH.captures_iter(&self.code).map(|found| segments(&found[1])).collect();
        for group in PATH_GROUP.captures_iter(&self.code) {
            let mut path: Vec<String> = segments(group[1].trim_end_matches("::"));
            path.retain(|segment| !segment.is_empty());
            // The lengths of the path before each open brace.
            let mut open = vec![path.len()];
            for token in TOKEN.find_iter(&group[2]) {
                match token.as_str() {
                    "{" => open.push(path.len()),
                    "}" | "," => {
                        if path.len() > *open.last().unwrap() {
                            found.push(path.clone());
                        }
                        path.truncate(*open.last().unwrap());
                        if token.as_str() == "}" {
                            open.pop();
                        }
                        if open.is_empty() {
                            break;
                        }
                    }
                    segment => path.push(segment.to_owned()),
                }
            }
        }
        found
    }
}

/// The modules of `api/src` that each uses, by `crate::…`.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let sources = root().join("api/src");
    let is_module = |name: &str| sources.join(name).is_dir() || sources.join(format!("{name}.rs")).is_file();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for part in Part::all() {
        let module = part.module().to_owned();
        let others = part.uses().into_iter().map(|mut path| path.swap_remove(0));
        let others = others.filter(|name| *name != module && is_module(name));
        let others: Vec<String> = others.filter(|name| !EVERYWHERE.contains(&name.as_str())).collect();
        uses.entry(module).or_default().extend(others);
    }
    uses
}

/// The rooms that the nouns of a layer stand on.
const FOUNDATIONS: [(&str, &str); 2] = [("graphql", "engine"), ("store", "core")];

#[test]
fn a_foundation_uses_no_noun_of_its_layer() {
    let mut offences = Vec::new();
    for (layer, room) in FOUNDATIONS {
        let below = format!("{layer}/{room}/");
        let parts: Vec<Part> = Part::all().into_iter().filter(|part| part.path.starts_with(&below)).collect();
        assert!(parts.len() > 10, "{below}");
        for part in parts {
            for path in part.uses() {
                if path[0] == layer && path.get(1).is_some_and(|other| other != room) {
                    offences.push(format!("{}: {}", part.path, path.join("::")));
                }
            }
        }
    }
    report("move what a foundation uses into it, or out of it what knows nouns:", &offences);
}

#[test]
fn modules_use_what_the_architecture_lists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let name = Regex::new(r"`(\w+)`").unwrap();
    let table = text.split("| module | responsibility | uses |").nth(1).expect("there is the table");
    let mut allowed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let uses: BTreeSet<String> = name.captures_iter(cells[3]).map(|found| found[1].to_owned()).collect();
        for module in name.captures_iter(cells[1]) {
            allowed.insert(module[1].to_owned(), uses.clone());
        }
    }
    assert!(allowed.len() > 15, "{allowed:?}");
    let mut offences = Vec::new();
    for (module, used) in uses() {
        if EVERYWHERE.contains(&module.as_str()) {
            continue;
        }
        let Some(permitted) = allowed.get(&module) else {
            offences.push(format!("{module}: no row"));
            continue;
        };
        for other in used.difference(permitted) {
            offences.push(format!("{module} uses {other}, which its row does not list"));
        }
        let crates = ["migration", "entity"];
        for other in permitted.difference(&used).filter(|other| !crates.contains(&other.as_str())) {
            offences.push(format!("{module} does not use {other}, which its row lists"));
        }
    }
    report("move the item down, or correct the table of ARCHITECTURE.md:", &offences);
}
