//! What the claims of an issuer say of somebody: who it is, where, and as what. Signatures are not looked at here.

use std::{fmt, str::FromStr};

use chrono::{DateTime, TimeDelta, Utc};
use entity::{Timestamp, api_token::Scope, membership::Role};
use serde_json::{Map, Value};

use super::{
    role::{least, scopes_of},
    slug::Slug,
};

/// How far the clocks of an issuer and of this server may differ.
const LEEWAY: TimeDelta = TimeDelta::seconds(60);

/// Characters of a subject at the most.
const MAX_SUBJECT: usize = 255;

/// Accounts that claims may name; more are not looked at.
const MAX_ACCOUNTS: usize = 100;

/// What stands before a scope of ours among those of others.
const PREFIX: &str = "galvo:";

/// The claims of one token.
pub type Claims = Map<String, Value>;

/// Where something stands among claims: the name of one, or a JSON pointer (RFC 6901) if it lies deeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName(String);

impl ClaimName {
    /// The claim, if it is there and not null.
    #[must_use]
    pub fn find<'a>(&self, claims: &'a Claims) -> Option<&'a Value> {
        let Some(pointer) = self.0.strip_prefix('/') else {
            return claims.get(&self.0).filter(|value| !value.is_null());
        };
        let (first, rest) =
            pointer.split_once('/').map_or((pointer, None), |(first, rest)| (first, Some(rest)));
        let value = claims.get(&first.replace("~1", "/").replace("~0", "~"))?;
        let value = match rest {
            Some(rest) => value.pointer(&format!("/{rest}"))?,
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

/// Which claims of an issuer say what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// Who it is: what the issuer calls the user and nobody else ever.
    pub user: ClaimName,
    /// In which accounts; if none says it, in all in which the user is a member.
    pub accounts: Option<ClaimName>,
    /// As what, at the most; if none says it, as what the account says.
    pub role: Option<ClaimName>,
}

/// What claims say of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// What the issuer calls the user.
    pub subject: String,
    /// What the user may like to be called here.
    pub called: String,
    /// The accounts that are meant; none if claims do not say it.
    pub accounts: Option<Vec<Slug>>,
    /// The role that is meant; none if claims do not say it.
    pub role: Option<Role>,
    /// What it is restricted to; none if to nothing.
    pub scopes: Option<Vec<Scope>>,
}

/// What is wrong with claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// It is of another issuer.
    #[error("it is of another issuer")]
    Issuer,
    /// It is for somebody else.
    #[error("it is for another audience")]
    Audience,
    /// A time is missing, or no number.
    #[error("a time is missing or no number")]
    Time,
    /// It is not good any more.
    #[error("it has expired")]
    Expired,
    /// It is not good yet, or was made in the future.
    #[error("it is not good yet")]
    Early,
    /// It names nobody.
    #[error("it names no user")]
    Subject,
    /// It should name a role and names none there is.
    #[error("it names no role")]
    Role,
}

/// Whether claims are of this issuer, for this audience and of this time. Returns until when they are good.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(
    claims: &Claims,
    issuer: &str,
    audience: &str,
    now: DateTime<Utc>,
) -> Result<Timestamp, ClaimError> {
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err(ClaimError::Issuer);
    }
    let is_meant = match claims.get("aud") {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(several)) => several.iter().any(|one| one == audience),
        _ => false,
    };
    if !is_meant {
        return Err(ClaimError::Audience);
    }
    let end = time(claims, "exp")?.ok_or(ClaimError::Time)?;
    let end = end.checked_add_signed(LEEWAY).unwrap_or(end);
    if end <= now {
        return Err(ClaimError::Expired);
    }
    for name in ["nbf", "iat"] {
        if time(claims, name)?.is_some_and(|begin| begin > now + LEEWAY) {
            return Err(ClaimError::Early);
        }
    }
    Ok(end.into())
}

/// What claims say, as `names` tell where they say it.
///
/// # Errors
/// When they do not say who it is, or as what.
pub fn read(claims: &Claims, names: &ClaimNames) -> Result<Claimed, ClaimError> {
    let subject = names.user.find(claims).and_then(Value::as_str).filter(|subject| is_subject(subject));
    let subject = subject.ok_or(ClaimError::Subject)?.to_owned();
    let accounts = names.accounts.as_ref().map(|name| {
        let slugs = name.find(claims).into_iter().flat_map(texts);
        slugs.take(MAX_ACCOUNTS).filter_map(|account| account.parse().ok()).collect()
    });
    let role = match &names.role {
        Some(name) => {
            let roles = name.find(claims).into_iter().flat_map(texts).filter_map(role);
            Some(roles.reduce(greatest).ok_or(ClaimError::Role)?)
        }
        None => None,
    };
    let by_scope = scopes(claims);
    let by_role = role.map(scopes_of);
    let scopes = match (by_scope, by_role) {
        (Some(one), Some(other)) => Some(one.into_iter().filter(|scope| other.contains(scope)).collect()),
        (one, other) => one.or(other),
    };
    let called = ["preferred_username", "email"].into_iter().find_map(|name| claims.get(name)?.as_str());
    Ok(Claimed { called: called.unwrap_or(&subject).to_owned(), subject, accounts, role, scopes })
}

/// Whether an issuer may call somebody so.
#[must_use]
pub fn is_subject(text: &str) -> bool {
    (1..=MAX_SUBJECT).contains(&text.chars().count()) && !text.contains(char::is_control)
}

/// A time as seconds since 1970, which may have a fraction.
#[expect(
    clippy::cast_possible_truncation,
    reason = "it saturates, and what lies so far away is out of range anyway"
)]
fn time(claims: &Claims, name: &str) -> Result<Option<DateTime<Utc>>, ClaimError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite()).ok_or(ClaimError::Time)?;
    DateTime::from_timestamp(seconds.floor() as i64, 0).map(Some).ok_or(ClaimError::Time)
}

/// The words of a claim that is a text or a list of texts.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Guests have an end, which no claim says.
fn role(word: &str) -> Option<Role> {
    match word.strip_prefix(PREFIX).unwrap_or(word) {
        "owner" => Some(Role::Owner),
        "admin" => Some(Role::Admin),
        "member" => Some(Role::Member),
        "viewer" => Some(Role::Viewer),
        _ => None,
    }
}

fn greatest(one: Role, other: Role) -> Role {
    if least(one, other) == one { other } else { one }
}

/// What `scope` restricts the token to. Issuers have scopes of their own, such as `openid`, which say nothing here: only
/// one that names at least one of ours restricts it.
fn scopes(claims: &Claims) -> Option<Vec<Scope>> {
    let words = claims.get("scope").map(texts)?;
    let words = words.into_iter().flat_map(str::split_whitespace);
    let (mut found, mut speaks_of_us) = (Vec::new(), false);
    for word in words {
        let scope = match word.strip_prefix(PREFIX).unwrap_or(word) {
            "ingest" => Some(Scope::Ingest),
            "read" => Some(Scope::Read),
            "admin" => Some(Scope::Admin),
            _ => None,
        };
        speaks_of_us |= scope.is_some() || word.starts_with(PREFIX);
        found.extend(scope);
    }
    speaks_of_us.then_some(found)
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
        let good = json!({ "iss": "https://issuer", "aud": "galvo", "exp": 1_000_100 });
        let with = |name: &str, value: Value| {
            let mut changed = good.clone();
            changed[name] = value;
            claims(changed)
        };
        let end = |end: i64| Ok(DateTime::from_timestamp(end + 60, 0).expect("a time").into());
        for (name, value, answer) in [
            ("exp", json!(999_941), end(999_941)),
            ("exp", json!(999_940.9), Err(ClaimError::Expired)),
            ("exp", json!(999_940), Err(ClaimError::Expired)),
            ("exp", json!(-1), Err(ClaimError::Expired)),
            ("exp", json!(1e300), Err(ClaimError::Time)),
            ("exp", json!("1000100"), Err(ClaimError::Time)),
            ("exp", json!(null), Err(ClaimError::Time)),
            ("nbf", json!(1_000_060), end(1_000_100)),
            ("nbf", json!(1_000_061), Err(ClaimError::Early)),
            ("nbf", json!("soon"), Err(ClaimError::Time)),
            ("iat", json!(1_000_060), end(1_000_100)),
            ("iat", json!(1_000_061), Err(ClaimError::Early)),
            ("iss", json!("https://issuer/"), Err(ClaimError::Issuer)),
            ("iss", json!(["https://issuer"]), Err(ClaimError::Issuer)),
            ("aud", json!(["other", "galvo"]), end(1_000_100)),
            ("aud", json!(["other"]), Err(ClaimError::Audience)),
            ("aud", json!([]), Err(ClaimError::Audience)),
            ("aud", json!("galvo2"), Err(ClaimError::Audience)),
            ("aud", json!(null), Err(ClaimError::Audience)),
        ] {
            let found = check(&with(name, value.clone()), "https://issuer", "galvo", now);
            assert_eq!(found, answer, "{name}: {value}");
        }
        for (name, error) in
            [("exp", ClaimError::Time), ("iss", ClaimError::Issuer), ("aud", ClaimError::Audience)]
        {
            let mut without = claims(good.clone());
            without.remove(name);
            assert_eq!(check(&without, "https://issuer", "galvo", now), Err(error), "{name}");
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
        for wrong in ["", "/", "a\u{0}", &"x".repeat(201)] {
            assert!(wrong.parse::<ClaimName>().is_err(), "{wrong}");
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
        let of = |names: &ClaimNames, value: Value| read(&claims(value), names);
        let plain = names(None, None);
        let said = of(&plain, json!({ "sub": "auth0|1", "email": "ada@example.com" })).expect("a user");
        let expected = Claimed {
            subject: "auth0|1".to_owned(),
            called: "ada@example.com".to_owned(),
            accounts: None,
            role: None,
            scopes: None,
        };
        assert_eq!(said, expected);
        for wrong in [json!({}), json!({ "sub": 7 }), json!({ "sub": "" }), json!({ "sub": "a\u{0}" })] {
            assert_eq!(of(&plain, wrong.clone()), Err(ClaimError::Subject), "{wrong}");
        }
        let (read, ingest, admin) = (Scope::Read, Scope::Ingest, Scope::Admin);
        for (scope, scopes) in [
            (json!("openid profile"), None),
            (json!("openid read"), Some(vec![read])),
            (json!("galvo:admin galvo:ingest"), Some(vec![admin, ingest])),
            (json!(["read", "email"]), Some(vec![read])),
            // It speaks of us and grants nothing that there is.
            (json!("galvo:everything"), Some(vec![])),
            (json!(""), None),
            (json!(7), None),
        ] {
            let found = of(&plain, json!({ "sub": "1", "scope": scope })).expect("a user").scopes;
            assert_eq!(found, scopes, "{scope}");
        }
        let full = names(name("galvo_accounts"), name("/realm/roles"));
        let slugs = |slugs: &[&str]| Some(slugs.iter().map(|slug| slug.parse().expect("a slug")).collect());
        for (accounts, roles, scope, answer) in [
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
            let found = of(&full, value.clone());
            let found = found
                .map(|found| (found.accounts, found.role.expect("a role"), found.scopes.expect("scopes")));
            assert_eq!(found, answer, "{value}");
        }
    }
}
