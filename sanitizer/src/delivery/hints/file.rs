//! A file of hints: a frame of Zstandard, in which stand the words that begin all of this form, the module (name and build id), and the functions in the order of their places, each behind its length (32 bits, the lowest byte first). Module and functions are
//! in the form of postcard (<https://postcard.jamesmunns.com/wire-format>). Whoever takes it trusts nothing in it.

use crate::{
    delivery::packed::{Packed, pack, unpack},
    learned::{KnownFunction, MOST_OF_FUNCTION, Module},
};

/// What begins it, and what the last of its versions is.
const FORM: &[u8] = b"gwp-race hints 1\n";
/// The longest file, bytes, packed or not.
pub const LONGEST: usize = 1 << 20;
/// What places take of a function beside what was seen in it.
const MOST_PLACES: usize = 32;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HintFile {
    /// The build.
    pub module: Module,
    /// What was learned of its functions.
    pub functions: Vec<KnownFunction>,
}

/// Why something is no file of hints.
#[derive(Debug, thiserror::Error)]
pub enum HintError {
    /// It cannot be unpacked, or is too large.
    #[error("{0}")]
    Packed(String),
    /// It is of something else, or of another version.
    #[error("it is no file of hints of this version of gwp-race")]
    Form,
    /// It is not whole.
    #[error("it is not whole, or was changed")]
    Broken,
    /// It has what cannot be.
    #[error("it says of functions what cannot be")]
    Unsound,
}

impl HintFile {
    /// As it is sent. Functions for which there is no room are left out, the last ones.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        pack(&self.bytes())
    }

    /// What is packed.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = FORM.to_vec();
        bytes.extend(postcard::to_allocvec(&self.module).unwrap_or_default());
        for function in &self.functions {
            let function = postcard::to_allocvec(function).unwrap_or_default();
            // Packed, it has some bytes more where nothing can be packed.
            if bytes.len() + 4 + function.len() > LONGEST / 64 * 63 {
                break;
            }
            let length = u32::try_from(function.len()).unwrap_or(u32::MAX);
            bytes.extend(length.to_le_bytes());
            bytes.extend(function);
        }
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(body: &[u8]) -> Result<Self, HintError> {
        if body.len() > LONGEST {
            return Err(HintError::Packed(Packed::TooLarge(LONGEST).to_string()));
        }
        let bytes = unpack(body, LONGEST).map_err(|error| HintError::Packed(error.to_string()))?;
        Self::of_bytes(&bytes)
    }

    /// Reads one that is unpacked.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, HintError> {
        let rest = bytes.strip_prefix(FORM).ok_or(HintError::Form)?;
        let (module, mut rest) =
            postcard::take_from_bytes::<Module>(rest).map_err(|_| HintError::Broken)?;
        if !module.can_be_shared() {
            return Err(HintError::Unsound);
        }
        let mut functions: Vec<KnownFunction> = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MOST_OF_FUNCTION + MOST_PLACES {
                return Err(HintError::Unsound);
            }
            let (function, behind) = behind.split_at_checked(length).ok_or(HintError::Broken)?;
            rest = behind;
            let (function, left) = postcard::take_from_bytes::<KnownFunction>(function)
                .map_err(|_| HintError::Broken)?;
            if !left.is_empty() {
                return Err(HintError::Broken);
            }
            let is_next = functions.last().is_none_or(|last| last.at < function.at);
            if !is_next || function.is_untried() || !function.is_sound() {
                return Err(HintError::Unsound);
            }
            functions.push(function);
        }
        if rest.is_empty() {
            Ok(Self { module, functions })
        } else {
            Err(HintError::Broken)
        }
    }
}
