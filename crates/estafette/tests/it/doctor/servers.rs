//! What the doctor says of a PostgreSQL, and what to do about it.

use serde_json::Value;

use super::{examined, finding};
use crate::process::{estafette, told};
use crate::world::{Database, authority, postgres};

const KEY: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

const ANYWHERE: [&str; 6] =
    ["--live", "127.0.0.1:0", "--sandbox", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];

/// What is said of a server by this URL.
fn of(url: &str) -> (Value, i32) {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("ESTAFETTE__DATABASE__URL", url), ("ESTAFETTE__MASTER_KEY", KEY)];
    examined(folder.path(), &settings)
}

/// What to do about one thing.
fn remedy<'v>(seen: &'v Value, about: &str) -> &'v str {
    let findings = seen["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["about"] == about).unwrap();
    found["remedy"].as_str().unwrap_or_default()
}

/// The server with a user of its own, who may read and write everything but owns nothing.
struct Guest {
    name: String,
    database: Database,
}

impl Guest {
    async fn new() -> Self {
        let database = Database::empty().await;
        let name = format!("guest_{}", database.name);
        Self { name, database }.with("CREATE ROLE {} LOGIN").await
    }

    /// Runs statements on the database, with the guest's name for `{}`.
    async fn with(self, sql: &str) -> Self {
        let sql = sql.replace("{}", &self.name);
        self.database.client().await.batch_execute(&sql).await.unwrap();
        self
    }

    fn url(&self) -> String {
        let server = postgres().replace("estafette@", &format!("{}@", self.name));
        format!("{server}/{}", self.database.name)
    }

    async fn gone(self) {
        self.with("DROP OWNED BY {}; DROP ROLE {}").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_another_role_ends_a_start_that_would_change_it() {
    let guest = Guest::new().await;
    let url = guest.database.url();
    let settings = [("ESTAFETTE__DATABASE__URL", &*url), ("ESTAFETTE__MASTER_KEY", KEY)];
    let folder = tempfile::tempdir().unwrap();
    let migrated = estafette(folder.path()).arg("migrate").envs(settings).output().unwrap();
    assert!(migrated.status.success(), "{}", told(&migrated));
    // The table of migrations belongs to the guest, so that all else is as it was.
    let guest = guest
        .with(
            "GRANT CREATE ON SCHEMA public TO {}; ALTER TABLE schema_migrations OWNER TO {}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}",
        )
        .await;
    let (seen, code) = of(&guest.url());
    assert_eq!((code, finding(&seen, "writes").0), (0, "ok"), "nothing has to change: {seen}");

    let guest = guest.with("REVOKE UPDATE ON tickets FROM {}").await;
    let (seen, code) = of(&guest.url());
    let (health, found) = finding(&seen, "writes");
    assert!(code == 1 && health == "error" && found.contains("write its table tickets"), "{seen}");
    let undone = "GRANT UPDATE ON tickets TO {}; DELETE FROM schema_migrations WHERE version > 30";
    let guest = guest.with(undone).await;
    let (seen, code) = of(&guest.url());
    let (health, found) = finding(&seen, "writes");
    assert!(code == 1 && health == "error" && found.contains("belongs to another role"), "{seen}");
    assert!(remedy(&seen, "writes").contains("REASSIGN OWNED BY"), "{seen}");

    let url = guest.url();
    let settings = [("ESTAFETTE__DATABASE__URL", &*url), ("ESTAFETTE__MASTER_KEY", KEY)];
    let mut serve = estafette(folder.path());
    let ended = serve.args(ANYWHERE).arg("serve").envs(settings).output().unwrap();
    assert!(told(&ended).contains("belongs to another role"), "{}", told(&ended));
    guest.gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_another_program_on_a_server_is_left_alone() {
    for (theirs, table) in [
        ("CREATE TABLE orders (id BIGINT)", "orders"),
        ("CREATE TABLE schema_migrations (version VARCHAR(255))", "schema_migrations"),
        ("CREATE TABLE schema_migrations (version BIGINT, dirty BOOLEAN)", "schema_migrations"),
        ("CREATE TABLE schema_migrations (version TEXT); CREATE TABLE users (id BIGINT)", "users"),
    ] {
        let database = Database::empty().await;
        let client = database.client().await;
        client.batch_execute(theirs).await.unwrap();
        let tables = async || {
            let names =
                "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace";
            let rows = client.query(names, &[]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
        };
        let before = tables().await;
        let url = database.url();
        let (seen, code) = of(&url);
        let (health, found) = finding(&seen, "database");
        let told_of = format!("it has the table {table}, and none of estafette's");
        assert!(code == 1 && health == "error" && found.contains(&told_of), "{theirs}: {seen}");
        assert!(remedy(&seen, "database").contains("for estafette alone"), "{seen}");
        let settings = [("ESTAFETTE__DATABASE__URL", &*url), ("ESTAFETTE__MASTER_KEY", KEY)];
        for command in [&["serve"][..], &["migrate"], &["audit"]] {
            let folder = tempfile::tempdir().unwrap();
            let mut refused = estafette(folder.path());
            let done = refused.args(ANYWHERE).args(command).envs(settings).output().unwrap();
            let said = told(&done);
            assert_eq!(done.status.code(), Some(1), "{command:?}: {said}");
            assert!(said.contains(&told_of), "{command:?}: {said}");
            assert!(
                said.contains("-> make a database, or a schema, for estafette alone"),
                "{said}"
            );
        }
        assert_eq!(tables().await, before, "{theirs}: something was left in it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_its_own_beside_another_program_is_enough() {
    let database = Database::empty().await;
    let client = database.client().await;
    let theirs = "CREATE TABLE schema_migrations (version TEXT); CREATE TABLE users (id BIGINT)";
    client.batch_execute(theirs).await.unwrap();
    client.batch_execute("CREATE SCHEMA ours").await.unwrap();
    // Theirs comes behind it, as for who names an extension's schema.
    for path in ["ours", "ours,public"] {
        let url = format!("{}?options=-c%20search_path%3D{path}", database.url());
        let (seen, code) = of(&url);
        assert_eq!((code, finding(&seen, "writes").0), (0, "ok"), "{path}: {seen}");
        let settings = [("ESTAFETTE__DATABASE__URL", &*url), ("ESTAFETTE__MASTER_KEY", KEY)];
        let folder = tempfile::tempdir().unwrap();
        let migrated = estafette(folder.path()).arg("migrate").envs(settings).output().unwrap();
        assert!(migrated.status.success(), "{path}: {}", told(&migrated));
        assert_eq!(finding(&of(&url).0, "schema").0, "ok", "{path}");
        let anew = "DROP SCHEMA ours CASCADE; CREATE SCHEMA ours";
        client.batch_execute(anew).await.unwrap();
    }
    let left = client.query("SELECT 1 FROM pg_tables WHERE schemaname = 'public'", &[]).await;
    assert_eq!(left.unwrap().len(), 2, "theirs is as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_make_no_tables_is_told_where_and_led_to_the_doctor() {
    let guest = Guest::new().await;
    let url = guest.url();
    let settings = [("ESTAFETTE__DATABASE__URL", &*url), ("ESTAFETTE__MASTER_KEY", KEY)];
    let folder = tempfile::tempdir().unwrap();
    let refused = estafette(folder.path()).arg("migrate").envs(settings).output().unwrap();
    let said = told(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for word in ["permission denied", "estafette doctor", &*guest.database.name] {
        assert!(said.contains(word), "no `{word}`: {said}");
    }
    guest.gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_a_server_from_answering_has_a_remedy_of_its_own() {
    let guest = Guest::new().await.with("ALTER ROLE {} CONNECTION LIMIT 0").await;
    let (seen, code) = of(&guest.url());
    assert_eq!((code, finding(&seen, "database").0), (1, "error"), "{seen}");
    assert!(remedy(&seen, "database").contains("max_connections"), "{seen}");
    guest.gone().await;

    let database = Database::empty().await;
    let server = database.url();
    let untrusted = format!("{server}?sslmode=verify-full");
    let (seen, code) = of(&untrusted);
    let (health, found) = finding(&seen, "database");
    assert_eq!((code, health), (1, "error"), "{seen}");
    assert!(found.contains("an authority that is not trusted"), "{seen}");
    assert!(remedy(&seen, "database").contains("sslrootcert"), "{seen}");

    let authority = authority();
    let port = postgres().rsplit_once(':').unwrap().1.to_owned();
    let misnamed = format!(
        "postgres://estafette@other.example:{port}/{}?hostaddr=127.0.0.1&sslrootcert={authority}",
        database.name
    );
    let (seen, _) = of(&misnamed);
    assert!(finding(&seen, "database").1.contains("is for another name"), "{seen}");

    let closed = Database::empty().await;
    let name = &closed.name;
    let close = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
    database.client().await.batch_execute(&close).await.unwrap();
    let (seen, _) = of(&closed.url());
    assert!(remedy(&seen, "database").contains("ALLOW_CONNECTIONS true"), "{seen}");

    let careless = format!("{server}?options=-c%20synchronous_commit%3Doff");
    let (seen, code) = of(&careless);
    let (health, found) = finding(&seen, "durability");
    assert_eq!((code, health), (0, "warning"), "{seen}");
    assert!(found.starts_with("synchronous_commit = off:"), "{seen}");
    let is_durability = |finding: &Value| finding["about"] == "durability";
    assert!(!of(&server).0["findings"].as_array().unwrap().iter().any(is_durability));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_tries_whether_a_server_would_let_it_write() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::empty().await;
    let url = format!("{}/{}", postgres(), database.name);
    let key = "5a".repeat(32);
    let server = [("ESTAFETTE__DATABASE__URL", &*url), ("ESTAFETTE__MASTER_KEY", &*key)];
    // Empty, and still empty after it was looked at.
    for _ in 0..2 {
        let (seen, code) = examined(folder.path(), &server);
        assert_eq!((code, finding(&seen, "writes").0), (0, "ok"), "{seen}");
        assert_eq!(finding(&seen, "schema").1, "there are no tables yet");
    }
    let migrated = estafette(folder.path()).arg("migrate").envs(server).output().unwrap();
    assert!(migrated.status.success(), "{}", told(&migrated));
    assert_eq!(finding(&examined(folder.path(), &server).0, "writes").0, "ok");
    let standby = format!("{url}?options=-c%20default_transaction_read_only%3Don");
    let (seen, code) =
        examined(folder.path(), &[("ESTAFETTE__DATABASE__URL", &*standby), server[1]]);
    let (health, found) = finding(&seen, "writes");
    assert!(code == 1 && health == "error" && found.contains("read-only"), "{seen}");
    let nowhere = format!("{}/nowhere_at_all", postgres());
    let (seen, code) =
        examined(folder.path(), &[("ESTAFETTE__DATABASE__URL", &*nowhere), server[1]]);
    assert_eq!((code, finding(&seen, "database").0), (1, "error"), "{seen}");
    assert!(seen.to_string().contains("CREATE DATABASE"), "{seen}");
    let other = "6b".repeat(32);
    let (seen, _) = examined(folder.path(), &[server[0], ("ESTAFETTE__MASTER_KEY", &*other)]);
    assert!(finding(&seen, "master key").1.contains("another database's"), "{seen}");
}
