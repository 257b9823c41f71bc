//! The address of Redis, and the check that the bus can use it.

use std::{fmt, io, str::FromStr, time::Duration};

use futures::StreamExt;
use redis::{Client, IntoConnectionInfo, RedisError};
use tokio::time::timeout;
use uuid::Uuid;

/// The timeout of each operation on Redis.
pub(super) const OPERATION_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of Redis. `Debug` leaves the password out.
#[derive(Clone)]
pub struct RedisUrl(pub(super) Client);

impl FromStr for RedisUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        // The messages of the parser can repeat the URL with its password.
        let invalid_url = || "must be redis://… or rediss://…".to_owned();
        if !url.starts_with("redis://") && !url.starts_with("rediss://") {
            return Err(invalid_url());
        }
        let info = url.into_connection_info().map_err(|_| invalid_url())?;
        Client::open(info).map(Self).map_err(|_| invalid_url())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis {}", self.0.get_connection_info().addr())
    }
}

impl RedisUrl {
    /// Publishes a message, waits until it arrives, and returns the version of Redis. The version is
    /// `None` if the user may not run `INFO`.
    ///
    /// # Errors
    /// Returns an error if Redis does not answer in time, or denies a command that the bus needs.
    pub(crate) async fn check_connection(&self) -> Result<Option<String>, RedisError> {
        let (channel, message) = (format!("galvo:1:doctor:{}", Uuid::new_v4()), "heard");
        let round_trip = async {
            let mut listener = self.0.get_async_pubsub().await?;
            listener.subscribe(&channel).await?;
            let mut publisher = self.0.get_multiplexed_async_connection().await?;
            redis::cmd("PUBLISH").arg(&channel).arg(message).exec_async(&mut publisher).await?;
            listener.on_message().next().await.ok_or_else(timed_out)?;
            // The user may lack the permission for `INFO`.
            let info: Result<String, _> = redis::cmd("INFO").arg("server").query_async(&mut publisher).await;
            let version = info.ok().and_then(|info| {
                let line = info.lines().find_map(|line| line.strip_prefix("redis_version:"))?;
                Some(line.trim().to_owned())
            });
            Ok(version)
        };
        timeout(OPERATION_TIMEOUT, round_trip).await.map_err(|_| timed_out())?
    }
}

pub(super) fn timed_out() -> RedisError {
    RedisError::from(io::Error::new(io::ErrorKind::TimedOut, "no response in time"))
}
