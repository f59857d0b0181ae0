//! Lists that several share, as they are written and read.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes one as any list.
pub(super) fn as_list<T: Serialize, S: Serializer>(
    list: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    list.serialize(serializer)
}

/// Reads one.
pub(super) fn of_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<[T]>, D::Error> {
    Vec::deserialize(deserializer).map(Arc::from)
}
