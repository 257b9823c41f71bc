//! Settings of the default quotas, and the arguments that set the quotas of one account.

use clap::Args;
use entity::quota::UNLIMITED;

use super::{Problems, parse_duration};
use crate::domain::{
    quota::{Limits, Size},
    slug::Slug,
};

/// The seconds of a day.
const DAY: u64 = 86_400;

const CLUSTERS: &str = "must be a whole number from 0 on, or `none` for no limit";
const RETENTION: &str = "must be whole days from 1d on, as in 365d, or `none` for no limit";

/// The quota options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "flags are named after their fields")]
pub(super) struct QuotaArgs {
    /// Default quota of an account's stored data: bytes of JSON within its retention, such as `50GB`;
    /// `none` for no limit. `galvo account quota` sets the quota of one account.
    #[arg(long, env = "GALVO_QUOTA_STORED", default_value = "50GB", value_name = "SIZE")]
    quota_stored: String,
    /// Default quota of the data an account may report in a day (UTC), such as `10GB`; `none` for no
    /// limit.
    #[arg(long, env = "GALVO_QUOTA_DAILY", default_value = "10GB", value_name = "SIZE")]
    quota_daily: String,
    /// Default quota of new clusters per account in a day (UTC); `none` for no limit.
    #[arg(long, env = "GALVO_QUOTA_CLUSTERS", default_value = "10000", value_name = "NUMBER")]
    quota_clusters: String,
    /// Default limit of the threads of a cluster that count as usage at one time; `none` for no limit. The
    /// rest is marked as clamped and not priced.
    #[arg(long, env = "GALVO_QUOTA_THREADS", default_value = "100000", value_name = "NUMBER")]
    quota_threads: String,
    /// Maximum retention of data of any class, in whole days, such as `365d`; `none` for no limit. It
    /// overrides longer settings of an account.
    #[arg(long, env = "GALVO_QUOTA_RETENTION", default_value = "none", value_name = "DAYS")]
    quota_retention: String,
}

impl QuotaArgs {
    /// Parses the options and adds each problem to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<Limits> {
        let mut read = |flag, parsed: Result<i64, &'static str>| {
            parsed.map_err(|message| problems.add(flag, &message)).ok()
        };
        let stored = read("quota-stored", parse_size(&self.quota_stored));
        let daily = read("quota-daily", parse_size(&self.quota_daily));
        let clusters = read("quota-clusters", parse_number(&self.quota_clusters));
        let threads = read("quota-threads", parse_number(&self.quota_threads));
        let retention = read("quota-retention", parse_days(&self.quota_retention));
        Some(Limits {
            stored_bytes: stored?,
            daily_bytes: daily?,
            daily_clusters: clusters?,
            cluster_threads: threads?,
            retention_days: retention?,
        })
    }
}

/// Set an account's quotas; options that are not given stay unchanged. Without options, print
/// the quotas and the current usage. The value `default` restores the server's setting, `none` removes
/// the limit. A running server applies a change within a minute.
#[derive(Clone, Debug, Args)]
pub struct AccountQuotaArgs {
    /// Short name of the account.
    #[arg(value_parser = super::parse_slug)]
    pub slug: Slug,
    /// Quota of stored data: bytes of JSON within the account's retention, such as `50GB`.
    #[arg(long, value_parser = parse_or_default(parse_size), value_name = "SIZE")]
    pub stored: Option<QuotaSetting>,
    /// Quota of data reported in a day (UTC), such as `10GB`.
    #[arg(long, value_parser = parse_or_default(parse_size), value_name = "SIZE")]
    pub daily: Option<QuotaSetting>,
    /// Quota of new clusters in a day (UTC).
    #[arg(long, value_parser = parse_or_default(parse_number), value_name = "NUMBER")]
    pub clusters: Option<QuotaSetting>,
    /// Limit of the threads of a cluster that count as usage at one time.
    #[arg(long, value_parser = parse_or_default(parse_number), value_name = "NUMBER")]
    pub threads: Option<QuotaSetting>,
    /// Maximum retention of data of any class, in whole days, such as `365d`.
    #[arg(long, value_parser = parse_or_default(parse_days), value_name = "DAYS")]
    pub retention: Option<QuotaSetting>,
}

/// A quota given on the command line. `None` restores the server's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaSetting(pub Option<i64>);

fn parse_or_default(
    read: fn(&str) -> Result<i64, &'static str>,
) -> impl Fn(&str) -> Result<QuotaSetting, &'static str> + Clone + Send + Sync + 'static {
    move |text| {
        if text == "default" {
            Ok(QuotaSetting(None))
        } else {
            read(text).map(|limit| QuotaSetting(Some(limit)))
        }
    }
}

fn parse_size(text: &str) -> Result<i64, &'static str> {
    text.parse::<Size>().map(|Size(bytes)| bytes)
}

fn parse_number(text: &str) -> Result<i64, &'static str> {
    if text == "none" {
        return Ok(UNLIMITED);
    }
    text.parse().ok().filter(|number| (0..UNLIMITED).contains(number)).ok_or(CLUSTERS)
}

fn parse_days(text: &str) -> Result<i64, &'static str> {
    if text == "none" {
        return Ok(UNLIMITED);
    }
    let seconds = parse_duration(text).map_err(|_| RETENTION)?.as_secs();
    let days = i64::try_from(seconds / DAY).map_err(|_| RETENTION)?;
    if days >= 1 && seconds.is_multiple_of(DAY) { Ok(days) } else { Err(RETENTION) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        for (text, expected) in
            [("0", Ok(0)), ("10000", Ok(10_000)), ("none", Ok(UNLIMITED)), ("-1", Err(CLUSTERS))]
        {
            assert_eq!(parse_number(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1d", Ok(1)),
            ("48h", Ok(2)),
            ("none", Ok(UNLIMITED)),
            ("0d", Err(RETENTION)),
            ("25h", Err(RETENTION)),
        ] {
            assert_eq!(parse_days(text), expected, "{text}");
        }
        assert_eq!(parse_or_default(parse_size)("default"), Ok(QuotaSetting(None)));
        assert_eq!(parse_or_default(parse_size)("5MB"), Ok(QuotaSetting(Some(5_000_000))));
    }
}
