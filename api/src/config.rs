//! The operator's settings. This module is the only reader of the process environment.
//!
//! All wrong values are reported together. An unknown `GALVO_` variable is an error: a misspelt setting
//! that is silently ignored is found only in production. The variables that Kubernetes sets for a
//! Service are not settings and are ignored.

mod alert;
mod cluster;
mod dashboard;
mod jwt;
mod network_settings;
mod oidc;
mod quota;
mod running_server;
mod service;
mod service_link;
mod timeouts;
mod tls;
mod traces;

use std::{ffi::OsStr, fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Parser, Subcommand, ValueEnum};
use entity::{api_token::Scope, membership::Role};

use crate::{
    bus::RedisUrl,
    domain::{
        claims::is_subject, public_url::PublicUrl, quota::Limits, session::SessionLifetimes, slug::Slug,
        time, token::ApiToken,
    },
    encryption::{Keys, KeysError, PLAIN},
    key_ring::KeySource,
    store::StoreUrl,
};

pub use self::alert::{AlertConfig, SmtpConfig};
pub use self::cluster::{ClusterCommand, StateName};
pub use self::dashboard::DashboardSource;
pub use self::jwt::{JwksRefresh, JwksSource, JwtConfig, JwtSecret, Provision};
pub use self::network_settings::NetworkConfig;
pub use self::oidc::{ClientSecret, OidcConfig};
pub use self::quota::{AccountQuotaArgs, QuotaSetting};
pub use self::running_server::{RunningServerArgs, StatusArgs};
pub use self::service::{InstallArgs, RootArgs, ServiceCommand};
pub use self::timeouts::Timeouts;
pub use self::tls::TlsConfig;
pub use self::traces::TracesConfig;
use self::{
    alert::AlertArgs, dashboard::DashboardArgs, jwt::JwtArgs, network_settings::NetworkArgs, oidc::OidcArgs,
    quota::QuotaArgs, service_link::is_service_link, tls::TlsArgs, traces::TracesArgs,
};

/// Every environment variable the program reads.
const VARIABLES: [&str; 59] = [
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
/// The shortest and the longest value of the session settings. Browsers keep no cookie for more than 400
/// days.
const MIN_SESSION_DURATION: Duration = Duration::from_mins(5);
const MAX_SESSION_DURATION: Duration = Duration::from_hours(400 * 24);

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

/// The options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// IP address and port to listen on, as `ADDRESS:PORT`. Port 0 picks a free port.
    #[arg(long, env = "GALVO_LISTEN", default_value = "127.0.0.1:8000")]
    listen: String,
    /// Second address for /metrics, /healthz and /readyz, as `ADDRESS:PORT`, open to every client that
    /// can reach it. If set, /metrics is served only there. Otherwise /metrics is served on the main
    /// address, to clients on this machine only.
    #[arg(long, env = "GALVO_METRICS_LISTEN", value_name = "ADDRESS:PORT")]
    metrics_listen: Option<String>,
    /// Minimum interval between two reports of a cluster, in seconds, from 0.1 to 600. The server tells
    /// schedulers to wait this long.
    #[arg(long, env = "GALVO_MIN_REPORT_INTERVAL", default_value = "1")]
    min_report_interval: String,
    /// Maximum rate of reports per API token, in reports per second, from 1 to 1000000. Bursts of up to
    /// ten seconds' worth pass. Requests beyond the limit receive status 429.
    #[arg(long, env = "GALVO_REPORTS_PER_SECOND", default_value = "200")]
    reports_per_second: String,
    /// Maximum number of open client connections, from 1 to 100000. Further connections wait for a free
    /// slot. Each connection needs a file descriptor; the server lowers this number if the process limit
    /// is too small.
    #[arg(long, env = "GALVO_MAX_CONNECTIONS", default_value = "900")]
    max_connections: String,
    /// Maximum cost of one GraphQL request, in response fields, from 1000 to 100000000.
    /// `docs/graphql.md` explains the calculation.
    #[arg(long, env = "GALVO_MAX_QUERY_COST", default_value = "500000")]
    max_query_cost: String,
    /// Directory of persisted GraphQL documents, in files that end in `.graphql`. Requests can send the
    /// SHA-256 hash of a document instead of its text. Read once, at startup.
    #[arg(long, env = "GALVO_PERSISTED_DOCUMENTS", value_name = "DIRECTORY")]
    persisted_documents: Option<PathBuf>,
    /// Reject every GraphQL request that does not use a persisted document.
    #[arg(long, env = "GALVO_PERSISTED_DOCUMENTS_ONLY", requires = "persisted_documents")]
    persisted_documents_only: bool,
    /// Maximum total cost of the GraphQL requests per API token in a minute, from 1000 to 1000000000. A
    /// user who signs in without an API token has a limit of the same size. Requests beyond the limit
    /// receive status 429. Must not be less than `GALVO_MAX_QUERY_COST`.
    #[arg(long, env = "GALVO_QUERY_COST_PER_MINUTE", default_value = "5000000")]
    query_cost_per_minute: String,
    /// Timeout of a GraphQL request, in seconds, from 0.1 to 600. Slower requests receive status 504.
    #[arg(long, env = "GALVO_QUERY_TIMEOUT", default_value = "30")]
    query_timeout: String,
    /// URL under which browsers reach this server, as `https://NAME` or `https://NAME/PATH`. If it
    /// begins with `https`, session cookies are marked `Secure`.
    #[arg(long, env = "GALVO_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Separate origin for the contents of performance reports, as `https://NAME`. It must be a host
    /// name of this server that serves nothing else, without a path. Requires `GALVO_PUBLIC_URL`.
    #[arg(long, env = "GALVO_REPORTS_URL", value_name = "URL")]
    reports_url: Option<String>,
    /// URL of the Redis server through which several servers of one database notify each other of
    /// changes: `redis://…` or `rediss://…`.
    #[arg(long, env = "GALVO_REDIS_URL", hide_env_values = true)]
    redis_url: Option<String>,
    /// Maximum lifetime of a browser session from sign-in, such as `30d` or `12h`. From 5m to 400d.
    #[arg(long, env = "GALVO_SESSION_LIFETIME", default_value = "30d")]
    session_lifetime: String,
    /// Time after which an unused browser session ends, such as `7d` or `1h`. From 5m to 400d.
    #[arg(long, env = "GALVO_SESSION_IDLE", default_value = "7d")]
    session_idle: String,
    /// On an empty database, create the account `default`, the user `admin` and an API token, and print
    /// the token once.
    #[arg(long)]
    bootstrap: bool,
    /// At each start, print a link with which the first owner can sign in once, within 15 minutes. On an
    /// empty database, `--bootstrap` prints it too if the server listens on a loopback address.
    #[arg(long)]
    sign_in_link: bool,
    #[command(flatten)]
    dashboard: DashboardArgs,
    #[command(flatten)]
    jwt: JwtArgs,
    #[command(flatten)]
    oidc: OidcArgs,
    #[command(flatten)]
    alerts: AlertArgs,
    #[command(flatten)]
    perimeter: NetworkArgs,
    #[command(flatten)]
    quotas: QuotaArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    traces: TracesArgs,
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

/// Manage accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// List the accounts: short name, number of members, creation time.
    List,
    /// Create an account.
    Create {
        /// Short name of the account in URLs.
        #[arg(value_parser = parse_slug)]
        slug: Slug,
    },
    /// Delete an account with all its data. This cannot be undone. All memberships end at once; the
    /// running server removes the data in the background.
    Delete {
        /// Short name of the account.
        #[arg(value_parser = parse_slug)]
        slug: Slug,
        /// The short name again, as confirmation.
        #[arg(long, value_parser = parse_slug)]
        confirm: Slug,
    },
    /// Set an account's storage quotas, or print them with the current usage.
    Quota(AccountQuotaArgs),
}

/// Manage users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// List the memberships: user, account, role, and the end of guest memberships.
    List {
        /// Short name of the account. Default: all accounts.
        #[arg(long, value_parser = parse_slug)]
        account: Option<Slug>,
    },
    /// Add a user to an account. Creates the user if the name is unknown.
    Create {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Role of the user in the account.
        #[arg(long, value_enum, default_value_t = RoleName::Member)]
        role: RoleName,
        /// End of a guest membership, such as `2026-12-31T00:00:00Z`. Required for guests, not accepted
        /// for other roles.
        #[arg(long, value_parser = time::parse)]
        until: Option<DateTime<Utc>>,
    },
    /// Change the role of a member, or the end of a guest membership.
    Role {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Role of the user in the account.
        #[arg(long, value_enum)]
        role: RoleName,
        /// End of a guest membership, such as `2026-12-31T00:00:00Z`. Required for guests, not accepted
        /// for other roles.
        #[arg(long, value_parser = time::parse)]
        until: Option<DateTime<Utc>>,
    },
    /// Remove a user from an account. Revokes the user's API tokens for that account.
    Remove {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
    },
    /// Remove a user from an account, and delete the user's clusters and performance reports. This
    /// cannot be undone. For a user who is no longer a member, only the data is deleted. Prints the
    /// number of deleted clusters.
    Delete {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
    },
    /// Create an invitation and print its secret on one line. The secret is shown only once.
    Invite {
        /// Name of the only user who can accept the invitation. Default: anyone with the secret.
        #[arg(value_parser = parse_slug)]
        name: Option<Slug>,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Role of the invited user in the account.
        #[arg(long, value_enum, default_value_t = RoleName::Member)]
        role: RoleName,
        /// End of a guest membership, such as `2026-12-31T00:00:00Z`. Required for guests, not accepted
        /// for other roles.
        #[arg(long, value_parser = time::parse)]
        until: Option<DateTime<Utc>>,
        /// Description of the invitation, for example the person it is meant for.
        #[arg(long, default_value = "")]
        label: String,
        /// Time within which the invitation can be accepted, such as `12h`. At most 30d. Default: 7d.
        #[arg(long, value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// Link a user to a subject of an identity provider. JWTs of the issuer with this subject, and
    /// sign-ins through it, then authenticate this user.
    Link {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// The issuer, as in `GALVO_JWT_ISSUER` or `GALVO_OIDC_ISSUER`.
        #[arg(long)]
        issuer: String,
        /// The user's identifier at the issuer: the value of the claim that identifies the user. 1 to
        /// 255 characters.
        #[arg(long, value_parser = parse_subject)]
        subject: String,
    },
    /// Create a link with which a user can sign in once, within 15 minutes, and print it on one line. The
    /// previous link of the user becomes invalid, and so do all links when a server starts.
    SignInLink {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
        /// URL of the server in the browser, as `https://NAME` or `https://NAME/PATH`.
        #[arg(long, env = "GALVO_PUBLIC_URL", value_name = "URL", default_value = "http://127.0.0.1:8000")]
        url: PublicUrl,
    },
    /// Set the password with which a user signs in in a browser, and end all sessions of the user.
    /// Prompts for the password on a terminal; otherwise reads the first line of standard input.
    Password {
        /// Name of the user.
        #[arg(value_parser = parse_slug)]
        name: Slug,
    },
}

/// Manage API tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// List API tokens, newest first: identifier, state, user, account, scopes, expiry, last use, label.
    /// Secrets are not shown.
    List {
        /// List only tokens of this user.
        #[arg(long, value_parser = parse_slug)]
        user: Option<Slug>,
        /// List only tokens for this account.
        #[arg(long, value_parser = parse_slug)]
        account: Option<Slug>,
        /// List the tokens that were issued to schedulers, instead of the tokens that people and
        /// programs hold.
        #[arg(long)]
        schedulers: bool,
        /// Maximum number of tokens, from 1 to 100000.
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Revoke an API token and the scheduler tokens derived from it. Requests with these tokens are
    /// rejected from then on.
    Revoke {
        /// Identifier of the token: the part before the dash, as `galvo token list` prints it.
        #[arg(value_parser = parse_token_identifier)]
        identifier: String,
    },
    /// Quarantine the clusters that were reported with an API token, and print how many rows they have.
    /// Quarantined clusters are hidden; `galvo token restore` shows them again. With --confirm, remove
    /// the quarantined clusters instead, which cannot be undone. Revoke the token first.
    Forget {
        /// Identifier of the token: the part before the dash, as `galvo token list` prints it. The token
        /// may be revoked or expired.
        #[arg(value_parser = parse_token_identifier)]
        identifier: String,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Start of the affected period, such as `2026-12-31T00:00:00Z`. A cluster is included as a
        /// whole if it was reported with the token at or after this time.
        #[arg(long, value_parser = time::parse)]
        since: DateTime<Utc>,
        /// Remove the clusters that are quarantined for this token. Quarantines no others.
        #[arg(long)]
        confirm: bool,
    },
    /// Restore the clusters that are quarantined for an API token, and print their number.
    Restore {
        /// Identifier of the token: the part before the dash, as `galvo token list` prints it.
        #[arg(value_parser = parse_token_identifier)]
        identifier: String,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
    },
    /// Create an API token and print it on one line. The token is shown only once.
    Create {
        /// Name of the user the token authenticates.
        #[arg(long, value_parser = parse_slug)]
        user: Slug,
        /// Short name of the account the token gives access to.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Scopes of the token. Can be given several times.
        #[arg(long = "scope", value_enum, num_args = 1.., default_values_t = [ScopeName::Ingest, ScopeName::Read])]
        scopes: Vec<ScopeName>,
        /// Description of the token.
        #[arg(long, default_value = "")]
        label: String,
        /// Time until the token expires, such as `90d`, `12h`, `30m` or `45s`. Default: the token does
        /// not expire.
        #[arg(long, value_parser = parse_duration)]
        expires: Option<Duration>,
    },
}

/// Manage browser sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List active sessions, newest first: user, start, last use, end. Session secrets are not shown.
    List {
        /// List only sessions of this user.
        #[arg(long, value_parser = parse_slug)]
        user: Option<Slug>,
        /// Maximum number of sessions, from 1 to 100000.
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// End all sessions of a user. The user has to sign in again in every browser.
    End {
        /// Name of the user.
        #[arg(long, value_parser = parse_slug)]
        user: Slug,
    },
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

/// Manage encryption keys. A key's identifier has 12 hexadecimal digits and does not reveal the key.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Generate a key and print it as a key file, for a database that has none yet.
    Generate,
    /// List the keys, their state, and the number of rows encrypted with each, by table.
    List,
    /// Add a new key as the encrypting key. The server re-encrypts rows of the older keys in the
    /// background.
    Rotate,
    /// Remove a key that encrypts no row any more. Fails until all servers have had time to read the
    /// newest key.
    Retire {
        /// Identifier of the key, as `galvo key list` prints it.
        #[arg(value_parser = key_id)]
        id: i64,
    },
}

/// A role as written on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RoleName {
    /// Manage everything, including the account's owners.
    Owner,
    /// Manage everything except owners.
    Admin,
    /// Send reports and read data.
    Member,
    /// Read data.
    Viewer,
    /// Read data until the membership ends.
    Guest,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Owner => Self::Owner,
            RoleName::Admin => Self::Admin,
            RoleName::Member => Self::Member,
            RoleName::Viewer => Self::Viewer,
            RoleName::Guest => Self::Guest,
        }
    }
}

/// A token scope as written on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScopeName {
    /// Send reports.
    Ingest,
    /// Read all data of the account.
    Read,
    /// Change data and settings.
    Admin,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Ingest => Self::Ingest,
            ScopeName::Read => Self::Read,
            ScopeName::Admin => Self::Admin,
        }
    }
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

/// The settings of the server.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct ServeConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The separate address for metrics. `None` if metrics are served on `listen`.
    pub metrics_listen: Option<SocketAddr>,
    /// The minimum interval between two reports of a cluster.
    pub min_report_interval: Duration,
    /// The maximum number of reports per second and API token.
    pub reports_per_second: u32,
    /// The maximum number of open connections.
    pub max_connections: usize,
    /// The maximum cost of one GraphQL request, in response fields.
    pub max_query_cost: u32,
    /// The directory of persisted documents.
    pub persisted_documents: Option<PathBuf>,
    /// True if only persisted documents are executed.
    pub persisted_documents_only: bool,
    /// The maximum cost of an API token's GraphQL requests in a minute.
    pub query_cost_per_minute: u32,
    /// The timeout of a GraphQL request.
    pub query_timeout: Duration,
    /// The URL under which browsers reach the server.
    pub public_url: Option<PublicUrl>,
    /// The separate origin for the contents of performance reports.
    pub reports_url: Option<PublicUrl>,
    /// The Redis server through which servers of one database notify each other of changes.
    pub redis: Option<RedisUrl>,
    /// The lifetimes of browser sessions.
    pub session_life: SessionLifetimes,
    /// The timeouts for clients.
    pub timeouts: Timeouts,
    /// The trusted issuer of JWTs. `None` if JWTs are rejected.
    pub jwt: Option<JwtConfig>,
    /// The OpenID provider for signing in. `None` if there is none.
    pub oidc: Option<OidcConfig>,
    /// The delivery settings of alerts.
    pub alerts: AlertConfig,
    /// The settings of proxies, CORS and rate limits.
    pub perimeter: NetworkConfig,
    /// The quotas of accounts that have none of their own.
    pub quotas: Limits,
    /// The server's certificate. `None` if the server does not use TLS itself.
    pub tls: Option<TlsConfig>,
    /// The trace collector. `None` if traces are not exported.
    pub traces: Option<TracesConfig>,
    /// True if an empty database gets its first account, user and token.
    pub bootstrap: bool,
    /// True if each start creates a link for signing in.
    pub sign_in_link: bool,
    /// The source of the web dashboard.
    pub dashboard: DashboardSource,
    /// True if the server starts its background jobs.
    pub jobs: bool,
}

impl ServeConfig {
    /// Returns true if browsers reach the server through TLS, either its own or a proxy's.
    #[must_use]
    pub fn is_behind_tls(&self) -> bool {
        self.tls.is_some() || self.public_url.as_ref().is_some_and(PublicUrl::is_secure)
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines of text for people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// All invalid settings, each with the reason.
#[derive(Debug)]
pub struct ConfigError(Vec<String>);

impl ConfigError {
    /// Returns one message per invalid setting.
    pub(crate) fn problems(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid configuration")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for ConfigError {}

/// A collector of the problems found while settings are parsed.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn read<T: FromStr<Err: fmt::Display>>(&mut self, flag: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error| self.add(flag, &error)).ok()
    }

    fn read_in_range<T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display + Copy>(
        &mut self,
        flag: &str,
        text: &str,
        (least, most): (T, T),
    ) -> Option<T> {
        let value = self.read(flag, text)?;
        if least <= value && value <= most {
            return Some(value);
        }
        self.add(flag, &format_args!("must be between {least} and {most}"));
        None
    }

    fn address(&mut self, flag: &str, text: &str) -> Option<SocketAddr> {
        socket_address(text).map_err(|wrong| self.add(flag, &wrong)).ok()
    }

    /// Parses the lifetime or the idle time of a session.
    fn read_session_duration(&mut self, flag: &str, text: &str) -> Option<TimeDelta> {
        let life = parse_duration(text).map_err(|wrong| self.add(flag, &wrong)).ok()?;
        if (MIN_SESSION_DURATION..=MAX_SESSION_DURATION).contains(&life) {
            return TimeDelta::from_std(life).ok();
        }
        self.add(flag, &"must be between 5m and 400d");
        None
    }

    /// Parses the keys in an environment variable.
    fn keys(&mut self, text: &OsStr) -> Option<Keys> {
        let keys = text.to_string_lossy().parse();
        keys.map_err(|error: KeysError| self.0.push(format!("{SECRET_KEY}: {error}"))).ok()
    }

    /// Adds a problem. The value is left out: it may be a secret in the wrong place.
    fn add(&mut self, flag: &str, problem: &dyn fmt::Display) {
        let variable = format!("GALVO_{}", flag.to_uppercase().replace('-', "_"));
        self.0.push(format!("--{flag} ({variable}): {problem}"));
    }
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
        let ring = std::env::var_os(SECRET_KEY);
        if ring.is_some() && self.secret_key_file.is_some() {
            problems.add("secret-key-file", &format_args!("cannot be set together with {SECRET_KEY}"));
        }
        let database = database?;
        let keys = match (ring, &self.secret_key_file, &database) {
            (Some(ring), ..) => problems.keys(&ring).map(KeySource::Ring),
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

impl ServeArgs {
    fn read(&self, problems: &mut Problems) -> Option<ServeConfig> {
        let listen = problems.address("listen", &self.listen);
        let metrics_listen =
            self.metrics_listen.as_deref().map(|listen| problems.address("metrics-listen", listen));
        let interval = problems.read_in_range("min-report-interval", &self.min_report_interval, (0.1, 600.0));
        let reports = problems.read_in_range("reports-per-second", &self.reports_per_second, (1, 1_000_000));
        let connections = problems.read_in_range("max-connections", &self.max_connections, (1, 100_000));
        let cost = problems.read_in_range("max-query-cost", &self.max_query_cost, (1_000, 100_000_000));
        let budget = problems.read_in_range(
            "query-cost-per-minute",
            &self.query_cost_per_minute,
            (1_000, 1_000_000_000),
        );
        if budget.zip(cost).is_some_and(|(budget, cost)| budget < cost) {
            problems.add("query-cost-per-minute", &"must not be less than one request may cost");
        }
        let perimeter = self.perimeter.read(problems);
        let quotas = self.quotas.read(problems);
        let (tls, traces) = (self.tls.read(problems), self.traces.read(problems));
        let of_address = perimeter.as_ref().map(|perimeter| perimeter.query_cost_per_minute_of_address);
        if of_address.zip(cost).is_some_and(|(budget, cost)| budget < cost) {
            problems.add("query-cost-per-minute-of-address", &"must not be less than one request may cost");
        }
        let query_timeout = problems.read_in_range("query-timeout", &self.query_timeout, (0.1, 600.0));
        let public_url = self.public_url.as_deref().map(|url| problems.read("public-url", url));
        let reports_url = self.reports_url.as_deref().and_then(|url| problems.read("reports-url", url));
        if let Some(reports) = &reports_url
            && let Some(wrong) = reports_url_error(reports, public_url.as_ref())
        {
            problems.add("reports-url", &wrong);
        }
        let redis = self.redis_url.as_deref().map(|url| problems.read("redis-url", url));
        let absolute = problems.read_session_duration("session-lifetime", &self.session_lifetime);
        let idle = problems.read_session_duration("session-idle", &self.session_idle);
        #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
        let jwt = self.jwt.read(problems, std::env::var_os(JWT_SECRET).as_deref());
        let has_url = self.public_url.is_some();
        #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
        let oidc = self.oidc.read(problems, std::env::var_os(OIDC_CLIENT_SECRET).as_deref(), has_url);
        let alerts = self.alerts.read(problems);
        Some(ServeConfig {
            listen: listen?,
            metrics_listen: match metrics_listen {
                Some(listen) => Some(listen?),
                None => None,
            },
            min_report_interval: Duration::from_secs_f64(interval?),
            reports_per_second: reports?,
            max_connections: connections?,
            max_query_cost: cost?,
            persisted_documents: self.persisted_documents.clone(),
            persisted_documents_only: self.persisted_documents_only,
            query_cost_per_minute: budget?,
            query_timeout: Duration::from_secs_f64(query_timeout?),
            public_url: match public_url {
                Some(url) => Some(url?),
                None => None,
            },
            reports_url,
            session_life: SessionLifetimes { absolute: absolute?, idle: idle? },
            timeouts: Timeouts::default(),
            redis: match redis {
                Some(url) => Some(url?),
                None => None,
            },
            jwt,
            oidc,
            alerts: alerts?,
            perimeter: perimeter?,
            quotas: quotas?,
            tls,
            traces,
            bootstrap: self.bootstrap,
            sign_in_link: self.sign_in_link,
            dashboard: self.dashboard.source(),
            jobs: true,
        })
    }
}

/// Returns the reason why the contents of performance reports cannot be served at `reports`, given the
/// server's own URL.
fn reports_url_error(reports: &PublicUrl, public: Option<&Option<PublicUrl>>) -> Option<&'static str> {
    match public {
        None => Some("needs GALVO_PUBLIC_URL, the address of the page that shows a report"),
        Some(Some(_)) if !reports.base().is_empty() => {
            Some("must have no path: reports need a host name of their own")
        }
        // Cookies apply to all ports of a host name.
        Some(Some(public)) if reports.host() == public.host() => Some(
            "must have another host name than GALVO_PUBLIC_URL: browsers share cookies between all ports of \
             a host name",
        ),
        Some(Some(public)) if public.is_secure() && !reports.is_secure() => Some(
            "must begin with https://, as GALVO_PUBLIC_URL does: browsers block unencrypted frames in its \
             pages",
        ),
        Some(_) => None,
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

fn parse_subject(text: &str) -> Result<String, &'static str> {
    let is_one = is_subject(text).then(|| text.to_owned());
    is_one.ok_or("must be 1 to 255 characters, none of them a control character")
}

/// Parses the identifier of a token. Accepts a whole token and drops its secret half, which must not be
/// repeated in messages.
fn parse_token_identifier(text: &str) -> Result<String, &'static str> {
    let identifier = text.split_once('-').map_or(text, |(identifier, _)| identifier);
    let is_one = ApiToken::is_identifier(identifier).then(|| identifier.to_owned());
    is_one.ok_or("must be the public half of a token, as `galvo token list` prints it")
}

fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| ADDRESS)
}

/// The error message for a malformed socket address.
const ADDRESS: &str = "must be an IP address and a port, such as 127.0.0.1:8000, 0.0.0.0:8000 or [::1]:8000";

fn key_id(text: &str) -> Result<i64, &'static str> {
    let digits = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = digits.then(|| i64::from_str_radix(text, 16).ok()).flatten();
    id.filter(|id| *id != PLAIN).ok_or("must be the 12 hexadecimal digits that `galvo key list` shows")
}

fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let wrong = "must be a whole number followed by d, h, m or s, as in 90d";
    let unit = text.chars().last().ok_or(wrong)?;
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong)?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err(wrong),
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
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
