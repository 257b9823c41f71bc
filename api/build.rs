//! Embeds the build of the web dashboard in the library, if there is one when the library is built.
//!
//! The build is the directory `web/dist`, or the one that the variable `DASHBOARD_DIST` names. Without a
//! build, the table of files is empty, and the server needs no Node.js. The variable has no prefix
//! `GALVO_`, because the server rejects unknown settings with that prefix.
#![expect(clippy::disallowed_methods, reason = "Cargo passes the settings of a build in the environment")]

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// The variable that names another directory.
const VARIABLE: &str = "DASHBOARD_DIST";

/// The extensions of the compressed forms that stand beside a file.
const COMPRESSED: [&str; 2] = ["br", "gz"];

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    let directory = named.clone().unwrap_or_else(|| web.join("dist"));
    if named.is_none() && web.is_dir() {
        // Cargo would run this script each time if it were told to watch a directory that does not exist. A
        // source tree that cannot be written has no later build of the dashboard either.
        let _ = fs::create_dir_all(&directory);
    }
    let mut files = Vec::new();
    if let Ok(directory) = directory.canonicalize() {
        println!("cargo::rerun-if-changed={}", directory.display());
        add_files(&directory, "", &mut files);
    } else if let Some(named) = named {
        panic!("{VARIABLE}: there is no directory {}", named.display());
    }
    assert!(
        files.is_empty() || files.iter().any(|(name, _)| name == "index.html"),
        "{} is no build of the dashboard: it has no index.html",
        directory.display()
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    // The program depends on the text of the table. With the path of the sources in it, two builds of the
    // same sources in different directories would differ.
    let copies = out.join("dashboard");
    let mut table = String::from("&[\n");
    for (name, path) in &files {
        write_if_changed(&copies.join(name), &fs::read(path).expect("the file can be read"));
        let copy = format!("dashboard/{name}");
        writeln!(table, "    ({name:?}, include_bytes!({copy:?}) as &[u8]),").expect("a text takes all");
    }
    table += "]\n";
    write_if_changed(&out.join("dashboard_files.rs"), table.as_bytes());
}

/// Writes a file below the directory of the build. An unchanged file keeps its time.
fn write_if_changed(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == content) {
        return;
    }
    fs::create_dir_all(path.parent().expect("the file is in a directory"))
        .and_then(|()| fs::write(path, content))
        .expect("the directory of the build can be written");
}

/// Adds the files below a directory with their names, which are relative to the build and have slashes.
fn add_files(directory: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) {
    let entries = fs::read_dir(directory).expect("the build of the dashboard can be read");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("the entry can be read").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).expect("files have names in UTF-8");
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            add_files(&path, &format!("{name}/"), files);
        } else if has_original(&path) {
            files.push((name, path));
        }
    }
}

/// Returns false for a compressed form whose original is missing: a left-over of another build.
fn has_original(path: &Path) -> bool {
    let is_compressed =
        path.extension().is_some_and(|extension| COMPRESSED.iter().any(|of| extension == *of));
    !is_compressed || path.with_extension("").is_file()
}
