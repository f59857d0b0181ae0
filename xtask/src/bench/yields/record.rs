//! Each measurement as it was taken, in a file that grows with them: whoever is interrupted goes on from
//! there.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::Path,
};

use anyhow::{Context as _, Result};

use super::{
    measure::{Detection, Pair},
    strategy::Strategy,
};

const COLUMNS: &str = "workload,strategy,measured,number,seconds,capped,loss_percent,plain_longest_ms,\
                       watched_longest_ms,false_reports";

/// All measurements, in memory and in the file.
pub struct Record {
    file: File,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq)]
struct Line {
    workload: String,
    strategy: Strategy,
    measured: Measured,
}

#[derive(Clone, Debug, PartialEq)]
enum Measured {
    Detection(Detection),
    Pair(Pair),
}

impl Record {
    /// An empty one, or what the file holds.
    pub fn open(path: &Path, resume: bool) -> Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let text = if resume {
            fs::read_to_string(path).with_context(|| {
                format!("there is nothing to resume: reading {}", path.display())
            })?
        } else {
            String::new()
        };
        let lines: Vec<Line> = text.lines().filter_map(Line::read).collect();
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).truncate(true).open(path);
        let mut file = file.with_context(|| format!("writing {}", path.display()))?;
        // A line that was cut off is not kept.
        let kept: String = lines.iter().map(Line::written).collect();
        file.write_all(format!("{COLUMNS}\n{kept}").as_bytes())?;
        Ok(Self { file, lines })
    }

    /// Whether anything was measured of a strategy.
    pub fn has(&self, strategy: Strategy) -> bool {
        self.lines.iter().any(|line| line.strategy == strategy)
    }

    /// The detections of a strategy.
    pub fn detections(&self, workload: &str, strategy: Strategy) -> Vec<&Detection> {
        self.of(workload, strategy)
            .filter_map(|measured| match measured {
                Measured::Detection(detection) => Some(detection),
                Measured::Pair(_) => None,
            })
            .collect()
    }

    /// The pairs of a strategy.
    pub fn pairs(&self, workload: &str, strategy: Strategy) -> Vec<&Pair> {
        self.of(workload, strategy)
            .filter_map(|measured| match measured {
                Measured::Pair(pair) => Some(pair),
                Measured::Detection(_) => None,
            })
            .collect()
    }

    fn of(&self, workload: &str, strategy: Strategy) -> impl Iterator<Item = &Measured> {
        self.lines
            .iter()
            .filter(move |line| line.workload == workload && line.strategy == strategy)
            .map(|line| &line.measured)
    }

    pub fn add_detection(
        &mut self,
        workload: &str,
        strategy: Strategy,
        detection: Detection,
    ) -> Result<()> {
        self.add(workload, strategy, Measured::Detection(detection))
    }

    pub fn add_pair(&mut self, workload: &str, strategy: Strategy, pair: Pair) -> Result<()> {
        self.add(workload, strategy, Measured::Pair(pair))
    }

    fn add(&mut self, workload: &str, strategy: Strategy, measured: Measured) -> Result<()> {
        let line = Line {
            workload: workload.to_owned(),
            strategy,
            measured,
        };
        self.file.write_all(line.written().as_bytes())?;
        self.lines.push(line);
        Ok(())
    }
}

impl Line {
    fn written(&self) -> String {
        let measured = match &self.measured {
            Measured::Detection(one) => format!(
                "detection,{},{},{},,,,{}",
                one.number, one.seconds, one.capped, one.false_reports
            ),
            Measured::Pair(one) => format!(
                "pair,{},,,{},{},{},{}",
                one.number, one.loss_percent, one.plain_ms, one.watched_ms, one.false_reports
            ),
        };
        format!("{},{},{measured}\n", self.workload, self.strategy)
    }

    /// `None` for the names of the columns, and for what was cut off.
    fn read(text: &str) -> Option<Self> {
        let cells: Vec<&str> = text.split(',').collect();
        let [
            workload,
            strategy,
            measured,
            number,
            seconds,
            capped,
            loss,
            plain,
            watched,
            falses,
        ] = cells[..]
        else {
            return None;
        };
        let strategy = Strategy::ALL
            .into_iter()
            .find(|known| known.name() == strategy)?;
        let number = number.parse().ok()?;
        let false_reports = falses.parse().ok()?;
        let measured = match measured {
            "detection" => Measured::Detection(Detection {
                number,
                seconds: seconds.parse().ok()?,
                capped: capped.parse().ok()?,
                false_reports,
            }),
            "pair" => Measured::Pair(Pair {
                number,
                loss_percent: loss.parse().ok()?,
                plain_ms: plain.parse().ok()?,
                watched_ms: watched.parse().ok()?,
                false_reports,
            }),
            _ => return None,
        };
        Some(Self {
            workload: workload.to_owned(),
            strategy,
            measured,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a line is read as it was written, and that one that was cut off counts as not measured.
    #[test]
    fn lines() {
        let detection = Measured::Detection(Detection {
            number: 3,
            seconds: 0.25,
            capped: false,
            false_reports: 0,
        });
        let pair = Measured::Pair(Pair {
            number: 2,
            loss_percent: -0.5,
            plain_ms: 1.5,
            watched_ms: 2.25,
            false_reports: 1,
        });
        for measured in [detection, pair] {
            let line = Line {
                workload: "hot".to_owned(),
                strategy: Strategy::Planner,
                measured,
            };
            let written = line.written();
            let text = written.strip_suffix('\n').expect("a line");
            assert_eq!(text.split(',').count(), COLUMNS.split(',').count());
            assert_eq!(Line::read(text), Some(line));
            assert_eq!(Line::read(&text[..text.len() - 1]), None);
        }
        assert_eq!(Line::read(COLUMNS), None);
    }
}
