//! Pages about a store in a real browser: `cargo xtask browser`.

#![cfg(test)]

mod browser;
mod stage;

use std::fmt::Write as _;

use browser::{Browser, Screen};
use serde_json::Value;
use stage::Stage;

/// Screens of telephones and of desks, in both schemes of colours.
const SCREENS: [Screen; 4] = [
    Screen {
        width: 360,
        is_dark: false,
    },
    Screen {
        width: 1280,
        is_dark: false,
    },
    Screen {
        width: 360,
        is_dark: true,
    },
    Screen {
        width: 1280,
        is_dark: true,
    },
];

/// Text that contrasts less with what it stands on than normal text has to (<https://www.w3.org/TR/WCAG22/#contrast-minimum>), each with the contrast.
const HARD_TO_READ: &str = r#"
    const parts = color => color.match(/[\d.]+/g).map(Number);
    const light = color => parts(color).slice(0, 3).map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = element => {
        if (element instanceof SVGElement) {
            element.scrollIntoView();
            const box = element.getBoundingClientRect();
            const below = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
            const shape = below.find(one => one instanceof SVGRectElement);
            if (shape) return getComputedStyle(shape).fill;
        }
        for (; element; element = element.parentElement) {
            const color = getComputedStyle(element).backgroundColor;
            if ((parts(color)[3] ?? 1) > 0) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    const bad = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const of = element instanceof SVGElement ? style.fill : style.color;
        const [high, low] = [light(of), light(ground(element))].sort((a, b) => b - a);
        const contrast = (high + 0.05) / (low + 0.05);
        if (contrast < 4.5) bad.push(texts.currentNode.data.trim() + ': ' + contrast.toFixed(1));
    }
    return bad;
"#;

/// How much wider than the screen the page is, pixels.
const EXCESS: &str =
    "return document.documentElement.scrollWidth - document.documentElement.clientWidth";

/// What a page has that is executed, or fetched from elsewhere.
const FOREIGN: &str = r#"
    const links = [...document.querySelectorAll('[href], [src], [action]')]
        .flatMap(element => ['href', 'src', 'action'].filter(name => element.hasAttribute(name)).map(name => element.getAttribute(name)));
    const handlers = [...document.querySelectorAll('*')]
        .flatMap(element => element.getAttributeNames().filter(name => name.startsWith('on')));
    return [...document.querySelectorAll('script, img, iframe, object, embed, base, meta[http-equiv]')].map(element => element.outerHTML)
        .concat(links.filter(link => !link.startsWith('/') && !link.startsWith('#')), handlers);
"#;

/// The pages that others lead to, from the list on.
fn pages(browser: &Browser, stage: &Stage) -> Vec<String> {
    browser.go(&format!("{}/", stage.address));
    let links = browser.ask(
        "return [...document.querySelectorAll('table a')].map(link => link.getAttribute('href'))",
    );
    let mut pages = vec!["/".to_owned(), "/diff".to_owned()];
    let links = links.as_array().unwrap().iter();
    pages.extend(links.map(|link| link.as_str().unwrap().to_owned()));
    browser.go(&format!("{}/diff", stage.plain));
    let builds = browser.ask(
        "return [...document.querySelectorAll('tbody th code')].map(code => code.textContent)",
    );
    let builds = builds.as_array().unwrap();
    if let [first, second, ..] = &builds[..] {
        let mut compared = String::from("/diff?");
        for (name, build) in [("a", first), ("b", second)] {
            let encoded = browser.ask(&format!("return encodeURIComponent({build})"));
            let _ = write!(compared, "{name}={}&", encoded.as_str().unwrap());
        }
        pages.push(compared.trim_end_matches('&').to_owned());
    }
    pages
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Check that pages do all that they are there for without a script: lists with filters, races, what is said of them, and builds beside each other.
#[test]
fn pages_need_no_scripts() {
    let (stage, browser) = (Stage::real(), Browser::start());
    browser.allow_scripts(false);
    browser.go("data:text/html,<title>before</title><script>document.title = 'after'</script>");
    assert_eq!(browser.title(), "before", "scripts are executed");

    browser.go(&format!("{}/", stage.address));
    let all = browser.texts(".races tbody th").len();
    assert!(all >= 4, "{:?}", browser.texts("body"));
    browser.write("#text", "write_write.c");
    browser.follow(".filter button");
    let some = browser.texts(".races tbody th").len();
    assert!((1..all).contains(&some), "{some} of {all}");
    browser.follow(".races tbody th a");
    assert_eq!(browser.texts(".sides .side").len(), 2);
    assert!(!browser.texts(".side mark").is_empty());

    // What it is, in words of one's own.
    browser.click("#state option[value=benign]");
    browser.write("#reason", "only <b>figures</b>");
    browser.write("#owner", "web");
    let race = browser.address();
    browser.follow("form[action$='/triage'] button");
    assert_eq!(browser.address(), race);
    assert_eq!(browser.texts(".facts .state"), ["benign"]);
    let said = browser.texts("[aria-labelledby=said] li").join("\n");
    assert!(
        said.contains("only <b>figures</b>") && said.contains("ada"),
        "{said}"
    );
    browser.follow(".pages a[href='/']");
    browser.click("input[name=state][value=benign]");
    browser.follow(".filter button");
    assert_eq!(browser.texts(".races tbody th").len(), 1);

    // Two builds of one program.
    browser.follow(".pages a[href='/diff']");
    let builds = browser.texts("[aria-labelledby=builds] tbody th");
    assert!(builds.len() >= 5, "{builds:?}");
    browser.write("#a", &builds[0]);
    browser.write("#b", &builds[1]);
    browser.follow(".filter button");
    assert_eq!(
        browser.texts("main > section > h2").len(),
        4,
        "{:?}",
        browser.texts("body")
    );
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Check that names of programs are shown on every page and execute nothing, where scripts are allowed; and that no page has anything that is executed, or is of elsewhere.
#[test]
fn names_are_only_shown() {
    let (stage, browser) = (Stage::hostile(), Browser::start());
    browser.go("data:text/html,<title>before</title><script>document.title = 'after'</script>");
    assert_eq!(browser.title(), "after", "no script is executed at all");
    let _ = browser.complaints();
    let pages = pages(&browser, &stage);
    assert!(pages.len() > 10, "{pages:?}");
    for page in &pages {
        browser.go(&format!("{}{page}", stage.plain));
        assert!(
            browser.title().ends_with(" - gwp-race"),
            "{page}: {}",
            browser.title()
        );
        assert!(browser.address().starts_with(&stage.plain), "{page}");
        let text = browser.texts("main").concat();
        assert!(
            page.starts_with("/diff") || text.contains("document.title"),
            "{page}: {text}"
        );
        let foreign = browser.ask(FOREIGN);
        assert!(is_empty(&foreign), "{page}: {foreign}");
        let complaints = browser.complaints();
        assert_eq!(complaints, [""; 0], "{page}");
    }
}

/// Check that no page is wider than its screen, that all text contrasts with what it stands on, and that the keyboard leads past the head of a page; and take pictures.
#[test]
fn pages_suit_their_screens() {
    let (stage, browser) = (Stage::real(), Browser::start());
    let pages = pages(&browser, &stage);
    for screen in SCREENS {
        browser.show_on(screen);
        for (number, page) in pages.iter().enumerate() {
            browser.go(&format!("{}{page}", stage.plain));
            let excess = browser.ask(EXCESS);
            assert_eq!(excess, 0, "{page} on {screen:?}");
            let hard = browser.ask(HARD_TO_READ);
            assert!(is_empty(&hard), "{page} on {screen:?}: {hard}");
            let name = match (number, screen.width, screen.is_dark) {
                (0, 1280, false) => "page-list.png",
                (2, 1280, false) => "page-race.png",
                (2, 360, true) => "page-race-narrow.png",
                _ => continue,
            };
            browser.picture(screen, name);
            browser.show_on(screen);
        }
    }
    browser.go(&format!("{}/", stage.plain));
    browser.write("body", "\u{e004}");
    assert_eq!(
        browser.ask("return document.activeElement.className"),
        "skip"
    );
}
