//! The rules of the source code that no lint knows. Each failure names the place and the way out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// The width of comments, as rustfmt has it for code.
const WIDTH: usize = 110;

/// Lines of a file at most. A longer file mostly has a second noun, which wants a file of its own.
const LINES: usize = 500;

/// Files that are longer, with the number of lines that they may have. The numbers only fall.
const LONG: [(&str, usize); 21] = [
    ("api/src/bus/redis.rs", 520),
    ("api/src/domain/breakdown.rs", 540),
    ("api/src/domain/validated.rs", 520),
    ("api/src/graphql/answer.rs", 570),
    ("api/src/graphql/cluster.rs", 670),
    ("api/src/store/cluster_removal.rs", 640),
    ("api/src/store/connect.rs", 610),
    ("tests/it/account_list.rs", 790),
    ("tests/it/alert.rs", 640),
    ("tests/it/answer.rs", 1030),
    ("tests/it/audit_entry.rs", 760),
    ("tests/it/coiled_list.rs", 530),
    ("tests/it/command_line.rs", 770),
    ("tests/it/comparison.rs", 530),
    ("tests/it/flag.rs", 560),
    ("tests/it/isolation.rs", 1230),
    ("tests/it/jwt.rs", 550),
    ("tests/it/key.rs", 600),
    ("tests/it/paging.rs", 510),
    ("tests/it/plan.rs", 520),
    ("tests/it/usage.rs", 660),
];

/// Names that say nothing: they are verbs and participles without an object.
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
    let mut offences = Vec::new();
    for Source { path, text } in rust() {
        let (lines, limit) = (text.lines().count(), allowed.get(path.as_str()).copied().unwrap_or(LINES));
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

/// Modules that all others use.
const EVERYWHERE: [&str; 3] = ["clock", "error", "blocking_work"];

/// The modules of `api/src` that each uses, by `crate::…`, without those of tests and fuzzing.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let single = Regex::new(r"\bcrate::(\w+)").unwrap();
    let comment = Regex::new(r"(?m)//.*$").unwrap();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Source { path, text } in sources(&["api/src"], "rs") {
        let inside = path.strip_prefix("api/src/").unwrap();
        let module = inside.split(['/', '.']).next().unwrap().to_owned();
        let is_test =
            inside.ends_with("tests.rs") || inside.contains("/tests/") || inside.ends_with("_tests.rs");
        if is_test || inside.contains("fuzzing") || ["lib", "main"].contains(&module.as_str()) {
            continue;
        }
        // Unit tests stand at the end of a file.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
        let code = comment.replace_all(code, "");
        let found_here = uses.entry(module.clone()).or_default();
        let mut found: Vec<String> = single.captures_iter(&code).map(|found| found[1].to_owned()).collect();
        for group in code.split("crate::{").skip(1) {
            let (mut depth, mut word) = (1, String::new());
            for letter in group.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 || (depth == 1 && letter == ',') {
                    found.push(word.trim().split([':', ' ']).next().unwrap().to_owned());
                    word.clear();
                } else if depth == 1 || !word.is_empty() {
                    word.push(letter);
                }
                if depth == 0 {
                    break;
                }
            }
        }
        let sources = root().join("api/src");
        let is_module = |name: &str| {
            !name.is_empty() && (sources.join(name).is_dir() || sources.join(format!("{name}.rs")).is_file())
        };
        let is_other = |name: &String| *name != module && is_module(name);
        found_here
            .extend(found.into_iter().filter(is_other).filter(|name| !EVERYWHERE.contains(&name.as_str())));
    }
    uses
}

#[test]
fn modules_use_what_the_architecture_says() {
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
        let Some(said) = allowed.get(&module) else {
            offences.push(format!("{module}: no row"));
            continue;
        };
        for other in used.difference(said) {
            offences.push(format!("{module} uses {other}, which its row does not say"));
        }
        let crates = ["migration", "entity"];
        for other in said.difference(&used).filter(|other| !crates.contains(&other.as_str())) {
            offences.push(format!("{module} does not use {other}, as its row says"));
        }
    }
    report("move the item down, or correct the table of ARCHITECTURE.md:", &offences);
}
