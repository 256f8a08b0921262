//! What the table says of each number on the input, in the columns of `tests/golden.tsv`. For
//! `scripts/numbering --compare`, which asks the library about the same.

use std::io::{self, BufRead, BufWriter, Write};

use numbering::Number;

fn main() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for text in io::stdin().lock().lines() {
        let text = text?;
        let Some(number) = Number::read(&text) else {
            writeln!(out, "{text}\tERR")?;
            continue;
        };
        let verdict = number.judge();
        let (e164, valid) = (number.e164(), u8::from(verdict.is_valid()));
        let (region, kind) = (verdict.region.unwrap_or_default(), verdict.kind);
        let (national, home) = (number.national(), number.at_home());
        writeln!(out, "{text}\t{e164}\t{valid}\t{region}\t{kind:?}\t{national}\t{home}")?;
    }
    out.flush()
}
