//! The types of BTF, by name and number. The format is Documentation/bpf/btf.rst.

use super::BtfError;

/// `BTF_MAGIC` of linux/btf.h.
const MAGIC: u16 = 0xeb9f;

/// Bytes of `struct btf_header` that every version has.
const HEADER_LEN: usize = 24;

/// Bytes of `struct btf_type`, without what follows it.
const TYPE_LEN: usize = 12;

/// Bytes of `struct btf_member`.
const MEMBER_LEN: usize = 12;

/// Typedefs, qualifiers and unnamed members deeper than this are taken for a loop.
const MAX_DEPTH: u32 = 32;

/// A structure or union in a [`Btf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructId(u32);

/// Type information, indexed by type id. Only what is needed to find members: the offsets
/// of types are noted, nothing is copied.
#[derive(Debug)]
pub struct Btf<'data> {
    data: &'data [u8],
    /// Where the string section is in `data`.
    strings: std::ops::Range<usize>,
    /// Byte offset of each type; id 1 is the first (id 0 is `void` and has no bytes).
    types: Vec<u32>,
}

/// The kinds of linux/btf.h (`BTF_KIND_*`) that lead to a member.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// `struct btf_type`.
#[derive(Clone, Copy)]
struct TypeHeader {
    at: usize,
    name_off: u32,
    info: u32,
    size_or_type: u32,
}

impl TypeHeader {
    fn kind(self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    fn vlen(self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// `kind_flag`: the members' offsets carry bit-field sizes in their upper 8 bits.
    fn has_bitfields(self) -> bool {
        self.info >> 31 == 1
    }

    fn is_struct(self) -> bool {
        matches!(self.kind(), kind::STRUCT | kind::UNION)
    }

    /// Bytes that follow the header.
    fn tail_len(self) -> Option<usize> {
        Some(match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION => MEMBER_LEN * self.vlen(),
            kind::DATASEC | kind::ENUM64 => 12 * self.vlen(),
            kind::ENUM | kind::FUNC_PROTO => 8 * self.vlen(),
            1..=kind::ENUM64 => 0,
            _ => return None,
        })
    }
}

impl<'data> Btf<'data> {
    /// Indexes raw type information (the whole content of the file).
    pub fn parse(data: &'data [u8]) -> Result<Self, BtfError> {
        let malformed = |at, what| BtfError::Malformed { at, what };
        let header = |at| word(data, at).ok_or(malformed(at, "the header is cut short"));
        if header(0)? & 0xffff != u32::from(MAGIC) {
            return Err(malformed(
                0,
                "it does not begin with the magic number of BTF",
            ));
        }
        let header_len = header(4)? as usize;
        if header_len < HEADER_LEN {
            return Err(malformed(4, "the header's length is too small"));
        }
        let section = |at: usize| -> Result<std::ops::Range<usize>, BtfError> {
            let start = header_len.saturating_add(header(at)? as usize);
            let end = start.saturating_add(header(at + 4)? as usize);
            if end > data.len() {
                return Err(malformed(
                    at,
                    "a section reaches beyond the end of the file",
                ));
            }
            Ok(start..end)
        };
        let type_section = section(8)?;
        let strings = section(16)?;

        let mut types = Vec::with_capacity(type_section.len() / 20);
        let mut at = type_section.start;
        while at < type_section.end {
            let ty = type_at(data, at).ok_or(malformed(at, "a type is cut short"))?;
            let tail = ty
                .tail_len()
                .ok_or(malformed(at, "a type is of an unknown kind"))?;
            types.push(u32::try_from(at).map_err(|_| malformed(at, "the file is too large"))?);
            at += TYPE_LEN + tail;
        }
        if at > type_section.end {
            return Err(malformed(at, "the last type reaches beyond its section"));
        }
        Ok(Self {
            data,
            strings,
            types,
        })
    }

    /// Finds a structure by its name. Where several have it, the first one with members.
    pub fn structure(&self, name: &str) -> Result<StructId, BtfError> {
        (1u32..)
            .zip(&self.types)
            .find(|&(_, &at)| {
                type_at(self.data, at as usize).is_some_and(|ty| {
                    ty.kind() == kind::STRUCT
                        && ty.vlen() > 0
                        && self.is_named(ty.name_off, name.as_bytes())
                })
            })
            .map(|(id, _)| StructId(id))
            .ok_or_else(|| BtfError::NoStruct {
                name: name.to_owned(),
            })
    }

    /// `sizeof` a structure, in bytes.
    pub fn size(&self, id: StructId) -> Result<u32, BtfError> {
        Ok(self.resolve(id.0)?.size_or_type)
    }

    /// Byte offset of a member; `path` may go into nested structures (`"sa.sa_handler"`).
    /// Members of unnamed structures and unions count as members of what contains them, as
    /// in C. A bit-field counts as missing.
    pub fn member(&self, id: StructId, path: &str) -> Result<u32, BtfError> {
        let mut bits = 0u32;
        let mut ty = self.resolve(id.0)?;
        for name in path.split('.') {
            let (offset, type_id) = self
                .find_member(ty, name.as_bytes(), 0)?
                .ok_or_else(|| self.no_member(id, path))?;
            bits = bits.saturating_add(offset);
            ty = self.resolve(type_id)?;
        }
        if !bits.is_multiple_of(8) {
            return Err(self.no_member(id, path));
        }
        Ok(bits / 8)
    }

    /// The bit offset and type of a member, looked for in unnamed members too.
    fn find_member(
        &self,
        ty: TypeHeader,
        name: &[u8],
        depth: u32,
    ) -> Result<Option<(u32, u32)>, BtfError> {
        if !ty.is_struct() {
            return Ok(None);
        }
        if depth > MAX_DEPTH {
            return Err(BtfError::Malformed {
                at: ty.at,
                what: "unnamed members are in a loop",
            });
        }
        for index in 0..ty.vlen() {
            let at = ty.at + TYPE_LEN + MEMBER_LEN * index;
            let (Some(name_off), Some(type_id), Some(offset)) = (
                word(self.data, at),
                word(self.data, at + 4),
                word(self.data, at + 8),
            ) else {
                return Err(BtfError::Malformed {
                    at,
                    what: "a member is cut short",
                });
            };
            let (offset, bitfield_size) = if ty.has_bitfields() {
                (offset & 0xff_ffff, offset >> 24)
            } else {
                (offset, 0)
            };
            if self.is_named(name_off, b"") {
                let inner = self.resolve(type_id)?;
                if let Some((inner_offset, found)) = self.find_member(inner, name, depth + 1)? {
                    return Ok(Some((offset.saturating_add(inner_offset), found)));
                }
            } else if bitfield_size == 0 && self.is_named(name_off, name) {
                return Ok(Some((offset, type_id)));
            }
        }
        Ok(None)
    }

    /// The type behind typedefs and qualifiers. `void` resolves to a type of no kind.
    fn resolve(&self, mut id: u32) -> Result<TypeHeader, BtfError> {
        for _ in 0..MAX_DEPTH {
            let Some(index) = id.checked_sub(1) else {
                return Ok(TypeHeader {
                    at: 0,
                    name_off: 0,
                    info: 0,
                    size_or_type: 0,
                });
            };
            let ty = self
                .types
                .get(index as usize)
                .and_then(|&at| type_at(self.data, at as usize))
                .ok_or(BtfError::Malformed {
                    at: 0,
                    what: "a type id is out of range",
                })?;
            match ty.kind() {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = ty.size_or_type
                }
                _ => return Ok(ty),
            }
        }
        Err(BtfError::Malformed {
            at: 0,
            what: "typedefs are in a loop",
        })
    }

    fn is_named(&self, name_off: u32, name: &[u8]) -> bool {
        self.strings
            .start
            .checked_add(name_off as usize)
            .and_then(|start| self.data.get(start..self.strings.end))
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    fn no_member(&self, id: StructId, member: &str) -> BtfError {
        let name = self
            .resolve(id.0)
            .ok()
            .and_then(|ty| self.strings.start.checked_add(ty.name_off as usize))
            .and_then(|start| self.data.get(start..self.strings.end))
            .and_then(|rest| rest.split(|&byte| byte == 0).next())
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .unwrap_or_default();
        BtfError::NoMember {
            name,
            member: member.to_owned(),
        }
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn type_at(data: &[u8], at: usize) -> Option<TypeHeader> {
    Some(TypeHeader {
        at,
        name_off: word(data, at)?,
        info: word(data, at + 4)?,
        size_or_type: word(data, at + 8)?,
    })
}
