//! Large emails: the memory for their bodies as they come in, the bench where they are taken in,
//! and what they say while copies of them go out, read and opened once for all copies that do at
//! the same time. So neither time nor memory grows with the number of copies.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use store::Error;
use tokio::sync::Mutex;

use super::{Piece, Said, place, store as sql};
use crate::app::{App, Env};
use crate::kit::heavy::{self, Bench};
use crate::kit::large_body::Room;

/// What an environment has for them: accounts of the sandbox, which anybody may have, take nothing
/// from live.
pub(super) struct Large {
    /// The memory for bodies.
    pub(super) room: Room,
    /// Where they are taken in.
    pub(super) bench: Bench,
    /// What goes out now, by the email's id. Held while one is read and opened: all of them
    /// together take a core at most.
    going_out: Mutex<Option<HashMap<String, Weak<Vec<u8>>>>>,
}

impl Large {
    const fn new() -> Self {
        Self { room: Room::new(), bench: Bench::new(), going_out: Mutex::const_new(None) }
    }

    pub(super) fn of(app: &App) -> &'static Self {
        static LIVE: Large = Large::new();
        static SANDBOX: Large = Large::new();
        match app.env {
            Env::Live => &LIVE,
            Env::Sandbox => &SANDBOX,
        }
    }
}

/// Reads what an email says that the database has alone.
pub(super) async fn fetch(app: &App, piece: &mut Piece) -> Result<(), Error> {
    if !matches!(piece.said, Some(Said::Stored)) {
        return Ok(());
    }
    let mut all = Large::of(app).going_out.lock().await;
    let all = all.get_or_insert_default();
    let mut message = all.get(piece.email.as_str()).and_then(Weak::upgrade);
    if message.is_none()
        && let Some(sealed) = sql::content(app, &piece.account, &piece.email).await?
    {
        message = heavy::beside(sealed.len(), || open(app, piece, &sealed));
        all.retain(|_, message| message.strong_count() > 0);
        all.extend(message.iter().map(|it| (piece.email.as_str().to_owned(), Arc::downgrade(it))));
    }
    piece.said = message.map(Said::Opened);
    Ok(())
}

/// The message of an email; `None` where it is not kept any more.
pub(super) fn message_of(app: &App, piece: &Piece) -> Option<Arc<Vec<u8>>> {
    match piece.said.as_ref()? {
        Said::Stored => None,
        Said::Sealed(sealed) => open(app, piece, sealed),
        Said::Opened(message) => Some(Arc::clone(message)),
    }
}

fn open(app: &App, piece: &Piece, sealed: &[u8]) -> Option<Arc<Vec<u8>>> {
    app.vault.open(&place(&piece.account, &piece.email), sealed).map(Arc::new)
}
