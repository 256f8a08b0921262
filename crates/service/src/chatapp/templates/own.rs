//! The deployment's own templates, for passcodes and for prompts. A business account that lacks
//! them is given them as soon as this service knows it; it is looked at again every six hours, when
//! it gets another token, and when the upstream refuses a passcode for its template or takes one
//! out of service. A passcode lives in its template for as long as the settings say. How a prompt
//! is worded may be the operator's own, and is left as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::{MINUTE, Millis};
use cloud_api::business::{self, Declaration, Declared as Answer, Lifetime, Listed};
use cloud_api::callback::Template as News;
use cloud_api::template::{Button, Category};

use crate::app::App;
use crate::carriers::CloudApi;
use crate::carriers::cloud_api::{LANGUAGES, Number, Wanted};
use crate::chatapp::sessions::prompts::words;

/// How often it is looked whether there are business accounts to look at, milliseconds.
const PAUSE_MS: u64 = 2_000;
/// How soon one that did not answer is asked again, milliseconds; each time twice as long.
const RETRY_MS: i64 = 5_000;
/// Most times that it becomes twice as long.
const MOST_DOUBLINGS: u32 = 9;
/// How soon one that is doubted is looked at again, milliseconds.
const DOUBT_MS: i64 = MINUTE;

/// One number of each business account that this deployment sends from.
pub(super) fn business_accounts(cloud: &CloudApi) -> Vec<Arc<Number>> {
    let mut numbers: Vec<Arc<Number>> = cloud.numbers().shared().cloned().into_iter().collect();
    numbers.extend(cloud.numbers().linked().values().cloned());
    numbers.retain(|number| !number.waba_id.is_empty());
    numbers.sort_by(|one, other| one.waba_id.cmp(&other.waba_id));
    numbers.dedup_by(|one, other| one.waba_id == other.waba_id);
    numbers
}

/// When a business account was looked at, and is next.
struct Visit {
    /// The number that it is asked by; one with another token is another one.
    number: Arc<Number>,
    seen_at: Option<Millis>,
    next_at: Millis,
    misses: u32,
}

impl Visit {
    fn of(number: Arc<Number>) -> Self {
        Self { number, seen_at: None, next_at: Millis(0), misses: 0 }
    }

    fn doubt(&mut self) {
        let soon = self.seen_at.map_or(Millis(0), |seen_at| seen_at + DOUBT_MS);
        self.next_at = self.next_at.min(soon);
    }

    async fn pay(&mut self, app: &App, cloud: &CloudApi) {
        self.seen_at = Some(app.now());
        if look(app, cloud, &self.number).await {
            // From then on the chore looks.
            (self.next_at, self.misses) = (Millis(i64::MAX), 0);
        } else {
            self.next_at = app.now() + RETRY_MS * 2_i64.pow(self.misses.min(MOST_DOUBLINGS));
            self.misses += 1;
        }
    }
}

/// Gives each business account the templates that it lacks, at once; every node does, since who is
/// second finds them there. Ends when the process drains.
pub async fn keep(app: App) {
    let mut visits: BTreeMap<String, Visit> = BTreeMap::new();
    while !app.is_draining() {
        let Some(cloud) = app.carriers.cloud() else { return };
        let doubtful = cloud.doubtful();
        for number in business_accounts(cloud) {
            let waba_id = number.waba_id.clone();
            let visit = visits.entry(waba_id.clone()).or_insert_with(|| Visit::of(number.clone()));
            if !Arc::ptr_eq(&visit.number, &number) {
                *visit = Visit::of(number);
            }
            if doubtful.contains(&waba_id) {
                visit.doubt();
            }
            if visit.next_at <= app.now() {
                if doubtful.contains(&waba_id) {
                    let what = "the chat-app refuses a template of this deployment; looking at it";
                    tracing::warn!(waba_id, "{what}");
                }
                visit.pay(&app, cloud).await;
            }
        }
        app.rest(PAUSE_MS).await;
    }
}

/// Whether a name is that of one of them.
pub(super) fn is_one(app: &App, name: &str) -> bool {
    let settings = &app.config.chatapp;
    name == settings.otp_template || name == settings.consent_template
}

/// Takes in what a callback tells of one of them. What can no longer be sent is looked at.
pub(super) fn hear(app: &App, news: &News) {
    let News { waba_id, name, language, event, reason, .. } = news;
    let Some(cloud) = app.carriers.cloud().filter(|_| is_one(app, name)) else { return };
    if business::status(&event.to_ascii_uppercase()) == Some("REJECTED") {
        let what = "the chat-app takes a template of this deployment out of service";
        tracing::warn!(waba_id, name, language, event, reason, "{what}");
        cloud.doubt(waba_id);
    }
}

/// Reads which of them are there, makes those that are missing, and changes passcodes that live
/// longer or shorter than they should; `false` = not all of it could be done.
pub(super) async fn look(app: &App, cloud: &CloudApi, number: &Number) -> bool {
    let settings = &app.config.chatapp;
    let mut listed = Vec::new();
    for name in [&settings.otp_template, &settings.consent_template] {
        if name.is_empty() {
            continue;
        }
        let wanted = Wanted { name: Some(name), has_parts: true, ..Wanted::default() };
        let Some(page) = cloud.list(number, wanted).await else {
            let waba_id = &number.waba_id;
            tracing::warn!(waba_id, "its templates could not be read; trying again");
            return false;
        };
        listed.extend(page.templates);
    }
    let mut is_whole = true;
    for language in LANGUAGES {
        let (question, answers) = words(language == "fr");
        let buttons = answers.map(|text| Button::QuickReply { text: text.to_owned() });
        for declaration in own(app, language, question, &buttons) {
            let is_it = |it: &&Listed| it.name == declaration.name && it.language == language;
            is_whole &= match listed.iter().find(is_it) {
                Some(found) => renew(cloud, number, &declaration, found).await,
                None => declare(cloud, number, &declaration).await,
            };
        }
    }
    is_whole
}

/// What there should be in a language.
fn own<'a>(
    app: &'a App,
    language: &'a str,
    question: &'a str,
    buttons: &'a [Button],
) -> impl Iterator<Item = Declaration<'a>> {
    let (settings, otp) = (&app.config.chatapp, &app.config.otp);
    let passcode = Declaration {
        name: &settings.otp_template,
        language,
        category: Category::Authentication,
        body: "",
        footer: None,
        buttons: &[],
        // One that comes after its SMS only confuses.
        lifetime: Lifetime::new(otp.validity_s, otp.fallback_after_s),
    };
    let prompt = Declaration {
        name: &settings.consent_template,
        category: Category::Utility,
        body: question,
        buttons,
        ..passcode
    };
    [passcode, prompt].into_iter().filter(|declaration| !declaration.name.is_empty())
}

async fn declare(cloud: &CloudApi, number: &Number, declaration: &Declaration<'_>) -> bool {
    let (waba_id, Declaration { name, language, .. }) = (&number.waba_id, declaration);
    match cloud.declare(number, &business::declare(declaration)).await {
        Answer::Taken(_) | Answer::Exists => {
            tracing::info!(waba_id, name, language, "template submitted to the chat-app");
            true
        }
        failed => {
            tracing::warn!(waba_id, name, language, ?failed, "template not submitted");
            false
        }
    }
}

/// Changes one that is there, where it should live otherwise. That the upstream allows once a day,
/// so that a refusal waits for the next look.
async fn renew(
    cloud: &CloudApi,
    number: &Number,
    declaration: &Declaration<'_>,
    found: &Listed,
) -> bool {
    let (waba_id, Declaration { name, language, .. }) = (&number.waba_id, declaration);
    let Listed { id, status, reason, .. } = found;
    if business::status(status) == Some("REJECTED") {
        let what = "the chat-app does not send a template of this deployment";
        tracing::warn!(waba_id, name, language, status, reason, "{what}");
    }
    let is_passcode = declaration.category == Category::Authentication;
    if is_passcode && found.is_editable() && found.differs_from(declaration.lifetime) {
        match cloud.edit(number, id, &business::edit(declaration)).await {
            Ok(()) => tracing::info!(waba_id, name, language, "template changed at the chat-app"),
            Err(why) => tracing::warn!(waba_id, name, language, why, "template not changed"),
        }
    }
    true
}
