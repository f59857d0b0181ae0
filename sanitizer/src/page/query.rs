//! What pages are asked for, as the addresses of links and forms have it. What is not understood is refused, so that nobody takes a list for another one than it is.

use std::collections::BTreeMap;

use url::form_urlencoded;

use super::outcome::Failure;
use crate::store::{
    State,
    page::{Filter, Mark},
};

/// The longest text that is asked for, bytes.
const LONGEST: usize = 4096;

/// Of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    /// The build is as it was typed: the beginning of its name may do.
    pub(super) filter: Filter,
    pub(super) from: Option<Mark>,
}

/// Of a race.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Race {
    /// The digest of the record that is shown.
    pub(super) record: Option<String>,
}

/// Of two builds, as they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Builds {
    pub(super) builds: Option<[String; 2]>,
}

/// The texts of each name, but for empty ones, which forms send of fields that nobody has filled in.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, Vec<String>>);

/// Those of a query or a form, which has no others than these.
pub(super) fn fields(sent: &[u8], known: &[&str]) -> Result<Fields, Failure> {
    let mut fields = Fields::default();
    for (name, value) in form_urlencoded::parse(sent) {
        if !known.contains(&&*name) {
            return Err(wrong(&format!(
                "there is no {name} here; there is {}",
                known.join(", ")
            )));
        }
        if value.len() > LONGEST {
            return Err(wrong(&format!(
                "{name} is longer than {LONGEST} bytes; give less of it"
            )));
        }
        if !value.is_empty() {
            (fields.0)
                .entry(name.into_owned())
                .or_default()
                .push(value.into_owned());
        }
    }
    Ok(fields)
}

/// Something was asked wrongly.
pub(super) fn wrong(text: &str) -> Failure {
    Failure::Query(format!("This is not understood: {text}."))
}

impl Fields {
    /// The texts of a name.
    fn all(&mut self, name: &str) -> Vec<String> {
        self.0.remove(name).unwrap_or_default()
    }

    /// The only text of a name.
    pub(super) fn one(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let mut values = self.all(name).into_iter();
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(wrong(&format!("{name} is there twice; give it once"))),
            (value, None) => Ok(value),
        }
    }
}

/// What stands behind the `?` of an address.
fn query_of(query: Option<&str>, known: &[&str]) -> Result<Fields, Failure> {
    fields(query.unwrap_or_default().as_bytes(), known)
}

impl List {
    pub(super) fn of(query: Option<&str>) -> Result<Self, Failure> {
        let known = ["state", "build", "host", "issue", "text", "from"];
        let mut fields = query_of(query, &known)?;
        let mut states = Vec::new();
        for word in fields.all("state") {
            let state = State::parse(&word).ok_or_else(|| {
                let words = State::ALL.map(State::name).join(", ");
                wrong(&format!("{word} is no state; there is {words}"))
            })?;
            if !states.contains(&state) {
                states.push(state);
            }
        }
        let from = fields.one("from")?.map(|text| {
            let mark = text.split_once('-');
            let mark = mark.and_then(|(time, race)| {
                Some(Mark {
                    last_seen: time.parse().ok()?,
                    race: race.to_owned(),
                })
            });
            mark.ok_or_else(|| wrong("from is no place in the list; begin at its first page"))
        });
        Ok(Self {
            from: from.transpose()?,
            filter: Filter {
                states,
                build: fields.one("build")?,
                host: fields.one("host")?,
                issue: fields.one("issue")?,
                text: fields.one("text")?,
            },
        })
    }

    /// The address of this list.
    pub(super) fn address(&self) -> String {
        let filter = &self.filter;
        let states = filter.states.iter().map(|state| ("state", state.name()));
        let from = self.from.as_ref();
        let from = from.map(|mark| format!("{}-{}", mark.last_seen, mark.race));
        let others = [
            ("build", &filter.build),
            ("host", &filter.host),
            ("issue", &filter.issue),
            ("text", &filter.text),
            ("from", &from),
        ];
        let others = others
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)));
        address("/", states.chain(others))
    }
}

impl Race {
    pub(super) fn of(query: Option<&str>) -> Result<Self, Failure> {
        let mut fields = query_of(query, &["record"])?;
        Ok(Self {
            record: fields.one("record")?,
        })
    }
}

impl Builds {
    pub(super) fn of(query: Option<&str>) -> Result<Self, Failure> {
        let mut fields = query_of(query, &["a", "b"])?;
        let both = [fields.one("a")?, fields.one("b")?];
        let builds = match both {
            [Some(a), Some(b)] => Some([a, b]),
            [None, None] => None,
            _ => return Err(wrong("two builds are compared; give a and b")),
        };
        Ok(Self { builds })
    }
}

/// The address of a page with what is asked of it.
pub(super) fn address<'a>(path: &str, fields: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let query = query.extend_pairs(fields).finish();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

/// The address of a race's page; of one of its records, if that is not to be the last one.
pub(super) fn of_race(id: &str, record: Option<&str>) -> String {
    let mut path = String::from("/race/");
    for byte in id.bytes() {
        // RFC 3986, section 2.3; a colon may stand in a path as well.
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b':' => {
                path.push(char::from(byte));
            }
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    address(&path, record.map(|record| ("record", record)).into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the address of a list is read as the list that it was made of, whatever names are in it.
    #[test]
    fn addresses_are_read_back() {
        let list = List {
            filter: Filter {
                states: vec![State::New, State::Regressed],
                build: Some("exe:/a&b=c".to_owned()),
                host: Some("\u{202e}h+ %20".to_owned()),
                issue: Some("i3:00".to_owned()),
                text: Some("<b>\"'\0".to_owned()),
            },
            from: Some(Mark {
                last_seen: 12,
                race: "r3:a-b".to_owned(),
            }),
        };
        let address = list.address();
        let (path, query) = address.split_once('?').unwrap();
        assert_eq!(path, "/");
        assert!(query.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(List::of(Some(query)).unwrap(), list);
        assert_eq!(List::default().address(), "/");
        assert_eq!(List::of(None).unwrap(), List::default());
        assert_eq!(List::of(Some("text=&build=&")).unwrap(), List::default());
        assert_eq!(
            of_race("r3:0a/..?#\"", None),
            "/race/r3:0a%2F%2E%2E%3F%23%22"
        );
        assert_eq!(of_race("r3:0a", Some("00ff")), "/race/r3:0a?record=00ff");
    }

    /// Check that what is not understood is refused, with what to do.
    #[test]
    fn wrong_addresses() {
        for (query, told) in [
            ("colour=red", "there is no colour here; there is state"),
            ("state=song", "song is no state; there is new"),
            ("text=a&text=b", "twice"),
            ("from=here", "first page"),
            ("from=12", "first page"),
        ] {
            let error = List::of(Some(query)).unwrap_err();
            assert!(
                matches!(&error, Failure::Query(text) if text.contains(told)),
                "{error:?}"
            );
        }
        let long = format!("text={}", "a".repeat(LONGEST + 1));
        assert!(List::of(Some(&long)).is_err());
        assert!(Builds::of(Some("a=11")).is_err());
        assert!(Builds::of(Some("a=11&b=22&c=33")).is_err());
        assert!(Race::of(Some("record=a&record=b")).is_err());
    }
}
