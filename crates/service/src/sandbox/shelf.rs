//! Handsets in the database, so that any node shows what another one's carrier delivered. A message
//! holds a code, so it is there only sealed; of the number there is a keyed hash.

use ::store::{Db, Error, WriteSet, args};
use clock::{DAY, Millis};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::store as sql;
use crate::access::{
    self,
    retention::{Accounts, sweep},
};
use crate::app::App;
use crate::carriers::Channel;
use crate::carriers::handsets::{MESSAGES, Received, Shelf};
use crate::chores::Turn;
use crate::kit::id::HandsetMessageId;
use crate::kit::seal::Vault;

/// How long a handset keeps a message, milliseconds.
const LIFE: i64 = DAY;

/// The shelf of a service with several nodes.
pub struct StoredShelf {
    db: Db,
    vault: Vault,
}

impl StoredShelf {
    /// A shelf in this database, sealed by this vault.
    #[must_use]
    pub fn new(db: Db, vault: Vault) -> Self {
        Self { db, vault }
    }
}

/// What is sealed of a message.
#[derive(Serialize, Deserialize)]
struct Content {
    channel: String,
    sender: String,
    text: String,
    code: Option<String>,
    buttons: Vec<String>,
    #[serde(default)]
    payloads: Vec<String>,
}

fn place<'a>(account_id: &'a str, message_id: &'a str) -> [&'a str; 3] {
    ["handset_messages", account_id, message_id]
}

impl Shelf for StoredShelf {
    fn deliver<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
        message: Received,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let Received { id, channel, sender, text, code, buttons, payloads, received_at } = message;
        let channel = channel.to_owned();
        let content = Content { channel, sender, text, code, buttons, payloads };
        Box::pin(async move {
            let json = serde_json::to_vec(&content).map_err(|_| Error::Corrupt { column: 3 })?;
            let sealed = self.vault.seal(&place(account_id, &id), &json);
            let mut set = WriteSet::of(account_id);
            let phone = self.vault.recipient_mac(account_id, phone);
            set.push(sql::INSERT, args![account_id, phone, id, sealed, received_at]);
            let committed = self.db.commit(set).await;
            committed.map(drop).map_err(Error::from)
        })
    }

    fn messages<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Received>, Error>> {
        let newest = i64::try_from(MESSAGES).unwrap_or(i64::MAX);
        Box::pin(async move {
            let args = args![account_id, self.vault.recipient_mac(account_id, phone), newest];
            let rows = self.db.rows::<(String, Vec<u8>, Millis)>(sql::NEWEST, args).await?;
            let open = |(id, sealed, at): (String, Vec<u8>, Millis)| {
                self.open(account_id, id, &sealed, at)
            };
            rows.into_iter().map(open).collect()
        })
    }

    fn forget<'a>(
        &'a self,
        account_id: &'a str,
        phone: &'a str,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let mut set = WriteSet::of(account_id);
            set.push(sql::EMPTY, args![account_id, self.vault.recipient_mac(account_id, phone)]);
            let committed = self.db.commit(set).await;
            committed.map(drop).map_err(Error::from)
        })
    }
}

impl StoredShelf {
    fn open(
        &self,
        account_id: &str,
        id: String,
        sealed: &[u8],
        received_at: Millis,
    ) -> Result<Received, Error> {
        let json = self.vault.open(&place(account_id, &id), sealed);
        let content = json.and_then(|json| serde_json::from_slice::<Content>(&json).ok());
        let content = content.ok_or(Error::Corrupt { column: 1 })?;
        let Content { channel, sender, text, code, buttons, payloads } = content;
        let channel = channel.parse().unwrap_or(Channel::Chatapp).as_str();
        Ok(Received { id, channel, sender, text, code, buttons, payloads, received_at })
    }
}

/// Empties shelves, account by account, of what is older than a day and of what is more than an
/// account may keep.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn forget_old(app: &App, turn: &Turn) -> Result<u64, access::Error> {
    let day_ago = HandsetMessageId::bound(turn.now() - LIFE);
    let (mut accounts, mut deleted) = (Accounts::default(), 0);
    while turn.breathe().await
        && let Some(account) = accounts.next(app).await?
    {
        let args = args![&account, app.config.sandbox.handset_messages - 1];
        let nth: Option<(HandsetMessageId,)> = app.db.row(sql::NTH, args).await?;
        let before = nth.map(|(id,)| id).filter(|id| id.as_str() > day_ago.as_str());
        let before = before.unwrap_or_else(|| day_ago.clone());
        let args = args![&account, &before, app.config.retention.chunk];
        deleted += sweep(app, turn, "handset_messages", sql::FORGET, &args).await?;
    }
    Ok(deleted)
}
