//! Those who may read pages: they have a name and a password, for which browsers ask ("Basic", RFC 7617).

use axum::http::{HeaderMap, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    delivery::{Secret, said_lines},
    report::clean::is_unseen,
};

/// How browsers are asked.
pub(super) const SCHEME: &str = "Basic realm=\"gwp-race\", charset=\"UTF-8\"";

/// Names with passwords. One name may have several, so that one can be exchanged for another.
pub struct Users(Vec<(String, Secret)>);

impl Users {
    /// Reads those of a file: `NAME:PASSWORD`, one a line.
    ///
    /// # Errors
    /// There is none, or one without a name, or with a password that is too short; says what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write NAME:PASSWORD, one a line";
        let users = said_lines(text).map(|(number, line)| match line.split_once(':') {
            Some((name, password)) if !name.is_empty() && !name.contains(is_unseen) => {
                let secret =
                    Secret::new(password).map_err(|wrong| format!("line {number} {wrong}"))?;
                Ok((name.to_owned(), secret))
            }
            _ => Err(format!("line {number} has no name; {FORM}")),
        });
        let users: Vec<_> = users.collect::<Result<_, String>>()?;
        if users.is_empty() {
            return Err(format!("it has no user; {FORM}"));
        }
        Ok(Self(users))
    }

    /// Who has sent a request; nobody where it has no name and password of ours.
    pub(super) fn who(&self, headers: &HeaderMap) -> Option<String> {
        let given = given(headers)?;
        let (name, password) = given.split_once(':')?;
        // Each is compared, whichever it is.
        let is_one = (self.0.iter()).fold(false, |found, (known, secret)| {
            found | (secret.is(password) & (known == name))
        });
        is_one.then(|| name.to_owned())
    }
}

/// The name and the password of a request, as they were given.
fn given(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, given) = given.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    String::from_utf8(STANDARD.decode(given.trim()).ok()?).ok()
}

/// The name alone, whoever it is.
pub(super) fn name_of(headers: &HeaderMap) -> Option<String> {
    let given = given(headers)?;
    let (name, _) = given.split_once(':')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str =
        "ada:correct horse battery\n\n  bob:0123456789:abcdef  \nada:another one of hers\n";

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
    }

    /// Check that each name lets in with each of its passwords, and that what is nearly one does not.
    #[test]
    fn users_are_let_in() {
        let users = Users::parse(USERS).unwrap();
        let who = |name: &str| users.who(&headers(&format!("Basic {}", STANDARD.encode(name))));
        for (given, name) in [
            ("ada:correct horse battery", "ada"),
            ("ada:another one of hers", "ada"),
            ("bob:0123456789:abcdef", "bob"),
        ] {
            assert_eq!(who(given).as_deref(), Some(name));
        }
        for bad in [
            "",
            ":",
            "ada",
            "ada:",
            "bob:correct horse battery",
            "Ada:correct horse battery",
            "ada:correct horse batter",
            "ada:correct horse battery ",
        ] {
            assert_eq!(who(bad), None, "{bad}");
        }
        let encoded = STANDARD.encode("ada:correct horse battery");
        assert!(users.who(&headers(&format!("basic {encoded}"))).is_some());
        for bad in [
            format!("Bearer {encoded}"),
            encoded,
            "Basic".to_owned(),
            "Basic %%%".to_owned(),
            format!("Basic {}", STANDARD.encode([0xff, b':', 0xff])),
        ] {
            assert_eq!(users.who(&headers(&bad)), None, "{bad}");
        }
        assert_eq!(users.who(&HeaderMap::new()), None);
    }

    /// Check that files without users, or with one that anybody could guess, are refused with what to write.
    #[test]
    fn useless_files() {
        for (text, told) in [
            ("", "no user"),
            ("ada", "NAME:PASSWORD"),
            (":correct horse battery", "NAME:PASSWORD"),
            ("a\u{1b}b:correct horse battery", "NAME:PASSWORD"),
            ("ada:short", "/dev/urandom"),
            ("ada:correct horse battery\n\nbob:short", "line 3 has"),
            ("ada:correct horse battery\n\n\nbob", "line 4 has"),
        ] {
            let error = Users::parse(text).err().unwrap();
            assert!(error.contains(told), "{error}");
        }
    }
}
