//! A build of the dashboard, as `web/` makes it, with contents that tests recognize.

use std::{fs, path::Path};

use galvo::config::DashboardSource;
use tempfile::TempDir;

/// The page of the build.
pub const PAGE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><base href=\"/\" />\
                        <script type=\"module\" src=\"./assets/app-1a2b.js\"></script></head></html>";

/// The page of GraphiQL.
pub const GRAPHIQL: &str = "<!doctype html><html lang=\"en\"><head><base href=\"/\" />\
                            <script type=\"module\" src=\"./assets/graphiql-9c0d.js\"></script></head></html>";

/// The script of the build.
pub const SCRIPT: &str = "import('./lazy-3c4d.js')";

/// A document of the page, and its SHA-256 according to `sha256sum`.
pub const DOCUMENT: &str = "query Name { viewer { user { name } } }";
pub const DOCUMENT_HASH: &str = "bd4de21539feeb796c18fa0fd5154b92c7954a09e38de5a9fbb73696757dac18";

/// A directory with a build.
pub struct DashboardBuild(TempDir);

impl Default for DashboardBuild {
    /// Writes a build whose compressed forms are marked, so that tests can distinguish them.
    fn default() -> Self {
        let build = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(build.path().join("assets/fonts")).unwrap();
        for (name, text) in [
            ("index.html", PAGE),
            ("index.html.br", "the page by brotli"),
            ("index.html.gz", "the page by gzip"),
            ("graphiql.html", GRAPHIQL),
            ("graphiql.html.br", "GraphiQL by brotli"),
            ("graphiql.html.gz", "GraphiQL by gzip"),
            ("assets/app-1a2b.js", SCRIPT),
            ("assets/app-1a2b.js.br", "the script by brotli"),
            ("assets/app-1a2b.js.gz", "the script by gzip"),
            ("assets/style-5e6f.css", "body{margin:0}"),
            ("assets/fonts/text-7a8b.woff2", "a font"),
            ("favicon.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ] {
            build.write(name, text);
        }
        build.write("persisted-documents.json", &format!("{{\"{DOCUMENT_HASH}\":\"{DOCUMENT}\"}}"));
        build
    }
}

impl DashboardBuild {
    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The setting of a server.
    #[must_use]
    pub fn source(&self) -> DashboardSource {
        DashboardSource::Directory(self.path().to_owned())
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }
}
