//! Where the objects are that variables have or point to. (DWARF 5, 2.6, 3.3 and 4.1.)

use gimli::{
    AttributeValue, DwarfFileType, Expression, LocationLists, Operation, UnitOffset,
    constants as dw,
};

use super::super::entries::{Entries, Entry};
use super::super::reader::Reader;
use super::Stopped;

/// Operations of which a variable's place is made where it is understood.
const OPERATIONS: usize = 3;

/// The run-time address of an object, and its type.
type Object = (u64, UnitOffset<usize>);

/// What is found by a thread's registers and stack.
pub(super) struct Variables<'a> {
    pub(super) entries: &'a Entries<'a>,
    pub(super) locations: &'a LocationLists<Reader>,
    pub(super) stopped: Stopped<'a>,
    /// What was added to link-time addresses.
    pub(super) bias: u64,
    /// The canonical frame address, where it is known.
    pub(super) cfa: Option<u64>,
}

/// What the location of a variable comes to.
pub(super) enum Found {
    /// It is in memory.
    At(u64),
    /// Its value is known, wherever it is.
    Value(u64),
}

/// Whether values of a type are the addresses of others.
pub(super) fn is_pointer(ty: &Entry) -> bool {
    matches!(
        ty.tag(),
        dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type
    )
}

impl Variables<'_> {
    /// The objects that the variables of the function have or point to, those of what was inlined there included;
    /// None where there was too much to look at.
    pub(super) fn of_the_function(
        &self,
        function: Option<UnitOffset<usize>>,
    ) -> Option<Vec<Object>> {
        let mut objects = Vec::new();
        self.each_of_the_function(function, |_, ty, found| {
            objects.extend(self.object(ty, found));
        })?;
        Some(objects)
    }

    /// Tells of each variable of the function, those of what was inlined there included, with its type (without names and qualifiers) and what its location comes
    /// to; None where there was too much to look at.
    pub(super) fn each_of_the_function(
        &self,
        function: Option<UnitOffset<usize>>,
        mut tell: impl FnMut(&Entry, &Entry, Found),
    ) -> Option<()> {
        let pc = self.pc();
        let Some(function) = function else {
            return Some(());
        };
        let function = self.entries.at(function)?;
        let frame_base = function
            .attr_value(dw::DW_AT_frame_base)
            .and_then(|value| self.expression(value))
            .and_then(|expression| match self.operations(expression).as_slice() {
                [Operation::Register { register }] => self.register(register.0),
                [Operation::CallFrameCFA] => self.cfa,
                _ => None,
            });
        self.entries
            .below(function.offset(), |entry| match entry.tag() {
                dw::DW_TAG_formal_parameter | dw::DW_TAG_variable => {
                    if let Some((ty, found)) = self.found(entry, frame_base) {
                        tell(entry, &ty, found);
                    }
                    false
                }
                dw::DW_TAG_lexical_block | dw::DW_TAG_inlined_subroutine => {
                    self.entries.spans(entry, pc) == Some(true)
                }
                _ => false,
            })
    }

    /// The global variables of the function's unit; None where there was too much to look at.
    pub(super) fn of_the_program(&self) -> Option<Vec<Object>> {
        let mut objects = Vec::new();
        self.entries.below(self.entries.root()?, |entry| {
            if entry.tag() == dw::DW_TAG_variable {
                let place = entry
                    .attr_value(dw::DW_AT_location)
                    .and_then(|value| match value {
                        AttributeValue::Exprloc(expression) => Some(self.operations(expression)),
                        _ => None,
                    });
                if let Some([operation]) = place.as_deref()
                    && let Some(address) = self.fixed(operation)
                    && let Some(ty) = self.entries.type_where_declared(entry)
                {
                    objects.push((address, ty));
                }
            }
            // Static ones are in functions.
            matches!(
                entry.tag(),
                dw::DW_TAG_namespace | dw::DW_TAG_subprogram | dw::DW_TAG_lexical_block
            )
        })?;
        Some(objects)
    }

    /// The link-time address of the instruction.
    const fn pc(&self) -> u64 {
        self.stopped.pc.wrapping_sub(self.bias)
    }

    /// The type of a variable, and what its location comes to.
    fn found(&self, variable: &Entry, frame_base: Option<u64>) -> Option<(Entry, Found)> {
        let location = self.expression(variable.attr_value(dw::DW_AT_location)?)?;
        let ty = self
            .entries
            .plain(self.entries.type_where_declared(variable)?)?;
        let found = match self.operations(location).as_slice() {
            [Operation::Register { register }] => Found::Value(self.register(register.0)?),
            [first] => Found::At(self.computed(first, frame_base)?),
            [first, Operation::StackValue] => Found::Value(self.computed(first, frame_base)?),
            _ => return None,
        };
        Some((ty, found))
    }

    /// Where the object of a variable of a type is, or the one to which it points, and its type.
    fn object(&self, ty: &Entry, found: Found) -> Option<Object> {
        if is_pointer(ty) {
            let target = self.entries.plain(self.entries.type_of(ty)?)?;
            return Some((self.pointer(found)?, target.offset()));
        }
        match found {
            Found::At(place) => Some((place, ty.offset())),
            Found::Value(_) => None,
        }
    }

    /// The value of a variable that is a pointer.
    pub(super) fn pointer(&self, found: Found) -> Option<u64> {
        match found {
            Found::Value(value) => Some(value),
            Found::At(place) => self.on_stack(place),
        }
    }

    /// The expression that holds at the instruction.
    fn expression(&self, value: AttributeValue<Reader>) -> Option<Expression<Reader>> {
        if let AttributeValue::Exprloc(expression) = value {
            return Some(expression);
        }
        let unit = self.entries.unit();
        let mut locations = if unit.dwarf.file_type == DwarfFileType::Dwo {
            unit.attr_locations(value).ok()??
        } else {
            let offset = match value {
                AttributeValue::LocationListsRef(offset) => offset,
                AttributeValue::DebugLocListsIndex(index) => self
                    .locations
                    .get_offset(unit.encoding(), unit.loclists_base, index)
                    .ok()?,
                _ => return None,
            };
            self.locations
                .locations(
                    offset,
                    unit.encoding(),
                    unit.low_pc,
                    &unit.dwarf.debug_addr,
                    unit.addr_base,
                )
                .ok()?
        };
        let pc = self.pc();
        while let Some(location) = locations.next().ok()? {
            self.entries.step()?;
            if location.range.begin <= pc && pc < location.range.end {
                return Some(location.data);
            }
        }
        None
    }

    /// One more than are understood, at most.
    fn operations(&self, expression: Expression<Reader>) -> Vec<Operation<Reader>> {
        let mut operations = expression.operations(self.entries.unit().encoding());
        std::iter::from_fn(|| operations.next().ok().flatten())
            .take(OPERATIONS)
            .collect()
    }

    fn register(&self, number: u16) -> Option<u64> {
        let registers = self.stopped.regs.in_dwarf_order();
        registers.get(usize::from(number)).copied()
    }

    fn computed(&self, operation: &Operation<Reader>, frame_base: Option<u64>) -> Option<u64> {
        match *operation {
            Operation::RegisterOffset {
                register, offset, ..
            } => Some(self.register(register.0)?.wrapping_add_signed(offset)),
            Operation::FrameOffset { offset } => Some(frame_base?.wrapping_add_signed(offset)),
            _ => self.fixed(operation),
        }
    }

    /// A run-time address that does not depend on the thread.
    fn fixed(&self, operation: &Operation<Reader>) -> Option<u64> {
        let address = match *operation {
            Operation::Address { address } => address,
            Operation::AddressIndex { index } => self.entries.unit().address(index).ok()?,
            _ => return None,
        };
        Some(address.wrapping_add(self.bias))
    }

    fn on_stack(&self, address: u64) -> Option<u64> {
        let first = usize::try_from(address.checked_sub(self.stopped.stack.base)?).ok()?;
        let bytes = self.stopped.stack.bytes.get(first..first.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}
