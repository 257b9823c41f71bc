//! Subjects of alerts.

use std::{fmt, str::FromStr};

use entity::{
    cluster_flag::ClusterFlagKind,
    ids::{ClusterId, UserId},
};
use sea_orm::ActiveEnum;

/// The subject of an alert. Its text form, which is stored, is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// All clusters of the rule together.
    Account,
    /// The clusters of a user.
    User(UserId),
    /// A cluster.
    Cluster(ClusterId),
    /// A flag of a cluster.
    Flag(ClusterId, ClusterFlagKind),
}

impl Subject {
    /// Returns the cluster concerned, or `None` if the subject is not a single cluster.
    #[must_use]
    pub fn cluster(self) -> Option<ClusterId> {
        match self {
            Self::Cluster(cluster) | Self::Flag(cluster, _) => Some(cluster),
            Self::Account | Self::User(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account => f.write_str("account"),
            Self::User(user) => write!(f, "user:{user}"),
            Self::Cluster(cluster) => write!(f, "cluster:{cluster}"),
            Self::Flag(cluster, kind) => write!(f, "cluster:{cluster}:{}", kind.to_value()),
        }
    }
}

impl FromStr for Subject {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let message = "it is about nothing there is";
        let mut parts = text.splitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("account"), None, None) => Ok(Self::Account),
            (Some("user"), Some(user), None) => user.parse().map(Self::User).map_err(|_| message),
            (Some("cluster"), Some(cluster), kind) => {
                let cluster = cluster.parse().map_err(|_| message)?;
                match kind {
                    None => Ok(Self::Cluster(cluster)),
                    Some(kind) => {
                        let kind = ClusterFlagKind::try_from_value(&kind.to_owned()).map_err(|_| message)?;
                        Ok(Self::Flag(cluster, kind))
                    }
                }
            }
            _ => Err(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_read_back() {
        let user = UserId(uuid::Uuid::from_u128(7));
        for subject in [
            Subject::Account,
            Subject::User(user),
            Subject::Cluster(ClusterId(5)),
            Subject::Flag(ClusterId(5), ClusterFlagKind::GilContention),
        ] {
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
        for text in ["", "user", "user:x", "cluster:", "cluster:5:nothing", "account:1", "planet:1"] {
            assert!(text.parse::<Subject>().is_err(), "{text}");
        }
    }
}
