//! Evaluation of the claims in an issuer's token: user, accounts and role. This module does not verify
//! signatures.

use std::{fmt, str::FromStr};

use chrono::{DateTime, TimeDelta, Utc};
use entity::{Timestamp, api_token::Scope, membership::Role};
use serde_json::{Map, Value};

use super::{
    role::{lower_role, scopes_of},
    slug::Slug,
};

/// The tolerated difference between the clocks of an issuer and this server.
const LEEWAY: TimeDelta = TimeDelta::seconds(60);

/// The largest length of a subject, in characters.
const MAX_SUBJECT: usize = 255;

/// The largest number of accounts that claims can name. Further ones are ignored.
const MAX_ACCOUNTS: usize = 100;

/// The prefix that distinguishes Galvo's scopes from others.
const PREFIX: &str = "galvo:";

/// The claims of one token.
pub type Claims = Map<String, Value>;

/// The location of a value among the claims: the name of a claim, or a JSON pointer (RFC 6901) to a
/// nested value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName(String);

impl ClaimName {
    /// Returns the claim's value if it is present and not null.
    #[must_use]
    pub fn find<'a>(&self, claims: &'a Claims) -> Option<&'a Value> {
        let Some(pointer) = self.0.strip_prefix('/') else {
            return claims.get(&self.0).filter(|value| !value.is_null());
        };
        let (claim_name, remainder) = pointer
            .split_once('/')
            .map_or((pointer, None), |(claim_name, remainder)| (claim_name, Some(remainder)));
        let value = claims.get(&claim_name.replace("~1", "/").replace("~0", "~"))?;
        let value = match remainder {
            Some(remainder) => value.pointer(&format!("/{remainder}"))?,
            None => value,
        };
        Some(value).filter(|value| !value.is_null())
    }
}

impl FromStr for ClaimName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (1..=200).contains(&text.len()) && !text.contains(char::is_control) && text != "/";
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err("must be the name of a claim, or a JSON pointer to it")
        }
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The locations of the claims that an issuer uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// The user: an identifier that the issuer assigns to one user only.
    pub user: ClaimName,
    /// The accounts. `None` selects all accounts in which the user is a member.
    pub accounts: Option<ClaimName>,
    /// The highest role. `None` selects the role of the membership.
    pub role: Option<ClaimName>,
}

/// The content of an issuer's claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedIdentity {
    /// The issuer's identifier of the user.
    pub subject: String,
    /// The preferred name of the user.
    pub preferred_name: String,
    /// The accounts in the claims. `None` if the claims do not restrict them.
    pub accounts: Option<Vec<Slug>>,
    /// The role in the claims. `None` if the claims do not restrict it.
    pub role: Option<Role>,
    /// The scopes to which the token is restricted. `None` if it is not restricted.
    pub scopes: Option<Vec<Scope>>,
}

/// The reason for rejecting claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The token is from another issuer.
    #[error("its issuer is not the configured one")]
    Issuer,
    /// The token is for another audience.
    #[error("its audience is not the configured one")]
    Audience,
    /// A time is missing or not a number.
    #[error("a time is missing or not a number")]
    Time,
    /// The token has expired.
    #[error("it has expired")]
    Expired,
    /// The token is not valid yet, or was issued in the future.
    #[error("it is not valid yet")]
    Early,
    /// The claims name no user.
    #[error("it names no user")]
    Subject,
    /// The claims must name a role and name no known one.
    #[error("it names no role")]
    Role,
}

/// Checks the issuer, the audience and the times of claims. Returns the expiry.
///
/// # Errors
/// Returns the first violated condition.
pub fn check(
    claims: &Claims,
    issuer: &str,
    audience: &str,
    now: DateTime<Utc>,
) -> Result<Timestamp, ClaimError> {
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err(ClaimError::Issuer);
    }
    let is_for_audience = match claims.get("aud") {
        Some(Value::String(value)) => value == audience,
        Some(Value::Array(values)) => values.iter().any(|value| value == audience),
        _ => false,
    };
    if !is_for_audience {
        return Err(ClaimError::Audience);
    }
    let end = time(claims, "exp")?.ok_or(ClaimError::Time)?;
    let end = end.checked_add_signed(LEEWAY).unwrap_or(end);
    if end <= now {
        return Err(ClaimError::Expired);
    }
    for name in ["nbf", "iat"] {
        if time(claims, name)?.is_some_and(|start| start > now + LEEWAY) {
            return Err(ClaimError::Early);
        }
    }
    Ok(end.into())
}

/// Reads the claims at the locations in `names`.
///
/// # Errors
/// Returns an error if the claims name no valid subject, or no role where one is required.
pub fn read(claims: &Claims, names: &ClaimNames) -> Result<ClaimedIdentity, ClaimError> {
    let subject = names.user.find(claims).and_then(Value::as_str).filter(|subject| is_subject(subject));
    let subject = subject.ok_or(ClaimError::Subject)?.to_owned();
    let accounts = names.accounts.as_ref().map(|name| {
        let slugs = name.find(claims).into_iter().flat_map(string_values);
        slugs.take(MAX_ACCOUNTS).filter_map(|account| account.parse().ok()).collect()
    });
    let role = match &names.role {
        Some(name) => {
            let roles = name.find(claims).into_iter().flat_map(string_values).filter_map(role);
            Some(roles.reduce(greatest).ok_or(ClaimError::Role)?)
        }
        None => None,
    };
    let claimed_scopes = scopes(claims);
    let role_scopes = role.map(scopes_of);
    let scopes = match (claimed_scopes, role_scopes) {
        (Some(a), Some(b)) => Some(a.into_iter().filter(|scope| b.contains(scope)).collect()),
        (a, b) => a.or(b),
    };
    let display_name =
        ["preferred_username", "email"].into_iter().find_map(|name| claims.get(name)?.as_str());
    Ok(ClaimedIdentity {
        preferred_name: display_name.unwrap_or(&subject).to_owned(),
        subject,
        accounts,
        role,
        scopes,
    })
}

/// Returns true if the text is a valid subject of an issuer.
#[must_use]
pub fn is_subject(text: &str) -> bool {
    (1..=MAX_SUBJECT).contains(&text.chars().count()) && !text.contains(char::is_control)
}

/// Parses a claim in seconds since 1970, which may have a fraction.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and such times are out of range in any case"
)]
fn time(claims: &Claims, name: &str) -> Result<Option<DateTime<Utc>>, ClaimError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite()).ok_or(ClaimError::Time)?;
    DateTime::from_timestamp(seconds.floor() as i64, 0).map(Some).ok_or(ClaimError::Time)
}

/// Returns the strings of a claim that is a string or a list of strings.
fn string_values(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Parses a role. Guests are excluded: their membership needs an end, which no claim states.
fn role(name: &str) -> Option<Role> {
    match name.strip_prefix(PREFIX).unwrap_or(name) {
        "owner" => Some(Role::Owner),
        "admin" => Some(Role::Admin),
        "member" => Some(Role::Member),
        "viewer" => Some(Role::Viewer),
        _ => None,
    }
}

fn greatest(a: Role, b: Role) -> Role {
    if lower_role(a, b) == a { b } else { a }
}

/// Returns the scopes to which `scope` restricts the token. Issuers have scopes of their own, such as
/// `openid`, which have no meaning here. Only a claim with at least one of Galvo's scopes restricts the
/// token.
fn scopes(claims: &Claims) -> Option<Vec<Scope>> {
    let names = claims.get("scope").map(string_values)?;
    let names = names.into_iter().flat_map(str::split_whitespace);
    let (mut scopes, mut has_own_scope) = (Vec::new(), false);
    for name in names {
        let scope = match name.strip_prefix(PREFIX).unwrap_or(name) {
            "ingest" => Some(Scope::Ingest),
            "read" => Some(Scope::Read),
            "admin" => Some(Scope::Admin),
            _ => None,
        };
        has_own_scope |= scope.is_some() || name.starts_with(PREFIX);
        scopes.extend(scope);
    }
    has_own_scope.then_some(scopes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        match value {
            Value::Object(claims) => claims,
            _ => panic!("claims are an object"),
        }
    }

    #[test]
    fn times_have_a_leeway_of_a_minute_and_not_a_second_more() {
        let now = DateTime::from_timestamp(1_000_000, 0).expect("a time");
        let valid = json!({ "iss": "https://issuer", "aud": "galvo", "exp": 1_000_100 });
        let with_claim = |name: &str, value: Value| {
            let mut modified = valid.clone();
            modified[name] = value;
            claims(modified)
        };
        let valid_until =
            |seconds: i64| Ok(DateTime::from_timestamp(seconds + 60, 0).expect("a time").into());
        for (name, value, expected) in [
            ("exp", json!(999_941), valid_until(999_941)),
            ("exp", json!(999_940.9), Err(ClaimError::Expired)),
            ("exp", json!(999_940), Err(ClaimError::Expired)),
            ("exp", json!(-1), Err(ClaimError::Expired)),
            ("exp", json!(1e300), Err(ClaimError::Time)),
            ("exp", json!("1000100"), Err(ClaimError::Time)),
            ("exp", json!(null), Err(ClaimError::Time)),
            ("nbf", json!(1_000_060), valid_until(1_000_100)),
            ("nbf", json!(1_000_061), Err(ClaimError::Early)),
            ("nbf", json!("soon"), Err(ClaimError::Time)),
            ("iat", json!(1_000_060), valid_until(1_000_100)),
            ("iat", json!(1_000_061), Err(ClaimError::Early)),
            ("iss", json!("https://issuer/"), Err(ClaimError::Issuer)),
            ("iss", json!(["https://issuer"]), Err(ClaimError::Issuer)),
            ("aud", json!(["other", "galvo"]), valid_until(1_000_100)),
            ("aud", json!(["other"]), Err(ClaimError::Audience)),
            ("aud", json!([]), Err(ClaimError::Audience)),
            ("aud", json!("galvo2"), Err(ClaimError::Audience)),
            ("aud", json!(null), Err(ClaimError::Audience)),
        ] {
            let result = check(&with_claim(name, value.clone()), "https://issuer", "galvo", now);
            assert_eq!(result, expected, "{name}: {value}");
        }
        for (name, error) in
            [("exp", ClaimError::Time), ("iss", ClaimError::Issuer), ("aud", ClaimError::Audience)]
        {
            let mut incomplete = claims(valid.clone());
            incomplete.remove(name);
            assert_eq!(check(&incomplete, "https://issuer", "galvo", now), Err(error), "{name}");
        }
    }

    #[test]
    fn claims_are_found_by_name_or_by_pointer() {
        let claims =
            claims(json!({ "sub": "1", "a/b": { "c": ["x"] }, "https://galvo/role": "admin", "none": null }));
        for (name, value) in [
            ("sub", Some(json!("1"))),
            ("/sub", Some(json!("1"))),
            ("https://galvo/role", Some(json!("admin"))),
            ("/a~1b/c", Some(json!(["x"]))),
            ("/a~1b/c/0", Some(json!("x"))),
            ("/a/b", None),
            ("none", None),
            ("/none", None),
            ("nothing", None),
        ] {
            let name: ClaimName = name.parse().expect(name);
            assert_eq!(name.find(&claims).cloned(), value, "{name}");
        }
        for invalid in ["", "/", "a\u{0}", &"x".repeat(201)] {
            assert!(invalid.parse::<ClaimName>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn claims_say_who_where_and_as_what() {
        let name = |name: &str| Some(name.parse().expect("a name"));
        let names = |accounts: Option<ClaimName>, role: Option<ClaimName>| ClaimNames {
            user: "sub".parse().expect("a name"),
            accounts,
            role,
        };
        let read_identity = |names: &ClaimNames, value: Value| read(&claims(value), names);
        let user_only = names(None, None);
        let identity = read_identity(&user_only, json!({ "sub": "auth0|1", "email": "ada@example.com" }))
            .expect("a user");
        let expected = ClaimedIdentity {
            subject: "auth0|1".to_owned(),
            preferred_name: "ada@example.com".to_owned(),
            accounts: None,
            role: None,
            scopes: None,
        };
        assert_eq!(identity, expected);
        for invalid in [json!({}), json!({ "sub": 7 }), json!({ "sub": "" }), json!({ "sub": "a\u{0}" })] {
            assert_eq!(read_identity(&user_only, invalid.clone()), Err(ClaimError::Subject), "{invalid}");
        }
        let (read, ingest, admin) = (Scope::Read, Scope::Ingest, Scope::Admin);
        for (scope, scopes) in [
            (json!("openid profile"), None),
            (json!("openid read"), Some(vec![read])),
            (json!("galvo:admin galvo:ingest"), Some(vec![admin, ingest])),
            (json!(["read", "email"]), Some(vec![read])),
            // The claim has a Galvo scope that does not exist.
            (json!("galvo:everything"), Some(vec![])),
            (json!(""), None),
            (json!(7), None),
        ] {
            let result =
                read_identity(&user_only, json!({ "sub": "1", "scope": scope })).expect("a user").scopes;
            assert_eq!(result, scopes, "{scope}");
        }
        let all_names = names(name("galvo_accounts"), name("/realm/roles"));
        let slugs = |slugs: &[&str]| Some(slugs.iter().map(|slug| slug.parse().expect("a slug")).collect());
        for (accounts, roles, scope, expected_result) in [
            (
                json!("team"),
                json!("admin"),
                json!(null),
                Ok((slugs(&["team"]), Role::Admin, vec![ingest, read, admin])),
            ),
            (
                json!(["team", "Not a slug", 7, "lab"]),
                json!(["staff", "viewer", "member"]),
                json!("read admin"),
                Ok((slugs(&["team", "lab"]), Role::Member, vec![read])),
            ),
            (json!(null), json!(["galvo:viewer"]), json!(null), Ok((slugs(&[]), Role::Viewer, vec![read]))),
            (json!("team"), json!(["staff", "guest"]), json!(null), Err(ClaimError::Role)),
            (json!("team"), json!(null), json!(null), Err(ClaimError::Role)),
        ] {
            let value = json!({ "sub": "1", "galvo_accounts": accounts, "realm": { "roles": roles }, "scope": scope });
            let result = read_identity(&all_names, value.clone());
            let result = result.map(|result| {
                (result.accounts, result.role.expect("a role"), result.scopes.expect("scopes"))
            });
            assert_eq!(result, expected_result, "{value}");
        }
    }
}
