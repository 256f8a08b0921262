//! The centre alone, for tests with foreign clients (`scripts/smpp`). It prints its port, then
//! takes lines: `mobile FROM TO TEXT` makes a handset write, `unbind` ends all sessions, `messages`
//! shows what arrived, one JSON object a line, and an empty line.
//! `cargo run -p playground --example smsc`

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use clock::Clock;
use playground::smsc::{Mobile, Smsc, SmscOptions};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = SmscOptions { receipt_ms: 50, ..SmscOptions::default() };
    let smsc = Smsc::bind("127.0.0.1:0".parse()?, options, Clock::system()).await?;
    println!("{}", smsc.address()?.port());
    let handsets = smsc.handsets();
    tokio::spawn(smsc.serve());
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["mobile", from, to, text] => {
                let (from, to, text) = (from.to_owned(), to.to_owned(), text.to_owned());
                println!("{}", handsets.write(&Mobile { from, to, text }));
            }
            ["unbind"] => handsets.unbind(),
            ["messages"] => {
                for message in handsets.messages() {
                    println!("{}", serde_json::to_string(&message)?);
                }
                println!();
            }
            _ => println!("unknown: {line}"),
        }
    }
    Ok(())
}

/// The lines of the standard input, read by a thread of its own.
fn lines() -> UnboundedReceiver<String> {
    let (line_is, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _gone = line_is.send(line);
        }
    });
    lines
}
