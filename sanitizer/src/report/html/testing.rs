//! What tests of pages have in common: names that break out of them, and a parser of HTML that is not ours.

use std::collections::BTreeSet;

use scraper::{ElementRef, Html, Selector};

use crate::report::model::{CodeBlock, LiveValue, Race, SourceLine};
use crate::report::summary::Summary;
use crate::report::{Hex, Unanalyzed, UnusedRule, WatchedProgram, sample};

/// What breaks out of pages whose makers have escaped by hand.
pub(crate) const HOSTILE: [&str; 14] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "\" onmouseover=\"alert(1)\" x=\"",
    "</title></style></textarea><script src=//evil.example/x.js></script>",
    "</code></td></tr></table></article></main><h1>No data race</h1>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<a href=javascript:alert(1)>here</a>",
    "<!-- <plaintext> ]]> <![CDATA[",
    "&lt;b&gt; &#60;b&#62; &amp;quot; &#x27",
    "{{ 7 * 7 }}{% include \"/etc/passwd\" %}{# #}",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "\u{202e}<b>\u{2066}\u{1b}[31m\0\r\n\u{85}<link rel=stylesheet href=//evil.example>",
    "`${alert(1)}` %3Cscript%3E \\x3cscript\\x3e",
];

/// The page, which has no error in it.
pub(crate) fn parsed(page: &str) -> Html {
    let document = Html::parse_document(page);
    assert!(document.errors.is_empty(), "{:?}\n{page}", document.errors);
    document
}

pub(crate) fn all<'a>(document: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    let selector = Selector::parse(selector).unwrap();
    document.select(&selector).collect()
}

/// The text of an element, each run of blanks as one.
pub(crate) fn text(element: ElementRef<'_>) -> String {
    let text: String = element.text().collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn body(document: &Html) -> String {
    text(all(document, "body")[0])
}

/// The elements in their order, each with the names of its attributes: what hostile text must not change.
pub(crate) fn shape(document: &Html) -> Vec<String> {
    let elements = document
        .tree
        .nodes()
        .filter_map(|node| node.value().as_element());
    elements
        .map(|element| {
            let attributes: Vec<&str> = element.attrs().map(|(name, _)| name).collect();
            format!("{} {}", element.name(), attributes.join(" "))
        })
        .collect()
}

/// A race and a summary in which all that has a name is called so.
pub(crate) fn called(name: &str) -> (Race, Summary) {
    let name = || name.to_owned();
    let mut race = sample::race();
    race.exe = name();
    race.build_id = Some(name());
    race.time = name();
    race.fingerprint = name();
    race.identity.pair = Some(name());
    race.identity.issue = name();
    race.location.name = Some(name());
    race.location.member = Some(name());
    race.location.module = Some(name());
    race.value_before = Some(name());
    race.value_after = Some(name());
    race.notes = vec![name()];
    for access in &mut race.accesses {
        access.thread_name = name();
        access.system_call = Some(name());
        access.library_frames = 0;
        access.module = Some(name());
        access.block = Some(CodeBlock {
            number: 3,
            address: Hex(0x1130),
            size: 9,
        });
        access.live_values = vec![LiveValue {
            record: 1,
            place: name(),
            size: 8,
            value: None,
        }];
        if let Some(start) = &mut access.thread_start {
            start.function = name();
            start.file = Some(name());
        }
        for frame in &mut access.stack {
            frame.module = Some(name());
            frame.build_id = Some(name());
            frame.function = Some(name());
            frame.file = Some(name());
            if let Some(source) = &mut frame.source {
                let lines = [6, 7, 8].map(|line| SourceLine {
                    line,
                    text: format!("    {}", name()),
                });
                source.lines = lines.to_vec();
            }
        }
    }
    let counts = || [(name(), 1)].into();
    let summary = Summary {
        programs: vec![WatchedProgram {
            exe: name() + "of the summary",
            build_id: Some(name()),
            processes: 2,
        }],
        races_unique: 1,
        races_total: 1,
        no_stall: counts(),
        hits_swallowed: counts(),
        decisions: counts(),
        analyzed_percent: Some(1.0),
        hottest_unanalyzed: Some(Unanalyzed {
            function: Some(name()),
            module: Some(name()),
            offset: Hex(1),
            percent: 90.0,
        }),
        not_watched: [(name(), counts())].into(),
        files_not_read: [(name(), name())].into(),
        suppressions_unused: vec![UnusedRule {
            file: name(),
            line: 1,
            rule: name(),
        }],
        spent_s: [(name(), 1.0)].into(),
        ..Summary::default()
    };
    (race, summary)
}

/// Check what is true of every page: that it says in which language it is, that what refers to an element has one, that no two have one name, that tables have heads, and that no level of
/// headings is left out.
pub(crate) fn assert_sound(document: &Html) {
    assert_eq!(all(document, "html[lang=en]").len(), 1);
    assert_eq!(all(document, "main").len(), 1);
    let named = all(document, "[id]");
    let names: BTreeSet<_> = named
        .iter()
        .filter_map(|element| element.attr("id"))
        .collect();
    assert_eq!(names.len(), named.len());
    for attribute in ["aria-labelledby", "aria-describedby", "for"] {
        for element in all(document, &format!("[{attribute}]")) {
            assert!(names.contains(element.attr(attribute).unwrap()));
        }
    }
    for table in all(document, "table") {
        let columns = Selector::parse("thead th[scope=col]").unwrap();
        let rows = Selector::parse("tbody th[scope=row]").unwrap();
        assert!(table.select(&columns).count() > 1 && table.select(&rows).count() > 0);
    }
    let levels = all(document, "h1, h2, h3, h4, h5");
    let levels = levels.iter().map(|head| head.value().name().as_bytes()[1]);
    let levels: Vec<u8> = levels.collect();
    assert_eq!(levels.first(), Some(&b'1'));
    assert!(
        levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{levels:?}"
    );
}

/// Check that a template lets nothing through as it is.
pub(crate) fn assert_escapes(template: &str) {
    let mut inner = template.split("{{").skip(1);
    assert!(inner.all(|rest| !rest.split("}}").next().unwrap().contains('|')));
    assert!(!template.contains("{% filter"), "{template}");
}
