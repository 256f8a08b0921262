//! The one door for everything that carriers deliver: receipts, and messages from people. Carriers
//! are created before the code that handles these, so a queue connects the two.

use tokio::sync::{mpsc, oneshot};

use super::{Inbound, InboundPart, Receipt};

/// Incoming that wait to be taken in; beyond, carriers wait.
const QUEUE: usize = 1_024;

/// The news could not be stored now: bring them again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNow;

/// The carriers' end. Clones lead to the same place.
#[derive(Clone)]
pub struct Door {
    queue: mpsc::Sender<Arrival>,
}

/// The other end: news as they come in.
pub struct Arrivals {
    queue: mpsc::Receiver<Arrival>,
}

/// What a carrier brings.
pub enum Incoming {
    /// What became of a submission.
    Receipt(Receipt),
    /// The same, by an id that may be written in another form.
    Guess(Receipt, Guesses),
    /// What people wrote.
    Inbound(Vec<Inbound>),
    /// A part of what somebody wrote.
    Part(InboundPart),
}

/// What a receipt may be about whose own id leads nowhere, or to another number's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guesses {
    /// Ids that it may mean. One is believed only if it is the only one that leads to a message...
    pub guesses: Vec<Guess>,
    /// ...to this number: its digits.
    pub number: String,
}

/// An id that a receipt may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The id.
    pub provider_id: String,
    /// What `message_id` of the carrier's settings should say if that is so.
    pub setting: &'static str,
}

/// Incoming that came in. Dropping them tells their carrier to bring them again.
pub struct Arrival {
    news: Incoming,
    reply: oneshot::Sender<Result<(), NotNow>>,
}

/// Both ends.
#[must_use]
pub fn door() -> (Door, Arrivals) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Door { queue: sender }, Arrivals { queue: receiver })
}

impl Door {
    /// Takes a receipt in. `Ok` once it is durable: a carrier acknowledges only then.
    ///
    /// # Errors
    /// [`NotNow`].
    pub async fn receipt(&self, receipt: Receipt) -> Result<(), NotNow> {
        self.bring(Incoming::Receipt(receipt)).await
    }

    /// Takes in what people wrote. An error leaves those of the batch stored that could be; brought
    /// again, they change nothing.
    ///
    /// # Errors
    /// [`NotNow`].
    pub async fn inbound(&self, messages: Vec<Inbound>) -> Result<(), NotNow> {
        self.bring(Incoming::Inbound(messages)).await
    }

    /// Takes in a receipt whose id may be written in another form than the answer's was.
    ///
    /// # Errors
    /// [`NotNow`].
    pub async fn guess(&self, receipt: Receipt, guesses: Guesses) -> Result<(), NotNow> {
        if guesses.guesses.is_empty() {
            return self.receipt(receipt).await;
        }
        self.bring(Incoming::Guess(receipt, guesses)).await
    }

    /// Takes in a part of what somebody wrote. `Ok` once it is durable.
    ///
    /// # Errors
    /// [`NotNow`].
    pub async fn part(&self, part: InboundPart) -> Result<(), NotNow> {
        self.bring(Incoming::Part(part)).await
    }

    async fn bring(&self, news: Incoming) -> Result<(), NotNow> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Arrival { news, reply }).await.map_err(|_| NotNow)?;
        answer.await.unwrap_or(Err(NotNow))
    }
}

impl Arrivals {
    /// The next; `None` when no carrier is left.
    pub async fn next(&mut self) -> Option<Arrival> {
        self.queue.recv().await
    }
}

impl Arrival {
    /// What it says, and where the carrier waits for what becomes of it.
    #[must_use]
    pub fn open(self) -> (Incoming, Reply) {
        (self.news, Reply(self.reply))
    }
}

/// Where a carrier waits.
pub struct Reply(oneshot::Sender<Result<(), NotNow>>);

impl Reply {
    /// Tells the carrier what became of its news.
    pub fn send(self, answer: Result<(), NotNow>) {
        // The carrier may have given up; it brings them again.
        let _gone = self.0.send(answer);
    }
}
