//! Erasures as requests ask for them. They go on when their request ends. Those of one person work
//! one after the other; one that has not begun stands for all that ask for the same meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Turn, Semaphore, watch};

use super::view::ErasureView;
use super::{Person, erase, mac_of};
use crate::access::caller::Staff;
use crate::access::idempotency::Claim;
use crate::app::App;
use crate::kit::id::AccountId;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::seal::hex;
use crate::kit::task;

/// Erasures that a process works on at the same time.
static WORKING: Semaphore = Semaphore::const_new(4);
/// Whose erasures have not ended.
static PLACES: Mutex<Option<HashMap<String, Place>>> = Mutex::new(None);

/// What an erasure found; `None` = it has not ended.
pub(super) type Told = Option<Result<ErasureView, Problem>>;

/// The erasures of one person.
#[derive(Default)]
struct Place {
    /// Taken by the one that works.
    turn: Arc<Turn<()>>,
    /// The one that has not begun.
    next: Option<watch::Receiver<Told>>,
    /// Those that have not ended.
    count: usize,
}

/// What a request asks for.
pub(super) struct Order {
    pub(super) person: Person,
    pub(super) account: Option<AccountId>,
    pub(super) staff: Staff,
    /// Keeps what is found for repeats of the request.
    pub(super) claim: Claim,
}

impl Order {
    fn place(&self, app: &App) -> String {
        let account = self.account.as_ref().map_or("", AccountId::as_str);
        format!("{} {} {account}", app.node, hex(&mac_of(app, &self.person)))
    }
}

/// Begins an erasure when its turn comes. Answers whether it is this one: else another that has not
/// begun finds the same.
pub(super) fn begin(app: &App, order: Order) -> (bool, watch::Receiver<Told>) {
    let key = order.place(app);
    let mut places = lock();
    let place = places.get_or_insert_default().entry(key.clone()).or_default();
    if let Some(next) = &place.next {
        return (false, next.clone());
    }
    let (tell, told) = watch::channel(None);
    place.next = Some(told.clone());
    place.count += 1;
    let turn = Arc::clone(&place.turn);
    drop(places);
    let app = app.clone();
    task::spawn(async move {
        let _of_person = turn.lock().await;
        let _of_process = WORKING.acquire().await;
        if let Some(place) = lock().get_or_insert_default().get_mut(&key) {
            place.next = None;
        }
        let found = work(&app, &order).await;
        if let Err(problem) = &found
            && tell.is_closed()
        {
            tracing::error!(code = problem.code().as_str(), "an erasure failed; repeat it");
        }
        tell.send_replace(Some(found));
        leave(&key);
    });
    (true, told)
}

async fn work(app: &App, order: &Order) -> Result<ErasureView, Problem> {
    let Order { person, account, staff, claim } = order;
    let view = ErasureView::from(erase(app, person, account.as_ref(), staff.by()).await?);
    match keep(app, claim, &view).await {
        // The same request was faster, and is answered again.
        Err(problem) if problem.code() == Code::IdempotencyInProgress => Ok(view),
        kept => kept.map(|()| view),
    }
}

/// Keeps what was found for repeats of the request.
pub(super) async fn keep(app: &App, claim: &Claim, view: &ErasureView) -> Result<(), Problem> {
    Ok(claim.keep(app, "erasure", &serde_json::json!(view).to_string()).await?)
}

fn leave(key: &str) {
    let mut places = lock();
    let places = places.get_or_insert_default();
    if let Some(place) = places.get_mut(key) {
        place.count -= 1;
        if place.count == 0 {
            places.remove(key);
        }
    }
}

fn lock() -> MutexGuard<'static, Option<HashMap<String, Place>>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}
