//! What a message costs. A price without `valid_until` is a base price: it holds from `valid_from`
//! until the next base price of the same channel, category and country. One with `valid_until` is a
//! promotion: it holds in the place of the base price, which stands again when it ends. Country `*`
//! is for all countries without their own.

use ::store::{FromRow, Row, WriteSet, args};
use clock::Millis;
use uuid::Uuid;

use super::{Error, store};
use crate::access::limits::{self, Limited};
use crate::app::{App, KnownPrice};
use crate::kit::described::described_words;
use crate::kit::id::PriceId;
use crate::kit::msisdn;
use crate::kit::page::Page;
use crate::kit::seal::sha256;

/// Channels that may have a price.
pub const CHANNELS: &[&str] = &["chatapp", "sms", "email"];
/// Categories that may have a price.
pub const CATEGORIES: &[&str] =
    &["authentication", "utility", "marketing", "service", "session", "message"];

/// The categories that messages of a channel are charged by.
#[must_use]
pub fn categories_of(channel: &str) -> &'static [&'static str] {
    match channel {
        "chatapp" => &["authentication", "utility", "marketing", "service", "session"],
        "sms" => &["authentication", "message"],
        _ => &["message"],
    }
}

/// The country of a price for all others.
pub const EVERYWHERE: &str = "*";

/// How long a price is remembered, milliseconds.
const MEMO_MS: i64 = 5_000;

/// The shard of sets that touch prices: they belong to no account.
const SHARD: &str = "prices";

/// One price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// Its id.
    pub id: PriceId,
    /// One of [`CHANNELS`].
    pub channel: String,
    /// One of [`CATEGORIES`].
    pub category: String,
    /// ISO 3166 code or [`EVERYWHERE`].
    pub country: String,
    /// Credits for one message or segment.
    pub credits: i64,
    /// From this instant on.
    pub valid_from: Millis,
    /// Until before this instant: a promotion. `None` = a base price.
    pub valid_until: Option<Millis>,
    /// From this instant on a newer base price holds in its place.
    pub replaced_at: Option<Millis>,
}

impl FromRow for Price {
    fn from_row(mut row: Row) -> Result<Self, ::store::Error> {
        Ok(Self {
            id: row.take(0)?,
            channel: row.take(1)?,
            category: row.take(2)?,
            country: row.take(3)?,
            credits: row.take(4)?,
            valid_from: row.take(5)?,
            valid_until: row.take(6)?,
            replaced_at: row.take(7)?,
        })
    }
}

/// Which prices a list shows; empty texts do not filter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this channel.
    pub channel: String,
    /// Only this category.
    pub category: String,
    /// Only this country.
    pub country: String,
}

/// Whether a price may be set for this text: `*` or a country's code.
#[must_use]
pub fn is_country(text: &str) -> bool {
    text == EVERYWHERE || msisdn::is_country(text)
}

/// The price of one message or segment now: the country's own, else the one of all others.
///
/// # Errors
/// [`Error::NoPrice`] when it is not sold there, [`Error::Db`].
pub async fn price(app: &App, channel: &str, category: &str, country: &str) -> Result<i64, Error> {
    let key = format!("{channel}|{category}|{country}");
    let now = app.now();
    // By the service's own clock, too: prices begin and end by it.
    let known = app.memo.prices.get(&key).filter(|known| (known.at..known.until).contains(&now));
    let known = if let Some(known) = known {
        known
    } else {
        // Rare and large: whoever asks for a price would have room for it otherwise.
        let known = Box::pin(look_up(app, channel, category, country)).await?;
        app.memo.prices.insert(key, known);
        known
    };
    known.credits.ok_or_else(|| Error::NoPrice {
        channel: channel.to_owned(),
        category: category.to_owned(),
        country: country.to_owned(),
    })
}

async fn look_up(
    app: &App,
    channel: &str,
    category: &str,
    country: &str,
) -> Result<KnownPrice, Error> {
    let at = app.now();
    let mut price = KnownPrice { credits: None, at, until: at + MEMO_MS };
    for country in [country, EVERYWHERE] {
        let args = args![channel, category, country, at];
        // What is remembered ends where a price of the kind begins or ends.
        for change in [store::PRICE_BEGINS, store::PRICE_ENDS] {
            let next: Option<(Millis,)> = app.db.row(change, args.clone()).await?;
            price.until = next.map_or(price.until, |(next,)| price.until.min(next));
        }
        if let Some((credits,)) = app.db.row(store::PRICE, args).await? {
            return Ok(KnownPrice { credits: Some(credits), ..price });
        }
    }
    Ok(price)
}

/// Gives a new database the prices of the configuration. Their ids come from what they are for,
/// so two nodes that start together do not double them.
///
/// # Errors
/// [`Error::Db`], [`Error::Commit`].
pub async fn seed_prices(app: &App) -> Result<(), Error> {
    let any: Option<(String,)> = app.db.row(store::ANY_PRICE, args![""]).await?;
    if any.is_some() || app.config.credits.prices.is_empty() {
        return Ok(());
    }
    let mut set = WriteSet::of(SHARD);
    for price in &app.config.credits.prices {
        let (channel, category, country) = (&price.channel, &price.category, &price.country);
        let id = seeded_id(channel, category, country);
        let until: Option<i64> = None;
        let credits = price.credits.max(0);
        let args = args![&id, channel, category, country, credits, 0_i64, until];
        set.push(store::ADD_PRICE, args);
    }
    app.db.commit(set).await?;
    Ok(())
}

fn seeded_id(channel: &str, category: &str, country: &str) -> PriceId {
    let digest = sha256(format!("price|{channel}|{category}|{country}").as_bytes());
    let first = digest.first_chunk::<16>().copied().unwrap_or_default();
    PriceId::of(uuid::Builder::from_custom_bytes(first).into_uuid())
}

/// A set for new prices. It waits for all others of the kind: which price ends which is worked out
/// from those that are there.
#[must_use]
pub fn change() -> WriteSet {
    let mut set = WriteSet::of(SHARD);
    limits::one_by_one_for_all(&mut set, Limited::Prices);
    set
}

/// Adds a price. A base price ends what holds when it begins, whichever of the two was set first; a
/// promotion ends nothing. Of the promotions of its own instant, a base price that holds at once
/// ends those that hold already; one that is scheduled leaves those that are scheduled with it.
pub fn replace(set: &mut WriteSet, price: &Price, now: Millis) {
    let (channel, category, country) = (&price.channel, &price.category, &price.country);
    if price.valid_until.is_none() {
        let from = price.valid_from;
        let before = if from > now { from } else { from + 1 };
        set.push(store::CLOSE_PRICE, args![from, channel, category, country, before]);
    }
    let (from, until) = (price.valid_from, price.valid_until);
    let args = args![&price.id, channel, category, country, price.credits, from, until];
    set.push(store::ADD_PRICE, args);
}

/// A new price's id.
#[must_use]
pub fn new_id(app: &App) -> PriceId {
    PriceId::of(Uuid::from_u128(app.clock.uuid().as_u128()))
}

/// One page of the prices that have not ended, with one row more when there are more.
///
/// # Errors
/// [`Error::Db`].
pub async fn list(app: &App, filter: &Filter, page: &Page) -> Result<Vec<Price>, Error> {
    let (channel, category, country) = (&filter.channel, &filter.category, &filter.country);
    let limit = page.limit.saturating_add(1);
    let args = args![&page.after, app.now(), channel, category, country, limit];
    Ok(app.db.rows(store::PRICES, args).await?)
}

/// All prices that have not ended.
///
/// # Errors
/// [`Error::Db`].
pub async fn all(app: &App) -> Result<Vec<Price>, Error> {
    let mut page = Page::first(1_000);
    let mut prices = Vec::new();
    loop {
        let rows = list(app, &Filter::default(), &page).await?;
        let more = rows.len() > 1_000;
        prices.extend(rows.into_iter().take(1_000));
        match prices.last() {
            Some(last) if more => last.id.as_str().clone_into(&mut page.after),
            _ => return Ok(prices),
        }
    }
}

described_words!(
    pub(crate) PriceChannel: "A channel that has prices.",
    CHANNELS.iter().copied()
);
described_words!(
    pub(crate) PriceCategory: "What kind of message a price is for.",
    CATEGORIES.iter().copied()
);

#[cfg(test)]
mod tests {
    use super::{is_country, seeded_id};

    #[test]
    fn prices_are_of_countries_with_phone_numbers_or_the_star() {
        for good in ["*", "DE", "IQ", "GB"] {
            assert!(is_country(good), "{good}");
        }
        for bad in ["", "de", "DEU", "D", "**", "D1", "Ä", "XX", "ZZ", "UK", "001"] {
            assert!(!is_country(bad), "{bad}");
        }
    }

    #[test]
    fn seeded_prices_have_the_same_id_on_every_node() {
        assert_eq!(seeded_id("sms", "message", "DE"), seeded_id("sms", "message", "DE"));
        assert_ne!(seeded_id("sms", "message", "DE"), seeded_id("sms", "message", "*"));
    }
}
