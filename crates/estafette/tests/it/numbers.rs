//! Phone numbers against an independent list: 2,648 texts with what another implementation of the
//! world's numbering plans says of them.

use estafette::kit::msisdn::{Msisdn, Numbering, look_up};

const GOLDEN: &str = include_str!("phone_golden.tsv");

/// `FixedLineOrMobile` and `FIXED_LINE_OR_MOBILE` are the same word.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase()
}

#[test]
fn every_row_of_the_golden_list_agrees() {
    let mut wrong = vec![];
    let mut rows = 0;
    for line in GOLDEN.lines() {
        rows += 1;
        let columns: Vec<&str> = line.split('\t').collect();
        let found = look_up(columns[0]);
        let good = match (columns[1], &found) {
            ("ERR", found) => found.as_ref().is_none_or(|verdict| !verdict.valid),
            (_, None) => false,
            (valid, Some(verdict)) => {
                verdict.valid == (valid == "1")
                    && verdict.region == columns[2]
                    && plain(&format!("{:?}", verdict.kind)) == plain(columns[3])
                    && verdict.e164 == columns[4]
            }
        };
        // What is stored is asked for its country alone, by a shorter way.
        let country = |verdict: &Numbering| {
            let stored = Msisdn::stored(verdict.e164.clone());
            look_up(&verdict.e164).is_none_or(|again| again.region == stored.country())
        };
        if !good || !found.as_ref().is_none_or(country) {
            wrong.push(format!("{line} -> {found:?}"));
        }
    }
    assert_eq!(rows, 2_648);
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}
