//! The setting of the web dashboard.

use std::path::PathBuf;

use clap::Args;

/// The option of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub(super) struct DashboardArgs {
    /// Directory with a build of the web dashboard, instead of the one in the program. Read once, at
    /// startup.
    #[arg(long, env = "GALVO_DASHBOARD_DIR", value_name = "DIRECTORY")]
    dashboard_dir: Option<PathBuf>,
}

/// The source of the web dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DashboardSource {
    /// The program, if it was built with a dashboard.
    Embedded,
    /// A directory.
    Directory(PathBuf),
    /// No source: the server has no dashboard.
    Absent,
}

impl DashboardArgs {
    /// Returns the source.
    pub(super) fn source(&self) -> DashboardSource {
        self.dashboard_dir.clone().map_or(DashboardSource::Embedded, DashboardSource::Directory)
    }
}
