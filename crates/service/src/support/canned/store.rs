//! SQL of canned replies.

use store::Sql;

pub(super) const LAST_OF_ALL: Sql = Sql(
    "SELECT reply_id FROM canned_replies WHERE reply_id > '' ORDER BY reply_id LIMIT 1 OFFSET $1",
);
pub(super) const KEEP: Sql = Sql("INSERT INTO canned_replies (reply_id, title, body, created_at, \
     updated_at) VALUES ($1, $2, $3, $4, $4)");
pub(super) const REPLY: Sql = Sql("SELECT reply_id, title, body, created_at, updated_at \
     FROM canned_replies WHERE reply_id = $1");
pub(super) const REPLIES: Sql = Sql("SELECT reply_id, title, body, created_at, updated_at \
     FROM canned_replies WHERE reply_id < $1 ORDER BY reply_id DESC LIMIT $2");
/// What is not given stays as somebody else may change it now.
pub(super) const CHANGE: Sql = Sql("UPDATE canned_replies SET title = COALESCE($1, title), \
     body = COALESCE($2, body), updated_at = $3 WHERE reply_id = $4");
pub(super) const DELETE: Sql = Sql("DELETE FROM canned_replies WHERE reply_id = $1");
