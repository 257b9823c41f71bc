//! The user name and password of a PostgreSQL URL.

/// Returns true if a password seems to end the URL's authority too early. A `/`, `?` or `#` that is not
/// percent-encoded moves the rest of the password, with the `@` in front of the host, out of the
/// authority. The part before it would be taken for the host, and shown.
pub(crate) fn has_unencoded_password(url: &str) -> bool {
    let Some((_, address)) = url.split_once("://") else { return false };
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (authority, remainder) = address.split_at(end);
    if authority.contains('@') {
        // Of several `@` in the authority the last one counts. One in the path belongs to a password
        // that contains both characters.
        return remainder.starts_with('/') && path(remainder).contains('@');
    }
    match remainder.as_bytes().first() {
        Some(b'/') => path(remainder).contains('@'),
        // A value of the query may contain `@`, a name does not.
        Some(b'?') => remainder[1..].split(['=', '&']).next().is_some_and(|name| name.contains('@')),
        Some(_) => remainder.contains('@'),
        None => false,
    }
}

fn path(remainder: &str) -> &str {
    &remainder[..remainder.find('?').unwrap_or(remainder.len())]
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
