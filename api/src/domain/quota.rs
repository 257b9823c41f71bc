//! Quotas of accounts: limits and usage.
//!
//! The counted size is the decompressed JSON of the sections that the account accepts, for as many days as it
//! keeps them (`section_bytes.rs`), without what was deleted before (`store/accounts/ingest_day.rs`). The
//! sums of a day are those of what was accepted: a deletion makes room in the storage and not in the day.

use std::{fmt, str::FromStr};

use entity::quota::UNLIMITED;
use serde::Serialize;
use utoipa::ToSchema;

/// The share of a limit from which the account is notified, in percent.
pub const NEAR_PERCENT: i64 = 80;

/// The limits of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The limit of bytes of reports stored at one time.
    pub stored_bytes: i64,
    /// The limit of bytes of reports in a day.
    pub daily_bytes: i64,
    /// The limit of new clusters in a day.
    pub daily_clusters: i64,
    /// The limit of the threads of a cluster that count as usage at one time.
    pub cluster_threads: i64,
    /// The largest retention of any data class, in days.
    pub retention_days: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stored_bytes: 50_000_000_000,
            daily_bytes: 10_000_000_000,
            daily_clusters: 10_000,
            cluster_threads: 100_000,
            retention_days: UNLIMITED,
        }
    }
}

/// The storage that an account uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The bytes of reports stored now.
    pub stored_bytes: i64,
    /// The bytes of reports received today.
    pub daily_bytes: i64,
    /// The number of new clusters today.
    pub daily_clusters: i64,
}

/// A quota of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// Bytes of reports stored at one time.
    StoredBytes,
    /// Bytes of reports in a day (UTC).
    DailyBytes,
    /// New clusters in a day (UTC).
    DailyClusters,
}

impl Quota {
    /// All quotas.
    pub const ALL: [Self; 3] = [Self::StoredBytes, Self::DailyBytes, Self::DailyClusters];

    /// Returns the quota's name in headers and responses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StoredBytes => "stored_bytes",
            Self::DailyBytes => "daily_bytes",
            Self::DailyClusters => "daily_clusters",
        }
    }
}

/// The part of the quotas that one credential used today.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CredentialUsage {
    /// The bytes of reports received today.
    pub daily_bytes: i64,
    /// The number of new clusters today.
    pub daily_clusters: i64,
}

/// The party that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitedParty {
    /// The whole account.
    Account,
    /// The credential of the request. In a day, it may use as much of a quota as it leaves to others.
    Credential,
}

impl LimitedParty {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_account(&self) -> bool {
        *self == Self::Account
    }
}

/// The usage of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct QuotaUse {
    /// The quota.
    pub quota: Quota,
    /// The used amount.
    pub used: i64,
    /// The limit.
    pub limit: i64,
    /// The party that the limit applies to. Absent for the account.
    #[serde(skip_serializing_if = "LimitedParty::is_account")]
    #[schema(required = false)]
    pub applies_to: LimitedParty,
}

impl QuotaUse {
    /// Returns true if the quota is used up.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.limit != UNLIMITED && self.used >= self.limit
    }

    /// Returns the used share of the limit, in percent.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a percentage needs no more digits")]
    pub fn percent(&self) -> f64 {
        if self.limit == UNLIMITED { 0.0 } else { self.used as f64 * 100.0 / self.limit.max(1) as f64 }
    }

    /// Returns true if the usage is close to the limit or beyond it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the constant is small")]
    pub fn is_near(&self) -> bool {
        self.percent() >= NEAR_PERCENT as f64
    }

    /// Returns the refusal message. It depends only on the quota and its limit.
    #[must_use]
    pub fn refusal(&self) -> String {
        let limit = self.limit;
        if self.applies_to == LimitedParty::Credential {
            let used = match self.quota {
                Quota::DailyClusters => format!("{limit} new clusters"),
                Quota::StoredBytes | Quota::DailyBytes => Size(limit).to_string(),
            };
            let quota_name =
                if self.quota == Quota::StoredBytes { "storage quota today" } else { "daily quota" };
            return format!(
                "the token has used its share of the account's {quota_name}, {used}: the rest is left to the \
                 account's other tokens until 00:00 UTC"
            );
        }
        match self.quota {
            Quota::StoredBytes => format!(
                "the account has used its storage quota of {}: shorten its retention, or ask for a higher \
                 quota",
                Size(limit)
            ),
            Quota::DailyBytes => format!(
                "the account has used its daily quota of {}: reports are accepted again from 00:00 UTC",
                Size(limit)
            ),
            Quota::DailyClusters => format!(
                "the account has used its daily quota of {limit} new clusters: more are accepted from 00:00 \
                 UTC"
            ),
        }
    }
}

/// The limits and the usage of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// The limits.
    pub limits: Limits,
    /// The usage.
    pub used: QuotaUsage,
    /// The usage of the request's credential. `None` if no other credential of the account sends
    /// reports: then nothing is left to others.
    pub credential_usage: Option<CredentialUsage>,
}

impl QuotaStatus {
    /// Returns the account's usage of one quota.
    #[must_use]
    pub fn usage_of(&self, quota: Quota) -> QuotaUse {
        let (used, limit) = match quota {
            Quota::StoredBytes => (self.used.stored_bytes, self.limits.stored_bytes),
            Quota::DailyBytes => (self.used.daily_bytes, self.limits.daily_bytes),
            Quota::DailyClusters => (self.used.daily_clusters, self.limits.daily_clusters),
        };
        QuotaUse { quota, used, limit, applies_to: LimitedParty::Account }
    }

    /// Returns the credential's usage of its share of a quota today: half of what others and earlier days
    /// have left. So it uses at most as much as remains. `None` if there is no share.
    #[must_use]
    pub fn share_of(&self, quota: Quota) -> Option<QuotaUse> {
        let credential = self.credential_usage?;
        let used = match quota {
            Quota::StoredBytes | Quota::DailyBytes => credential.daily_bytes,
            Quota::DailyClusters => credential.daily_clusters,
        };
        let account = self.usage_of(quota);
        if account.limit == UNLIMITED {
            return None;
        }
        let used_by_others = account.used.saturating_sub(used).max(0);
        // Rounded up, so that a quota of one can be used.
        let limit = account.limit.saturating_sub(used_by_others).max(0).saturating_add(1) / 2;
        Some(QuotaUse { quota, used, limit, applies_to: LimitedParty::Credential })
    }

    /// Returns the exceeded quota that prevents another report, if there is one.
    #[must_use]
    pub fn exceeded(&self) -> Option<QuotaUse> {
        let account = [Quota::StoredBytes, Quota::DailyBytes].map(|quota| Some(self.usage_of(quota)));
        let shares = [Quota::StoredBytes, Quota::DailyBytes].map(|quota| self.share_of(quota));
        let limits = account.into_iter().chain(shares);
        limits.flatten().find(QuotaUse::is_exceeded)
    }

    /// Returns the exceeded quota that prevents a new cluster, if there is one.
    #[must_use]
    pub fn exceeded_by_new_cluster(&self) -> Option<QuotaUse> {
        let limits = [Some(self.usage_of(Quota::DailyClusters)), self.share_of(Quota::DailyClusters)];
        limits.into_iter().flatten().find(QuotaUse::is_exceeded)
    }

    /// Returns the limits that are near or exceeded. A credential's share stands for the quota that it is
    /// part of.
    #[must_use]
    pub fn near_limits(&self) -> Vec<QuotaUse> {
        let nearest = |quota| {
            let share = self.share_of(quota).filter(QuotaUse::is_near);
            share.or_else(|| Some(self.usage_of(quota)).filter(QuotaUse::is_near))
        };
        Quota::ALL.into_iter().filter_map(nearest).collect()
    }

    /// Returns the rest of a quota that the request's credential can use.
    #[must_use]
    pub fn remaining(&self, quota: Quota) -> i64 {
        let limits = [Some(self.usage_of(quota)), self.share_of(quota)];
        let remainder = |limit: QuotaUse| limit.limit.saturating_sub(limit.used).max(0);
        limits.into_iter().flatten().map(remainder).min().unwrap_or_default()
    }

    /// Adds stored bytes and new clusters to the account's usage.
    pub fn add(&mut self, bytes: i64, clusters: i64) {
        let add = |sum: &mut i64, amount| *sum = sum.saturating_add(amount);
        add(&mut self.used.stored_bytes, bytes);
        add(&mut self.used.daily_bytes, bytes);
        add(&mut self.used.daily_clusters, clusters);
    }
}

/// Units of bytes in descending order.
const UNITS: [(&str, i64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// A number of bytes with a human-readable format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub i64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == UNLIMITED {
            return f.write_str("none");
        }
        let decimal = UNITS.iter().filter(|(unit, _)| !unit.contains('i'));
        let (unit, unit_bytes) =
            decimal.copied().find(|(_, unit_bytes)| self.0 >= *unit_bytes).unwrap_or(("B", 1));
        let hundredths = i128::from(self.0) * 100 / i128::from(unit_bytes);
        match (hundredths / 100, hundredths % 100) {
            (whole, 0) => write!(f, "{whole} {unit}"),
            (whole, rest) if rest % 10 == 0 => write!(f, "{whole}.{} {unit}", rest / 10),
            (whole, rest) => write!(f, "{whole}.{rest:02} {unit}"),
        }
    }
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "must be a whole number of bytes, as 50GB, 500MB or 2TiB, or `none` for no limit";
        if text == "none" {
            return Ok(Self(UNLIMITED));
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start();
        let unit_bytes = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((_, unit_bytes)) => *unit_bytes,
            None if unit.is_empty() => 1,
            None => return Err(WRONG),
        };
        let number: i64 = number.parse().map_err(|_| WRONG)?;
        number.checked_mul(unit_bytes).filter(|bytes| *bytes < UNLIMITED).map(Self).ok_or(WRONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes, display) in [
            ("0", 0, "0 B"),
            ("999", 999, "999 B"),
            ("1kB", 1_000, "1 kB"),
            ("1500 kb", 1_500_000, "1.5 MB"),
            ("50GB", 50_000_000_000, "50 GB"),
            ("2GiB", 2 << 30, "2.14 GB"),
            ("3TB", 3_000_000_000_000, "3 TB"),
            ("none", UNLIMITED, "none"),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
            assert_eq!(Size(bytes).to_string(), display, "{text}");
        }
        for text in ["", "GB", "-1", "1.5GB", "5 giga", "1e9", "9223372036854775807", "10000000TB", "None"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_near_is_told() {
        let limits =
            Limits { stored_bytes: 1_000, daily_bytes: UNLIMITED, daily_clusters: 10, ..Limits::default() };
        let mut status = QuotaStatus { limits, used: QuotaUsage::default(), credential_usage: None };
        status.add(799, 7);
        assert_eq!((status.near_limits(), status.exceeded()), (vec![], None));
        status.add(1, 1);
        let near_quotas: Vec<Quota> = status.near_limits().iter().map(|near| near.quota).collect();
        assert_eq!(near_quotas, [Quota::StoredBytes, Quota::DailyClusters]);
        status.add(i64::MAX, 0);
        assert_eq!(status.exceeded().map(|exceeded| exceeded.quota), Some(Quota::StoredBytes));
        assert!(!status.usage_of(Quota::DailyBytes).is_near(), "there is no limit");
    }

    #[test]
    fn a_credential_uses_as_much_as_it_leaves_to_others() {
        let limits = Limits { daily_bytes: 1_000, daily_clusters: 1, ..Limits::default() };
        // The account's use of bytes, the credential's part, its limit, and what remains for it.
        for (account_bytes, credential_bytes, limit, remaining) in [
            (0, 0, 500, 500),
            (400, 400, 500, 100),
            (500, 500, 500, 0),
            (700, 500, 400, 0),
            (900, 0, 50, 50),
            (1_200, 0, 0, 0),
        ] {
            let status = QuotaStatus {
                limits,
                used: QuotaUsage { daily_bytes: account_bytes, ..QuotaUsage::default() },
                credential_usage: Some(CredentialUsage { daily_bytes: credential_bytes, daily_clusters: 0 }),
            };
            let share = status.share_of(Quota::DailyBytes).expect("others report");
            assert_eq!(
                (share.limit, status.remaining(Quota::DailyBytes)),
                (limit, remaining),
                "{account_bytes}"
            );
            assert_eq!(status.exceeded().is_some(), remaining == 0, "{account_bytes}");
            assert_eq!(status.exceeded_by_new_cluster(), None, "the only one can be used");
            let without_credential = QuotaStatus { credential_usage: None, ..status };
            assert_eq!(without_credential.remaining(Quota::DailyBytes), (1_000 - account_bytes).max(0));
        }
    }
}
