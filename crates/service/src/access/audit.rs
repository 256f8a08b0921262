//! The audit log: who did what to which object, written in the same write set as the deed.

use clock::Millis;
use store::{Args, Error, FromRow, Reject, Row, WriteSet, args};
use uuid::Uuid;

use super::store as sql;
use super::who::Who;
use crate::app::App;
use crate::kit::id::{AccountId, AuditId};
use crate::kit::seal::{Vault, sha256_of};
use crate::kit::walk::{Feed, Found};

/// Who acts, and in which request.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// The actor.
    pub who: &'a Who,
    /// The id of the request; empty on the command line.
    pub request_id: &'a str,
}

impl By<'static> {
    /// The operator at the command line.
    pub const CLI: Self = By { who: &Who::Cli, request_id: "" };
}

/// One line of the log.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Who did it.
    pub actor: &'a Who,
    /// What was done, such as `api_key.create`.
    pub action: &'static str,
    /// What it was done to.
    pub object_id: &'a str,
    /// The account that it concerns, if it is one.
    pub account: Option<&'a AccountId>,
    /// The id of the request; empty on the command line.
    pub request_id: &'a str,
    /// What else is worth knowing. Never a secret.
    pub detail: serde_json::Value,
}

impl<'a> Entry<'a> {
    /// What became of something that an account has.
    #[must_use]
    pub fn of_account(
        account: &'a AccountId,
        object_id: &'a str,
        by: By<'a>,
        action: &'static str,
        detail: serde_json::Value,
    ) -> Self {
        let (actor, request_id) = (by.who, by.request_id);
        Self { actor, action, object_id, account: Some(account), request_id, detail }
    }
}

/// A line as it is stored. It carries a keyed hash, so that a made-up one is told from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its id, in the order of time.
    pub id: String,
    /// When.
    pub at: Millis,
    /// Which kind of actor.
    pub actor_kind: String,
    /// The actor's id.
    pub actor_id: String,
    /// What was done.
    pub action: String,
    /// What it was done to.
    pub object_id: String,
    /// The account that it concerns.
    pub account: Option<String>,
    /// The request.
    pub request_id: String,
    /// JSON.
    pub detail: String,
    /// The newest seal that the writer knew; 0 = none.
    pub seal_no: i64,
    /// Keyed hash of the above.
    pub mac: Option<Vec<u8>>,
}

impl Line {
    /// Whether the service wrote the line just so.
    #[must_use]
    pub fn is_genuine(&self, vault: &Vault) -> bool {
        self.mac.as_ref().is_some_and(|mac| *mac == self.keyed(vault))
    }

    fn keyed(&self, vault: &Vault) -> [u8; 32] {
        let numbers = self.numbers();
        let mut fields = vec!["audit_log"];
        fields.extend(self.fields(&numbers));
        vault.proof_mac(&fields)
    }

    /// What the seals of the log cover.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        sha256_of(&self.fields(&self.numbers()).map(str::as_bytes))
    }

    fn numbers(&self) -> [String; 2] {
        [self.at.0.to_string(), self.seal_no.to_string()]
    }

    fn fields<'a>(&'a self, [at, seal_no]: &'a [String; 2]) -> [&'a str; 10] {
        let account = self.account.as_deref().unwrap_or_default();
        let Self { id, actor_kind, actor_id, action, object_id, request_id, detail, .. } = self;
        [id, at, actor_kind, actor_id, action, object_id, account, request_id, detail, seal_no]
    }
}

impl FromRow for Line {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            at: row.take(1)?,
            actor_kind: row.take(2)?,
            actor_id: row.take(3)?,
            action: row.take(4)?,
            object_id: row.take(5)?,
            account: row.take(6)?,
            request_id: row.take(7)?,
            detail: row.take(8)?,
            seal_no: row.take(9)?,
            mac: row.take(10)?,
        })
    }
}

/// Adds a line to the write set of the deed.
pub fn record(app: &App, set: &mut WriteSet, entry: &Entry<'_>) {
    add(app, set, entry, next_id(app));
}

/// The newest line about the terms of an account; `None` = there is none.
///
/// # Errors
/// When the database cannot be read.
pub async fn newest_of_account(app: &App, account: &AccountId) -> Result<Option<AuditId>, Error> {
    let row: Option<(AuditId,)> = app.db.row(sql::NEWEST_LINE_OF_ACCOUNT, args![account]).await?;
    Ok(row.map(|(id,)| id))
}

/// The same as [`record`] of a change of an account's terms: behind the newest line about them,
/// whichever clock gave that its id, for the proof replays them in the order of ids. To be refused
/// with `reject` if another one came since it was read.
pub fn record_after(
    app: &App,
    set: &mut WriteSet,
    entry: &Entry<'_>,
    newest: Option<&AuditId>,
    reject: Reject,
) {
    let id = next_id(app);
    let id = match newest {
        Some(newest) if id <= *newest => AuditId::above(&app.clock, newest),
        _ => id,
    };
    let after = newest.map_or("", AuditId::as_str);
    set.absent(
        sql::NEWER_LINE_OF_ACCOUNT,
        args![entry.account.map(AccountId::as_str), after],
        reject,
    );
    add(app, set, entry, id);
}

fn add(app: &App, set: &mut WriteSet, entry: &Entry<'_>, id: AuditId) {
    let mut line = Line {
        id: id.into(),
        at: app.now(),
        actor_kind: entry.actor.kind().to_owned(),
        actor_id: entry.actor.id().to_owned(),
        action: entry.action.to_owned(),
        object_id: entry.object_id.to_owned(),
        account: entry.account.map(|account| account.as_str().to_owned()),
        request_id: entry.request_id.to_owned(),
        detail: entry.detail.to_string(),
        seal_no: app.sealing.head().map_or(0, |head| head.number),
        mac: None,
    };
    line.mac = Some(line.keyed(&app.vault).to_vec());
    let args = args![
        line.id,
        line.at,
        line.actor_kind,
        line.actor_id,
        line.action,
        line.object_id,
        line.account,
        line.request_id,
        line.detail,
        line.seal_no,
        line.mac,
    ];
    set.push(sql::ADD_AUDIT_ENTRY, args);
}

/// An id ahead of the fence: after a clock that went back, too, new lines come behind sealed ones.
fn next_id(app: &App) -> AuditId {
    let (id, fence) = (AuditId::new(&app.clock), app.sealing.fence());
    if id.time() >= fence {
        return id;
    }
    let chance = id.uuid().as_u128() & ((1 << 80) - 1);
    AuditId::of(Uuid::from_u128(AuditId::bound(fence).uuid().as_u128() | chance))
}

/// Gives the lines of versions that wrote none their keyed hash.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn adopt(app: &App) -> Result<(), Error> {
    let mut feed = lines(app);
    while let Some(found) = feed.next().await? {
        if let Some(line) = found.row.filter(|line| line.mac.is_none()) {
            let mut set = WriteSet::of("audit_log");
            set.push(sql::ADOPT_AUDIT_ENTRY, args![line.keyed(&app.vault), &line.id]);
            app.db.commit(set).await.map_err(Error::from)?;
        }
    }
    Ok(())
}

/// The newest line.
///
/// # Errors
/// When the database cannot be read.
pub async fn newest(app: &App) -> Result<Option<Found<Line>>, Error> {
    app.db.row(sql::NEWEST_AUDIT_LINE, args![""]).await
}

/// All lines, oldest first.
#[must_use]
pub fn lines(app: &App) -> Feed<'_, Line> {
    Feed::new(&app.db, sql::AUDIT_LINES, Args::new())
}

/// At most `max` lines about what was done to an account itself, after a line, oldest first.
///
/// # Errors
/// When the database cannot be read.
pub async fn lines_of_account(
    app: &App,
    account: &str,
    after: &str,
    max: i64,
) -> Result<Vec<Found<Line>>, Error> {
    app.db.rows(sql::AUDIT_LINES_OF_ACCOUNT, args![account, after, max]).await
}
