//! The words by which senders are known: whoever has one may send.

use axum::http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};

/// Characters of a token that nobody guesses.
const SHORTEST: usize = 16;

type Digest = [u8; 32];

/// How one is made.
const MEND: &str = "write one of your own, `head -c 32 /dev/urandom | base64`";

/// A word that somebody has for a proof, as its digest.
#[derive(Clone)]
pub(crate) struct Secret(Digest);

impl Secret {
    /// That of a word.
    ///
    /// # Errors
    /// It is too short; says so, as of something that has it, and what to do.
    pub(crate) fn new(word: &str) -> Result<Self, String> {
        if word.len() < SHORTEST {
            return Err(format!(
                "has a secret of less than {SHORTEST} characters; {MEND}"
            ));
        }
        Ok(Self(digest(word)))
    }

    /// Whether a word is it. This takes as long however much of it is right: digests are compared to their ends.
    pub(crate) fn is(&self, word: &str) -> bool {
        let given = digest(word);
        let pairs = self.0.iter().zip(&given);
        pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// Several, so that one can be exchanged for another while hosts have the old one still.
#[derive(Clone)]
pub struct Tokens(Vec<Secret>);

impl Tokens {
    /// Reads those of a file: one a line.
    ///
    /// # Errors
    /// There is none, or one that is too short; says what to do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens = said_lines(text).map(|(number, token)| {
            Secret::new(token).map_err(|wrong| format!("line {number} {wrong}"))
        });
        let tokens: Vec<Secret> = tokens.collect::<Result<_, _>>()?;
        if tokens.is_empty() {
            return Err(format!("it has no token; {MEND}, in a line of its own"));
        }
        Ok(Self(tokens))
    }

    /// Whether a request has one of them.
    #[must_use]
    pub fn are_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION);
        let given = given.and_then(|given| given.to_str().ok()?.split_once(' '));
        match given {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                self.has(token.trim())
            }
            _ => false,
        }
    }

    /// Takes as long whichever it is.
    fn has(&self, token: &str) -> bool {
        self.0
            .iter()
            .fold(false, |found, known| found | known.is(token))
    }
}

/// The lines of a file that are not empty, without the spaces around them, with their numbers, from 1.
pub(crate) fn said_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text
        .lines()
        .zip(1..)
        .map(|(line, number)| (number, line.trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

fn digest(token: &str) -> Digest {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: &str = "correct horse battery\n\n  0123456789abcdef  \n";

    fn headers(value: &str) -> HeaderMap {
        let value = value.parse().unwrap();
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    /// Check that each token lets in, and that what is nearly one does not.
    #[test]
    fn tokens_let_in() {
        let tokens = Tokens::parse(TOKENS).unwrap();
        for good in [
            "Bearer 0123456789abcdef",
            "bearer correct horse battery",
            "BEARER  0123456789abcdef",
        ] {
            assert!(tokens.are_in(&headers(good)), "{good}");
        }
        for bad in [
            "Bearer ",
            "Bearer",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer \u{e9}0123456789abcdef",
        ] {
            let headers = HeaderMap::from_iter([(
                header::AUTHORIZATION,
                axum::http::HeaderValue::from_bytes(bad.as_bytes()).unwrap(),
            )]);
            assert!(!tokens.are_in(&headers), "{bad}");
        }
        assert!(!tokens.are_in(&HeaderMap::new()));
    }

    /// Check that a file without a token that is worth the name is refused, with what to write.
    #[test]
    fn short_tokens_are_refused() {
        for text in ["", "\n \n", "0123456789abcdef\nshort\n"] {
            let error = Tokens::parse(text).err().unwrap();
            assert!(error.contains("/dev/urandom"), "{error}");
        }
        let error = Tokens::parse("0123456789abcdef\n\nshort\n").err().unwrap();
        assert!(error.starts_with("line 3 has"), "{error}");
    }
}
