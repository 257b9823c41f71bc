//! The files of a build of the dashboard: those in the program, or those of a directory.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use axum::body::Bytes;

use crate::{
    config::DashboardSource,
    domain::base_path::BasePath,
    guard::KnownDocuments,
    http::{
        middleware::{content_coding::ContentCoding, response_compression::gzip_file},
        pages::static_file::StaticFile,
    },
};

/// The files that `build.rs` found, with their names.
static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/dashboard_files.rs"));

/// The page of the dashboard.
const INDEX: &str = "index.html";

/// The page of GraphiQL.
const GRAPHIQL: &str = "graphiql.html";

/// The documents of the page's queries, by their hashes.
const DOCUMENTS: &str = "persisted-documents.json";

/// The element of both pages whose address the server sets to its own path.
const BASE: &str = "<base href=\"/\" />";

/// The codings of compressed forms with their extensions, the preferred one first.
const CODINGS: [(ContentCoding, &str); 2] = [(ContentCoding::Brotli, "br"), (ContentCoding::Gzip, "gz")];

/// A build of the dashboard.
pub struct Dashboard {
    index: StaticFile,
    /// None for a build without GraphiQL.
    graphiql: Option<StaticFile>,
    /// The other files, by their names relative to the build.
    files: HashMap<String, StaticFile>,
    documents: KnownDocuments,
}

/// The reason why a build cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The page is missing.
    #[error("there is no {INDEX}: the directory is no build of the dashboard")]
    NoPage,
    /// A page does not contain the element.
    #[error("{0} does not contain {BASE}, so it cannot be served below a path")]
    NoBase(&'static str),
    /// The documents are malformed.
    #[error("{DOCUMENTS} is not an object of documents by their SHA-256 hashes")]
    Documents,
}

impl Dashboard {
    /// Reads a build, for a server whose paths begin with `base`. Returns None if there is none.
    ///
    /// # Errors
    /// Returns an error if the build is incomplete or cannot be read.
    pub fn open(source: &DashboardSource, base: &BasePath) -> Result<Option<Self>, DashboardError> {
        let files = match source {
            DashboardSource::Absent => return Ok(None),
            DashboardSource::Embedded if EMBEDDED.is_empty() => return Ok(None),
            DashboardSource::Embedded => {
                let bytes = |&(name, bytes): &(&str, _)| (name.to_owned(), Bytes::from_static(bytes));
                EMBEDDED.iter().map(bytes).collect()
            }
            DashboardSource::Directory(directory) => {
                let mut files = HashMap::new();
                read_files(directory, "", &mut files)?;
                files
            }
        };
        Self::new(files, base).map(Some)
    }

    fn new(mut files: HashMap<String, Bytes>, base: &BasePath) -> Result<Self, DashboardError> {
        let documents = match files.remove(DOCUMENTS) {
            Some(json) => KnownDocuments::parse(&json).ok_or(DashboardError::Documents)?,
            None => KnownDocuments::default(),
        };
        let mut forms = HashMap::new();
        for (coding, extension) in CODINGS {
            let names: Vec<String> = files.keys().cloned().collect();
            for name in names {
                if let Some(plain) = name.strip_suffix(extension).and_then(|name| name.strip_suffix('.'))
                    && let Some(bytes) = files.remove(&name)
                {
                    forms.entry(plain.to_owned()).or_insert_with(Vec::new).push((coding, bytes));
                }
            }
        }
        let mut page = |name| {
            let forms = forms.remove(name).unwrap_or_default();
            files.remove(name).map(|bytes| build_page(name, bytes, forms, base)).transpose()
        };
        let index = page(INDEX)?.ok_or(DashboardError::NoPage)?;
        let graphiql = page(GRAPHIQL)?;
        let file = |(name, bytes): (String, Bytes)| {
            let forms = forms.remove(&name).unwrap_or_default();
            (name.clone(), StaticFile::new(&name, bytes, forms))
        };
        Ok(Self { index, graphiql, files: files.into_iter().map(file).collect(), documents })
    }

    /// Returns the page of the dashboard.
    pub(super) fn index(&self) -> &StaticFile {
        &self.index
    }

    /// Returns the page of GraphiQL.
    pub(in crate::http) fn graphiql(&self) -> Option<&StaticFile> {
        self.graphiql.as_ref()
    }

    /// Returns a file other than the pages, by its name relative to the build.
    pub(super) fn file(&self, name: &str) -> Option<&StaticFile> {
        self.files.get(name)
    }

    /// Returns the documents of the page's queries.
    pub(crate) fn documents(&self) -> &KnownDocuments {
        &self.documents
    }
}

/// Returns a page with the server's own path in it. The compressed forms of the build do not fit a changed
/// page.
fn build_page(
    name: &'static str,
    page: Bytes,
    forms: Vec<(ContentCoding, Bytes)>,
    base: &BasePath,
) -> Result<StaticFile, DashboardError> {
    let text = std::str::from_utf8(&page).ok().filter(|text| text.contains(BASE));
    let text = text.ok_or(DashboardError::NoBase(name))?;
    if base.is_empty() {
        return Ok(StaticFile::new(name, page, forms));
    }
    let element = BASE.replace("\"/\"", &format!("\"{}\"", base.address("/")));
    let page = Bytes::from(text.replacen(BASE, &element, 1));
    let compressed = gzip_file(&page);
    Ok(StaticFile::new(name, page, vec![(ContentCoding::Gzip, compressed)]))
}

/// Reads the files below a directory. Their names have slashes.
fn read_files(
    directory: &Path,
    prefix: &str,
    files: &mut HashMap<String, Bytes>,
) -> Result<(), DashboardError> {
    let to_read_error = |error| DashboardError::Read(directory.to_owned(), error);
    for entry in fs::read_dir(directory).map_err(to_read_error)? {
        let path = entry.map_err(to_read_error)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            read_files(&path, &format!("{name}/"), files)?;
        } else {
            let bytes = fs::read(&path).map_err(|error| DashboardError::Read(path.clone(), error))?;
            files.insert(name, bytes.into());
        }
    }
    Ok(())
}
