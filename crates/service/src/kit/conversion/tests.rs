//! What budgets let through, and what they do not.

use clock::{DAY, HOUR, Millis};

use super::{Conversion, Counts, Excess, Figure, MOST_PLACES, Since, Span, exempt_of, places};

const SENT: Counts = Counts { sent: 1, verified: 0 };
const VERIFIED: Counts = Counts { sent: 0, verified: 1 };

fn send(all: &Conversion, number: &str, at: Millis) -> Option<(String, Span, i64)> {
    let excess = all.claim("ada", &places("FR", number), at, false);
    excess.map(|it| (it.place, it.span, it.budget))
}

#[test]
fn a_new_account_has_three_in_an_hour_and_twenty_in_a_day() {
    let all = Conversion::default();
    let mut at = Millis(100 * DAY);
    for hour in 0..7 {
        for number in 0..3 {
            let excess = send(&all, &format!("+33612{hour}{number}5678"), at);
            let is_over = hour * 3 + number >= 20;
            assert_eq!(excess.is_some(), is_over, "{hour} {number}: {excess:?}");
        }
        at = at + HOUR;
    }
    let excess = send(&all, "+33612345678", Millis(101 * DAY));
    assert_eq!(excess, None, "another day");
    for _ in 0..2 {
        assert_eq!(send(&all, "+33612345678", Millis(101 * DAY)), None);
    }
    let excess = send(&all, "+33612345678", Millis(101 * DAY)).unwrap();
    assert_eq!(excess, ("FR".to_owned(), Span::Hour, 3));
}

#[test]
fn who_converts_may_send_more() {
    let all = Conversion::default();
    let (yesterday, now) = (Millis(99 * DAY), Millis(100 * DAY));
    let [country, _] = places("FR", "+33612345678");
    let country = [country];
    all.note("ada", &country, yesterday, Counts { sent: 300, verified: 300 });
    all.note("ada", &country, now, Counts { sent: 9, verified: 0 });
    assert_eq!(all.books().judge("ada", &country, now), None, "a thirtieth of 300 is 10");
    all.note("ada", &country, now, SENT);
    assert_eq!(all.books().judge("ada", &country, now).unwrap().budget, 10);
    (0..60).for_each(|_| all.note("ada", &country, now, VERIFIED));
    assert_eq!(all.books().judge("ada", &country, now), None);
    assert_eq!(all.books().judge("eve", &country, now), None, "another account");
}

#[test]
fn of_the_hour_before_counts_what_the_last_sixty_minutes_have() {
    let all = Conversion::default();
    let now = Millis(100 * DAY + 2 * HOUR);
    let [country, _] = places("FR", "+33612345678");
    let country = [country];
    all.note("ada", &country, now - HOUR, Counts { sent: 200, verified: 200 });
    all.note("ada", &country, now, Counts { sent: 50, verified: 0 });
    // A thirtieth of the best day's 200 is 6.
    for (minutes, budget) in [(0, 40), (15, 30), (45, 10), (57, 6)] {
        let excess = all.books().judge("ada", &country, now + minutes * HOUR / 60).unwrap();
        let found = (excess.span, excess.budget);
        assert_eq!(found, (Span::Hour, budget), "{minutes}");
    }
}

#[test]
fn a_range_is_judged_beside_its_country_and_told_once() {
    let all = Conversion::default();
    let now = Millis(100 * DAY);
    let other = places("FR", "+33699990000");
    all.note("ada", &other[..1], now, Counts { sent: 100, verified: 100 });
    let pumped = places("FR", "+33612340001");
    (0..3).for_each(|_| all.note("ada", &pumped, now, SENT));
    let excess = all.books().judge("ada", &pumped, now).unwrap();
    assert_eq!(excess.place, "+3361234");
    assert_eq!(all.books().judge("ada", &other, now), None);
    assert!(all.tell("ada", &excess) && !all.tell("ada", &excess));
    let next = Excess { bucket: excess.bucket + 1, ..excess };
    assert!(all.tell("ada", &next));
    let unwritten = all.take();
    assert_eq!((unwritten.figures["ada"].len(), unwritten.excesses.len()), (4, 2));
    assert!(all.take().figures.is_empty());
}

#[test]
fn what_is_not_written_yet_is_not_forgotten_by_reading() {
    let all = Conversion::default();
    let now = Millis(100 * DAY);
    let places = places("FR", "+33612340001");
    (0..2).for_each(|_| all.note("ada", &places, now, SENT));
    let (place, bucket) = ("FR".to_owned(), Span::Hour.bucket(now));
    let row = Figure { place, span: Span::Hour, bucket, counts: SENT };
    all.read("ada", vec![row], Since::whole(now), now);
    assert!(
        all.books().judge("ada", &places, now).is_some(),
        "one of another node and two of ours"
    );
    assert!(all.is_read_since("ada", now) && !all.is_read_since("ada", now + 1));
}

#[test]
fn a_country_is_counted_however_many_ranges_there_are() {
    let all = Conversion::default();
    let now = Millis(100 * DAY);
    let verified = Counts { sent: 1, verified: 1 };
    for range in 0..MOST_PLACES {
        all.note("ada", &places("FR", &format!("+336{range:05}0000")), now, verified);
    }
    let pumped = places("TG", "+22890123456");
    (0..3).for_each(|_| assert_eq!(all.claim("ada", &pumped, now, true), None));
    assert_eq!(all.claim("ada", &pumped, now, true).unwrap().place, "TG");
    let written = all.take().figures.remove("ada").unwrap();
    assert!(written.iter().any(|figure| figure.place == "TG"));
    assert!(written.iter().all(|figure| figure.place != pumped[1]), "one range too many");
}

#[test]
fn who_is_exempt_earns_the_others_no_budget() {
    let all = Conversion::default();
    let now = Millis(100 * DAY);
    let country = places("TG", "+22890123456");
    let exempt = ["TG".to_owned(), exempt_of("TG")];
    all.note("ada", &exempt, now, Counts { sent: 300, verified: 300 });
    (0..3).for_each(|_| assert_eq!(all.claim("ada", &country, now, true), None));
    let excess = all.claim("ada", &country, now, true).unwrap();
    assert_eq!((excess.place.as_str(), excess.budget), ("TG", 3));
    assert_eq!(excess.counts, Counts { sent: 3, verified: 0 });
}

#[test]
fn days_that_are_over_are_read_once_a_day() {
    let all = Conversion::default();
    let (now, place) = (Millis(100 * DAY), "FR".to_owned());
    assert_eq!(all.since("ada", now), Since::whole(now));
    let counts = Counts { sent: 300, verified: 300 };
    let best = Figure { place: place.clone(), span: Span::Day, bucket: 95, counts };
    all.read("ada", vec![best], Since::whole(now), now);
    assert_eq!(all.since("ada", now), Since::lately(now));
    let today = Figure {
        place: place.clone(),
        span: Span::Hour,
        bucket: Span::Hour.bucket(now),
        counts: Counts { sent: 9, verified: 0 },
    };
    for _ in 0..2 {
        all.read("ada", vec![today.clone()], Since::lately(now), now);
    }
    let country = [place];
    assert_eq!(all.claim("ada", &country, now, true), None, "a thirtieth of 300");
    assert_eq!(all.claim("ada", &country, now, true).unwrap().budget, 10);
    let tomorrow = now + DAY;
    assert_eq!(all.since("ada", tomorrow), Since::whole(tomorrow));
}
