//! The operator's settings. This module is the only reader of the process environment.
//!
//! All wrong values are reported together. An unknown `GALVO_` variable is an error: a misspelt setting
//! that is silently ignored is found only in production. The variables that Kubernetes sets for a
//! Service are not settings and are ignored.

mod account;
mod alert;
mod cluster;
mod dashboard;
mod jwt;
mod key;
mod network_settings;
mod oidc;
mod problems;
mod quota;
mod running_server;
mod serve;
mod service;
mod service_link;
mod session;
mod timeouts;
mod tls;
mod token;
mod traces;
mod user;

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, Parser, Subcommand};

use self::{problems::Problems, service_link::is_service_link};
use crate::{domain::slug::Slug, key_ring::KeySource, store::StoreUrl};

pub use self::account::AccountCommand;
pub use self::alert::{AlertConfig, SmtpConfig};
pub use self::cluster::{ClusterCommand, StateName};
pub use self::dashboard::DashboardSource;
pub use self::jwt::{JwksRefresh, JwksSource, JwtConfig, JwtSecret, Provision};
pub use self::key::KeyCommand;
pub use self::network_settings::NetworkConfig;
pub use self::oidc::{ClientSecret, OidcConfig};
pub use self::problems::ConfigError;
pub use self::quota::{AccountQuotaArgs, QuotaSetting};
pub use self::running_server::{RunningServerArgs, StatusArgs};
pub use self::serve::{ServeArgs, ServeConfig};
pub use self::service::{InstallArgs, RootArgs, ServiceCommand};
pub use self::session::SessionCommand;
pub use self::timeouts::Timeouts;
pub use self::tls::TlsConfig;
pub use self::token::{ScopeName, TokenCommand};
pub use self::traces::TracesConfig;
pub use self::user::{RoleName, UserCommand};

/// Every environment variable the program reads.
const VARIABLES: [&str; 60] = [
    "GALVO_ALERT_PRIVATE_TARGETS",
    "GALVO_CORS_ORIGINS",
    "GALVO_DASHBOARD_DIR",
    "GALVO_DATABASE_URL",
    "GALVO_DATABASE_CONNECTIONS",
    "GALVO_FORWARDED_HEADER",
    "GALVO_HOSTS",
    "GALVO_JWKS",
    "GALVO_JWT_ACCOUNT_CLAIM",
    "GALVO_JWT_AUDIENCE",
    "GALVO_JWT_ISSUER",
    "GALVO_JWT_PROVISION",
    "GALVO_JWT_PROVISION_ACCOUNT",
    "GALVO_JWT_ROLE_CLAIM",
    JWT_SECRET,
    "GALVO_JWT_SECRET_FILE",
    "GALVO_JWT_USER_CLAIM",
    "GALVO_LISTEN",
    "GALVO_LOG",
    "GALVO_LOG_FORMAT",
    "GALVO_MAIL_FROM",
    "GALVO_MAX_CONNECTIONS",
    "GALVO_MAX_QUERY_COST",
    "GALVO_METRICS_LISTEN",
    "GALVO_MIN_REPORT_INTERVAL",
    "GALVO_OIDC_ACCOUNT_CLAIM",
    "GALVO_OIDC_CLIENT_ID",
    OIDC_CLIENT_SECRET,
    "GALVO_OIDC_CLIENT_SECRET_FILE",
    "GALVO_OIDC_ISSUER",
    "GALVO_OIDC_NAME",
    "GALVO_OIDC_PROVISION",
    "GALVO_OIDC_PROVISION_ACCOUNT",
    "GALVO_OIDC_ROLE_CLAIM",
    "GALVO_OIDC_SCOPES",
    "GALVO_PERSISTED_DOCUMENTS",
    "GALVO_PERSISTED_DOCUMENTS_ONLY",
    "GALVO_PUBLIC_URL",
    "GALVO_QUERY_COST_PER_MINUTE",
    "GALVO_QUERY_COST_PER_MINUTE_OF_ADDRESS",
    "GALVO_QUERY_TIMEOUT",
    "GALVO_QUOTA_CLUSTERS",
    "GALVO_QUOTA_DAILY",
    "GALVO_QUOTA_RETENTION",
    "GALVO_QUOTA_STORED",
    "GALVO_QUOTA_THREADS",
    "GALVO_REDIS_URL",
    "GALVO_REPORTS_URL",
    "GALVO_REPORTS_PER_SECOND",
    "GALVO_REPORT_BYTES_PER_MINUTE",
    "GALVO_REPORT_BYTES_PER_MINUTE_OF_ADDRESS",
    SECRET_KEY,
    "GALVO_SECRET_KEY_FILE",
    "GALVO_SESSION_IDLE",
    "GALVO_SESSION_LIFETIME",
    "GALVO_SMTP_URL",
    "GALVO_TLS_CERTIFICATE",
    "GALVO_TLS_KEY",
    "GALVO_TRACES_ENDPOINT",
    "GALVO_TRUSTED_PROXIES",
];

/// The variable with the encryption keys. It has no flag: other users of a machine can read arguments.
const SECRET_KEY: &str = "GALVO_SECRET_KEY";

/// The variable with the secret shared with the JWT issuer. It has no flag, for the same reason.
const JWT_SECRET: &str = "GALVO_JWT_SECRET";

/// The variable with the client secret for the OpenID provider. It has no flag, for the same reason.
const OIDC_CLIENT_SECRET: &str = "GALVO_OIDC_CLIENT_SECRET";

/// Galvo, the open analytics server for Dask.
#[derive(Debug, Parser)]
#[command(name = "galvo", version, propagate_version = true)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// The options of every command.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The options of every command, unparsed.
#[derive(Clone, Debug, Args)]
pub struct CommonArgs {
    /// URL of the database: `sqlite://FILE?mode=rwc` or `postgres://USER:PASSWORD@HOST/DATABASE`. A
    /// relative SQLite path starts at the working directory.
    #[arg(
        long,
        global = true,
        env = "GALVO_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite://galvo.db?mode=rwc"
    )]
    database_url: String,
    /// Maximum number of connections to PostgreSQL, from 2 to 1000. SQLite ignores it.
    #[arg(long, global = true, env = "GALVO_DATABASE_CONNECTIONS", default_value = "16")]
    database_connections: String,
    /// Log filter: a level, or directives such as `target=level,…`.
    #[arg(long, global = true, env = "GALVO_LOG", default_value = "info,sea_orm_migration=warn")]
    log: String,
    /// File with the keys that encrypt sensitive columns of the database. Default for SQLite: the path
    /// of the database with `.key` appended. `serve` with PostgreSQL needs this or `GALVO_SECRET_KEY`.
    /// That variable has no flag and holds the keys themselves: URL-safe base64, separated by commas.
    /// The first key encrypts, all keys decrypt.
    #[arg(long, global = true, env = "GALVO_SECRET_KEY_FILE", value_name = "FILE")]
    secret_key_file: Option<PathBuf>,
    /// Format of the log: `text`, or `json` with one object per line.
    #[arg(long, global = true, env = "GALVO_LOG_FORMAT", default_value = "text")]
    log_format: String,
}

/// The program's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server: report ingest, the GraphQL API, and the REST API of the `coiled` client. Applies
    /// missing migrations first.
    Serve(Box<ServeArgs>),
    /// Apply missing migrations and exit.
    Migrate,
    /// Check the server on this machine for readiness. Exits with status 0 if it is ready, and with 1
    /// otherwise.
    Ready(RunningServerArgs),
    /// Print which database and which server there are, what they hold, and when the jobs last ran. Changes
    /// nothing.
    Status(StatusArgs),
    /// Print the GraphQL schema.
    Schema,
    /// Copy an SQLite database into a new file while the server runs. The keys are not copied.
    Backup {
        /// Path of the copy. The file must not exist.
        file: PathBuf,
    },
    /// Check everything that a server with these settings needs, and print advice for each problem.
    Doctor(Box<DoctorArgs>),
    /// Manage accounts.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Manage users.
    #[command(subcommand)]
    User(UserCommand),
    /// Manage API tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Manage browser sessions.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Manage precomputed daily usage totals.
    #[command(subcommand)]
    Rollup(RollupCommand),
    /// Manage the retention job, which removes expired data.
    #[command(subcommand)]
    Retention(RetentionCommand),
    /// Manage the keys that encrypt sensitive columns of the database.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage clusters.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Manage the systemd service.
    #[command(subcommand)]
    Service(ServiceCommand),
}

/// The options of `doctor`, unparsed.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Print the results as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Manage precomputed daily usage totals.
#[derive(Debug, Subcommand)]
pub enum RollupCommand {
    /// Recompute the daily usage totals from the hourly rows. The totals change only if they were wrong.
    Rebuild {
        /// Short name of the account. Default: all accounts.
        #[arg(long, value_parser = parse_slug)]
        account: Option<Slug>,
    },
}

/// Manage the retention job, which removes expired data.
#[derive(Debug, Subcommand)]
pub enum RetentionCommand {
    /// Resume the removal of expired data after the server stopped it, because its clock or the amount
    /// of expired data looked wrong. Check the clock of the server first: removed data cannot be
    /// restored.
    Confirm,
}

/// The settings of every command.
#[derive(Clone, Debug)]
pub struct CommonConfig {
    /// The location of the database.
    pub database: StoreUrl,
    /// The maximum number of connections to PostgreSQL.
    pub connections: u32,
    /// The source of the encryption keys. `None` if none is configured; [`Cli::config`] then rejects the
    /// commands that need keys.
    pub keys: Option<KeySource>,
    /// The log filter.
    pub log: String,
    /// The format of the log.
    pub log_format: LogFormat,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines of text for people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

impl Cli {
    /// Parses and checks all settings, including those of the command.
    ///
    /// # Errors
    /// Returns all problems together.
    pub fn config(&self) -> Result<(CommonConfig, Option<ServeConfig>), ConfigError> {
        let mut problems = Problems(unknown_variables());
        let common = self.common.read(&mut problems);
        let serve = match &self.command {
            Command::Serve(args) => args.read(&mut problems).map(Some),
            Command::Doctor(args) => args.serve.read(&mut problems).map(Some),
            _ => Some(None),
        };
        let needs_keys = match &self.command {
            Command::Serve(_) | Command::Key(KeyCommand::Rotate | KeyCommand::Retire { .. }) => true,
            Command::Migrate
            | Command::Backup { .. }
            | Command::Doctor(_)
            | Command::Ready(_)
            | Command::Status(_)
            | Command::Schema
            | Command::Account(_)
            | Command::User(_)
            | Command::Token(_)
            | Command::Session(_)
            | Command::Rollup(_)
            | Command::Retention(_)
            | Command::Cluster(_)
            | Command::Service(_)
            | Command::Key(KeyCommand::Generate | KeyCommand::List) => false,
        };
        #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
        let has_key_setting = std::env::var_os(SECRET_KEY).is_some() || self.common.secret_key_file.is_some();
        if needs_keys && !has_key_setting && common.as_ref().is_some_and(|common| common.keys.is_none()) {
            problems.0.push(format!(
                "{SECRET_KEY} or --secret-key-file (GALVO_SECRET_KEY_FILE): PostgreSQL needs one of them; `galvo key \
                 generate` prints a key"
            ));
        }
        match (common, serve) {
            (Some(common), Some(serve)) if problems.0.is_empty() => Ok((common, serve)),
            _ => Err(ConfigError(problems.0)),
        }
    }
}

impl CommonArgs {
    fn read(&self, problems: &mut Problems) -> Option<CommonConfig> {
        let database = problems.read("database-url", &self.database_url);
        let connections =
            problems.read_in_range("database-connections", &self.database_connections, (2, 1_000));
        let log: Option<tracing_subscriber::EnvFilter> = problems.read("log", &self.log);
        let log_format = problems.read("log-format", &self.log_format);
        #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
        let key_variable = std::env::var_os(SECRET_KEY);
        if key_variable.is_some() && self.secret_key_file.is_some() {
            problems.add("secret-key-file", &format_args!("cannot be set together with {SECRET_KEY}"));
        }
        let database = database?;
        let keys = match (key_variable, &self.secret_key_file, &database) {
            (Some(key_variable), ..) => problems.read_keys(&key_variable).map(KeySource::Ring),
            (None, Some(path), _) => Some(KeySource::File(path.clone())),
            (None, None, StoreUrl::Sqlite { path, .. }) => {
                let mut file = path.clone().into_os_string();
                file.push(".key");
                Some(KeySource::BesideStore(file.into()))
            }
            (None, None, StoreUrl::Postgres(_)) => None,
        };
        Some(CommonConfig {
            database,
            connections: connections?,
            keys,
            log: log.map(|_| self.log.clone())?,
            log_format: log_format?,
        })
    }
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("must be 'text' or 'json'"),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
fn unknown_variables() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with("GALVO_") && !VARIABLES.contains(&name.as_str()))
        .filter(|(name, value)| !is_service_link(name, &value.to_string_lossy()))
        .map(|(name, _)| format!("{name}: unknown setting"))
        .collect()
}

fn parse_slug(text: &str) -> Result<Slug, &'static str> {
    text.parse()
}

fn parse_socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| ADDRESS)
}

/// The error message for a malformed socket address.
const ADDRESS: &str = "must be an IP address and a port, such as 127.0.0.1:8000, 0.0.0.0:8000 or [::1]:8000";

fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let message = "must be a whole number followed by d, h, m or s, as in 90d";
    let unit = text.chars().last().ok_or(message)?;
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| message)?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err(message),
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn every_variable_of_an_option_is_known_and_no_other() {
        use clap::CommandFactory;
        fn collect(command: &clap::Command, found: &mut BTreeSet<String>) {
            let variables = command.get_arguments().filter_map(clap::Arg::get_env);
            found.extend(variables.map(|name| name.to_string_lossy().into_owned()));
            command.get_subcommands().for_each(|one| collect(one, found));
        }
        // These have no options, since others could read them.
        let mut found = BTreeSet::from([SECRET_KEY, JWT_SECRET, OIDC_CLIENT_SECRET].map(str::to_owned));
        collect(&Cli::command(), &mut found);
        assert_eq!(found, VARIABLES.map(str::to_owned).into());
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, seconds) in [("90d", 7_776_000), ("12h", 43_200), ("30m", 1_800), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "90", "1.5h", "-1d", "3w", "3 d", "9ä"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_problems_are_named_and_values_are_not() {
        let cli = Cli::parse_from([
            "galvo",
            "--database-url=mysql://ada:geheim@db/x",
            "--log-format=xml",
            "serve",
            "--listen=nowhere",
            "--reports-per-second=0",
        ]);
        let error = cli.config().expect_err("four settings are wrong").to_string();
        for flag in ["--database-url", "--log-format", "--listen", "--reports-per-second"] {
            assert!(error.contains(flag), "{flag} is missing in: {error}");
        }
        assert!(!error.contains("geheim"), "{error}");
    }
}
