//! Lists that are decoded only as far as they may go: whoever has sent one may be a file's by now, and memory is not for him to
//! fill.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

/// What is taken for granted before it has come, in bytes.
const AT_ONCE: usize = 1 << 16;

/// A list of at most `MOST`, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// It has more, or cannot be decoded.
pub fn list<'de, D, T, const MOST: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T, const MOST: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MOST} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<T>, A::Error> {
            let told = all.size_hint().unwrap_or_default();
            if told > MOST {
                return Err(A::Error::invalid_length(told, &self));
            }
            let mut list = Vec::with_capacity(told.min(AT_ONCE / size_of::<T>().max(1)));
            while let Some(element) = all.next_element()? {
                if list.len() == MOST {
                    return Err(A::Error::invalid_length(MOST + 1, &self));
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<T, MOST>(PhantomData))
}

/// A text of which no more than `MOST` bytes are kept, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// It cannot be decoded.
pub fn text<'de, D, const MOST: usize>(deserializer: D) -> Result<String, D::Error>
where
    D: Deserializer<'de>,
{
    struct Text<const MOST: usize>;

    impl<const MOST: usize> Visitor<'_> for Text<MOST> {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a text")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
            let kept = text.get(..text.floor_char_boundary(MOST));
            Ok(kept.unwrap_or_default().to_owned())
        }
    }

    deserializer.deserialize_str(Text::<MOST>)
}

/// The sums of a list of gaps, each of at least `least`: numbers that ascend. Nothing where one is too large, or a gap too small.
pub fn ascending(gaps: impl Iterator<Item = u32>, least: u32) -> impl Iterator<Item = Option<u32>> {
    let mut last = None;
    gaps.map(move |gap| {
        let next = match last {
            None => Some(gap),
            Some(last) if gap >= least => u32::checked_add(last, gap),
            Some(_) => None,
        };
        last = Some(next?);
        next
    })
}

/// The gaps between numbers that ascend, the first one by itself.
pub fn gaps(numbers: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let mut last = 0;
    numbers.map(move |number| number.wrapping_sub(std::mem::replace(&mut last, number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, Deserialize)]
    struct Few(#[serde(deserialize_with = "list::<_, _, 3>")] Vec<String>);

    /// Check that so many are taken and no more, and that counts without elements are refused.
    #[test]
    fn longer_lists_are_refused() {
        for count in 0..6 {
            let few = Few(vec!["a".to_owned(); count]);
            let bytes = postcard::to_allocvec(&few).unwrap();
            assert_eq!(postcard::from_bytes::<Few>(&bytes).is_ok(), count <= 3);
        }
        assert!(postcard::from_bytes::<Few>(&[3, 0, 0]).is_err());
        assert!(postcard::from_bytes::<Few>(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }

    #[derive(serde::Serialize, Deserialize)]
    struct Short(#[serde(deserialize_with = "text::<_, 5>")] String);

    /// Check that of a long text no more is kept than may be, in whole characters and without room for the rest.
    #[test]
    fn longer_texts_are_cut() {
        for (told, kept) in [
            ("", ""),
            ("short", "short"),
            ("longer", "longe"),
            ("abcd\u{e9}f", "abcd"),
        ] {
            let bytes = postcard::to_allocvec(&Short(told.to_owned())).unwrap();
            let Short(text) = postcard::from_bytes(&bytes).unwrap();
            assert_eq!(text, kept);
            assert!(text.capacity() <= 5);
        }
        assert!(postcard::from_bytes::<Short>(&[2, 0xff, 0xff]).is_err());
    }

    /// Check that gaps lead to the numbers that they are of, and to none that do not ascend.
    #[test]
    fn numbers_ascend() {
        let sums = |all: &[u32], least| -> Option<Vec<u32>> {
            ascending(all.iter().copied(), least).collect()
        };
        let numbers = [0, 5, 6, u32::MAX];
        let all: Vec<u32> = gaps(numbers.into_iter()).collect();
        assert_eq!(sums(&all, 1), Some(numbers.to_vec()));
        assert_eq!(sums(&[7, 0], 0), Some(vec![7, 7]));
        assert_eq!(sums(&[7, 0], 1), None);
        assert_eq!(sums(&[7, u32::MAX], 1), None);
    }
}
