//! The PostgreSQL that tests run on, and databases of their own on it. Included by the tests of
//! the store and of the service.

use clock::Clock;
use tokio_postgres::{Client, NoTls};

/// The server itself, `postgres://…` without a database.
pub fn postgres() -> String {
    given("ESTAFETTE_TEST_POSTGRES")
}

/// The same server through PgBouncer in transaction mode.
pub fn pgbouncer() -> String {
    given("ESTAFETTE_TEST_PGBOUNCER")
}

/// The file of the authority that the server proves its name by.
pub fn authority() -> String {
    given("ESTAFETTE_TEST_AUTHORITY")
}

#[expect(clippy::disallowed_methods, reason = "the server of the tests is no setting")]
fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("this test needs PostgreSQL: run it as `scripts/with-postgres cargo nextest run …`")
    })
}

/// A client of a database, for what a test does behind the engine's back.
pub async fn client(server: &str, name: &str) -> Client {
    let (client, driver) =
        tokio_postgres::connect(&format!("{server}/{name}"), NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

/// A database of one test, dropped with it.
pub struct Database {
    pub name: String,
}

impl Database {
    /// An empty one, or a copy of a template that nobody is connected to.
    pub async fn create(template: &str) -> Self {
        let name = format!("t_{}", Clock::system().uuid().simple());
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        client(&postgres(), "postgres").await.batch_execute(&create).await.unwrap();
        Self { name }
    }

    /// An empty one.
    pub async fn empty() -> Self {
        Self::create("template0").await
    }

    /// Its URL at the server.
    pub fn url(&self) -> String {
        format!("{}/{}", postgres(), self.name)
    }

    /// A client of it.
    pub async fn client(&self) -> Client {
        client(&postgres(), &self.name).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A test may end inside or outside of a runtime, so this brings its own.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                client(&postgres(), "postgres").await.batch_execute(&drop).await
            })
        });
        if !matches!(dropped.join(), Ok(Ok(()))) {
            eprintln!("the database {} could not be dropped", self.name);
        }
    }
}
