//! The user name and password of a PostgreSQL URL.

/// Returns true if a password seems to end the URL's authority too early. A `/`, `?` or `#` that is not
/// percent-encoded moves the rest of the password, with the `@` in front of the host, out of the
/// authority. The part before it would be taken for the host, and shown.
pub(crate) fn has_unencoded_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    if authority.contains('@') {
        // Of several `@` in the authority the last one counts. One in the path belongs to a password
        // that contains both characters.
        return behind.starts_with('/') && path(behind).contains('@');
    }
    match behind.as_bytes().first() {
        Some(b'/') => path(behind).contains('@'),
        // A value of the query may contain `@`, a name does not.
        Some(b'?') => behind[1..].split(['=', '&']).next().is_some_and(|name| name.contains('@')),
        Some(_) => behind.contains('@'),
        None => false,
    }
}

fn path(behind: &str) -> &str {
    &behind[..behind.find('?').unwrap_or(behind.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_are_not_encoded_are_recognised() {
        for url in [
            "postgres://ada:ge/heim@db/galvo",
            "postgres://ada:p@ss/w@db:5432/galvo",
            "postgres://ada:ge?heim@db/galvo",
            "postgres://ada:12?heim@db/galvo?sslmode=require",
            "postgres://ada:ge#heim@db/galvo",
            "postgres://ada:/@db/galvo",
        ] {
            assert!(has_unencoded_password(url), "{url}");
        }
        for url in [
            "postgres://ada:geheim@db/galvo",
            "postgres://ada:p@ss@db/galvo",
            "postgres://ada:p%40ss%2Fw@db:5432/galvo",
            "postgres://db/galvo?user=ada@team&password=ge/heim",
            "postgres://ada@db/galvo?options=-c%20x=a@b",
            "postgres:///galvo?host=/run/postgresql",
            "postgres://db",
            "postgres:galvo",
        ] {
            assert!(!has_unencoded_password(url), "{url}");
        }
    }
}
