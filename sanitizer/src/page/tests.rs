//! Pages, as a parser of HTML that is not ours reads them.

mod guesses;
mod limits;

use std::time::{Duration, UNIX_EPOCH};

use axum::{
    body::to_bytes,
    http::{HeaderMap, Request, StatusCode},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use scraper::Html;
use tempfile::TempDir;
use tower_service::Service as _;

use super::*;
use crate::{
    report::{
        Race,
        clean::{clean, is_unseen},
        html_testing::{
            HOSTILE, all, assert_escapes, assert_sound, body, called, parsed, shape, text,
        },
        identity, sample,
    },
    store::{
        Access, Address, Batch, Caught, Done, Entry, Saying, Store, Verdict, Whereabouts,
        millis_of, rfc3339,
    },
};

/// A store with these races, caught there, and of which this was said, by somebody of that name.
fn store_of(races: &[Race], name: &str) -> (TempDir, Address) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("races.db");
    let address: Address = format!("sqlite:{}", path.display()).parse().unwrap();
    let mut store = Store::open(&address, Access::Create).unwrap();
    let caught = races.iter().map(|race| Caught {
        race: race.clone(),
        place: Whereabouts {
            host: name.to_owned(),
            cgroup: name.to_owned(),
            container: name.to_owned(),
        },
        times: 3,
        last: None,
    });
    let batch = Batch {
        caught: caught.collect(),
        ..Batch::default()
    };
    assert_eq!(store.write(&batch).unwrap(), races.len());
    let saying = Saying {
        name: races[0].identity.race.clone(),
        state: Verdict::Acknowledged,
        reason: name.to_owned(),
        owner: Some(name.to_owned()),
        expires: None,
        who: name.to_owned(),
    };
    store.triage(&saying, 1).unwrap();
    (folder, address)
}

/// Two races of two builds of one program, and a third one of an old build.
fn usual() -> (TempDir, Address, [Race; 3]) {
    let race = |variable: &str, build: &str, ago: u64| {
        let mut race = sample::race();
        race.location.name = Some(variable.to_owned());
        race.build_id = Some(build.to_owned());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let at = now - Duration::from_secs(ago * 86_400);
        race.time = rfc3339(i64::try_from(at.as_millis()).unwrap());
        race.identity = identity(&race);
        race
    };
    let races = [
        race("hits", "aa11", 0),
        race("total", "bb22", 3),
        race("hits", "bb22", 40),
    ];
    let (folder, address) = store_of(&races, "web1");
    (folder, address, races)
}

const ADA: &str = "ada:correct horse battery";
const BOB: &str = "bob:another horse battery";

/// Pages on which these two may read, and say something.
fn pages_of(address: &Address) -> Router {
    let desk = Desk::open(address.clone()).unwrap();
    let users = Users::parse(&format!("{ADA}\n{BOB}\n")).unwrap();
    let door = Door::new(&["races.example".to_owned()], Some(users));
    router(desk, door, Some(FormKey::new().unwrap()))
}

/// The header by which somebody is known.
fn known(user: &str) -> (&'static str, String) {
    ("authorization", format!("Basic {}", STANDARD.encode(user)))
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Asks as one of the users.
fn ask(pages: &Router, method: &str, path: &str, host: Option<&str>) -> Answer {
    let host = host.map(|host| ("host", host.to_owned()));
    let headers: Vec<_> = host.into_iter().chain([known(ADA)]).collect();
    send(pages, [method, path], &headers, "")
}

fn send(
    pages: &Router,
    [method, path]: [&str; 2],
    headers: &[(&str, String)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request
        .body(axum::body::Body::from(body.to_owned()))
        .unwrap();
    runtime().block_on(async {
        let answer = pages.clone().call(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = to_bytes(body, 1 << 24).await.unwrap();
        Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    })
}

/// What stands there, which is as every page must be.
fn page(pages: &Router, path: &str, status: StatusCode) -> (Html, String) {
    let answer = ask(pages, "GET", path, Some("localhost"));
    assert_eq!(answer.status, status, "{path}: {}", answer.text);
    let document = parsed(&answer.text);
    assert_sound(&document);
    assert!(!answer.text.contains("<script") && !answer.text.contains("style="));
    assert!(!all(&document, "nav[aria-label]").is_empty());
    for link in all(&document, "[href], [action], [src]") {
        let values = ["href", "action", "src"].into_iter();
        for value in values.filter_map(|name| link.attr(name)) {
            let is_ours = value.starts_with('/') && !value.starts_with("//");
            assert!(is_ours || value.starts_with('#'), "{value}");
        }
    }
    for input in all(
        &document,
        "input:not([type=checkbox], [type=hidden]), select",
    ) {
        let name = input.attr("id").unwrap();
        assert_eq!(all(&document, &format!("label[for={name}]")).len(), 1);
    }
    for picture in all(&document, "svg[role=img]") {
        assert!(
            picture
                .attr("aria-label")
                .or(picture.attr("aria-labelledby"))
                .is_some()
        );
    }
    (document, answer.text)
}

fn good(pages: &Router, path: &str) -> Html {
    page(pages, path, StatusCode::OK).0
}

fn links(document: &Html, within: &str) -> Vec<String> {
    let links = all(document, &format!("{within} a[href]"));
    let links = links.iter().filter_map(|link| link.attr("href"));
    links.map(str::to_owned).collect()
}

/// Check that the list leads to races, builds and hosts, that filters choose, and that a race's page has what is known of it.
#[test]
fn pages_tell_what_the_store_has() {
    let (_folder, address, races) = usual();
    let pages = pages_of(&address);
    let list = good(&pages, "/");
    assert_eq!(text(all(&list, "h1")[0]), "Data races");
    let shown = body(&list);
    assert!(shown.contains("The store has 2 races."), "{shown}");
    assert_eq!(all(&list, ".races tbody tr").len(), 2);
    let of_today = all(&list, ".races tbody tr .spark")[0];
    assert!(of_today.attr("aria-label").unwrap().contains(" 3"));
    for (query, count) in [
        ("state=acknowledged", 1),
        ("state=new", 1),
        ("state=new&state=acknowledged", 2),
        ("state=regressed", 0),
        ("build=bb22", 2),
        ("build=aa11&text=&host=", 1),
        ("host=web1&text=nothing", 0),
        ("text=tOtal", 1),
        ("host=web2", 0),
    ] {
        let list = good(&pages, &format!("/?{query}"));
        assert_eq!(all(&list, ".races tbody tr").len(), count, "{query}");
        assert!(body(&list).contains("Show all"));
    }
    let list = good(&pages, "/?state=acknowledged");
    assert_eq!(
        all(&list, "input[checked]")[0].attr("value"),
        Some("acknowledged")
    );

    let address = &links(&list, ".races tbody")[0];
    assert!(address.contains(&races[0].identity.race), "{address}");
    let race = good(&pages, address);
    let shown = body(&race);
    for part in [
        "acknowledged",
        "6 times, first at",
        "web1 said acknowledged, owner web1: web1",
        "It was seen in these builds",
        "aa11",
        "bb22",
        "There is no other build of the program",
        "Machines where it was caught",
        "Counts by day and build",
        "2 races of these functions",
        "Records that are kept",
        "Thread 'worker' (tid=11) stands right before its write.",
        "'reader\\u{1b}[31m' (tid=12)",
        "counter++;",
        "identity:r3:",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(all(&race, ".side").len(), 2);
    let records = links(&race, "section[aria-labelledby=evidence] details ul");
    assert_eq!(records.len(), 2);
    let (path, fragment) = records[1].split_once('#').unwrap();
    assert_eq!(fragment, "evidence");
    let older = good(&pages, path);
    let shown = text(all(&older, "#race-1 figcaption time")[0]);
    assert_eq!(millis_of(&shown), millis_of(&races[2].time));

    let other = format!("/race/{}", races[1].identity.race);
    let other = good(&pages, &other);
    assert!(body(&other).contains("It was not seen in these builds of the program"));
    let compare = links(&other, "section[aria-labelledby=builds]");
    let compare = compare.iter().find(|link| link.starts_with("/diff?"));
    assert_eq!(compare.unwrap(), "/diff?a=bb22&b=aa11");
    let compared = good(&pages, compare.unwrap());
    let titles: Vec<String> = all(&compared, "h2").into_iter().map(text).collect();
    assert_eq!(
        titles,
        [
            "0 races new in the second build",
            "1 race gone since the first build",
            "1 race in both builds",
            "Builds"
        ]
    );
    // Every link within leads to a page.
    for document in [&list, &race, &other, &compared] {
        for link in links(document, "body") {
            if !link.starts_with('#') && link != "/style.css" {
                good(&pages, link.split('#').next().unwrap());
            }
        }
    }
}

/// Check that a long list is shown in parts, each race once.
#[test]
fn long_lists_are_in_parts() {
    let races = (0..120).map(|number| {
        let mut race = sample::race();
        race.location.name = Some(format!("v{number}"));
        race.time = rfc3339(1_700_000_000_000 + number / 7 * 1000);
        race.identity = identity(&race);
        race
    });
    let (_folder, address) = store_of(&races.collect::<Vec<_>>(), "web1");
    let pages = pages_of(&address);
    let (mut seen, mut counts) = (std::collections::BTreeSet::new(), Vec::new());
    let mut next = Some("/?text=v".to_owned());
    while let Some(path) = next {
        let list = good(&pages, &path);
        let found = links(&list, ".races tbody");
        counts.push(found.len());
        seen.extend(found);
        let further = all(&list, "a[rel=next]");
        next = further
            .first()
            .and_then(|link| link.attr("href"))
            .map(str::to_owned);
        assert_eq!(body(&list).contains("To the beginning"), counts.len() > 1);
    }
    assert_eq!(counts, [50, 50, 20]);
    assert_eq!(seen.len(), 120);
}

/// Check that nothing which a program, a machine or somebody can name changes a page: elements and their attributes are those of a page with harmless names, and the names are shown as they are.
#[test]
fn names_are_text() {
    let shapes = |name: &str| {
        let mut race = called(name).0;
        race.time = "2026-01-02T03:04:05Z".to_owned();
        race.identity = identity(&race);
        let mut other = race.clone();
        other.build_id = Some(format!("other {name}"));
        let (_folder, address) = store_of(&[race.clone(), other.clone()], name);
        let pages = pages_of(&address);
        // As the store has them.
        let [a, b] = [race.build(), other.build()].map(|build| build.replace('\0', "\u{fffd}"));
        let builds = [("a", &*a), ("b", &*b)];
        let paths = [
            "/".to_owned(),
            query::of_race(&race.identity.race, None),
            query::address("/diff", builds.into_iter()),
            query::address("/", [("host", name)].into_iter()),
            // Nothing has this.
            query::address(
                "/",
                [("text", &*format!("{name} zz")), ("issue", name)].into_iter(),
            ),
        ];
        let mut shapes = Vec::new();
        for path in paths {
            let (document, page) = page(&pages, &path, StatusCode::OK);
            let unseen = page.chars().find(|&c| c != '\n' && is_unseen(c));
            assert_eq!(unseen, None, "{path}");
            let shown = body(&document);
            let inputs = all(&document, "input[value]");
            let inputs: Vec<&str> = (inputs.iter())
                .filter_map(|input| input.attr("value"))
                .collect();
            let forms = [name.to_owned(), name.replace('\0', "\u{fffd}")];
            let is_shown = forms.iter().any(|name| {
                let cleaned = clean(name);
                let words: Vec<&str> = cleaned.split_whitespace().collect();
                shown.contains(&words.join(" "))
                    || inputs.iter().any(|value| value.contains(&*cleaned))
            });
            assert!(is_shown, "{name:?} is not in {path}: {shown}");
            shapes.push(shape(&document));
        }
        let wrong = query::address("/", [("state", name)].into_iter());
        let (document, page) = page(&pages, &wrong, StatusCode::BAD_REQUEST);
        assert!(!page.chars().any(|c| c != '\n' && is_unseen(c)));
        shapes.push(shape(&document));
        shapes
    };
    let expected = shapes("name");
    assert!(expected[1].len() > 150);
    for name in HOSTILE {
        let found = shapes(name);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "page {index} of {name}");
        }
    }
}

/// Check that every answer forbids what pages have no need of, that nothing is written, and that others' names are not answered.
#[test]
fn answers_have_a_policy() {
    let (_folder, address, _) = usual();
    let pages = pages_of(&address);
    for (method, path, host, status) in [
        ("GET", "/", Some("127.0.0.1:7173"), 200),
        ("GET", "/", Some("races.example"), 200),
        ("HEAD", "/", Some("localhost"), 200),
        ("GET", "/style.css", Some("[::1]:7173"), 200),
        ("GET", "/", Some("evil.example"), 421),
        ("GET", "/", None, 421),
        ("POST", "/", Some("localhost"), 405),
        ("DELETE", "/race/r3:00", Some("localhost"), 405),
        ("GET", "/race/r3:00/triage", Some("localhost"), 405),
        ("POST", "/race/r3:00/triage", Some("localhost"), 403),
        ("POST", "/race/r3:00/triage", Some("evil.example"), 421),
        ("OPTIONS", "/diff", Some("localhost"), 405),
        ("GET", "/favicon.ico", Some("localhost"), 404),
        ("GET", "/race/r3:00", Some("localhost"), 404),
        ("GET", "/race/%ff", Some("localhost"), 404),
        ("GET", "/race/a/b", Some("localhost"), 404),
        ("GET", "/?state=song", Some("localhost"), 400),
        ("GET", "/?from=x", Some("localhost"), 400),
        ("GET", "/?build=ffff", Some("localhost"), 400),
        ("GET", "/diff?a=aa11", Some("localhost"), 400),
        ("GET", "/diff?a=aa11&b=aa11", Some("localhost"), 400),
        ("GET", "/diff?a=aa11&b=ffff", Some("localhost"), 400),
    ] {
        let answer = ask(&pages, method, path, host);
        assert_eq!(
            answer.status.as_u16(),
            status,
            "{method} {path}: {}",
            answer.text
        );
        let header = |name: &str| answer.headers.get(name).unwrap().to_str().unwrap();
        assert!(
            header("content-security-policy").starts_with("default-src 'none'; style-src 'self'; ")
        );
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(answer.text.is_empty(), method == "HEAD");
        if path != "/style.css" && method != "HEAD" {
            let document = parsed(&answer.text);
            assert_sound(&document);
        }
    }
    let style = ask(&pages, "GET", "/style.css", Some("localhost"));
    assert_eq!(style.headers["content-type"], "text/css; charset=utf-8");
    for word in ["url(", "@import", "http:", "https:"] {
        assert!(!style.text.contains(word), "{word}");
    }
}

/// Check that no template lets anything through as it is.
#[test]
fn templates_escape() {
    let templates = [
        include_str!("../../templates/page.html"),
        include_str!("../../templates/failure.html"),
        include_str!("../../templates/chart.html"),
        include_str!("../../templates/race_head.html"),
        include_str!("../../templates/race_row.html"),
        include_str!("../../templates/seen_row.html"),
        include_str!("../../templates/list.html"),
        include_str!("../../templates/builds.html"),
        include_str!("../../templates/stored_race.html"),
    ];
    templates.into_iter().for_each(assert_escapes);
}

/// Headers of a form of a page of ours that somebody sends.
fn form(user: &str) -> Vec<(&'static str, String)> {
    vec![
        ("host", "localhost".to_owned()),
        ("origin", "http://localhost".to_owned()),
        ("sec-fetch-site", "same-origin".to_owned()),
        (
            "content-type",
            "application/x-www-form-urlencoded".to_owned(),
        ),
        known(user),
    ]
}

/// The token in the forms of a race's page, as somebody sees it.
fn token(pages: &Router, path: &str, user: &str) -> String {
    let headers = [("host", "localhost".to_owned()), known(user)];
    let page = send(pages, ["GET", path], &headers, "");
    let document = parsed(&page.text);
    let token = all(&document, "form[action$='/triage'] input[name=token]")[0];
    token.attr("value").unwrap().to_owned()
}

/// Check that what users say by forms is taken down in their names, for a race or its issue, and that races are merged and split.
#[test]
fn forms_say_what_the_command_line_says() {
    let (_folder, address, races) = usual();
    let pages = pages_of(&address);
    let [first, second] = [&races[0], &races[1]].map(|race| race.identity.race.clone());
    let of_first = format!("/race/{first}");
    let ours = token(&pages, &of_first, ADA);
    let say = |path: &str, user: &str, body: &str| {
        let token = token(&pages, &of_first, user);
        let body = format!("token={token}&{body}");
        let answer = send(&pages, ["POST", path], &form(user), &body);
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        answer.headers["location"].to_str().unwrap().to_owned()
    };
    let triage = format!("{of_first}/triage");
    let body = "of=race&state=benign&reason=only+%3Cb%3E&owner=web%00&until=2999-01-31";
    assert_eq!(say(&triage, ADA, body), of_first);
    let body = "of=issue&state=confirmed&reason=&owner=&until=";
    assert_eq!(say(&triage, BOB, body), of_first);
    let body = format!("into={second}&reason=moved");
    let of_second = format!("/race/{second}");
    assert_eq!(say(&format!("{of_first}/merge"), ADA, &body), of_second);
    let page = good(&pages, &of_second);
    let merged = all(&page, "form[action$='/split'] option");
    assert_eq!(merged[0].attr("value"), Some(&*first));
    let body = format!("name={first}&reason=two+after+all");
    assert_eq!(say(&format!("{of_second}/split"), BOB, &body), of_first);

    let mut store = Store::open(&address, Access::Existing).unwrap();
    let said = store.said(&[&first]).unwrap();
    let word = said.last().unwrap();
    assert_eq!((&*word.who, word.state), ("ada", Verdict::Benign));
    assert_eq!((&*word.reason, &*word.owner), ("only <b>", "web\u{fffd}"));
    assert_eq!(word.expires, millis_of("2999-01-31T00:00:00Z"));
    let said = store.said(&[&races[0].identity.issue]).unwrap();
    let word = said.last().unwrap();
    assert_eq!((&*word.who, word.state), ("bob", Verdict::Confirmed));
    assert_eq!((&*word.owner, word.expires), ("", None));
    let log = store.log(None).unwrap();
    let done = log.iter().filter_map(|entry| match entry {
        Entry::Merge(merge) => Some((merge.done, &*merge.who, &*merge.reason)),
        Entry::Said(_) => None,
    });
    let done: Vec<_> = done.collect();
    assert_eq!(
        done,
        [
            (Done::Merged, "ada", "moved"),
            (Done::Split, "bob", "two after all")
        ]
    );

    // What makes no sense is refused, with what to do.
    let before = store.log(None).unwrap();
    for (deed, body, told) in [
        ("triage", "of=race&state=song", "choose one"),
        ("triage", "of=race", "choose one"),
        ("triage", "state=new", "its issue"),
        (
            "triage",
            "of=race&state=new&until=2001-01-31",
            "still to come",
        ),
        ("triage", "of=race&state=new&until=soon", "still to come"),
        ("triage", "of=race&state=new&colour=red", "colour"),
        ("merge", "reason=x", "name the race"),
        ("merge", "into=ffffffff", "has no race"),
        ("merge", &format!("into={first}"), "into itself"),
        ("split", &format!("name={second}"), "not merged"),
    ] {
        let path = format!("{of_first}/{deed}");
        let body = format!("token={ours}&{body}");
        let answer = send(&pages, ["POST", &path], &form(ADA), &body);
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer.text.contains(told), "{body}: {}", answer.text);
    }
    let long = format!(
        "token={ours}&of=race&state=new&reason={}",
        "x".repeat(1 << 15)
    );
    let answer = send(&pages, ["POST", &triage], &form(ADA), &long);
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let body = format!("token={ours}&of=race&state=new");
    let absent = send(&pages, ["POST", "/race/r3:00/triage"], &form(ADA), &body);
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
    assert_eq!(store.log(None).unwrap(), before);
}

/// Check that nobody says anything in another one's name, and nobody who is not let in; and that nobody does where that is not allowed.
#[test]
fn forms_of_others_are_refused() {
    let (_folder, address, races) = usual();
    let pages = pages_of(&address);
    let path = format!("/race/{}", races[0].identity.race);
    let [ours, other] = [ADA, BOB].map(|user| token(&pages, &path, user));
    let mut store = Store::open(&address, Access::Existing).unwrap();
    let before = store.log(None).unwrap();
    let into = format!("into={}", races[1].identity.race);
    let name = format!("name={}", races[1].identity.race);
    let deeds = [
        ("triage", "of=race&state=benign"),
        ("merge", &*into),
        ("split", &*name),
    ];
    let without = |name: &str| {
        let mut headers = form(ADA);
        headers.retain(|(header, _)| *header != name);
        headers
    };
    let with = |name: &'static str, value: &str| {
        let mut headers = without(name);
        headers.push((name, value.to_owned()));
        headers
    };
    for (headers, token, status) in [
        (form(ADA), "", 403),
        (form(ADA), &*other, 403),
        (without("origin"), &ours, 403),
        (with("origin", "null"), &ours, 403),
        (with("origin", "http://evil.example"), &ours, 403),
        (with("sec-fetch-site", "cross-site"), &ours, 403),
        (with("content-type", "text/plain"), &ours, 403),
        (without("authorization"), &ours, 401),
        (with("authorization", "Basic YWRhOm5v"), &ours, 401),
        (with("authorization", "Bearer correct"), &ours, 401),
        (with("host", "evil.example"), &ours, 421),
    ] {
        for (deed, body) in deeds {
            let path = format!("{path}/{deed}");
            let body = format!("token={token}&{body}");
            let answer = send(&pages, ["POST", &path], &headers, &body);
            assert_eq!(answer.status.as_u16(), status, "{deed} {headers:?}");
            let asks = answer.headers.contains_key("www-authenticate");
            assert_eq!(asks, status == 401);
        }
    }
    // Nor is anything read by who is not let in.
    let stranger = send(&pages, ["GET", &path], &without("authorization"), "");
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);
    assert!(!stranger.text.contains(&races[0].identity.race));

    let desk = Desk::open(address.clone()).unwrap();
    let read_only = router(desk, Door::new(&[], None), None);
    let page = good(&read_only, &path);
    assert!(all(&page, "form[method=post]").is_empty());
    for (deed, body) in deeds {
        let path = format!("{path}/{deed}");
        let body = format!("token={ours}&{body}");
        let answer = send(&read_only, ["POST", &path], &form(ADA), &body);
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(store.log(None).unwrap(), before);
}
