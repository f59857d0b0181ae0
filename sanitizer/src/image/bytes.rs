//! Parts of a byte slice, checked.

/// The `N` bytes at `offset`, if the slice has them.
pub(super) fn array<const N: usize>(data: &[u8], offset: usize) -> Option<[u8; N]> {
    data.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// The bytes from `offset` to the next NUL.
pub(super) fn c_string(data: &[u8], offset: usize) -> Option<&[u8]> {
    let tail = data.get(offset..)?;
    let end = tail.iter().position(|&byte| byte == 0)?;
    tail.get(..end)
}

/// The `size` bytes at file offset `offset`.
pub(super) fn slice(data: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let size = usize::try_from(size).ok()?;
    data.get(start..start.checked_add(size)?)
}
