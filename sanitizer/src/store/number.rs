//! Numbers of what people say: they count all of it, whatever it is about, in its order.

use super::connect::Connection;

/// The next one.
pub(super) async fn next(connection: &mut Connection) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT coalesce(max(number), 0) + 1 FROM (SELECT number FROM triage UNION ALL SELECT number FROM alias) AS numbers",
    )
    .fetch_one(connection)
    .await
}
