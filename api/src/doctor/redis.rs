//! Check of Redis, through which several servers notify each other.

use super::Finding;
use crate::{bus::RedisUrl, error::Chain};

/// The oldest version that is still maintained.
const OLDEST_MAINTAINED: (u32, u32) = (6, 2);

pub(super) async fn examine(url: &RedisUrl) -> Finding {
    match url.check_connection().await {
        Ok(version) => judge_version(&format!("{url:?}"), version.as_deref()),
        Err(error) => Finding::failed(
            "redis",
            format!("{url:?}: {}", Chain(&error)),
            "start Redis, or correct GALVO_REDIS_URL; its user needs PUBLISH and SUBSCRIBE on galvo:*",
        ),
    }
}

fn judge_version(url: &str, version: Option<&str>) -> Finding {
    let Some(version) = version else {
        return Finding::ok("redis", format!("{url} delivers messages; its version is unknown"));
    };
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let message = format!("{url}, version {version}, delivers messages");
    if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < OLDEST_MAINTAINED {
        Finding::warning("redis", message, "this version no longer receives fixes: use 6.2 or newer")
    } else {
        Finding::ok("redis", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn old_versions_are_warned_of() {
        for (version, verdict) in [
            (Some("7.0.15"), Verdict::Ok),
            (Some("6.2.0"), Verdict::Ok),
            (Some("10.0"), Verdict::Ok),
            (Some("6.0.16"), Verdict::Warning),
            (Some("5.0"), Verdict::Warning),
            (None, Verdict::Ok),
        ] {
            assert_eq!(judge_version("Redis here", version).verdict, verdict, "{version:?}");
        }
    }
}
