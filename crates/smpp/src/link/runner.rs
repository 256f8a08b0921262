//! What keeps a link up: one task that connects, serves one session after the other, and waits
//! between them. Waiting submissions expire all the while.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clock::{Clock, Millis};
use tokio::sync::{mpsc, watch};

use crate::backoff::Backoff;
use crate::connection::{Connection, Stream};
use crate::pace::Pace;
use crate::session::{Answer, Ended, Event, NotSendable, Session};
use crate::status::{Status, StatusClass};
use crate::wire::COctets;

use super::asking::Asking;
use super::backlog::Backlog;
use super::blame::Blame;
use super::delivery::Acknowledgement;
use super::{
    Closing, Delivery, Figures, Job, Lane, LinkSettings, News, NotSent, Outcome, Phase, transport,
};

/// How many unanswered submissions are remembered, for the case that their answer comes.
const OVERDUE: usize = 1_000;

/// The other ends of what [`super::Link`] holds.
pub(super) struct Ends<K> {
    pub(super) jobs: mpsc::UnboundedReceiver<Job<K>>,
    pub(super) news: mpsc::UnboundedSender<News<K>>,
    pub(super) closing: watch::Receiver<Closing>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) figures: Arc<Figures>,
}

/// Keeps a link up while [`Runner::run`] runs.
pub struct Runner<K> {
    settings: LinkSettings,
    clock: Clock,
    ends: Ends<K>,
    acknowledgements: mpsc::UnboundedReceiver<Acknowledgement>,
    answers: mpsc::UnboundedSender<Acknowledgement>,
    backlog: Backlog<K>,
    in_flight: HashMap<u64, Job<K>>,
    overdue: VecDeque<(u64, K)>,
    pace: Pace,
    blame: Blame,
    /// What asks whether the centre takes messages again, since it throttled the last one.
    asking: Option<Asking>,
    /// What it throttled the last one with.
    throttled_with: Option<Status>,
    backoff: Backoff,
    last_key: u64,
    /// Counts the sessions, so that an answer does not go to another one.
    session: u64,
    /// What the centre says is wrong with the session.
    fault: Option<Status>,
    /// Whether the centre took anything in this session.
    is_of_use: bool,
}

impl<K> std::fmt::Debug for Runner<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

impl<K: Send + 'static> Runner<K> {
    pub(super) fn new(settings: LinkSettings, clock: Clock, ends: Ends<K>) -> Self {
        let (answers, acknowledgements) = mpsc::unbounded_channel();
        let pace = Pace::new(settings.segments_per_second, clock.now());
        Self {
            settings,
            clock,
            ends,
            acknowledgements,
            answers,
            backlog: Backlog::new(),
            in_flight: HashMap::new(),
            overdue: VecDeque::new(),
            pace,
            blame: Blame::default(),
            asking: None,
            throttled_with: None,
            backoff: Backoff::default(),
            last_key: 0,
            session: 0,
            fault: None,
            is_of_use: false,
        }
    }

    /// Runs until the link is closed.
    pub async fn run(mut self) {
        while !self.is_closing() {
            self.ends.phase.send_replace(Phase::Connecting);
            let Some(connected) = self.connect().await else { break };
            let ended = match connected {
                Ok(stream) => self.serve(stream).await,
                Err(why) => why,
            };
            let ended = self.fault.take().map_or(ended, Ended::Blamed);
            self.ends.figures.is_silent.store(false, Ordering::Relaxed);
            self.overdue.clear();
            let is_refused =
                matches!(ended, Ended::BindRefused(status) if status.is_refused_login());
            let until = self.clock.now() + self.backoff.next_ms(&self.clock, is_refused);
            if !self.is_closing() {
                self.ends.phase.send_replace(Phase::Waiting { until, why: ended });
                let clock = self.clock.clone();
                self.meanwhile(clock.sleep_until(until)).await;
            }
        }
        self.ends.jobs.close();
        while let Ok(job) = self.ends.jobs.try_recv() {
            job.give_up(NotSent::Closed);
        }
        self.backlog.clear();
        self.ends.phase.send_replace(Phase::Closed);
    }

    fn is_closing(&self) -> bool {
        *self.ends.closing.borrow() != Closing::No || self.ends.jobs.is_closed()
    }

    /// `None`: the link is closing.
    async fn connect(&mut self) -> Option<Result<Box<dyn Stream>, Ended>> {
        let (places, tls) = (self.settings.places.clone(), self.settings.tls.clone());
        let (clock, connect_ms) = (self.clock.clone(), self.settings.connect_ms);
        let connecting = async move {
            tokio::select! {
                stream = transport::connect(&places, tls.as_ref()) => {
                    stream.map_err(|error| transport::why_not(&error))
                }
                () = clock.sleep(connect_ms) => {
                    Err(Ended::Disconnected(std::io::ErrorKind::TimedOut))
                }
            }
        };
        self.meanwhile(connecting).await
    }

    /// Waits for something while submissions come and expire. `None`: the link is closing.
    async fn meanwhile<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = std::pin::pin!(wait);
        loop {
            self.backlog.expire(self.clock.now(), None);
            self.show();
            let (clock, expires_at) = (self.clock.clone(), self.backlog.expires_at());
            tokio::select! {
                done = &mut wait => return Some(done),
                job = self.ends.jobs.recv() => match job {
                    Some(job) => self.backlog.push(job),
                    None => return None,
                },
                () = told(&mut self.ends.closing) => return None,
                () = sleep(&clock, expires_at) => {}
            }
        }
    }

    async fn serve(&mut self, stream: Box<dyn Stream>) -> Ended {
        self.session += 1;
        self.is_of_use = false;
        let now = self.clock.now();
        let settings = &self.settings;
        let session = Session::esme(settings.session, settings.kind, settings.bind.clone(), now);
        let mut connection = Connection::new(session, stream, self.clock.clone());
        let mut is_open = true;
        let mut cut = self.ends.closing.clone();
        loop {
            let wake_at = self.work(&mut connection.session);
            let clock = self.clock.clone();
            tokio::select! {
                event = connection.next() => {
                    if let Some(ended) = self.take(event, now) {
                        return ended;
                    }
                }
                job = self.ends.jobs.recv(), if is_open => match job {
                    Some(job) => self.backlog.push(job),
                    None => is_open = self.close(&mut connection.session),
                },
                Some(answer) = self.acknowledgements.recv() => {
                    self.acknowledge(&mut connection.session, &answer);
                }
                () = told(&mut self.ends.closing), if is_open => {
                    is_open = self.close(&mut connection.session);
                }
                () = is_to_be(&mut cut, |closing| closing == Closing::AtOnce) => {
                    return self.abandon();
                }
                () = sleep(&clock, wake_at) => {}
            }
        }
    }

    /// Nobody knows any more what becomes of what is in flight.
    fn abandon(&mut self) -> Ended {
        let keys: Vec<u64> = self.in_flight.keys().copied().collect();
        for key in keys {
            self.give_up_waiting(key);
        }
        Ended::Unbound
    }

    /// Takes in all that is there, and submits what may go. When to look again at the latest.
    fn work(&mut self, session: &mut Session) -> Option<Millis> {
        while let Ok(job) = self.ends.jobs.try_recv() {
            self.backlog.push(job);
        }
        while let Ok(answer) = self.acknowledgements.try_recv() {
            self.acknowledge(session, &answer);
        }
        let now = self.clock.now();
        if self.fault.is_some() {
            // What is in flight may still be answered, as what was blamed was.
            session.unbind(now);
        }
        // Of one that is not bound the centre says nothing.
        let is_bound = matches!(*self.ends.phase.borrow(), Phase::Bound { .. });
        let is_asking = self.pace.is_asking();
        self.backlog.expire(now, self.throttled_with.filter(|_| is_asking && is_bound));
        let look_at = match (session.has_room(), is_asking) {
            (false, _) => None,
            (true, true) => self.ask(session, now),
            (true, false) => self.submit_all(session, now),
        };
        self.ends.figures.is_silent.store(session.is_silent(), Ordering::Relaxed);
        self.show();
        look_at.into_iter().chain(self.backlog.expires_at()).min()
    }

    /// What may go, as long as there is room. When to look again.
    fn submit_all(&mut self, session: &mut Session, now: Millis) -> Option<Millis> {
        while session.has_room() && self.backlog.len() > 0 {
            let ready_at = self.pace.ready_at(now);
            if ready_at > now {
                return Some(ready_at);
            }
            let blame = &self.blame;
            match self.backlog.pop_where(|job| !must_rest(blame, job, now)) {
                Some(job) => self.submit(session, job, now),
                None => return self.rests_until(now),
            }
        }
        None
    }

    /// When the first of those that rest may go.
    fn rests_until(&self, now: Millis) -> Option<Millis> {
        let until = |job: &Job<K>| self.blame.rests_until(&job.submission.owner);
        self.backlog.iter().filter_map(until).filter(|until| *until > now).min()
    }

    /// One message at a time asks a centre that throttled: the first, once the pause is over; one
    /// of an owner who is not in trouble, or one that cannot wait, before. When to look again.
    fn ask(&mut self, session: &mut Session, now: Millis) -> Option<Millis> {
        if self.backlog.len() == 0 {
            return None;
        }
        let asks = self.asking.filter(|it| self.in_flight.contains_key(&it.last));
        if let Some(until) = asks.map(|it| it.until).filter(|until| now < *until) {
            return Some(until);
        }
        let blame = &self.blame;
        let is_free = |job: &Job<K>| !blame.is_in_trouble(&job.submission.owner, now);
        let is_urgent =
            |job: &Job<K>| job.submission.lane == Lane::Urgent && !must_rest(blame, job, now);
        let others_at = self.pace.may_ask_at(now);
        let all_at = self.pace.ready_at(now).max(others_at);
        let mut next = None;
        if others_at <= now {
            next = self.backlog.pop_where(is_free).or_else(|| self.backlog.pop_where(is_urgent));
        }
        if next.is_none() && all_at <= now {
            next = self.backlog.pop_where(|job| !must_rest(blame, job, now));
        }
        let Some(job) = next else {
            let has_others = self.backlog.iter().any(|job| is_free(job) || is_urgent(job));
            let may_at = if has_others { others_at.min(all_at) } else { all_at };
            let may_at = Some(may_at).filter(|at| *at > now);
            return may_at.into_iter().chain(self.rests_until(now)).min();
        };
        self.submit(session, job, now);
        let last = self.last_key;
        let asking = Asking::another(self.asking, last, now);
        self.asking = Some(asking);
        // One that is not written asks nothing: the next one does.
        Some(if self.in_flight.contains_key(&last) { asking.until } else { now })
    }

    fn submit(&mut self, session: &mut Session, mut job: Job<K>, now: Millis) {
        self.last_key += 1;
        let (key, submission) = (self.last_key, &job.submission);
        if submission.may_go_back() && self.blame.rests(&submission.owner, now) {
            job.throttled = job.throttled.or(self.throttled_with);
            return job.give_up(NotSent::Expired);
        }
        match session.send(now, key, submission.operation, submission.written(now)) {
            Ok(()) => {
                self.pace.spend(submission.segments);
                self.in_flight.insert(key, job);
            }
            Err(NotSendable::Encode(error)) => job.give_up(NotSent::Encode(error)),
            Err(NotSendable::NotBound) => job.give_up(NotSent::WrongWay),
            Err(NotSendable::WindowFull) => self.backlog.put_back(job),
        }
    }

    /// Nothing new is taken; what waits may go another way.
    fn close(&mut self, session: &mut Session) -> bool {
        self.ends.phase.send_replace(Phase::Closing);
        self.ends.jobs.close();
        self.backlog.clear();
        session.unbind(self.clock.now());
        false
    }

    fn acknowledge(&self, session: &mut Session, answer: &Acknowledgement) {
        if answer.session == self.session {
            let (ticket, status) = (answer.ticket, answer.status);
            session.answer(self.clock.now(), ticket, status, COctets::default());
        }
    }

    /// Why the session is over, when it is.
    fn take(&mut self, event: Event, since: Millis) -> Option<Ended> {
        let now = self.clock.now();
        match event {
            Event::Bound(_) => {
                self.ends.phase.send_replace(Phase::Bound { since: now });
            }
            Event::Answered(answer) => {
                self.judge(answer.status);
                self.settle(answer, now);
            }
            Event::AnsweredLate(answer) => {
                let at = self.overdue.iter().position(|(key, _)| *key == answer.key);
                if let Some((_, key)) = at.and_then(|at| self.overdue.remove(at)) {
                    self.tell(News::AnsweredLate { key, outcome: outcome_of(answer) });
                }
            }
            Event::Unanswered(key) => self.give_up_waiting(key),
            Event::Message(ticket, _, message) => {
                let answers = self.answers.clone();
                let delivery = Delivery::new(message, self.session, ticket, answers);
                self.tell(News::Delivery(delivery));
            }
            // We asked nobody to bind to us. What is to be done once it is silent, or speaks again,
            // is done before the next event.
            Event::BindRequested(..) | Event::Silent | Event::Heard => {}
            Event::Ended(why) => {
                // One message that a centre answers by a cut must not keep the others waiting
                // longer and longer.
                if self.is_of_use || now - since >= self.settings.stable_ms {
                    self.backoff.reset();
                }
                return Some(why);
            }
        }
        None
    }

    /// A centre may say by any answer that it does not take this session for a bind (any more):
    /// then it is ended, and what waits goes by the next one.
    fn judge(&mut self, status: Status) {
        if self.is_of(status, StatusClass::Session) && self.fault.is_none() {
            self.fault = Some(status);
            self.ends.phase.send_replace(Phase::Closing);
        }
    }

    /// Whether a status is of this class here.
    fn is_of(&self, status: Status, class: StatusClass) -> bool {
        status.class() == class && !self.settings.of_one_message.contains(&status.0)
    }

    fn settle(&mut self, answer: Answer, now: Millis) {
        let Some(job) = self.in_flight.remove(&answer.key) else { return };
        let took_ms = u64::try_from(answer.took_ms).unwrap_or(0);
        self.ends.figures.round_trip_ms.store(took_ms, Ordering::Relaxed);
        if self.is_of(answer.status, StatusClass::Throttled) {
            return self.throttled(job, answer.status);
        }
        if answer.status.is_ok() {
            self.took(answer.key, &job.submission.owner, now);
        }
        let outcome = outcome_of(answer);
        if let Err(outcome) = job.answer.send(outcome) {
            self.tell(News::AnsweredLate { key: job.submission.key, outcome });
        }
    }

    /// The centre asks for a pause, or takes no more of these.
    fn throttled(&mut self, mut job: Job<K>, status: Status) {
        let now = self.clock.now();
        self.ends.figures.throttled.fetch_add(1, Ordering::Relaxed);
        job.throttled = Some(status);
        self.throttled_with = Some(status);
        self.asking = None;
        self.blame.throttled(&job.submission.owner, now);
        if self.blame.is_blamed(&job.submission.owner, now) {
            self.pace.still_asking(now);
            if job.submission.follows {
                self.backlog.put_back(job);
            } else {
                job.give_up(NotSent::Expired);
            }
            return self.give_back(now);
        }
        self.pace.throttled(now);
        self.backlog.put_back(job);
    }

    /// The centre took one. Where it asked, the pause is over.
    fn took(&mut self, key: u64, owner: &str, now: Millis) {
        self.is_of_use = true;
        self.pace.accepted();
        if self.asking.is_some_and(|asking| asking.has(key)) {
            self.asking = None;
            self.pace.resume(now);
            self.blame.took_asking(owner);
        } else {
            self.blame.took(owner);
        }
    }

    /// What is throttled alone goes back to its sender, so that nobody waits behind it. Those that
    /// cannot wait for long stay, and so does what follows others that are out.
    fn give_back(&mut self, now: Millis) {
        let blame = &self.blame;
        let goes_back = |job: &Job<K>| {
            let is_throttled = job.throttled.is_some() && job.submission.may_go_back();
            is_throttled && blame.is_blamed(&job.submission.owner, now)
        };
        self.backlog.give_back(goes_back, None);
    }

    fn give_up_waiting(&mut self, key: u64) {
        let Some(job) = self.in_flight.remove(&key) else { return };
        if let Err(outcome) = job.answer.send(Outcome::Unknown) {
            self.tell(News::AnsweredLate { key: job.submission.key, outcome });
            return;
        }
        if self.overdue.len() >= OVERDUE {
            self.overdue.pop_front();
        }
        self.overdue.push_back((key, job.submission.key));
    }

    fn tell(&self, news: News<K>) {
        // Nobody listens: a delivery that is dropped goes back to the centre.
        let _gone = self.ends.news.send(news);
    }

    fn show(&self) {
        let figures = &self.ends.figures;
        figures.in_flight.store(self.in_flight.len(), Ordering::Relaxed);
        figures.waiting.store(self.backlog.len(), Ordering::Relaxed);
        figures.rate.store(u64::from(self.pace.rate()), Ordering::Relaxed);
    }
}

/// Whether it waits in the link while its owner rests. What need not wait here goes back instead.
fn must_rest<K>(blame: &Blame, job: &Job<K>, now: Millis) -> bool {
    job.submission.follows && blame.rests(&job.submission.owner, now)
}

fn outcome_of(answer: Answer) -> Outcome {
    match answer.status {
        status if status.is_ok() => Outcome::Accepted { message_id: answer.message_id },
        status => Outcome::Refused { status },
    }
}

/// The link is to be closed. Should its last handle be gone, the end of the submissions tells that.
async fn told(closing: &mut watch::Receiver<Closing>) {
    is_to_be(closing, |closing| closing != Closing::No).await;
}

async fn is_to_be(closing: &mut watch::Receiver<Closing>, so: impl Fn(Closing) -> bool) {
    if closing.wait_for(|closing| so(*closing)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn sleep(clock: &Clock, until: Option<Millis>) {
    match until {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
