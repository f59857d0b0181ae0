//! The code of a simulated program: real instructions, one for each site, for rules that decode them.

use std::ops::Range;

use crate::{
    hunt::{
        plan::event::{SiteFacts, SiteId, VariableId},
        strategy::CodeView,
    },
    insn::Transfer,
};

/// Where the code begins, and where the variables do, each on a line of its own.
const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x4000_0000;
const LINE: u64 = 64;
/// Each site's instruction has so many bytes.
pub const LENGTH: u64 = 6;
/// What ends a function, and what stands between two.
const RETURN: u8 = 0xc3;
const PADDING: u8 = 0xcc;
const ALIGNMENT: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub struct CodeImage {
    bytes: Vec<u8>,
    /// The address of each site, by its number; sorted, as functions follow each other.
    sites: Vec<u64>,
    /// Where functions begin and end, in bytes from the beginning.
    functions: Vec<Range<usize>>,
    variables: u64,
}

impl CodeImage {
    /// The code of these sites, which come function by function, with ids that are their numbers.
    #[must_use]
    pub fn of(facts: &[SiteFacts]) -> Self {
        let mut image = Self::default();
        for function in facts.chunk_by(|one, next| one.function == next.function) {
            let begin = image.bytes.len();
            for facts in function {
                image.instruction(facts);
            }
            image.bytes.push(RETURN);
            image.functions.push(begin..image.bytes.len());
            image
                .bytes
                .resize(image.bytes.len().next_multiple_of(ALIGNMENT), PADDING);
        }
        image
    }

    /// `mov`, from or to a variable, or a member of what a register points to.
    fn instruction(&mut self, facts: &SiteFacts) {
        const LOAD: u8 = 0x8b;
        const STORE: u8 = 0x89;
        /// eax and a distance from the next instruction, or from rdi.
        const RELATIVE: u8 = 0x05;
        const BY_POINTER: u8 = 0x87;
        let at = CODE + self.bytes.len() as u64;
        let opcode = if facts.writes { STORE } else { LOAD };
        let (form, distance) = match facts.variable {
            Some(variable) => {
                self.variables = self.variables.max(variable.0 + 1);
                (
                    RELATIVE,
                    address_of(variable).wrapping_sub(at + LENGTH) as u32,
                )
            }
            None => (BY_POINTER, facts.member.map_or(0, |member| member.0)),
        };
        self.sites.push(at);
        self.bytes.extend([opcode, form]);
        self.bytes.extend(distance.to_le_bytes());
    }

    /// Where a site stands.
    #[must_use]
    pub fn address(&self, site: SiteId) -> u64 {
        let index = usize::try_from(site.0).ok();
        index
            .and_then(|index| self.sites.get(index))
            .copied()
            .unwrap_or(0)
    }

    /// Which site stands there.
    #[must_use]
    pub fn site(&self, address: u64) -> Option<SiteId> {
        let index = self.sites.binary_search(&address).ok()?;
        Some(SiteId(index as u64))
    }

    fn function_at(&self, pc: u64) -> Option<&Range<usize>> {
        let offset = usize::try_from(pc.checked_sub(CODE)?).ok()?;
        let index = self
            .functions
            .partition_point(|function| function.end <= offset);
        self.functions
            .get(index)
            .filter(|function| function.contains(&offset))
    }
}

/// Where a variable is.
#[must_use]
pub const fn address_of(variable: VariableId) -> u64 {
    DATA + LINE * variable.0
}

/// The variable at an address.
#[must_use]
pub const fn variable_at(address: u64) -> VariableId {
    VariableId((address - DATA) / LINE)
}

impl CodeView for CodeImage {
    fn code(&self, pc: u64) -> &[u8] {
        let offset = pc
            .checked_sub(CODE)
            .and_then(|offset| usize::try_from(offset).ok());
        offset
            .and_then(|offset| self.bytes.get(offset..))
            .unwrap_or_default()
    }

    fn is_analyzed(&self, pc: u64) -> bool {
        self.function_at(pc).is_some()
    }

    fn is_routine(&self, _pc: u64) -> bool {
        false
    }

    fn routine(&self, _transfer: Transfer) -> Option<u64> {
        None
    }

    fn is_atomic(&self, _pc: u64) -> bool {
        false
    }

    fn function(&self, pc: u64) -> Option<(u64, &[u8])> {
        let function = self.function_at(pc)?.clone();
        Some((CODE + function.start as u64, self.bytes.get(function)?))
    }

    fn some_function(&self, number: u64) -> Option<u64> {
        let index = number.checked_rem(self.function_count())?;
        let function = self.functions.get(usize::try_from(index).ok()?)?;
        Some(CODE + function.start as u64)
    }

    fn function_count(&self) -> u64 {
        self.functions.len() as u64
    }

    fn module_of(&self, pc: u64) -> Option<(Range<u64>, Range<u64>)> {
        let code = CODE..CODE + self.bytes.len() as u64;
        let data = DATA..DATA + LINE * self.variables;
        code.contains(&pc).then_some((code, data))
    }

    fn is_constant(&self, _address: u64) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hunt::world::families,
        insn::x86_64::{StaticSite, member, static_sites},
    };

    /// Check that what is decoded of a program's code is what its sites are.
    #[test]
    fn code_is_what_it_was_made_of() {
        let program = families::ALL[16](1);
        let facts: Vec<_> = program.sites.iter().map(|site| site.facts).collect();
        let image = CodeImage::of(&facts);
        let mut decoded = Vec::new();
        for number in 0..image.function_count() {
            let start = image.some_function(number).expect("there is one");
            let (start, code) = image.function(start).expect("it has code");
            static_sites(code, start, &mut |site| decoded.push(site));
        }
        assert_eq!(decoded.len(), facts.len());
        for (facts, decoded) in facts.iter().zip(decoded) {
            let StaticSite::Access {
                pc,
                fixed_address,
                writes,
                own_frame,
                ..
            } = decoded
            else {
                panic!("{decoded:?}");
            };
            assert_eq!(image.site(pc), Some(facts.site));
            assert_eq!((image.address(facts.site), writes), (pc, facts.writes));
            assert_eq!(fixed_address.map(variable_at), facts.variable);
            let of_pointer = member(image.code(pc), pc).map(|member| member.distance);
            if let Some(expected) = facts.member {
                assert_eq!(of_pointer, Some(expected.0));
            }
            assert!(!own_frame);
        }
    }
}
