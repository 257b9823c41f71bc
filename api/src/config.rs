//! What the operator can set: the only reader of the environment.
//!
//! Every wrong value is named in one go, and a `GALVO_` variable nobody knows is an error, because a misspelt
//! setting that is silently ignored is found in production.

mod alert;
mod cluster;
mod jwt;
mod oidc;
mod perimeter;
mod tls;
mod traces;

use std::{
    ffi::OsStr,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Parser, Subcommand, ValueEnum};
use entity::{api_token::Scope, membership::Role};
use url::Url;

use crate::{
    bus::RedisUrl,
    domain::{claims::is_subject, public_url::PublicUrl, session::SessionLife, slug::Slug},
    key_ring::KeySource,
    seal::{Keys, KeysError, PLAIN},
    store::StoreUrl,
};

pub use self::alert::{AlertConfig, SmtpConfig};
pub use self::cluster::{ClusterCommand, StateName};
pub use self::jwt::{JwksSource, JwksTiming, JwtConfig, JwtSecret, Provision};
pub use self::oidc::{ClientSecret, OidcConfig};
pub use self::perimeter::PerimeterConfig;
pub use self::tls::TlsConfig;
pub use self::traces::TracesConfig;
use self::{
    alert::AlertArgs, jwt::JwtArgs, oidc::OidcArgs, perimeter::PerimeterArgs, tls::TlsArgs,
    traces::TracesArgs,
};

/// Every variable the program reads.
const VARIABLES: [&str; 52] = [
    "GALVO_ALERT_PRIVATE_TARGETS",
    "GALVO_CORS_ORIGINS",
    "GALVO_DATABASE_URL",
    "GALVO_DATABASE_CONNECTIONS",
    "GALVO_FORWARDED_HEADER",
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
    "GALVO_REDIS_URL",
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

/// The keys themselves. There is no flag for them: arguments are seen by everyone on a machine.
const SECRET_KEY: &str = "GALVO_SECRET_KEY";

/// What is shared with the issuer of JWTs. There is no flag for it either.
const JWT_SECRET: &str = "GALVO_JWT_SECRET";

/// What an OpenID provider knows this server by. There is no flag for it either.
const OIDC_CLIENT_SECRET: &str = "GALVO_OIDC_CLIENT_SECRET";
/// How long sessions of browsers may be set to last. Browsers keep no cookie for longer.
const MIN_LIFE: Duration = Duration::from_mins(5);
const MAX_LIFE: Duration = Duration::from_hours(400 * 24);

/// Galvo, the open analytics server for Dask.
#[derive(Debug, Parser)]
#[command(name = "galvo", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What every command takes, as it came.
#[derive(Clone, Debug, Args)]
pub struct CommonArgs {
    /// Where the store is: `sqlite://FILE?mode=rwc` or `postgres://…`.
    #[arg(
        long,
        global = true,
        env = "GALVO_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite://galvo.db?mode=rwc"
    )]
    database_url: String,
    /// Connections to PostgreSQL at the most.
    #[arg(long, global = true, env = "GALVO_DATABASE_CONNECTIONS", default_value = "16")]
    database_connections: String,
    /// What to log, as `level` or `target=level,…`.
    #[arg(long, global = true, env = "GALVO_LOG", default_value = "info,sea_orm_migration=warn")]
    log: String,
    /// The file with the keys that encrypt what the store must not hold in the open; for SQLite there is one beside
    /// the store. `GALVO_SECRET_KEY`, in the environment only, takes the keys themselves instead: URL-safe base64 with
    /// commas between them, the first one encrypts.
    #[arg(long, global = true, env = "GALVO_SECRET_KEY_FILE", value_name = "FILE")]
    secret_key_file: Option<PathBuf>,
    /// How to log: `text` or `json`.
    #[arg(long, global = true, env = "GALVO_LOG_FORMAT", default_value = "text")]
    log_format: String,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve: ingest, GraphQL, and what the `coiled` client calls. Applies missing migrations first.
    Serve(Box<ServeArgs>),
    /// Apply missing migrations and exit.
    Migrate,
    /// Ask the server on this machine whether it is ready, and exit with 0 if it is.
    Ready(ReadyArgs),
    /// Print the GraphQL schema.
    Schema,
    /// Copy an SQLite store while it is in use, into a file that is not there yet. The keys are not copied.
    Backup {
        /// The file.
        file: PathBuf,
    },
    /// Look at all that a server with these settings needs, and say what to do where something is wrong.
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
    /// Manage sums that are made of other rows.
    #[command(subcommand)]
    Rollup(RollupCommand),
    /// Manage the keys that encrypt what the store must not hold in the open.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Look after clusters.
    #[command(subcommand)]
    Cluster(ClusterCommand),
}

/// What `serve` takes, as it came.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Where to listen, as `ADDRESS:PORT`; port 0 picks a free one.
    #[arg(long, env = "GALVO_LISTEN", default_value = "127.0.0.1:8000")]
    listen: String,
    /// Where to serve /metrics, /healthz and /readyz besides, as `ADDRESS:PORT`, for all who reach it. /metrics is there alone then,
    /// and otherwise on the address above for this machine alone.
    #[arg(long, env = "GALVO_METRICS_LISTEN", value_name = "ADDRESS:PORT")]
    metrics_listen: Option<String>,
    /// The shortest time between two reports of a cluster that is asked for, in seconds.
    #[arg(long, env = "GALVO_MIN_REPORT_INTERVAL", default_value = "1")]
    min_report_interval: String,
    /// Reports per second taken from one token, over some seconds; more are told to come back later.
    #[arg(long, env = "GALVO_REPORTS_PER_SECOND", default_value = "200")]
    reports_per_second: String,
    /// Connections at a time; more wait until others end. Each needs a file descriptor.
    #[arg(long, env = "GALVO_MAX_CONNECTIONS", default_value = "900")]
    max_connections: String,
    /// What one GraphQL request may cost, in fields of its answer; `docs/graphql.md` tells how it is reckoned.
    #[arg(long, env = "GALVO_MAX_QUERY_COST", default_value = "500000")]
    max_query_cost: String,
    /// A directory of GraphQL documents, in files ending in `.graphql`, which requests may name by their SHA-256
    /// instead of sending them. It is read at the start.
    #[arg(long, env = "GALVO_PERSISTED_DOCUMENTS", value_name = "DIRECTORY")]
    persisted_documents: Option<PathBuf>,
    /// Execute only the documents of that directory.
    #[arg(long, env = "GALVO_PERSISTED_DOCUMENTS_ONLY", requires = "persisted_documents")]
    persisted_documents_only: bool,
    /// What the GraphQL requests of one token may cost in a minute; more are told to come back later.
    #[arg(long, env = "GALVO_QUERY_COST_PER_MINUTE", default_value = "5000000")]
    query_cost_per_minute: String,
    /// How long a GraphQL request may take, in seconds.
    #[arg(long, env = "GALVO_QUERY_TIMEOUT", default_value = "30")]
    query_timeout: String,
    /// How browsers call this server, as `https://NAME`. With `https` they send cookies by TLS alone.
    #[arg(long, env = "GALVO_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Redis, through which several servers of one store tell one another what changed: `redis://…` or `rediss://…`.
    #[arg(long, env = "GALVO_REDIS_URL", hide_env_values = true)]
    redis_url: Option<String>,
    /// How long somebody stays signed in with a browser, as `30d` or `12h`.
    #[arg(long, env = "GALVO_SESSION_LIFETIME", default_value = "30d")]
    session_lifetime: String,
    /// How long somebody stays signed in who does not use it, as `7d` or `1h`.
    #[arg(long, env = "GALVO_SESSION_IDLE", default_value = "7d")]
    session_idle: String,
    /// On an empty store, make the account `default`, the user `admin` and a token, and print the token.
    #[arg(long)]
    bootstrap: bool,
    #[command(flatten)]
    jwt: JwtArgs,
    #[command(flatten)]
    oidc: OidcArgs,
    #[command(flatten)]
    alerts: AlertArgs,
    #[command(flatten)]
    perimeter: PerimeterArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    traces: TracesArgs,
}

/// What `doctor` takes, as it came.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Which server is asked whether it is ready.
#[derive(Clone, Debug, Args)]
pub struct ReadyArgs {
    /// Where it listens, as `ADDRESS:PORT`.
    #[arg(long, env = "GALVO_LISTEN", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// How it is called, as `https://NAME`: one that speaks TLS knows itself by that name alone.
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
}

impl ReadyArgs {
    /// The address that tells.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "an address is one")]
    pub fn address(&self) -> Url {
        let mut url = self.url.clone().unwrap_or_else(|| {
            // What listens everywhere listens on this machine, too.
            let address = match self.listen.ip() {
                IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                address => address,
            };
            let here = SocketAddr::new(address, self.listen.port());
            format!("http://{here}").parse().expect("an address is one")
        });
        url.set_path("/readyz");
        url
    }
}

/// Manage accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make an account.
    Create {
        /// Its short name in URLs.
        #[arg(value_parser = slug)]
        slug: Slug,
    },
}

/// Manage users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Make a user a member of an account; a user who does not exist is made.
    Create {
        /// The user's name.
        #[arg(value_parser = slug)]
        name: Slug,
        /// The account's short name.
        #[arg(long, value_parser = slug)]
        account: Slug,
        /// What the user may do in it.
        #[arg(long, value_enum, default_value_t = RoleName::Member)]
        role: RoleName,
        /// Until when a guest is one, as `2026-12-31T00:00:00Z`.
        #[arg(long)]
        until: Option<DateTime<Utc>>,
    },
    /// Give a member of an account another role, or a guest another end.
    Role {
        /// The user's name.
        #[arg(value_parser = slug)]
        name: Slug,
        /// The account's short name.
        #[arg(long, value_parser = slug)]
        account: Slug,
        /// What the user may do in it.
        #[arg(long, value_enum)]
        role: RoleName,
        /// Until when a guest is one, as `2026-12-31T00:00:00Z`.
        #[arg(long)]
        until: Option<DateTime<Utc>>,
    },
    /// End a membership, and with it the user's tokens of that account.
    Remove {
        /// The user's name.
        #[arg(value_parser = slug)]
        name: Slug,
        /// The account's short name.
        #[arg(long, value_parser = slug)]
        account: Slug,
    },
    /// Make an invitation and print its secret, alone on one line. It is not shown again.
    Invite {
        /// Who alone may accept it; whoever has the secret if not given.
        #[arg(value_parser = slug)]
        name: Option<Slug>,
        /// The account's short name.
        #[arg(long, value_parser = slug)]
        account: Slug,
        /// What the user may do in it.
        #[arg(long, value_enum, default_value_t = RoleName::Member)]
        role: RoleName,
        /// Until when a guest is one, as `2026-12-31T00:00:00Z`.
        #[arg(long)]
        until: Option<DateTime<Utc>>,
        /// Whom it is for, in words.
        #[arg(long, default_value = "")]
        label: String,
        /// How long it can be accepted, as `12h`; at most 30d, and 7d if not given.
        #[arg(long, value_parser = duration)]
        expires: Option<Duration>,
    },
    /// Say by which name an issuer of credentials knows a user, so that its JWTs stand for that user, and who
    /// signs in with it is that user.
    Link {
        /// The user's name.
        #[arg(value_parser = slug)]
        name: Slug,
        /// The issuer, as `GALVO_JWT_ISSUER` or `GALVO_OIDC_ISSUER` names it.
        #[arg(long)]
        issuer: String,
        /// What it calls the user, in the claim that says who it is.
        #[arg(long, value_parser = subject)]
        subject: String,
    },
    /// Set the password a user signs in with in a browser, and end all their sessions. It is asked for, or read from the
    /// first line of standard input.
    Password {
        /// The user's name.
        #[arg(value_parser = slug)]
        name: Slug,
    },
}

/// Manage API tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it, alone on one line. It is not shown again.
    Create {
        /// Whom it acts for.
        #[arg(long, value_parser = slug)]
        user: Slug,
        /// The account it opens.
        #[arg(long, value_parser = slug)]
        account: Slug,
        /// What it may be used for; may be given several times.
        #[arg(long = "scope", value_enum, num_args = 1.., default_values_t = [ScopeName::Ingest, ScopeName::Read])]
        scopes: Vec<ScopeName>,
        /// What its owner calls it.
        #[arg(long, default_value = "")]
        label: String,
        /// How long it is valid, as `90d`, `12h`, `30m` or `45s`; for ever if not given.
        #[arg(long, value_parser = duration)]
        expires: Option<Duration>,
    },
}

/// Manage sums that are made of other rows.
#[derive(Debug, Subcommand)]
pub enum RollupCommand {
    /// Make the sums of usage by day again, from the hours. Nothing changes unless they were wrong.
    Rebuild {
        /// The account's short name; all accounts if not given.
        #[arg(long, value_parser = slug)]
        account: Option<Slug>,
    },
}

/// Manage keys. A key is named by its identifier, 12 hexadecimal digits, which tells nothing of the key.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print a new key, as a key file for a store that has none yet.
    Generate,
    /// List the keys: which one encrypts, and how many rows each has encrypted, by table.
    List,
    /// Put a new key in front of the others. Rows encrypted with those are encrypted again in the background.
    Rotate,
    /// Remove a key with which no row is encrypted any more, once all servers have had the time to follow the newest one.
    Retire {
        /// The key's identifier.
        #[arg(value_parser = key_id)]
        id: i64,
    },
}

/// A role, as it is written on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RoleName {
    /// Everything.
    Owner,
    /// Everything but owners.
    Admin,
    /// Reports and reads.
    Member,
    /// Reads.
    Viewer,
    /// Reads until a given time.
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

/// A scope, as it is written on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScopeName {
    /// Send reports.
    Ingest,
    /// Read everything in the account.
    Read,
    /// Change things.
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

/// What every command works with.
#[derive(Clone, Debug)]
pub struct CommonConfig {
    /// Where the store is.
    pub database: StoreUrl,
    /// Connections to PostgreSQL at the most.
    pub connections: u32,
    /// Where the keys are, if anything says so. Commands that need them are refused without.
    pub keys: Option<KeySource>,
    /// What is logged.
    pub log: String,
    /// How it is logged.
    pub log_format: LogFormat,
}

/// What the server works with.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where metrics are read, if that is elsewhere.
    pub metrics_listen: Option<SocketAddr>,
    /// The shortest time between two reports of a cluster that is asked for.
    pub min_report_interval: Duration,
    /// Reports per second taken from one token.
    pub reports_per_second: u32,
    /// Connections at a time.
    pub max_connections: usize,
    /// What one GraphQL request may cost, in fields of its answer.
    pub max_query_cost: u32,
    /// Where documents are that requests may name.
    pub persisted_documents: Option<PathBuf>,
    /// Whether only those are executed.
    pub persisted_documents_only: bool,
    /// What the GraphQL requests of one token may cost in a minute.
    pub query_cost_per_minute: u32,
    /// How long a GraphQL request may take.
    pub query_timeout: Duration,
    /// How browsers call it, if anything says so.
    pub public_url: Option<PublicUrl>,
    /// Through which servers of one store tell one another what changed.
    pub redis: Option<RedisUrl>,
    /// How long people stay signed in with a browser.
    pub session_life: SessionLife,
    /// How long clients may take over what is expected of them.
    pub patience: Patience,
    /// Whose JWTs are accepted, if anybody's are.
    pub jwt: Option<JwtConfig>,
    /// With which OpenID provider people sign in, if with any.
    pub oidc: Option<OidcConfig>,
    /// How alerts are sent.
    pub alerts: AlertConfig,
    /// What lies between the server and everybody.
    pub perimeter: PerimeterConfig,
    /// The certificate that is shown, if the server speaks TLS itself.
    pub tls: Option<TlsConfig>,
    /// Where traces are collected, if they are.
    pub traces: Option<TracesConfig>,
    /// Whether an empty store gets its first account, user and token.
    pub bootstrap: bool,
    /// Whether the background jobs run by themselves.
    pub jobs: bool,
}

impl ServeConfig {
    /// Whether browsers reach the server by TLS, by its own or a proxy's.
    #[must_use]
    pub fn is_behind_tls(&self) -> bool {
        self.tls.is_some() || self.public_url.as_ref().is_some_and(PublicUrl::is_secure)
    }
}

/// How long clients may take. Nobody has to set it but tests, which would have to wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Over the head of a request, once it has begun or the connection has.
    pub head: Duration,
    /// Over a body.
    pub body: Duration,
    /// Over the next request on a connection. Longer than proxies keep theirs, which is a minute mostly: they may send
    /// a request just when it is closed.
    pub idle: Duration,
    /// Over taking any more of an answer.
    pub answer: Duration,
    /// Over saying who they are, once a socket is open.
    pub greeting: Duration,
    /// Over saying goodbye on a socket that ends.
    pub farewell: Duration,
    /// Between signs of life, where answers last. Proxies end what is silent for half a minute or a minute.
    pub heartbeat: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(8),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            answer: Duration::from_secs(30),
            greeting: Duration::from_secs(5),
            farewell: Duration::from_secs(8),
            heartbeat: Duration::from_secs(10),
        }
    }
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, one object a line.
    Json,
}

/// Every setting that is wrong, with the reason.
#[derive(Debug)]
pub struct ConfigError(Vec<String>);

impl ConfigError {
    /// What is wrong, setting by setting.
    pub(crate) fn problems(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong configuration")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for ConfigError {}

/// Reads settings one by one and remembers what is wrong with them.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn read<T: FromStr<Err: fmt::Display>>(&mut self, flag: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error| self.add(flag, &error)).ok()
    }

    fn within<T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display + Copy>(
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

    /// How long a session may last, or lie idle.
    fn life(&mut self, flag: &str, text: &str) -> Option<TimeDelta> {
        let life = duration(text).map_err(|wrong| self.add(flag, &wrong)).ok()?;
        if (MIN_LIFE..=MAX_LIFE).contains(&life) {
            return TimeDelta::from_std(life).ok();
        }
        self.add(flag, &"must be between 5m and 400d");
        None
    }

    /// The keys in a text of the environment.
    fn keys(&mut self, text: &OsStr) -> Option<Keys> {
        let keys = text.to_string_lossy().parse();
        keys.map_err(|error: KeysError| self.0.push(format!("{SECRET_KEY}: {error}"))).ok()
    }

    /// The value is not repeated: it may be a secret in the wrong place.
    fn add(&mut self, flag: &str, problem: &dyn fmt::Display) {
        let variable = format!("GALVO_{}", flag.to_uppercase().replace('-', "_"));
        self.0.push(format!("--{flag} ({variable}): {problem}"));
    }
}

impl Cli {
    /// Checks every setting, those of the command included.
    ///
    /// # Errors
    /// All that is wrong, at once.
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
            | Command::Schema
            | Command::Account(_)
            | Command::User(_)
            | Command::Token(_)
            | Command::Rollup(_)
            | Command::Cluster(_)
            | Command::Key(KeyCommand::Generate | KeyCommand::List) => false,
        };
        if needs_keys && common.as_ref().is_some_and(|common| common.keys.is_none()) {
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
        let connections = problems.within("database-connections", &self.database_connections, (2, 1_000));
        let log: Option<tracing_subscriber::EnvFilter> = problems.read("log", &self.log);
        let log_format = problems.read("log-format", &self.log_format);
        #[expect(clippy::disallowed_methods, reason = "this is the reader the others are sent to")]
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
        let listen = problems.read("listen", &self.listen);
        let metrics_listen =
            self.metrics_listen.as_deref().map(|listen| problems.read("metrics-listen", listen));
        let interval = problems.within("min-report-interval", &self.min_report_interval, (0.1, 600.0));
        let reports = problems.within("reports-per-second", &self.reports_per_second, (1, 1_000_000));
        let connections = problems.within("max-connections", &self.max_connections, (1, 100_000));
        let cost = problems.within("max-query-cost", &self.max_query_cost, (1_000, 100_000_000));
        let budget =
            problems.within("query-cost-per-minute", &self.query_cost_per_minute, (1_000, 1_000_000_000));
        if budget.zip(cost).is_some_and(|(budget, cost)| budget < cost) {
            problems.add("query-cost-per-minute", &"must not be less than one request may cost");
        }
        let perimeter = self.perimeter.read(problems);
        let (tls, traces) = (self.tls.read(problems), self.traces.read(problems));
        let of_address = perimeter.as_ref().map(|perimeter| perimeter.query_cost_per_minute_of_address);
        if of_address.zip(cost).is_some_and(|(budget, cost)| budget < cost) {
            problems.add("query-cost-per-minute-of-address", &"must not be less than one request may cost");
        }
        let query_timeout = problems.within("query-timeout", &self.query_timeout, (0.1, 600.0));
        let public_url = self.public_url.as_deref().map(|url| problems.read("public-url", url));
        let redis = self.redis_url.as_deref().map(|url| problems.read("redis-url", url));
        let absolute = problems.life("session-lifetime", &self.session_lifetime);
        let idle = problems.life("session-idle", &self.session_idle);
        #[expect(clippy::disallowed_methods, reason = "this is the reader the others are sent to")]
        let jwt = self.jwt.read(problems, std::env::var_os(JWT_SECRET).as_deref());
        let has_url = self.public_url.is_some();
        #[expect(clippy::disallowed_methods, reason = "this is the reader the others are sent to")]
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
            session_life: SessionLife { absolute: absolute?, idle: idle? },
            patience: Patience::default(),
            redis: match redis {
                Some(url) => Some(url?),
                None => None,
            },
            jwt,
            oidc,
            alerts: alerts?,
            perimeter: perimeter?,
            tls,
            traces,
            bootstrap: self.bootstrap,
            jobs: true,
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

#[expect(clippy::disallowed_methods, reason = "this is the reader the others are sent to")]
fn unknown_variables() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("GALVO_") && !VARIABLES.contains(&name.as_str()))
        .map(|name| format!("{name}: there is no such setting"))
        .collect()
}

fn slug(text: &str) -> Result<Slug, &'static str> {
    text.parse()
}

fn subject(text: &str) -> Result<String, &'static str> {
    let is_one = is_subject(text).then(|| text.to_owned());
    is_one.ok_or("must be 1 to 255 characters, none of them a control character")
}

fn key_id(text: &str) -> Result<i64, &'static str> {
    let digits = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = digits.then(|| i64::from_str_radix(text, 16).ok()).flatten();
    id.filter(|id| *id != PLAIN).ok_or("must be the 12 hexadecimal digits that `galvo key list` shows")
}

fn duration(text: &str) -> Result<Duration, &'static str> {
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
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "90", "1.5h", "-1d", "3w", "3 d", "9ä"] {
            assert!(duration(text).is_err(), "{text}");
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
