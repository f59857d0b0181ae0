//! How a program is built, and which ways of building each program is tested in.

use std::fmt;

/// A compiler whose metadata gwp-race reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compiler {
    /// Metadata of version 2.
    Clang22,
    /// Metadata of version 1.
    Clang16,
}

/// How the program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Position-independent, with shared libraries.
    Pie,
    /// At a fixed address, with shared libraries.
    NoPie,
    /// At a fixed address, without shared libraries.
    Static,
    /// Position-independent, without shared libraries.
    StaticPie,
    /// Position-independent, with musl as a shared library. No choice of configurations has this.
    Musl,
    /// At a fixed address, with musl. No choice of configurations has this.
    StaticMusl,
}

impl Link {
    /// The nearest one with shared libraries.
    #[must_use]
    pub const fn dynamic(self) -> Self {
        match self {
            Self::Pie | Self::StaticPie => Self::Pie,
            Self::NoPie | Self::Static => Self::NoPie,
            Self::Musl | Self::StaticMusl => Self::Musl,
        }
    }
}

/// One way of building a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// The compiler.
    pub compiler: Compiler,
    /// The optimization level, 0 to 3.
    pub opt: u8,
    /// How it is linked.
    pub link: Link,
    /// Whether at link time it is optimized as a whole.
    pub lto: bool,
    /// Whether it is built for this very processor.
    pub native: bool,
}

const COMPILERS: [Compiler; 2] = [Compiler::Clang22, Compiler::Clang16];
const LINKS: [Link; 4] = [Link::Pie, Link::Static, Link::NoPie, Link::StaticPie];

impl Configuration {
    /// The usual one.
    pub const USUAL: Self = Self {
        compiler: Compiler::Clang22,
        opt: 2,
        link: Link::Pie,
        lto: false,
        native: false,
    };

    /// The usual one with musl in the place of the system's C library, shared and static.
    #[must_use]
    pub fn with_musl() -> [Self; 2] {
        [Link::Musl, Link::StaticMusl].map(|link| Self {
            link,
            ..Self::USUAL
        })
    }

    /// Four configurations for the program with this number. Each program meets every value of
    /// every setting, and over the programs every pair of two settings' values meets.
    #[must_use]
    pub fn choice(program: usize) -> Vec<Self> {
        let odd = |number: usize| number % 2 == 1;
        (0..4)
            .map(|turn| Self {
                compiler: COMPILERS[(turn + program / 2) % 2],
                opt: turn as u8,
                link: LINKS[(turn + program) % 4],
                lto: odd(turn / 2 + program),
                native: odd((turn ^ (turn / 2)) + program / 4),
            })
            .collect()
    }

    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for compiler in COMPILERS {
            for opt in 0..4 {
                for link in LINKS {
                    for (lto, native) in
                        [(false, false), (false, true), (true, false), (true, true)]
                    {
                        all.push(Self {
                            compiler,
                            opt,
                            link,
                            lto,
                            native,
                        });
                    }
                }
            }
        }
        all
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compiler = match self.compiler {
            Compiler::Clang22 => "clang-22",
            Compiler::Clang16 => "clang-16",
        };
        let link = match self.link {
            Link::Pie => "pie",
            Link::NoPie => "no-pie",
            Link::Static => "static",
            Link::StaticPie => "static-pie",
            Link::Musl => "musl",
            Link::StaticMusl => "static musl",
        };
        write!(f, "{compiler} -O{} {link}", self.opt)?;
        if self.lto {
            f.write_str(" lto")?;
        }
        if self.native {
            f.write_str(" native")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::Hash};

    use super::*;

    /// How many programs share the choice in continuous integration, at least.
    const PROGRAMS: usize = 16;

    fn chosen() -> Vec<Configuration> {
        (0..PROGRAMS).flat_map(Configuration::choice).collect()
    }

    fn values<T: Eq + Hash>(of: &[Configuration], setting: impl Fn(&Configuration) -> T) -> usize {
        of.iter().map(setting).collect::<HashSet<_>>().len()
    }

    /// Check that each program meets every value of every setting.
    #[test]
    fn each_program_meets_every_value() {
        for program in 0..PROGRAMS {
            let chosen = Configuration::choice(program);
            assert_eq!(values(&chosen, |c| c.compiler), 2, "program {program}");
            assert_eq!(values(&chosen, |c| c.opt), 4, "program {program}");
            assert_eq!(values(&chosen, |c| c.link), 4, "program {program}");
            assert_eq!(values(&chosen, |c| c.lto), 2, "program {program}");
            assert_eq!(values(&chosen, |c| c.native), 2, "program {program}");
        }
    }

    /// Check that every pair of values of two settings occurs.
    #[test]
    fn all_pairs_occur() {
        let chosen = chosen();
        assert_eq!(values(&chosen, |c| (c.compiler, c.opt)), 8);
        assert_eq!(values(&chosen, |c| (c.compiler, c.link)), 8);
        assert_eq!(values(&chosen, |c| (c.compiler, c.lto)), 4);
        assert_eq!(values(&chosen, |c| (c.compiler, c.native)), 4);
        assert_eq!(values(&chosen, |c| (c.opt, c.link)), 16);
        assert_eq!(values(&chosen, |c| (c.opt, c.lto)), 8);
        assert_eq!(values(&chosen, |c| (c.opt, c.native)), 8);
        assert_eq!(values(&chosen, |c| (c.link, c.lto)), 8);
        assert_eq!(values(&chosen, |c| (c.link, c.native)), 8);
        assert_eq!(values(&chosen, |c| (c.lto, c.native)), 4);
    }

    /// Check that all are all, and different.
    #[test]
    fn all_configurations() {
        assert_eq!(values(&Configuration::all(), |c| *c), 2 * 4 * 4 * 2 * 2);
    }
}
