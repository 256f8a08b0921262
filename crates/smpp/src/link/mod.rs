//! A link: the ESME's side of one bind, kept up. It connects, binds, submits at its pace, and does
//! it again when the connection ends. A throttled message keeps its place, and the link pauses;
//! then one message at a time asks. One whose owner's messages alone are throttled goes back.

mod asking;
mod backlog;
mod blame;
mod delivery;
mod probe;
mod runner;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use clock::{Clock, Millis};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::message::{Message, Operation};
use crate::pdu::{Bind, BindKind};
use crate::session::{Ended, SessionSettings};
use crate::status::Status;
use crate::validity;
use crate::wire::{COctets, EncodeError};

pub use delivery::{Delivery, News};
pub use probe::{Probe, probe, reach};
pub use runner::Runner;
pub use transport::{Place, Tls};

/// What a link needs to know.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Where the centre is: tried in this order, each time from the first.
    pub places: Vec<Place>,
    /// TLS; `None` = TCP.
    pub tls: Option<Tls>,
    /// Which way messages go.
    pub kind: BindKind,
    /// The login.
    pub bind: Bind,
    /// Times and bounds.
    pub session: SessionSettings,
    /// Segments in a second; 0 = no limit.
    pub segments_per_second: u32,
    /// Statuses by which this centre says something of one message, whatever the specification
    /// says: they neither pause nor end the session.
    pub of_one_message: Vec<u32>,
    /// How long a connection may take to be made, milliseconds.
    pub connect_ms: i64,
    /// A session that held so long, or in which the centre took something, starts the waits for a
    /// connection anew, milliseconds.
    pub stable_ms: i64,
}

impl LinkSettings {
    /// To one place, without TLS, with default times and without a limit of the pace.
    #[must_use]
    pub fn new(place: Place, kind: BindKind, bind: Bind) -> Self {
        Self {
            places: vec![place],
            tls: None,
            kind,
            bind,
            session: SessionSettings::default(),
            segments_per_second: 0,
            of_one_message: Vec::new(),
            connect_ms: 10_000,
            stable_ms: 30_000,
        }
    }
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Before all others: passcodes.
    Urgent,
    /// Everything else.
    Normal,
}

/// How many submissions of a lane may wait or be on their way.
#[derive(Clone, Debug)]
struct Places {
    urgent: Arc<Semaphore>,
    normal: Arc<Semaphore>,
}

impl Places {
    /// Enough to fill the window again while the first answers are on their way.
    fn new(window: usize) -> Self {
        let count = window.saturating_mul(2).clamp(1, 10_000);
        let lane = || Arc::new(Semaphore::new(count));
        Self { urgent: lane(), normal: lane() }
    }

    fn of(&self, lane: Lane) -> Arc<Semaphore> {
        Arc::clone(match lane {
            Lane::Urgent => &self.urgent,
            Lane::Normal => &self.normal,
        })
    }
}

/// A message for the centre.
#[derive(Clone, Debug)]
pub struct Submission<K> {
    /// The caller's name of it; comes back with [`News::AnsweredLate`].
    pub key: K,
    /// Whose it is: where a centre throttles only one's messages, the others do not wait for it.
    pub owner: String,
    /// `submit_sm` or `data_sm`.
    pub operation: Operation,
    /// The message.
    pub message: Message,
    /// What it counts against the pace: more than 1 if the centre cuts it.
    pub segments: u32,
    /// Who goes first.
    pub lane: Lane,
    /// Whether others of the same message are out already: then it waits in the link, whatever the
    /// centre says, since all of them would have to go again.
    pub follows: bool,
    /// From when on it is not to be written any more.
    pub expires_at: Millis,
    /// Until when it is valid, where the centre is told what is left of that when it is written.
    pub valid_until: Option<Millis>,
}

impl<K> Submission<K> {
    /// The message as it is written now.
    fn written(&self, now: Millis) -> Message {
        let mut message = self.message.clone();
        if let Some(until) = self.valid_until {
            let left_s = (until - now).max(0) / 1_000;
            message.validity_period = validity::relative(u32::try_from(left_s).unwrap_or(u32::MAX));
        }
        message
    }

    /// Whether its sender may have it back to try again later: it neither follows what is out, nor
    /// does somebody wait for it.
    fn may_go_back(&self) -> bool {
        self.lane != Lane::Urgent && !self.follows
    }
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The centre took it. Some give no id.
    Accepted {
        /// The centre's id.
        message_id: COctets,
    },
    /// The centre did not take it. One that was throttled until it expired is refused, too, and so
    /// is one that it throttles while it takes those of others.
    Refused {
        /// Why.
        status: Status,
    },
    /// It was written, and there is no answer: it may have been taken. Should the answer still
    /// come, it is [`News::AnsweredLate`].
    Unknown,
    /// It was never written: it may go another way.
    NotSent(NotSent),
}

/// Why a submission was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// Its time came first.
    #[error("it expired before it could be sent")]
    Expired,
    /// The link is closed, or closing.
    #[error("the link is closed")]
    Closed,
    /// The bind does not take messages this way.
    #[error("the bind is for receiving only")]
    WrongWay,
    /// It cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// How the link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making the connection and binding.
    Connecting,
    /// Messages may go and come.
    Bound {
        /// Since when.
        since: Millis,
    },
    /// Waiting to connect again.
    Waiting {
        /// Until when.
        until: Millis,
        /// What ended the last session.
        why: Ended,
    },
    /// Waiting for open requests, then unbinding.
    Closing,
    /// Over.
    Closed,
}

/// How a link is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    /// Not yet.
    No,
    /// What is in flight first.
    InOrder,
    /// The connection is cut.
    AtOnce,
}

/// Figures of a link.
#[derive(Debug, Default)]
struct Figures {
    in_flight: AtomicUsize,
    waiting: AtomicUsize,
    throttled: AtomicU64,
    rate: AtomicU64,
    round_trip_ms: AtomicU64,
    is_silent: AtomicBool,
}

/// Figures of a link at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Submissions without an answer.
    pub in_flight: usize,
    /// Submissions that wait for the window or the pace.
    pub waiting: usize,
    /// Answers that asked for a pause, ever.
    pub throttled: u64,
    /// Segments in a second at present; 0 = no limit.
    pub segments_per_second: u64,
    /// How long the latest answer took, milliseconds.
    pub round_trip_ms: u64,
    /// The centre owes an answer for too long and has said nothing since: nothing is written.
    pub is_silent: bool,
}

struct Job<K> {
    submission: Submission<K>,
    answer: oneshot::Sender<Outcome>,
    /// What it was refused with for now.
    throttled: Option<Status>,
    /// Who comes before it, and who after.
    place_in_line: u64,
    /// Gives its place in the lane back. What follows takes none: it must not keep others out.
    _place: Option<OwnedSemaphorePermit>,
}

/// The caller's side of a link. Clones share it; when all are gone, the link closes.
#[derive(Debug)]
pub struct Link<K> {
    jobs: mpsc::UnboundedSender<Job<K>>,
    places: Places,
    close: Arc<watch::Sender<Closing>>,
    phase: watch::Receiver<Phase>,
    figures: Arc<Figures>,
    clock: Clock,
}

impl<K> Clone for Link<K> {
    fn clone(&self) -> Self {
        Self {
            jobs: self.jobs.clone(),
            places: self.places.clone(),
            close: Arc::clone(&self.close),
            phase: self.phase.clone(),
            figures: Arc::clone(&self.figures),
            clock: self.clock.clone(),
        }
    }
}

impl<K: Send + 'static> Link<K> {
    /// A link, its news, and what keeps it up as long as it runs. News are bounded by
    /// [`SessionSettings::inbound`] and by the caller's own submissions.
    #[must_use]
    pub fn open(
        settings: LinkSettings,
        clock: Clock,
    ) -> (Self, mpsc::UnboundedReceiver<News<K>>, Runner<K>) {
        let (jobs, taken) = mpsc::unbounded_channel();
        let (news, told) = mpsc::unbounded_channel();
        let (close, closing) = watch::channel(Closing::No);
        let (phase_is, phase) = watch::channel(Phase::Connecting);
        let figures = Arc::new(Figures::default());
        let link = Self {
            jobs,
            places: Places::new(settings.session.window),
            close: Arc::new(close),
            phase,
            figures: Arc::clone(&figures),
            clock: clock.clone(),
        };
        let ends = runner::Ends { jobs: taken, news, closing, phase: phase_is, figures };
        (link, told, Runner::new(settings, clock, ends))
    }

    /// Submits, once the window and the pace allow it, and waits for the answer. Dropping the
    /// future before the message is written takes it back; the outcome of one that was written is
    /// then [`News::AnsweredLate`].
    pub async fn submit(&self, submission: Submission<K>) -> Outcome {
        let place = if submission.follows {
            None
        } else {
            match self.place(&submission).await {
                Ok(place) => Some(place),
                Err(why) => return Outcome::NotSent(why),
            }
        };
        let (answer, outcome) = oneshot::channel();
        let job = Job { submission, answer, throttled: None, place_in_line: 0, _place: place };
        if self.jobs.send(job).is_err() {
            return Outcome::NotSent(NotSent::Closed);
        }
        // Without a runner nobody knows how far it came.
        outcome.await.unwrap_or(Outcome::Unknown)
    }

    async fn place(&self, submission: &Submission<K>) -> Result<OwnedSemaphorePermit, NotSent> {
        tokio::select! {
            place = self.places.of(submission.lane).acquire_owned() => {
                place.map_err(|_| NotSent::Closed)
            }
            () = self.clock.sleep_until(submission.expires_at) => Err(NotSent::Expired),
            () = self.closed() => Err(NotSent::Closed),
        }
    }

    /// Ends the link in order: what is in flight is answered, then it unbinds. Returns when it is
    /// closed.
    pub async fn close(&self) {
        self.close_so(Closing::InOrder);
        self.closed().await;
    }

    /// Ends the link at once, without a word to the centre: somebody else may be bound in its
    /// place. What is in flight is [`Outcome::Unknown`].
    pub fn cut(&self) {
        self.close_so(Closing::AtOnce);
    }

    /// One that is to be cut stays so.
    fn close_so(&self, how: Closing) {
        self.close.send_if_modified(|now| {
            let is_news = *now != Closing::AtOnce;
            if is_news {
                *now = how;
            }
            is_news
        });
    }

    /// How the link is, and each change of it.
    #[must_use]
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.clone()
    }

    /// How busy it is.
    #[must_use]
    pub fn load(&self) -> Load {
        let figures = &self.figures;
        Load {
            in_flight: figures.in_flight.load(Ordering::Relaxed),
            waiting: figures.waiting.load(Ordering::Relaxed),
            throttled: figures.throttled.load(Ordering::Relaxed),
            segments_per_second: figures.rate.load(Ordering::Relaxed),
            round_trip_ms: figures.round_trip_ms.load(Ordering::Relaxed),
            is_silent: figures.is_silent.load(Ordering::Relaxed),
        }
    }

    async fn closed(&self) {
        let mut phase = self.phase.clone();
        // The runner is gone: closed as well.
        let _gone = phase.wait_for(|phase| *phase == Phase::Closed).await;
    }
}
