//! The implementation of the commands. Results go to standard output, everything else to the log on
//! standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "commands print their results")]

mod backup;
mod cluster;
mod doctor;
mod keys;
mod list;
mod moment;
mod password;
mod service;
mod status;
mod store;

use std::{process::ExitCode, sync::Arc, time::Duration};

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use entity::{Timestamp, api_token::Scope};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{backup::BackupError, keys::KeyCommandError, service::ServiceError, store::OpenError};
use crate::{
    app::{
        QuotaChange, SignInLinks,
        account::{AccountError, Accounts},
        cluster::{ClusterError, Clusters},
        usage::{RollupError, Rollups},
    },
    clock::{Clock, SystemClock},
    config::{
        AccountCommand, AccountQuotaArgs, Cli, Command, CommonConfig, QuotaSetting, RetentionCommand,
        RoleName, RollupCommand, ServeConfig, SessionCommand, TokenCommand, UserCommand,
    },
    doctor as examination,
    domain::access::{AccessError, Grant, NewInvitation},
    error::Chain,
    graphql::Schema,
    http_client::{FetchError, OutgoingClient},
    key_ring::KeyError,
    server::{Server, ServerError},
    store::{MigrationError, Store, StoreError, SystemStore, TokenKind},
    telemetry,
};

/// The exit status for wrong usage or configuration, as clap uses it.
const USAGE: u8 = 2;

/// The last year of an expiry. RFC 3339 cannot express later years, and many programs could not read
/// such an expiry.
const LAST_YEAR: i32 = 9999;

/// The maximum size of the server's readiness response, in bytes.
const MAX_READINESS: usize = 4 << 10;

/// Runs the command. Returns status 0 on success, 2 for wrong usage or settings, and 1 for any other
/// error.
pub async fn run(cli: Cli) -> ExitCode {
    let (common, serve) = match cli.config() {
        Ok(config) => config,
        Err(error) => {
            if let Command::Doctor(args) = &cli.command {
                return doctor::print_findings(&examination::settings_findings(&error), args.json);
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
    let result = Box::pin(dispatch(cli.command, &common, serve)).await;
    telemetry.end().await;
    match result {
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
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Account(AccountError),
    #[error("{}", format_by_option(.0))]
    Refused(Vec<AccessError>),
    #[error("cannot read the password")]
    Input(#[source] std::io::Error),
    #[error("cannot listen for signals")]
    Signal(#[source] std::io::Error),
    #[error("--expires: lies too far in the future")]
    Expiry,
    #[error(transparent)]
    Rollup(#[from] RollupError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0} days could not be aggregated; see the log")]
    NotAggregated(usize),
    #[error(transparent)]
    Key(#[from] KeyCommandError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Backup(Box<BackupError>),
    #[error("interrupted before the copy was complete")]
    Stopped,
    #[error("the server is not ready")]
    NotReady(#[from] FetchError),
}

impl From<BackupError> for CommandError {
    fn from(error: BackupError) -> Self {
        // Boxed, because it is much larger than the other variants.
        Self::Backup(Box::new(error))
    }
}

impl From<AccountError> for CommandError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Refused(errors) => Self::Refused(errors),
            other => Self::Account(other),
        }
    }
}

/// Formats the reasons against a command, each with the option it concerns.
fn format_by_option(errors: &[AccessError]) -> String {
    let format_error = |error: &AccessError| match option_name(*error) {
        Some(option) => format!("{option}: {error}"),
        None => error.to_string(),
    };
    errors.iter().map(format_error).collect::<Vec<_>>().join("; ")
}

fn option_name(error: AccessError) -> Option<&'static str> {
    match error {
        AccessError::Label => Some("--label"),
        AccessError::ExpiryPast | AccessError::TooLate => Some("--expires"),
        AccessError::NoScope | AccessError::ScopeNotCovered => Some("--scope"),
        AccessError::EndMissing | AccessError::EndNotAllowed | AccessError::EndPast => Some("--until"),
        AccessError::MembershipEnded => Some("--user"),
        _ => None,
    }
}

impl CommandError {
    /// Returns true if the error is caused by wrong settings.
    fn is_usage(&self) -> bool {
        match self {
            Self::Server(ServerError::Keys(error)) | Self::Key(KeyCommandError::Keys(error)) => {
                matches!(error, KeyError::Read(..) | KeyError::Invalid(..))
            }
            Self::Server(ServerError::Jwks(_) | ServerError::Dashboard(_)) => true,
            Self::Backup(error) => matches!(**error, BackupError::Postgres),
            _ => false,
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one match arm per command")]
async fn dispatch(
    command: Command,
    common: &CommonConfig,
    serve: Option<ServeConfig>,
) -> Result<ExitCode, CommandError> {
    let result: Result<(), CommandError> = match command {
        Command::Serve(_) => {
            let serve = serve.expect("the configuration of serve is read when serve is the command");
            serve_until_shutdown(common, &serve).await
        }
        Command::Doctor(args) => {
            let serve = serve.expect("the configuration of serve is read for the doctor as well");
            return Ok(doctor::print_findings(&examination::examine(common, &serve).await, args.json));
        }
        Command::Migrate => {
            store::check_location(&common.database)?;
            Ok(Store::migrate(&common.database).await?)
        }
        Command::Ready(server) => {
            OutgoingClient::new().get(&server.readiness(), MAX_READINESS).await?;
            Ok(())
        }
        Command::Status(args) => Ok(status::print(&args, common).await?),
        Command::Schema => {
            print!("{}", Schema::sdl());
            Ok(())
        }
        Command::Account(AccountCommand::Create { slug }) => {
            let id = open_accounts(common).await?.create_account(&slug).await?;
            println!("{id}");
            Ok(())
        }
        Command::Account(AccountCommand::List) => {
            list::print_accounts(&open_accounts(common).await?.lists(None).await?);
            Ok(())
        }
        Command::Account(AccountCommand::Delete { slug, confirm }) => {
            Ok(open_accounts(common).await?.delete_account(&slug, &confirm).await?)
        }
        Command::Account(AccountCommand::Quota(args)) => {
            let accounts = open_accounts(common).await?;
            let AccountQuotaArgs { slug, stored, daily, clusters, threads, retention } = args;
            let change = QuotaChange {
                stored_bytes: stored.map(|QuotaSetting(limit)| limit),
                daily_bytes: daily.map(|QuotaSetting(limit)| limit),
                daily_clusters: clusters.map(|QuotaSetting(limit)| limit),
                cluster_threads: threads.map(|QuotaSetting(limit)| limit),
                retention_days: retention.map(|QuotaSetting(limit)| limit),
            };
            if change == QuotaChange::default() {
                let (account_quota, status) = accounts.quota(&slug).await?;
                list::print_quota(account_quota.as_ref(), &status);
            } else {
                accounts.set_quota(&slug, change).await?;
            }
            Ok(())
        }
        Command::User(command) => run_user_command(command, store::open(common).await?).await,
        Command::Token(TokenCommand::List { user, account, schedulers, limit }) => {
            let accounts = open_accounts(common).await?;
            let kind = if schedulers { TokenKind::OfSchedulers } else { TokenKind::Personal };
            let tokens = accounts.tokens(account.as_ref(), user.as_ref(), kind, limit).await?;
            list::print_tokens(&accounts.lists(None).await?, &tokens, kind, SystemClock.timestamp());
            Ok(())
        }
        Command::Token(TokenCommand::Revoke { identifier }) => {
            Ok(open_accounts(common).await?.revoke_token(&identifier).await?)
        }
        Command::Token(TokenCommand::Forget { identifier, account, since, confirm }) => {
            let clusters = open_clusters(common).await?;
            let counts = clusters.forget_token(&account, &identifier, since.into(), confirm).await?;
            list::print_removal_counts(&counts);
            Ok(())
        }
        Command::Token(TokenCommand::Restore { identifier, account }) => {
            println!("{} clusters", open_clusters(common).await?.restore_token(&account, &identifier).await?);
            Ok(())
        }
        Command::Session(SessionCommand::List { user, limit }) => {
            list::print_sessions(&open_accounts(common).await?.sessions(user.as_ref(), limit).await?);
            Ok(())
        }
        Command::Session(SessionCommand::End { user, session: None }) => {
            println!("{} sessions", open_accounts(common).await?.end_sessions(&user).await?);
            Ok(())
        }
        Command::Session(SessionCommand::End { user, session: Some(identifier) }) => {
            Ok(open_accounts(common).await?.end_session(&user, &identifier).await?)
        }
        Command::Token(TokenCommand::Create { user, account, scopes, label, expires }) => {
            let scopes: Vec<Scope> = scopes.into_iter().map(Scope::from).collect();
            let expires_at = expires.map(compute_expiry).transpose()?;
            let token = open_accounts(common)
                .await?
                .create_token(&user, &account, &scopes, label, expires_at)
                .await?;
            println!("{}", token.reveal());
            Ok(())
        }
        Command::Rollup(RollupCommand::Rebuild { account }) => {
            let outcome = Rollups::new(store::open(common).await?).rebuild(account.as_ref()).await?;
            println!("{} days", outcome.days);
            if outcome.failed == 0 { Ok(()) } else { Err(CommandError::NotAggregated(outcome.failed)) }
        }
        Command::Retention(RetentionCommand::Confirm) => {
            let store = store::open(common).await?;
            println!(
                "{}",
                if store.confirm_retention().await? {
                    "confirmed: data past its retention is deleted within the hour"
                } else {
                    "nothing to confirm: deletion is not paused"
                }
            );
            Ok(())
        }
        Command::Backup { file } => {
            let mut signals = Signals::listen()?;
            tokio::select! {
                copy_result = backup::run(&file, common) => Ok(copy_result?),
                // The partial copy is removed when the future that writes it is dropped.
                () = signals.wait_for_stop() => Err(CommandError::Stopped),
            }
        }
        Command::Key(command) => Ok(keys::run(command, common).await?),
        Command::Cluster(command) => Ok(cluster::run(command, &open_clusters(common).await?).await?),
        Command::Service(command) => Ok(service::run(&command)?),
    };
    result.map(|()| ExitCode::SUCCESS)
}

async fn run_user_command(command: UserCommand, store: SystemStore) -> Result<(), CommandError> {
    let accounts = Accounts::new(store.clone(), Arc::new(SystemClock));
    match command {
        UserCommand::List { account } => list::print_users(&accounts.lists(account.as_ref()).await?),
        UserCommand::Create { name, account, role, until } => {
            let id = accounts.create_user(&name, &account, grant(role, until)).await?;
            println!("{id}");
        }
        UserCommand::Role { name, account, role, until } => {
            accounts.change_user(&name, &account, Some(grant(role, until))).await?;
        }
        UserCommand::Remove { name, account } => accounts.change_user(&name, &account, None).await?,
        UserCommand::Delete { name, account } => {
            println!("{} clusters", accounts.delete_user(&name, &account).await?);
        }
        UserCommand::Invite { name, account, role, until, label, expires } => {
            let expires_at = expires.map(compute_expiry).transpose()?;
            let invitation = NewInvitation { name, label, grant: grant(role, until), expires_at };
            println!("{}", accounts.invite(&account, invitation).await?.reveal());
        }
        UserCommand::SignInLink { name, url } => {
            let links = SignInLinks::new(store, Arc::new(SystemClock));
            println!("{}", url.url_of(&links.create_for(&name).await?.path()));
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

async fn open_accounts(common: &CommonConfig) -> Result<Accounts, CommandError> {
    Ok(Accounts::new(store::open(common).await?, Arc::new(SystemClock)))
}

async fn open_clusters(common: &CommonConfig) -> Result<Clusters, CommandError> {
    Ok(Clusters::new(store::open(common).await?, Arc::new(SystemClock)))
}

fn compute_expiry(lifetime: Duration) -> Result<Timestamp, CommandError> {
    let lifetime = TimeDelta::from_std(lifetime).map_err(|_| CommandError::Expiry)?;
    let end = SystemClock.now().checked_add_signed(lifetime).filter(|end| end.year() <= LAST_YEAR);
    end.map(Timestamp::from).ok_or(CommandError::Expiry)
}

async fn serve_until_shutdown(common: &CommonConfig, serve: &ServeConfig) -> Result<(), CommandError> {
    store::check_location(&common.database)?;
    let _store_lock = store::lock_store(&common.database).await?;
    let mut signals = Signals::listen()?;
    let server = tokio::select! {
        server = Server::start(common, serve, Arc::new(SystemClock)) => server?,
        () = signals.wait_for_stop() => return Ok(()),
    };
    print_startup_info(&server, common, serve);
    notify_service_manager(&[NotifyState::Ready]);
    signals.wait_for_stop().await;
    tracing::info!("shutting down; a second signal exits immediately");
    notify_service_manager(&[NotifyState::Stopping]);
    tokio::select! {
        stop_result = server.stop() => stop_result?,
        () = signals.wait_for_stop() => {}
    }
    Ok(())
}

/// Notifies systemd of the server's state, if a unit that asks for it started the server.
fn notify_service_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd was not notified");
    }
}

/// The signals that stop the program.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, CommandError> {
        let listen_for = |kind| signal(kind).map_err(CommandError::Signal);
        Ok(Self {
            terminate: listen_for(SignalKind::terminate())?,
            interrupt: listen_for(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal to stop.
    async fn wait_for_stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Prints the server's addresses and the instructions for connecting Dask. The token is printed only
/// here, and never logged.
fn print_startup_info(server: &Server, common: &CommonConfig, serve: &ServeConfig) {
    let url = format!("{}://{}", if serve.tls.is_some() { "https" } else { "http" }, server.address());
    tracing::info!(address = %server.address(), store = %common.database, "listening");
    println!("listening on {url}");
    let url = serve.public_url.as_ref().map_or(url, ToString::to_string);
    println!("dashboard:    {url}/");
    println!("graphql:      {url}/graphql");
    if let Some(address) = server.metrics_address() {
        println!("metrics:      http://{address}/metrics");
    }
    let token = match server.bootstrap_token() {
        Some(token) => {
            println!("token:        {}   (account default, user admin; shown only now)", token.reveal());
            token.reveal()
        }
        None => "<token>".to_owned(),
    };
    if let Some(link) = server.sign_in_link() {
        println!("sign in:      {url}{}   (once, within 15 minutes)", link.path());
    } else if server.bootstrap_token().is_some() {
        println!("sign in:      {url}/sign-in   (`galvo user sign-in-link admin` prints a link)");
    }
    println!("connect Dask:");
    println!("  export DASK_GALVO__SERVER={url} DASK_GALVO__TOKEN={token}");
    println!(
        "  dask scheduler --preload galvo   (requires the Python package; without it, use `galvo preload`)"
    );
    if server.bootstrap_token().is_none() {
        println!(
            "new token:    galvo token create --user NAME --account ACCOUNT   (`galvo user list` shows both)"
        );
    }
    println!("store:        {}", common.database);
}
