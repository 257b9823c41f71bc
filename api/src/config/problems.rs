//! The problems of settings, which are reported together.

use std::{ffi::OsStr, fmt, net::SocketAddr, str::FromStr, time::Duration};

use chrono::TimeDelta;

use super::{SECRET_KEY, parse_duration, parse_socket_address};
use crate::encryption::{Keys, KeysError};

/// The shortest and the longest value of the session settings. Browsers keep no cookie for more than 400
/// days.
const MIN_SESSION_DURATION: Duration = Duration::from_mins(5);
const MAX_SESSION_DURATION: Duration = Duration::from_hours(400 * 24);

/// All invalid settings, each with the reason.
#[derive(Debug)]
pub struct ConfigError(pub(super) Vec<String>);

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
pub(super) struct Problems(pub(super) Vec<String>);

impl Problems {
    pub(super) fn read<T: FromStr<Err: fmt::Display>>(&mut self, flag: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error| self.add(flag, &error)).ok()
    }

    pub(super) fn read_in_range<T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display + Copy>(
        &mut self,
        flag: &str,
        text: &str,
        (min, max): (T, T),
    ) -> Option<T> {
        let value = self.read(flag, text)?;
        if min <= value && value <= max {
            return Some(value);
        }
        self.add(flag, &format_args!("must be between {min} and {max}"));
        None
    }

    pub(super) fn read_address(&mut self, flag: &str, text: &str) -> Option<SocketAddr> {
        parse_socket_address(text).map_err(|message| self.add(flag, &message)).ok()
    }

    /// Parses the lifetime or the idle time of a session.
    pub(super) fn read_session_duration(&mut self, flag: &str, text: &str) -> Option<TimeDelta> {
        let duration = parse_duration(text).map_err(|message| self.add(flag, &message)).ok()?;
        if (MIN_SESSION_DURATION..=MAX_SESSION_DURATION).contains(&duration) {
            return TimeDelta::from_std(duration).ok();
        }
        self.add(flag, &"must be between 5m and 400d");
        None
    }

    /// Parses the keys in an environment variable.
    pub(super) fn read_keys(&mut self, text: &OsStr) -> Option<Keys> {
        let keys = text.to_string_lossy().parse();
        keys.map_err(|error: KeysError| self.0.push(format!("{SECRET_KEY}: {error}"))).ok()
    }

    /// Adds a problem. The value is left out: it may be a secret in the wrong place.
    pub(super) fn add(&mut self, flag: &str, problem: &dyn fmt::Display) {
        let variable = format!("GALVO_{}", flag.to_uppercase().replace('-', "_"));
        self.0.push(format!("--{flag} ({variable}): {problem}"));
    }
}
