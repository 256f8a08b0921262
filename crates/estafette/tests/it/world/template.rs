//! What stories on PostgreSQL begin with: a database with the schema and nothing in it. Copying it
//! costs less than half of what migrating does.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use estafette::config::Config;
use estafette::kit::secret::Secret;
use estafette::schema::MIGRATIONS;
use estafette::wiring;

use super::server::{Database, client, postgres};

/// Stories are processes of their own: whoever holds this lock looks whether the template is there.
const LOCK: &str = "SELECT pg_advisory_lock(20260101)";

/// A database of its own for a story, migrated.
pub async fn copy(config: &Config) -> Database {
    let template = name();
    let maker = client(&postgres(), "postgres").await;
    maker.batch_execute(LOCK).await.unwrap();
    let known = "SELECT 1 FROM pg_database WHERE datname = $1";
    if maker.query_opt(known, &[&template]).await.unwrap().is_none() {
        // Under another name until it is whole: a story may be killed while it makes it.
        let making = Database::empty().await;
        migrate(&making, config).await;
        let rename = format!("ALTER DATABASE {} RENAME TO {template}", making.name);
        maker.batch_execute(&rename).await.unwrap();
    }
    drop(maker);
    Database::create(&template).await
}

/// Of this schema and no other: a server may outlive a run.
fn name() -> String {
    let mut hasher = DefaultHasher::new();
    for migration in MIGRATIONS {
        migration.sql.hash(&mut hasher);
    }
    format!("schema_{:016x}", hasher.finish())
}

async fn migrate(database: &Database, config: &Config) {
    let mut config = config.clone();
    config.database.url = Secret::new(database.url());
    config.master_key = Secret::new("5a".repeat(32));
    let service = wiring::open(config, clock::Clock::system()).unwrap();
    service.live.db.migrate(MIGRATIONS).await.unwrap();
    service.close().await;
}
