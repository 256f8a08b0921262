//! The rules of tickets, as pure functions of a ticket, what is done to it, and the time.

use clock::{DAY, MINUTE, Millis};

use super::{Priority, Side, Status, Target, Ticket};
use crate::config::{ByPriority, Support};
use crate::kit::id::StaffId;

/// What comes near or is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    ReplyNear,
    ReplyMissed,
    ResolutionNear,
    ResolutionMissed,
    Close,
}

/// A change that somebody asks for; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) status: Option<Status>,
    pub(super) priority: Option<Priority>,
    pub(super) assignee: Assignment,
}

/// Who is to deal with a ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Assignment {
    /// Whoever does now.
    #[default]
    Stays,
    /// Nobody.
    Nobody,
    /// This member of staff.
    To(StaffId),
}

/// Starts the targets of a new ticket.
pub(super) fn begin(ticket: &mut Ticket, settings: &Support) {
    let minutes = |targets: &ByPriority| match ticket.priority {
        Priority::Low => targets.low,
        Priority::Normal => targets.normal,
        Priority::High => targets.high,
    };
    let from = ticket.created_at + ticket.paused_ms;
    let (reply, resolution) =
        (minutes(&settings.first_reply_min), minutes(&settings.resolution_min));
    if ticket.first_reply_at.is_none() && !ticket.reply.missed {
        ticket.reply = target(from, reply);
    }
    if !ticket.resolution.missed {
        ticket.resolution = target(from, resolution);
    }
}

/// Comes near when four fifths of its time are over.
fn target(from: Millis, minutes: i64) -> Target {
    if minutes == 0 {
        return Target::default();
    }
    let ms = minutes * MINUTE;
    Target { due_at: Some(from + ms), near_at: Some(from + ms / 5 * 4), missed: false }
}

/// What a message does to a ticket besides being in it. None when nothing changes.
pub(super) fn written(ticket: &Ticket, side: Side, is_note: bool, now: Millis) -> Option<Ticket> {
    if is_note {
        return None;
    }
    let mut after = ticket.clone();
    match side {
        Side::User if matches!(ticket.status, Status::Pending | Status::Resolved) => {
            stand(&mut after, Status::Open, now);
        }
        Side::Admin if ticket.first_reply_at.is_none() => {
            after.first_reply_at = Some(now);
            let missed = is_missed(ticket, ticket.reply, now);
            after.reply = Target { missed, ..Target::default() };
        }
        _ => return None,
    }
    Some(after)
}

/// Whether a target was missed, also where due work has not been there since.
fn is_missed(ticket: &Ticket, target: Target, now: Millis) -> bool {
    let until = ticket.paused_at.unwrap_or(now);
    target.missed || target.due_at.is_some_and(|at| at <= until)
}

/// Notes what was missed before something else changes.
fn look_back(ticket: &mut Ticket, now: Millis) {
    let missed = [ticket.reply, ticket.resolution].map(|target| is_missed(ticket, target, now));
    for (target, missed) in [&mut ticket.reply, &mut ticket.resolution].into_iter().zip(missed) {
        if missed {
            *target = Target { missed, ..Target::default() };
        }
    }
}

/// The ticket with a change of staff. A status that it has already changes nothing.
pub(super) fn changed(ticket: &Ticket, patch: &Patch, settings: &Support, now: Millis) -> Ticket {
    let mut after = ticket.clone();
    if let Some(status) = patch.status {
        stand(&mut after, status, now);
    }
    match &patch.assignee {
        Assignment::Stays => {}
        Assignment::Nobody => after.assignee = None,
        Assignment::To(staff) => after.assignee = Some(staff.clone()),
    }
    if let Some(priority) = patch.priority.filter(|priority| *priority != ticket.priority) {
        look_back(&mut after, now);
        after.priority = priority;
        begin(&mut after, settings);
    }
    after
}

/// Lets a ticket stand so from now on.
pub(super) fn stand(ticket: &mut Ticket, status: Status, now: Millis) {
    if ticket.status == status {
        return;
    }
    look_back(ticket, now);
    match (ticket.paused_at, status.is_paused()) {
        (None, true) => ticket.paused_at = Some(now),
        (Some(since), false) => {
            let ms = (now - since).max(0);
            ticket.paused_at = None;
            ticket.paused_ms += ms;
            for target in [&mut ticket.reply, &mut ticket.resolution] {
                target.due_at = target.due_at.map(|at| at + ms);
                target.near_at = target.near_at.map(|at| at + ms);
            }
        }
        _ => {}
    }
    ticket.status = status;
    ticket.resolved_at = match status {
        Status::Resolved => Some(now),
        Status::Closed => ticket.resolved_at,
        _ => None,
    };
    if status == Status::Closed {
        ticket.closed_at = Some(now);
        for target in [&mut ticket.reply, &mut ticket.resolution] {
            *target = Target { missed: target.missed, ..Target::default() };
        }
    }
}

/// When a ticket has due work next.
pub(super) fn next_at(ticket: &Ticket, settings: &Support) -> Option<Millis> {
    let Ticket { reply, resolution, .. } = ticket;
    match ticket.status {
        Status::Open => [reply.near_at, reply.due_at, resolution.near_at, resolution.due_at]
            .into_iter()
            .flatten()
            .min(),
        Status::Resolved => ticket.resolved_at.map(|at| at + settings.close_after_d * DAY),
        Status::Pending | Status::OnHold | Status::Closed => None,
    }
}

/// The next thing that time has brought, and the ticket after it.
pub(super) fn overdue(ticket: &Ticket, settings: &Support, now: Millis) -> Option<(Due, Ticket)> {
    let is_over = |at: Option<Millis>| at.is_some_and(|at| at <= now);
    let mut after = ticket.clone();
    let due = match ticket.status {
        Status::Resolved if is_over(next_at(ticket, settings)) => {
            stand(&mut after, Status::Closed, now);
            Due::Close
        }
        Status::Open if is_over(ticket.reply.due_at) => {
            after.reply = Target { missed: true, ..Target::default() };
            Due::ReplyMissed
        }
        Status::Open if is_over(ticket.resolution.due_at) => {
            after.resolution = Target { missed: true, ..Target::default() };
            Due::ResolutionMissed
        }
        Status::Open if is_over(ticket.reply.near_at) => {
            after.reply.near_at = None;
            Due::ReplyNear
        }
        Status::Open if is_over(ticket.resolution.near_at) => {
            after.resolution.near_at = None;
            Due::ResolutionNear
        }
        _ => return None,
    };
    Some((due, after))
}
