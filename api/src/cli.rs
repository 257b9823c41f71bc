//! What each command does. Results go to standard output, everything else to the log on standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks by printing")]

mod backup;
mod cluster;
mod doctor;
mod keys;
mod password;

use std::{process::ExitCode, sync::Arc, time::Duration};

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use entity::{Timestamp, api_token::Scope};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{backup::BackupError, keys::KeyCommandError};
use crate::{
    app::{
        account::{AccountError, Accounts},
        cluster::{ClusterError, Clusters},
        usage::{RollupError, Rollups},
    },
    clock::{Clock, SystemClock},
    config::{
        AccountCommand, Cli, Command, CommonConfig, RoleName, RollupCommand, ServeConfig, TokenCommand,
        UserCommand,
    },
    doctor as examination,
    domain::access::{AccessError, Grant, InvitationWish},
    error::Chain,
    graphql::Schema,
    key_ring::KeyError,
    outgoing::{FetchError, Outgoing},
    server::{Server, ServerError},
    store::{MigrationError, Store, StoreError, SystemStore},
    telemetry,
};

/// Wrong usage or configuration; clap uses the same.
const USAGE: u8 = 2;

/// After it RFC 3339 has no notation, and many who read the expiry of a token could not.
const LAST_YEAR: i32 = 9999;

/// Bytes of what a server tells of its readiness at the most.
const MAX_READINESS: usize = 4 << 10;

/// Runs the command: 0 when it did its work, 2 for wrong usage or settings, 1 for anything else.
pub async fn run(cli: Cli) -> ExitCode {
    let (common, serve) = match cli.config() {
        Ok(config) => config,
        Err(error) => {
            if let Command::Doctor(args) = &cli.command {
                return doctor::report(&examination::unreadable(&error), args.json);
            }
            eprintln!("galvo: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let traces = match &cli.command {
        Command::Serve(_) => serve.as_ref().and_then(|serve| serve.traces.as_ref()),
        _ => None,
    };
    let telemetry = telemetry::start(&common, traces);
    let done = dispatch(cli.command, &common, serve).await;
    telemetry.end().await;
    match done {
        Ok(status) => status,
        Err(error) => {
            eprintln!("galvo: {}", Chain(&error));
            if error.is_usage() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Migration(#[from] MigrationError),
    #[error("cannot open the store")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Account(AccountError),
    #[error("{}", by_option(.0))]
    Refused(Vec<AccessError>),
    #[error("cannot read the password")]
    Input(#[source] std::io::Error),
    #[error("cannot listen for signals")]
    Signal(#[source] std::io::Error),
    #[error("--expires: lies too far in the future")]
    Expiry,
    #[error(transparent)]
    Rollup(#[from] RollupError),
    #[error("{0} days could not be folded; the log says why")]
    NotFolded(usize),
    #[error(transparent)]
    Key(#[from] KeyCommandError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error("told to stop before the copy was made")]
    Stopped,
    #[error("the server is not ready")]
    NotReady(#[from] FetchError),
}

impl From<AccountError> for CommandError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Refused(errors) => Self::Refused(errors),
            other => Self::Account(other),
        }
    }
}

/// What speaks against a command, with the option that each is about.
fn by_option(errors: &[AccessError]) -> String {
    let named = |error: &AccessError| match option(*error) {
        Some(option) => format!("{option}: {error}"),
        None => error.to_string(),
    };
    errors.iter().map(named).collect::<Vec<_>>().join("; ")
}

fn option(error: AccessError) -> Option<&'static str> {
    match error {
        AccessError::Label => Some("--label"),
        AccessError::Past | AccessError::TooLate => Some("--expires"),
        AccessError::NoScope | AccessError::ScopeNotCovered => Some("--scope"),
        AccessError::NoEnd | AccessError::EndNotTaken | AccessError::EndPast => Some("--until"),
        AccessError::Over => Some("--user"),
        _ => None,
    }
}

impl CommandError {
    /// Whether the settings are wrong.
    fn is_usage(&self) -> bool {
        match self {
            Self::Server(ServerError::Keys(error)) | Self::Key(KeyCommandError::Keys(error)) => {
                matches!(error, KeyError::Read(..) | KeyError::Wrong(..))
            }
            Self::Server(ServerError::Jwks(_)) | Self::Backup(BackupError::Postgres) => true,
            _ => false,
        }
    }
}

async fn dispatch(
    command: Command,
    common: &CommonConfig,
    serve: Option<ServeConfig>,
) -> Result<ExitCode, CommandError> {
    let done: Result<(), CommandError> = match command {
        Command::Serve(_) => {
            let serve = serve.expect("the configuration of serve is read when serve is the command");
            serve_until_told_to_stop(common, &serve).await
        }
        Command::Doctor(args) => {
            let serve = serve.expect("the configuration of serve is read for the doctor as well");
            return Ok(doctor::report(&examination::examine(common, &serve).await, args.json));
        }
        Command::Migrate => Ok(Store::migrate(&common.database).await?),
        Command::Ready(which) => {
            Outgoing::new().get(&which.address(), MAX_READINESS).await?;
            Ok(())
        }
        Command::Schema => {
            print!("{}", Schema::sdl());
            Ok(())
        }
        Command::Account(AccountCommand::Create { slug }) => {
            let id = accounts(common).await?.create_account(&slug).await?;
            println!("{id}");
            Ok(())
        }
        Command::User(command) => user(command, &accounts(common).await?).await,
        Command::Token(TokenCommand::Create { user, account, scopes, label, expires }) => {
            let scopes: Vec<Scope> = scopes.into_iter().map(Scope::from).collect();
            let expires_at = expires.map(expiry).transpose()?;
            let token =
                accounts(common).await?.create_token(&user, &account, &scopes, label, expires_at).await?;
            println!("{}", token.reveal());
            Ok(())
        }
        Command::Rollup(RollupCommand::Rebuild { account }) => {
            let folded = Rollups::new(store(common).await?).rebuild(account.as_ref()).await?;
            println!("{} days", folded.days);
            if folded.failed == 0 { Ok(()) } else { Err(CommandError::NotFolded(folded.failed)) }
        }
        Command::Backup { file } => {
            let mut signals = Signals::listen()?;
            tokio::select! {
                copied = backup::run(&file, common) => Ok(copied?),
                // What there is of the copy goes with the future that makes it.
                () = signals.told_to_stop() => Err(CommandError::Stopped),
            }
        }
        Command::Key(command) => Ok(keys::run(command, common).await?),
        Command::Cluster(command) => {
            let clusters = Clusters::new(store(common).await?, Arc::new(SystemClock));
            Ok(cluster::run(command, &clusters).await?)
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

async fn user(command: UserCommand, accounts: &Accounts) -> Result<(), CommandError> {
    match command {
        UserCommand::Create { name, account, role, until } => {
            let id = accounts.create_user(&name, &account, grant(role, until)).await?;
            println!("{id}");
        }
        UserCommand::Role { name, account, role, until } => {
            accounts.change_user(&name, &account, Some(grant(role, until))).await?;
        }
        UserCommand::Remove { name, account } => accounts.change_user(&name, &account, None).await?,
        UserCommand::Invite { name, account, role, until, label, expires } => {
            let expires_at = expires.map(expiry).transpose()?;
            let wish = InvitationWish { name, label, grant: grant(role, until), expires_at };
            println!("{}", accounts.invite(&account, wish).await?.reveal());
        }
        UserCommand::Password { name } => {
            let password = password::read().map_err(CommandError::Input)?;
            accounts.set_password(&name, password).await?;
        }
        UserCommand::Link { name, issuer, subject } => accounts.link_user(&name, &issuer, &subject).await?,
    }
    Ok(())
}

fn grant(role: RoleName, until: Option<DateTime<Utc>>) -> Grant {
    Grant { role: role.into(), ends_at: until.map(Into::into) }
}

async fn accounts(common: &CommonConfig) -> Result<Accounts, CommandError> {
    Ok(Accounts::new(store(common).await?, Arc::new(SystemClock)))
}

async fn store(common: &CommonConfig) -> Result<SystemStore, CommandError> {
    Store::migrate(&common.database).await?;
    Ok(SystemStore::connect(&common.database, common.connections).await?)
}

fn expiry(valid: Duration) -> Result<Timestamp, CommandError> {
    let valid = TimeDelta::from_std(valid).map_err(|_| CommandError::Expiry)?;
    let end = SystemClock.now().checked_add_signed(valid).filter(|end| end.year() <= LAST_YEAR);
    end.map(Timestamp::from).ok_or(CommandError::Expiry)
}

async fn serve_until_told_to_stop(common: &CommonConfig, serve: &ServeConfig) -> Result<(), CommandError> {
    let mut signals = Signals::listen()?;
    let server = tokio::select! {
        server = Server::start(common, serve, Arc::new(SystemClock)) => server?,
        () = signals.told_to_stop() => return Ok(()),
    };
    greet(&server, common, serve.tls.is_some());
    signals.told_to_stop().await;
    tracing::info!("stopping; a second signal ends it at once");
    tokio::select! {
        stopped = server.stop() => stopped?,
        () = signals.told_to_stop() => {}
    }
    Ok(())
}

/// What the program is told to stop by.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, CommandError> {
        let on = |kind| signal(kind).map_err(CommandError::Signal);
        Ok(Self { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    /// Over when it is, each time.
    async fn told_to_stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Tells whoever started the server where it is and how Dask gets there. The token is shown here and nowhere
/// else, and never logged.
fn greet(server: &Server, common: &CommonConfig, by_tls: bool) {
    let url = format!("{}://{}", if by_tls { "https" } else { "http" }, server.address());
    tracing::info!(address = %server.address(), store = %common.database, "listening");
    println!("listening on {url}");
    println!("dashboard:    {url}/");
    println!("graphql:      {url}/graphql");
    if let Some(address) = server.metrics_address() {
        println!("metrics:      http://{address}/metrics");
    }
    let token = match server.bootstrap_token() {
        Some(token) => {
            println!("token:        {}   (account default, user admin; shown only now)", token.reveal());
            println!("sign in:      {url}/sign-in   (once `galvo user password admin` has set a password)");
            token.reveal()
        }
        None => "<token>".to_owned(),
    };
    println!("point Dask here:");
    println!("  export DASK_GALVO__TOKEN={token}");
    println!("  dask scheduler --preload {url}/api/v2/analytics/preload");
}
