//! TLS to the server: used where it is asked for, and only with a server that proves its name.

use super::*;
use store::Error;

const ENCRYPTED: Sql = Sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");

async fn is_encrypted(url: &str) -> bool {
    let db = open(url, |_| ());
    db.row::<(bool,)>(ENCRYPTED, args![]).await.unwrap().unwrap().0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_proves_its_name_is_spoken_to_in_tls() {
    let database = Database::empty().await;
    let authority = server::authority();
    let url = format!("{}?sslmode=verify-full&sslrootcert={authority}", database.url());
    assert!(is_encrypted(&url).await);
    assert!(!is_encrypted(&database.url()).await, "on the same machine it is not needed");
    let db = open(&url, |_| ());
    assert_eq!(db.migrate(&[SCHEMA]).await.unwrap(), 1);
    assert_eq!(version(db.commit(entry("in tls")).await.unwrap()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_prove_its_name_is_not_spoken_to() {
    let database = Database::empty().await;
    let authority = server::authority();
    let elsewhere = database.url().replace("127.0.0.1", "db.example.com");
    let urls = [
        // The authority is not a public one.
        format!("{}?sslmode=require", database.url()),
        // The certificate is of another name.
        format!("{elsewhere}?hostaddr=127.0.0.1&sslrootcert={authority}"),
    ];
    for url in urls {
        let refused = open(&url, |_| ()).migrate(&[SCHEMA]).await;
        let Err(Error::Unavailable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("certificate"), "{why}");
    }
}
