//! Stories of databases that an older version made.

use clock::{Clock, DAY, Millis};
use store::{Args, Sql, WriteSet, args};

use super::{Service, open};
use crate::config::{self, Flags};
use crate::credits::audit::audit;
use crate::credits::seals::adopt;
use crate::schema::MIGRATIONS;

async fn run(service: &Service, sql: &'static str, args: Args) {
    let mut set = WriteSet::of("story");
    set.push(Sql(sql), args);
    service.live.db.commit(set).await.unwrap();
}

/// What the audit finds.
async fn found(service: &Service) -> Vec<&'static str> {
    let report = audit(&service.live, DAY).await.unwrap();
    report.violations.iter().map(|found| found.invariant).collect()
}

#[tokio::test]
async fn what_is_older_than_the_seals_is_taken_as_it_is_and_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let flags = Flags { engines: engines::ALL, ..Flags::default() };
    let mut config = config::load(None, std::iter::empty(), flags).unwrap();
    folder.path().clone_into(&mut config.data_dir);
    let service = open(config, Clock::held(Millis(1_700_000_000_000), 7)).unwrap();
    let before = MIGRATIONS.iter().take_while(|it| it.version < adopt::SINCE).copied();
    let before: Vec<_> = before.collect();
    service.live.db.migrate(&before).await.unwrap();
    let account = "INSERT INTO accounts (account_id, user_id, env, status, billing_mode, \
        credit_limit, posted, held, settings, created_at) \
        VALUES ($1, 'usr_1', 'live', 'active', 'postpaid', 500, 0, 0, '{}', 0)";
    run(&service, account, args!["acc_1"]).await;
    let line = "INSERT INTO audit_log (entry_id, at, actor_kind, actor_id, action, object_id, \
        account_id, request_id, detail) \
        VALUES ($1, 0, 'cli', '', 'account.update', 'acc_1', 'acc_1', '', '{}')";
    run(&service, line, args!["aud_1"]).await;

    service.migrate().await.unwrap();
    assert_eq!(found(&service).await, Vec::<&str>::new());

    run(&service, "UPDATE audit_log SET mac = NULL WHERE entry_id = $1", args!["aud_1"]).await;
    run(&service, "UPDATE accounts SET credit_limit = 900 WHERE account_id = $1", args!["acc_1"])
        .await;
    service.migrate().await.unwrap();
    assert_eq!(found(&service).await, ["S3", "S4"]);
    service.close().await;
}
