//! What large emails say, while copies of them go out: read and opened once for all copies that do
//! at the same time, so that neither time nor memory grows with their number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use store::Error;

use super::{Piece, Said, place, store as sql};
use crate::app::{App, Env};
use crate::kit::heavy;

/// Large emails of an environment.
struct Large {
    /// Held while one is read and opened: all of them together take a core at most.
    turn: tokio::sync::Mutex<()>,
    /// What goes out now, by the email's id.
    opened: Mutex<Option<HashMap<String, Weak<[u8]>>>>,
}

impl Large {
    const fn new() -> Self {
        Self { turn: tokio::sync::Mutex::const_new(()), opened: Mutex::new(None) }
    }

    fn of(app: &App) -> &'static Self {
        static LIVE: Large = Large::new();
        static SANDBOX: Large = Large::new();
        match app.env {
            Env::Live => &LIVE,
            Env::Sandbox => &SANDBOX,
        }
    }

    /// The message, opened by `open` unless it is here.
    fn once(&self, email: &str, open: impl FnOnce() -> Option<Arc<[u8]>>) -> Option<Arc<[u8]>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        if let Some(message) = opened.get(email).and_then(Weak::upgrade) {
            return Some(message);
        }
        let message = open()?;
        opened.retain(|_, message| message.strong_count() > 0);
        opened.insert(email.to_owned(), Arc::downgrade(&message));
        Some(message)
    }
}

/// Reads what an email says that the database has alone.
pub(super) async fn fetch(app: &App, piece: &mut Piece) -> Result<(), Error> {
    if !matches!(piece.said, Some(Said::Stored)) {
        return Ok(());
    }
    let large = Large::of(app);
    let _turn = large.turn.lock().await;
    let mut message = large.once(piece.email.as_str(), || None);
    if message.is_none()
        && let Some(sealed) = sql::content(app, &piece.account, &piece.email).await?
    {
        let open = || open(app, piece, &sealed);
        message = heavy::beside(sealed.len(), || large.once(piece.email.as_str(), open));
    }
    piece.said = message.map(Said::Opened);
    Ok(())
}

/// The message of an email; `None` where it is not kept any more.
pub(super) fn of(app: &App, piece: &Piece) -> Option<Arc<[u8]>> {
    match piece.said.as_ref()? {
        Said::Stored => None,
        Said::Opened(message) => Some(Arc::clone(message)),
        Said::Sealed(sealed) if heavy::is_large(sealed.len()) => {
            let open = || open(app, piece, sealed);
            let large = Large::of(app);
            heavy::beside(sealed.len(), || large.once(piece.email.as_str(), open))
        }
        Said::Sealed(sealed) => open(app, piece, sealed),
    }
}

fn open(app: &App, piece: &Piece, sealed: &[u8]) -> Option<Arc<[u8]>> {
    app.vault.open(&place(&piece.account, &piece.email), sealed).map(Arc::from)
}
