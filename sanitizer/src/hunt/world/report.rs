//! What the comparison has shown, for people: tables and a picture, which `cargo xtask bench world` writes into docs; and figures that are recorded, which
//! tests compare with those of the present code.

use std::fmt::Write as _;

use super::{
    comparison::{Conditions, Figure, SHARE, Who, compare, geometric_mean},
    costs::{BARE, Costs, NESTED},
    families,
};
use crate::hunt::plan::prior;

/// How it is compared where that is written into docs: an hour on each machine.
pub const USUAL: [Conditions; 2] = [
    Conditions {
        costs: NESTED,
        share: SHARE,
        hunts: 4,
        length_s: 3600.0,
    },
    Conditions {
        costs: BARE,
        share: SHARE,
        hunts: 2,
        length_s: 3600.0,
    },
];

/// How it is compared by tests.
pub const BRIEF: Conditions = Conditions {
    costs: NESTED,
    share: SHARE,
    hunts: 8,
    length_s: 700.0,
};

/// What is compared, and came to what.
#[derive(Clone, Debug)]
pub struct Report {
    /// On a machine: a line a family, a figure for each planner of [`Who::ALL`].
    of: Vec<(Costs, Vec<Vec<Figure>>)>,
    families: Vec<(&'static str, &'static str)>,
}

impl Report {
    /// Compares all planners in all families, on both machines.
    #[must_use]
    pub fn measured() -> Self {
        let of = USUAL.map(|conditions| {
            let figures = compare(&families::ALL, &Who::ALL, &conditions);
            (conditions.costs, figures)
        });
        let families = families::ALL.map(|family| {
            let program = family(1);
            (program.name, program.about)
        });
        Self {
            of: of.into(),
            families: families.into(),
        }
    }

    /// The families, in words.
    #[must_use]
    pub fn families(&self) -> String {
        let mut out = "| family | |\n| --- | --- |\n".to_owned();
        for (name, about) in &self.families {
            let _ = writeln!(out, "| {name} | {about} |");
        }
        out
    }

    /// What is found by when, and for what.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut out = String::new();
        for (costs, figures) in &self.of {
            let _ = writeln!(out, "On the machine \"{}\":\n", costs.name);
            out += "| family | races |";
            for who in Who::ALL {
                let _ = write!(out, " {} |", who.name());
            }
            out += " budget a race, s: ";
            out += &Who::ALL.map(Who::name).join(", ");
            out += " |\n| --- | --- |";
            out += &" --- |".repeat(Who::ALL.len() + 1);
            out.push('\n');
            for ((name, _), of_family) in self.families.iter().zip(figures) {
                let races = of_family.first().map_or(0.0, |figure| figure.races);
                let _ = write!(out, "| {name} | {races:.0} |");
                for figure in of_family {
                    let found = figure.found.map(short);
                    let _ = write!(out, " {} |", found.join(", "));
                }
                let costs = of_family.iter().map(|figure| short(figure.cost_s));
                let _ = writeln!(out, " {} |", costs.collect::<Vec<_>>().join(", "));
            }
            out.push('\n');
        }
        out
    }

    /// What the planner reaches of what others do.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut out =
            "| machine | of | races for what they cost | in an hour | score |\n".to_owned();
        out += "| --- | --- | --- | --- | --- |\n";
        for (costs, figures) in &self.of {
            for other in Who::ALL.into_iter().filter(|who| *who != Who::Planner) {
                let ratio = |of: &dyn Fn(&Figure) -> f64| {
                    let pairs = figures.iter().filter_map(|of_family| {
                        let find = |who| {
                            let index = Who::ALL.iter().position(|other| *other == who)?;
                            of_family.get(index)
                        };
                        // Where nobody can find anything, nothing is compared.
                        find(Who::Oracle).filter(|oracle| oracle.score > 0.0)?;
                        Some((find(Who::Planner)?, find(other)?))
                    });
                    const LEAST: f64 = 1e-3;
                    geometric_mean(
                        pairs.map(|(planner, other)| of(planner).max(LEAST) / of(other).max(LEAST)),
                    )
                };
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {} |",
                    costs.name,
                    other.name(),
                    short(ratio(&|figure| 1.0 / figure.cost_s)),
                    short(ratio(&|figure| figure.found[2])),
                    short(ratio(&|figure| figure.score)),
                );
            }
        }
        out
    }

    /// The scores, drawn.
    #[must_use]
    pub fn picture(&self) -> String {
        const LEFT: f64 = 140.0;
        const WIDTH: f64 = 560.0;
        const LINE: f64 = 22.0;
        const TOP: f64 = 60.0;
        const COLOURS: [&str; 5] = ["#999999", "#d08a00", "#79b8ec", "#1668b8", "#2f8f3a"];
        let height = TOP + LINE * (self.families.len() as f64 + 1.0) + 20.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"760\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"20\" y=\"20\">part of the races found, on average over the logarithm of the time, 1 s to 60 minutes</text>\n"
        );
        for (index, (who, colour)) in Who::ALL.iter().zip(COLOURS).enumerate() {
            let x = LEFT + 120.0 * index as f64;
            let _ = writeln!(
                out,
                "<circle cx=\"{x}\" cy=\"38\" r=\"5\" fill=\"{colour}\"/><text x=\"{}\" y=\"42\">{}</text>",
                x + 10.0,
                who.name()
            );
        }
        let figures = self.of.first().map(|(_, figures)| figures.as_slice());
        for (line, ((name, _), of_family)) in self
            .families
            .iter()
            .zip(figures.unwrap_or_default())
            .enumerate()
        {
            let y = TOP + LINE * (line as f64 + 0.5);
            let _ = writeln!(
                out,
                "<text x=\"20\" y=\"{}\">{name}</text><line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"#dddddd\"/>",
                y + 4.0,
                LEFT + WIDTH
            );
            for (figure, colour) in of_family.iter().zip(COLOURS) {
                let x = LEFT + WIDTH * figure.score;
                let _ = writeln!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\" fill-opacity=\"0.85\"/>"
                );
            }
        }
        let below = TOP + LINE * (self.families.len() as f64 + 0.8);
        for tenth in [0, 2, 4, 6, 8, 10] {
            let x = LEFT + WIDTH * f64::from(tenth) / 10.0;
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
                f64::from(tenth) / 10.0
            );
        }
        out + "</svg>\n"
    }
}

/// The planner's scores in a brief comparison, where sites can be profiled and where they cannot: a line a family.
#[must_use]
pub fn recorded() -> String {
    let whos = [Who::Planner, Who::Unprofiled];
    let figures = compare(&families::ALL, &whos, &BRIEF);
    let mut out = String::new();
    for (family, figures) in families::ALL.iter().zip(figures) {
        out += family(1).name;
        for figure in figures {
            let _ = write!(out, ",{:.4}", figure.score);
        }
        out.push('\n');
    }
    out
}

/// The priors of the model.
#[must_use]
pub fn priors() -> String {
    let mut out = "| prior | value | unit | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for prior in prior::ALL {
        let name = prior.name;
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {} |",
            prior.value, prior.unit, prior.meaning
        );
    }
    out
}

/// A text with another content between the two comments of this name; `None` where they are not there.
#[must_use]
pub fn replaced(text: &str, name: &str, content: &str) -> Option<String> {
    let begin = format!("<!-- generated: {name} -->\n");
    let end = format!("<!-- end: {name} -->");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{content}{end}{after}"))
}

/// Two or three digits.
fn short(number: f64) -> String {
    match number {
        _ if number >= 100.0 || number == 0.0 => format!("{number:.0}"),
        _ if number >= 10.0 => format!("{number:.1}"),
        _ if number >= 0.1 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/planner.md");
    const RECORDED: &str = include_str!("recorded.csv");

    /// Check that the documents show the priors that the code has, and all families.
    #[test]
    fn documents_are_those_of_the_code() {
        let page = replaced(PAGE, "priors", &priors()).expect("it has a place for them");
        assert!(
            page == PAGE,
            "docs/planner.md shows other priors than prior.rs: run cargo xtask bench world"
        );
        for family in families::ALL {
            let name = family(1).name;
            assert!(PAGE.contains(&format!("| {name} |")), "{name}");
        }
        assert_eq!(replaced("nothing", "priors", ""), None);
    }

    /// Check that in no family the planner finds much less than it did when that was recorded.
    #[test]
    fn the_planner_finds_what_it_did() {
        /// A change of what is drawn may cost so much by chance.
        const LEAST: f64 = 0.9;
        let now = recorded();
        println!("{now}");
        let lines: Vec<_> = RECORDED.lines().zip(now.lines()).collect();
        assert_eq!(lines.len(), families::ALL.len());
        let scores = |line: &str| -> Vec<f64> {
            let scores = line.split(',').skip(1);
            scores
                .map(|score| score.parse().expect("a number"))
                .collect()
        };
        let is_worse = |before: &str, now: &str| {
            let (before, now) = (scores(before), scores(now));
            assert_eq!((before.len(), now.len()), (2, 2));
            let mut pairs = before.iter().zip(&now);
            pairs.any(|(before, now)| *now < LEAST * before)
        };
        let worse: Vec<_> = lines
            .into_iter()
            .filter(|(before, now)| is_worse(before, now))
            .collect();
        assert!(
            worse.is_empty(),
            "the planner finds less than it did: {worse:?}; where that is meant, cargo xtask bench world --record"
        );
    }
}
