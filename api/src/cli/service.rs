//! The command `galvo service`. It installs the program as a service of systemd, with the unit, the user and
//! the example settings in `docker/systemd`.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, Permissions},
    io::{self, IsTerminal, Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{OpenOptionsExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use crate::config::{InstallArgs, ServiceCommand};

const UNIT_NAME: &str = "galvo.service";

// The files of the service, below the root directory of its system.
const PROGRAM: &str = "usr/local/bin/galvo";
/// The program before the latest installation, for a rollback.
const PREVIOUS_PROGRAM: &str = "usr/local/bin/galvo.previous";
const SETTINGS: &str = "etc/galvo/galvo.env";
const USER: &str = "usr/lib/sysusers.d/galvo.conf";
const UNIT: &str = "etc/systemd/system/galvo.service";
const DATA: &str = "var/lib/galvo";
/// The changes of an administrator to the unit.
const DROP_INS: &str = "etc/systemd/system/galvo.service.d";

const SETTINGS_CONTENT: &str = include_str!("../../../docker/systemd/galvo.env");
const USER_CONTENT: &str = include_str!("../../../docker/systemd/galvo.sysusers");
const UNIT_CONTENT: &str = include_str!("../../../docker/systemd/galvo.service");

/// The directory that exists if systemd runs the machine.
const SYSTEMD_DIRECTORY: &str = "/run/systemd/system";

/// The reason why a command for the service failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    #[error("only root can manage the service: run the command with sudo")]
    NotRoot,
    #[error("systemd does not run this machine: start `galvo serve` by the machine's own service manager")]
    NoSystemd,
    #[error("the service is not installed: `galvo service install` installs it")]
    NotInstalled,
    #[error(
        "{} is a script, such as the command of the Python package, and is not overwritten: install that \
         package into a virtual environment",
        .0.display()
    )]
    Script(PathBuf),
    #[error("cannot read the program {}", .0.display())]
    Program(PathBuf, #[source] io::Error),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error("cannot remove {}", .0.display())]
    Remove(PathBuf, #[source] io::Error),
    #[error("cannot run {0}")]
    Run(&'static str, #[source] io::Error),
    #[error("{0} failed with {1}")]
    Failed(&'static str, ExitStatus),
    #[error("the service did not start: `journalctl --unit galvo` has the reason")]
    NotStarted,
}

pub(super) fn run(command: &ServiceCommand) -> Result<(), ServiceError> {
    match command {
        ServiceCommand::Install(InstallArgs { root, no_start }) => {
            let system = System::new(root.root.as_deref())?;
            system.install()?;
            if system.is_this_machine() && !no_start { system.start() } else { Ok(()) }
        }
        ServiceCommand::Run { arguments } => System::new(None)?.execute(arguments),
        ServiceCommand::Uninstall { root } => System::new(root.root.as_deref())?.uninstall(),
    }
}

/// The system that has the service: this machine, or the root directory of another one.
struct System<'a> {
    root: Option<&'a Path>,
}

impl<'a> System<'a> {
    /// Checks that the service of this machine can be managed. Another root directory needs no check: writing
    /// its files fails without the permission.
    fn new(root: Option<&'a Path>) -> Result<Self, ServiceError> {
        if root.is_none() {
            if !Path::new(SYSTEMD_DIRECTORY).is_dir() {
                return Err(ServiceError::NoSystemd);
            }
            if !rustix::process::geteuid().is_root() {
                return Err(ServiceError::NotRoot);
            }
        }
        Ok(Self { root })
    }

    fn is_this_machine(&self) -> bool {
        self.root.is_none()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.unwrap_or(Path::new("/")).join(name)
    }

    /// Installs the files, and then makes systemd use them.
    fn install(&self) -> Result<(), ServiceError> {
        self.install_program()?;
        self.write(USER, USER_CONTENT.as_bytes(), 0o644)?;
        let settings = self.path(SETTINGS);
        if settings.exists() {
            println!("{}: kept", settings.display());
        } else {
            self.write(SETTINGS, SETTINGS_CONTENT.as_bytes(), 0o600)?;
        }
        self.write(UNIT, UNIT_CONTENT.as_bytes(), 0o644)?;
        self.run_program("systemd-sysusers", &[])?;
        if self.is_this_machine() {
            self.run_program("systemctl", &["daemon-reload"])?;
        }
        self.run_program("systemctl", &["--quiet", "enable", UNIT_NAME])
    }

    /// Installs the running program. Keeps the installed program as the previous one, even if it is the
    /// running one.
    fn install_program(&self) -> Result<(), ServiceError> {
        let mut program = Vec::new();
        let read_result = File::open("/proc/self/exe").and_then(|mut file| file.read_to_end(&mut program));
        read_result
            .map_err(|error| ServiceError::Program(std::env::current_exe().unwrap_or_default(), error))?;
        let (path, previous) = (self.path(PROGRAM), self.path(PREVIOUS_PROGRAM));
        match fs::read(&path) {
            Ok(installed) if installed == program => {
                println!("{}: kept", path.display());
                return Ok(());
            }
            Ok(installed) if is_script(&installed) => return Err(ServiceError::Script(path)),
            Ok(_) => {
                let to_write_error = |error| ServiceError::Write(previous.clone(), error);
                let _ = fs::remove_file(&previous);
                fs::hard_link(&path, &previous).map_err(to_write_error)?;
                println!("{}: the previous program", previous.display());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(ServiceError::Program(path, error)),
        }
        self.write(PROGRAM, &program, 0o755)
    }

    /// Writes a file as a whole, or keeps the existing one if that fails. The umask of root's shell has no
    /// effect: all users can run the program, and the service's user can read its key.
    fn write(&self, name: &str, content: &[u8], mode: u32) -> Result<(), ServiceError> {
        let path = self.path(name);
        let to_write_error = |error| ServiceError::Write(path.clone(), error);
        create_directory(path.parent().unwrap_or(Path::new("/"))).map_err(to_write_error)?;
        let temporary_path = path.with_added_extension(format!("{}.new", std::process::id()));
        let write_result = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary_path)
            .and_then(|mut file| {
                file.write_all(content)?;
                file.set_permissions(Permissions::from_mode(mode))?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&temporary_path, &path));
        if let Err(error) = write_result {
            let _ = fs::remove_file(&temporary_path);
            return Err(to_write_error(error));
        }
        println!("{}: written", path.display());
        Ok(())
    }

    /// Starts or restarts the service, and waits until it is ready.
    fn start(&self) -> Result<(), ServiceError> {
        match self.run_program("systemctl", &["restart", UNIT_NAME]) {
            Err(ServiceError::Failed(..)) => return Err(ServiceError::NotStarted),
            result => result?,
        }
        println!(
            "The service runs. Its settings are in {}. A command for its data:\n  \
             sudo {} service run user list",
            self.path(SETTINGS).display(),
            self.path(PROGRAM).display()
        );
        Ok(())
    }

    /// Replaces this process by a transient unit that runs a command of the program.
    fn execute(&self, arguments: &[OsString]) -> Result<(), ServiceError> {
        let mut unit_query = Command::new("systemctl");
        unit_query.args(["cat", UNIT_NAME]).stdout(Stdio::null()).stderr(Stdio::null());
        if !unit_query.status().map_err(|error| ServiceError::Run("systemctl", error))?.success() {
            return Err(ServiceError::NotInstalled);
        }
        let mut command = Command::new("systemd-run");
        command.args(["--quiet", "--wait", "--collect", "--uid=galvo", "--gid=galvo"]);
        // A command such as `user password` prompts on a terminal, and reads a pipe otherwise.
        command.arg(if io::stdin().is_terminal() && io::stdout().is_terminal() { "--pty" } else { "--pipe" });
        command.arg(format!("--working-directory={}", self.path(DATA).display()));
        command.arg(format!("--property=EnvironmentFile=-{}", self.path(SETTINGS).display()));
        // The first start of the service or of a command creates the directory.
        command.args(["--property=StateDirectory=galvo", "--property=StateDirectoryMode=0700"]);
        command.args(["--property=UMask=0077", "--"]).arg(self.path(PROGRAM));
        command.args(arguments.iter().map(|argument| escape_argument(argument)));
        Err(ServiceError::Run("systemd-run", command.exec()))
    }

    /// Removes the service. A missing file is no error: an interrupted removal may be repeated.
    fn uninstall(&self) -> Result<(), ServiceError> {
        if !self.path(UNIT).exists() {
            return Err(ServiceError::NotInstalled);
        }
        let command: &[&str] = if self.is_this_machine() { &["disable", "--now"] } else { &["disable"] };
        self.run_program("systemctl", &[&["--quiet"], command, &[UNIT_NAME]].concat())?;
        // The unit is removed last, so that an interrupted removal can be repeated.
        for name in [USER, PREVIOUS_PROGRAM, PROGRAM, UNIT] {
            let path = self.path(name);
            match fs::remove_file(&path) {
                Ok(()) => println!("{}: removed", path.display()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ServiceError::Remove(path, error)),
            }
        }
        if self.is_this_machine() {
            self.run_program("systemctl", &["daemon-reload"])?;
        }
        for name in [DATA, SETTINGS, DROP_INS] {
            let path = self.path(name);
            if path.exists() {
                println!("{}: remains", path.display());
            }
        }
        Ok(())
    }

    /// Runs a program of systemd for this system.
    fn run_program(&self, program: &'static str, arguments: &[&str]) -> Result<(), ServiceError> {
        let mut command = Command::new(program);
        if let Some(root) = self.root {
            command.arg(format!("--root={}", root.display()));
        }
        let status = command.args(arguments).status().map_err(|error| ServiceError::Run(program, error))?;
        if status.success() { Ok(()) } else { Err(ServiceError::Failed(program, status)) }
    }
}

/// Creates a directory and its missing parents. All users can read them.
fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        create_directory(parent)?;
    }
    fs::create_dir(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o755))
}

fn is_script(program: &[u8]) -> bool {
    program.starts_with(b"#!")
}

/// Escapes an argument for systemd, which expands variables in the arguments of commands.
fn escape_argument(argument: &OsStr) -> OsString {
    let bytes = argument.as_bytes().iter().flat_map(|byte| match byte {
        b'$' => vec![b'$', b'$'],
        other => vec![*other],
    });
    OsString::from_vec(bytes.collect())
}
