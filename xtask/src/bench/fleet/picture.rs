//! The races found by time, as steps.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;

use crate::plot;

/// How races were found: a name, a colour, and the seconds at which one was.
pub type Curve<'a> = (&'a str, &'a str, &'a [f64]);

/// Draws.
pub fn draw(curves: &[Curve<'_>], seconds: f64, planted: usize, picture: &Path) -> Result<()> {
    plot::draw(&script(curves, seconds, planted), picture)
}

fn script(curves: &[Curve<'_>], seconds: f64, planted: usize) -> String {
    let mut script = String::new();
    for (number, (.., times)) in curves.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(script, "$curve_{number} << END\n0 0");
        for (index, time) in times.iter().enumerate() {
            let _ = writeln!(script, "{time} {}", index + 1);
        }
        let _ = writeln!(script, "{seconds} {}\nEND", times.len());
    }
    let _ = write!(
        script,
        "set xlabel 'seconds'
set ylabel 'planted races found'
set xrange [0:{seconds}]
set yrange [0:{}]
set grid
set key outside top center horizontal
plot {planted} with lines lc rgb '#999999' dt 2 title 'planted'",
        planted + 1
    );
    for (number, (name, colour, _)) in curves.iter().enumerate() {
        let _ = write!(
            script,
            ", \\\n  $curve_{number} with steps lw 2 lc rgb '{colour}' title '{name}'"
        );
    }
    script.push('\n');
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a curve begins at nothing, rises by one each time, and goes on to the end.
    #[test]
    fn steps() {
        let script = script(&[("fleet", "#2060c0", &[3.5, 7.0])], 30.0, 2);
        assert!(script.contains("0 0\n3.5 1\n7 2\n30 2\nEND\n"), "{script}");
        assert!(script.contains("title 'fleet'"), "{script}");
    }
}
