//! The SQL of routes.

use store::Sql;

pub(super) const NEWEST: Sql = Sql("SELECT version, routes FROM sms_routes WHERE env = $1");
pub(super) const STORE: Sql = Sql("INSERT INTO sms_routes (env, version, routes, changed_at) \
     VALUES ($1, $2, $3, $4) ON CONFLICT (env) DO UPDATE SET version = excluded.version, \
     routes = excluded.routes, changed_at = excluded.changed_at WHERE sms_routes.version = $5");
