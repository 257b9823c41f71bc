//! The options of `galvo service`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};

/// A command for the systemd service.
#[derive(Clone, Debug, Subcommand)]
pub enum ServiceCommand {
    /// Install this program as a systemd service, and start it. Writes the program, the user, the settings
    /// and the unit. If the service is installed, replaces the program and keeps the settings.
    Install(InstallArgs),
    /// Run another command as the service does: with its user, settings and directory.
    Run {
        /// The command, such as `user list`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Stop the service, and remove its program and its unit. Data, settings and user remain.
    Uninstall {
        #[command(flatten)]
        root: RootArgs,
    },
}

/// The options of `service install`.
#[derive(Clone, Debug, Args)]
pub struct InstallArgs {
    #[command(flatten)]
    pub root: RootArgs,
    /// Do not start the service now; it starts with the machine.
    #[arg(long)]
    pub no_start: bool,
}

/// The file system of a service.
#[derive(Clone, Debug, Args)]
pub struct RootArgs {
    /// Root directory of the system, for the image of a machine that does not run. Nothing is started or
    /// stopped there.
    #[arg(long, value_name = "DIRECTORY")]
    pub root: Option<PathBuf>,
}
