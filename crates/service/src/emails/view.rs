//! What the API and events show of an email.

use clock::Millis;
use endpoints::ToSchema;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use store::Error;

use super::{Cause, Kind, Letter, MOST_RECIPIENTS, Recipient, Status, Tally, store as sql};
use crate::app::{App, EventRef};
use crate::events::MOST_BYTES;
use crate::kit::id::{AccountId, EmailId};

/// Reads of recipients under way for one page.
const AT_ONCE: usize = 16;

/// An email, as its send is answered.
#[derive(Serialize, ToSchema)]
pub(super) struct SentEmail {
    /// Its id.
    #[schema(example = "eml_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// The least advanced status of all recipients, or the worst once all have ended.
    status: Status,
    /// Yours.
    #[schema(required = true, example = "order-4711")]
    reference: Option<String>,
    /// What it costs: held for each recipient until a relay has it, then charged.
    #[schema(example = 1)]
    charged_credits: i64,
    /// When it was taken.
    #[schema(format = DateTime, example = "2026-01-01T00:00:00.000Z")]
    created_at: String,
}

/// An email as it stands.
#[derive(Serialize, ToSchema)]
pub(super) struct EmailView {
    #[serde(flatten)]
    sent: SentEmail,
    /// The sender, as it was written.
    #[schema(example = "Shop <shop@example.com>")]
    from_email: String,
    /// To whom it goes; empty once they are forgotten.
    #[schema(example = json!(["ada@example.com"]))]
    to: Vec<String>,
    /// Who else sees it.
    cc: Vec<String>,
    /// Who else gets it, and nobody sees that.
    bcc: Vec<String>,
    /// Where answers go.
    #[schema(required = true)]
    reply_to: Option<String>,
    /// Its subject; empty once it is forgotten.
    #[schema(example = "Your order")]
    subject: String,
    /// The size of the message, bytes.
    #[schema(minimum = 0, example = 1_234)]
    size_bytes: i64,
    /// How it stands with each recipient.
    recipients: Vec<RecipientView>,
    /// When something changed last.
    #[schema(format = DateTime, example = "2026-01-01T00:00:01.500Z")]
    updated_at: String,
}

/// How it stands with a recipient.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = EmailRecipient)]
pub(super) struct RecipientView {
    /// The address; empty once it is forgotten.
    #[schema(example = "ada@example.com")]
    address: String,
    /// Where it stands.
    status: Status,
    /// Why it did not arrive, or was not wanted; else null.
    #[schema(required = true)]
    error: Option<EmailError>,
}

/// Why a recipient did not get an email.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct EmailError {
    /// Stable, for programs.
    code: Cause,
    /// What the mail server said, or the reason in a sentence.
    #[schema(example = "550 5.1.1 no such user")]
    detail: String,
}

impl From<&Letter> for SentEmail {
    fn from(letter: &Letter) -> Self {
        Self {
            id: letter.id.as_str().to_owned(),
            status: letter.tally.status(),
            reference: letter.reference.clone(),
            charged_credits: letter.charged_credits,
            created_at: letter.created_at.to_string(),
        }
    }
}

impl From<&Recipient> for RecipientView {
    fn from(recipient: &Recipient) -> Self {
        let mailbox = email::Mailbox::parse(&recipient.mailbox);
        let error = recipient.cause.map(|cause| EmailError {
            code: cause,
            detail: recipient.detail.clone().unwrap_or_else(|| cause.sentence().to_owned()),
        });
        Self {
            address: mailbox.map(|found| found.address.to_string()).unwrap_or_default(),
            status: recipient.status,
            error,
        }
    }
}

impl EmailView {
    /// An email and its recipients.
    pub(super) fn of(letter: Letter, recipients: &[Recipient]) -> Self {
        let written = |kind: Kind| {
            let of_kind = recipients.iter().filter(move |recipient| recipient.kind == kind);
            let named = of_kind.filter(|recipient| !recipient.mailbox.is_empty());
            named.map(|recipient| recipient.mailbox.clone()).collect()
        };
        Self {
            sent: SentEmail::from(&letter),
            to: written(Kind::To),
            cc: written(Kind::Cc),
            bcc: written(Kind::Bcc),
            recipients: recipients.iter().map(Into::into).collect(),
            updated_at: letter.updated_at.to_string(),
            from_email: letter.from_email,
            reply_to: letter.reply_to,
            subject: letter.subject,
            size_bytes: letter.size_bytes,
        }
    }
}

/// Emails of one page, newest first, with their recipients.
pub(super) async fn with_recipients(
    app: &App,
    account: &AccountId,
    letters: Vec<Letter>,
) -> Result<Vec<EmailView>, Error> {
    let views = letters.into_iter().map(|letter| async move {
        let recipients = of_one(app, account, &letter.id).await?;
        Ok(EmailView::of(letter, &recipients))
    });
    stream::iter(views).buffered(AT_ONCE).try_collect().await
}

async fn of_one(app: &App, account: &AccountId, id: &EmailId) -> Result<Vec<Recipient>, Error> {
    sql::recipients(app, account, id, limit()).await
}

fn limit() -> i64 {
    i64::try_from(MOST_RECIPIENTS).unwrap_or(50)
}

/// One email as its endpoint shows it.
pub(super) async fn one(
    app: &App,
    account: &AccountId,
    id: &EmailId,
) -> Result<Option<EmailView>, Error> {
    let Some(letter) = sql::letter(app, account, id).await? else { return Ok(None) };
    let recipients = of_one(app, account, id).await?;
    Ok(Some(EmailView::of(letter, &recipients)))
}

/// Longest JSON of an email in an event, bytes: what is left of the event beside its envelope.
const MOST_TOLD: usize = MOST_BYTES - 1_024;
/// Most characters of what a mail server said, in an event that is too long otherwise.
const MOST_SAID: usize = 1_000;

/// What an event adds: whom it is about.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    email: EmailView,
    recipient: Option<RecipientView>,
    /// Only in an event that leaves the other recipients out, because they are too many.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// The JSON of an event: where it is too long, without the recipients that it is not about.
fn told(letter: Letter, recipients: Vec<Recipient>, state: &str) -> Option<String> {
    let (letter, mut recipients, about) = as_of(letter, recipients, state);
    let whole = Told::of(letter.clone(), &recipients, about);
    let json = serde_json::to_string(&whole).ok()?;
    if json.len() <= MOST_TOLD {
        return Some(json);
    }
    recipients.retain(|one| Some(one.position) == about);
    for recipient in &mut recipients {
        recipient.detail =
            recipient.detail.as_deref().map(|it| it.chars().take(MOST_SAID).collect());
    }
    let cut = Told { truncated: true, ..Told::of(letter, &recipients, about) };
    serde_json::to_string(&cut).ok()
}

impl Told {
    fn of(letter: Letter, recipients: &[Recipient], about: Option<i64>) -> Self {
        let recipient = recipients.iter().find(|one| Some(one.position) == about).map(Into::into);
        Self { email: EmailView::of(letter, recipients), recipient, truncated: false }
    }
}

/// An email as its endpoint shows it, as of an event, and the recipient that the event is about.
#[must_use]
pub fn show<'a>(app: &'a App, news: EventRef<'a>) -> BoxFuture<'a, Result<Option<String>, Error>> {
    Box::pin(async move {
        let Some(id) = EmailId::parse(news.object_id) else { return Ok(None) };
        let Some(letter) = sql::letter(app, news.account, &id).await? else { return Ok(None) };
        let recipients = of_one(app, news.account, &id).await?;
        Ok(told(letter, recipients, news.state))
    })
}

/// The email as `state` says. Without it (somebody was erased): as it stands now.
/// Answers the position of the recipient that it is about, too.
fn as_of(
    mut letter: Letter,
    mut recipients: Vec<Recipient>,
    state: &str,
) -> (Letter, Vec<Recipient>, Option<i64>) {
    let mut words = state.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<i64>().ok());
    let about = number();
    if let (Some(updated_at), Some(charged)) = (number(), number()) {
        letter.updated_at = Millis(updated_at);
        letter.charged_credits = charged;
        for word in words {
            let mut parts = word.split(':');
            let position = parts.next().and_then(|part| part.parse::<i64>().ok());
            let whose = recipients.iter_mut().find(|one| Some(one.position) == position);
            let Some(recipient) = whose else { continue };
            let status = parts.next().and_then(|word| word.parse().ok());
            let status = status.unwrap_or(recipient.status);
            let cause = parts.next().and_then(|word| word.parse().ok());
            if cause != recipient.cause {
                recipient.detail = None;
            }
            (recipient.status, recipient.cause) = (status, cause);
        }
        letter.tally = Tally::of(recipients.iter().map(|recipient| recipient.status));
    }
    (letter, recipients, about)
}
