//! The file itself: all of it is used, and no damage to it is more than wrong answers.

use std::collections::HashSet;

use super::{CODE, HEAD, Plans, REGION, REWRITING, STATE, VERDICT};

const FILE: &[u8] = include_bytes!("../plans.bin");
const NUMBERS: &[&str] = &[
    "+33612345678",
    "+14155550123",
    "+4402079460018",
    "+541115234567890",
    "+5501511987654321",
    "+80012345678",
    "+261241234567",
    "+99999999999999999999",
];

fn count<T>(part: &[T], size: usize) -> u16 {
    u16::try_from(part.len() / size).unwrap()
}

/// All that is reached from a state.
fn reached(plans: &Plans, from: u16) -> HashSet<u16> {
    let (mut found, mut open) = (HashSet::new(), vec![from]);
    while let Some(state) = open.pop() {
        if found.insert(state) {
            open.extend((1..STATE).map(|column| plans.cell(state, column)));
        }
    }
    found
}

/// What is said by all states that are reached from these.
fn said(plans: &Plans, from: impl Iterator<Item = u16>) -> HashSet<u16> {
    from.flat_map(|state| reached(plans, state)).map(|state| plans.cell(state, 0)).collect()
}

#[test]
fn every_entry_is_used_and_none_is_missing() {
    let plans = Plans::of(FILE).unwrap();
    let codes: Vec<_> = (0..count(plans.codes, CODE)).filter_map(|at| plans.code(at)).collect();
    let states = count(plans.states, STATE);
    let starts = codes.iter().flat_map(|code| [code.judge, code.prefix, code.home]);
    let every: HashSet<u16> =
        starts.chain([plans.root]).flat_map(|state| reached(&plans, state)).collect();
    assert_eq!(every, (0..states).collect());

    let places = said(&plans, [plans.root].into_iter());
    assert_eq!(places, (0..=count(plans.codes, CODE)).collect());
    let verdicts = said(&plans, codes.iter().map(|code| code.judge));
    assert_eq!(verdicts, (0..count(plans.verdicts, VERDICT)).collect());
    let rewritings = said(&plans, codes.iter().flat_map(|code| [code.prefix, code.home]));
    assert!(rewritings.iter().all(|place| *place < count(plans.rewritings, REWRITING)));
    assert!(rewritings.len() + 1 >= usize::from(count(plans.rewritings, REWRITING)));

    let regions = count(plans.regions, REGION);
    assert!((0..regions).all(|place| codes.iter().filter(|code| code.has(place)).count() == 1));
}

/// So that a walk ends, and may end early.
#[test]
fn a_state_leads_to_itself_with_all_digits_or_with_none() {
    let plans = Plans::of(FILE).unwrap();
    for state in 0..count(plans.states, STATE) {
        let same = (1..STATE).filter(|column| plans.cell(state, *column) == state).count();
        assert!(same == 0 || same == STATE - 1, "state {state}");
    }
}

#[test]
fn a_file_that_was_cut_is_refused() {
    for length in (0..300).chain((300..FILE.len()).step_by(997)) {
        assert!(Plans::of(&FILE[..length]).is_none(), "{length}");
    }
    assert!(Plans::of(&[FILE, b"x"].concat()).is_none());
}

#[test]
fn a_file_that_was_changed_gives_wrong_answers_at_most() {
    let mut seed = 7_u64;
    let mut chance = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut read = 0;
    for round in 0..300 {
        let mut file = FILE.to_vec();
        // All of it, or what each number meets: the counts in front seldom still fit.
        let (from, to) = [(HEAD, FILE.len()), (HEAD, 6_000), (0, 6_000)][round % 3];
        for _ in 0..=chance(2_000) {
            file[from + chance(to - from)] = u8::try_from(chance(256)).unwrap();
        }
        let Some(plans) = Plans::of(&file) else { continue };
        for text in NUMBERS {
            for number in [plans.read(text), plans.as_it_stands(text)].into_iter().flatten() {
                read += 1;
                plans.judge(&number);
                plans.at_home(&number);
                plans.code_of(&number);
            }
        }
        for country in ["US", "XK", "001", ""] {
            plans.code_of_country(country);
        }
    }
    assert!(read > 500, "{read} numbers were read");
}
