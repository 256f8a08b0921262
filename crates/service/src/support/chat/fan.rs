//! The one place that pushes: for each ticket with news it reads what comes after the last message
//! pushed, makes the frames, and hands them to all sockets of the ticket.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::{frames, nodes};
use crate::app::App;
use crate::kit::id::{AccountId, TicketId};
use crate::sockets::{Frame, Present, Update};
use crate::support::{Error, Reader, Side, Ticket, messages, tickets, view};

/// Messages read, and pushed, at a time: half of what a socket may still have to write, so that one
/// that reads at once is not taken for a slow one.
const STRETCH: i64 = 32;
/// Tickets whose news is read at the same time.
const PARALLEL: usize = 16;
/// How often other nodes' notes are looked for; after some were found, sooner.
const POLL: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_millis(15);
/// Before what failed is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Pushes until the process ends; sockets say farewell while it drains, so this goes on.
pub async fn run(app: App, mut stopped: tokio::sync::watch::Receiver<bool>) {
    let is_shared = app.config.database.is_shared();
    let mut neighbour = nodes::Neighbour::default();
    let mut pause = POLL;
    loop {
        let is_idle = app.sockets.is_empty();
        let is_busy = !is_idle || neighbour.is_behind();
        tokio::select! {
            () = app.sockets.rung() => {}
            () = tokio::time::sleep(pause), if is_shared && is_busy => {}
            () = app.db.nudged(), if is_shared && !is_idle => {}
            // Whatever is open ends by itself; nothing new begins.
            _ = stopped.wait_for(|stop| *stop), if !app.draining.load(Ordering::SeqCst) => {}
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        let is_over = app.draining.load(Ordering::SeqCst) && app.sockets.is_empty();
        if is_shared {
            pause = match neighbour.take_mail(&app).await {
                Ok(true) => SOON,
                Ok(false) => POLL,
                Err(error) => {
                    tracing::debug!(%error, "notes of other nodes not read; trying again");
                    AGAIN
                }
            };
            if let Err(error) = neighbour.beat(&app).await {
                tracing::warn!(%error, "other nodes were not told that this one is alive");
                pause = AGAIN;
            } else if neighbour.is_behind() {
                pause = SOON;
            }
        } else {
            // There is nobody to be told who left.
            drop(app.sockets.take_left());
        }
        if is_over {
            // Other nodes are to know of all that nobody here listens to.
            while neighbour.is_behind() && neighbour.beat(&app).await.is_ok() {}
            return;
        }
        push_news(&app).await;
    }
}

async fn push_news(app: &App) {
    let news = app.sockets.take_news();
    let failed = stream::iter(news.into_iter().map(|news| async move {
        let outcome = push(app, &news).await;
        outcome.err().map(|error| (news.topic, error))
    }));
    let failed: Vec<_> =
        failed.buffer_unordered(PARALLEL).filter_map(std::future::ready).collect().await;
    if failed.is_empty() {
        return;
    }
    let mut again = false;
    for (topic, error) in failed {
        // Retention took the ticket: there is nothing to tell any more.
        if matches!(error, Error::Unknown) {
            continue;
        }
        tracing::debug!(%error, topic, "news not read; trying again");
        app.sockets.news(&topic);
        again = true;
    }
    if again {
        tokio::time::sleep(AGAIN).await;
    }
}

/// Pushes what one ticket has to tell.
async fn push(app: &App, news: &Update) -> Result<(), Error> {
    if app.config.database.is_shared() {
        nodes::tell_presence(app, news).await?;
        if news.wants_presence {
            nodes::look_elsewhere(app, &news.topic).await?;
        }
    }
    let account = AccountId::stored(news.account.clone());
    let id = TicketId::stored(news.topic.clone());
    let ticket = tickets::find(app, Reader::User(&account), &id).await?;
    let mut after = news.pushed;
    while ticket.last_seq > after {
        let found = messages::after(app, Reader::Staff, &ticket, after, STRETCH).await?;
        let Some(last) = found.last().map(|message| message.seq) else { break };
        let made = of_messages(app, news, found).await?;
        app.sockets.push(&news.topic, &made, None);
        after = last;
    }
    let now = Stand::of(&ticket, app.sockets.present(&news.topic));
    let note = now.note();
    if note != news.note {
        let made = now.changes(&ticket, &news.note);
        app.sockets.push(&news.topic, &made, Some(note));
    }
    Ok(())
}

async fn of_messages(
    app: &App,
    news: &Update,
    found: Vec<crate::support::Message>,
) -> Result<Vec<Frame>, Error> {
    let staff = view::for_staff(app, found).await?;
    let frame = |view: view::AdminTicketMessageView| {
        let user = (!view.internal).then_some(&view.message);
        frames::message(&news.topic, view.message.seq, user, &view)
    };
    Ok(staff.into_iter().map(frame).collect())
}

/// What the opt-in frames are about, to see what changed.
pub(super) struct Stand {
    user_read: String,
    staff_read: i64,
    /// The same as far as the user sees: the number of a note is no news to them.
    staff_read_shown: i64,
    present: Present,
    status: String,
}

impl Stand {
    pub(super) fn of(ticket: &Ticket, present: Present) -> Self {
        let assignee = ticket.assignee.as_ref().map_or("-", crate::kit::id::StaffId::as_str);
        let (status, priority) = (ticket.status.as_str(), ticket.priority.as_str());
        Self {
            user_read: ticket.user_read_seq.to_string(),
            staff_read: ticket.staff_read_seq,
            staff_read_shown: ticket.staff_read_seq.min(ticket.shown_seq),
            present,
            status: format!("{status} {priority} {assignee}"),
        }
    }

    /// The same as the hub remembers it.
    pub(super) fn note(&self) -> String {
        self.parts().join("|")
    }

    fn parts(&self) -> [String; 5] {
        let (read, shown) = (self.staff_read.to_string(), self.staff_read_shown.to_string());
        let present = format!("{:?}", self.present);
        [self.user_read.clone(), read, shown, present, self.status.clone()]
    }

    /// A frame for each part that is not as it was.
    fn changes(&self, ticket: &Ticket, before: &str) -> Vec<Frame> {
        let id = ticket.id.as_str();
        let of_staff = |seq| frames::read_up_to(id, Side::Admin, seq);
        let frames: [&dyn Fn() -> Frame; 5] = [
            &|| frames::read_up_to(id, Side::User, ticket.user_read_seq),
            &|| Frame { user: None, ..of_staff(self.staff_read) },
            &|| Frame { staff: None, ..of_staff(self.staff_read_shown) },
            &|| frames::presence(id, self.present),
            &|| frames::status(ticket),
        ];
        let parts = self.parts();
        let changed = before.split('|').zip(&parts).zip(frames);
        changed.filter(|((was, is), _)| was != is).map(|(_, frame)| frame()).collect()
    }
}
