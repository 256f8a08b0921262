//! SIGKILL while many write: what was acknowledged is there once, and the numbers have no gap.

use std::collections::HashMap;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::client::{Came, Desk};
use super::{Args, gaps, report, serve};

/// Clients that write at the same time.
const WRITERS: usize = 12;

/// What was acknowledged: the client's id of a message, then the service's and its number.
type Acks = Arc<Mutex<HashMap<String, (String, i64)>>>;

pub(super) async fn kill(args: &Args) -> Result<Map<String, Value>> {
    let mut server = serve(args, None).await?;
    let desk = Arc::new(Desk::open(&server.url()).await?);
    let (acks, over) = (Acks::default(), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (desk, acks, over) = (Arc::clone(&desk), Arc::clone(&acks), Arc::clone(&over));
            tokio::spawn(async move { write(&desk, &acks, &over, writer).await })
        })
        .collect();
    for kill in 0..args.kills {
        tokio::time::sleep(Duration::from_millis(150 + kill * 37 % 300)).await;
        server.kill().await?;
        server.start().await?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await?;
    }
    let mut acks = acks.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if args.control {
        acks.insert("never-sent".to_owned(), ("tmg_never".to_owned(), 1));
    }
    let (all, faults) = gaps(&desk).await?;
    server.stop().await?;
    let mut by_client: HashMap<&str, Vec<(&str, i64)>> = HashMap::new();
    for seen in &all {
        if let Some(client_id) = &seen.client_message_id {
            by_client.entry(client_id).or_default().push((&seen.id, seen.seq));
        }
    }
    let stands = |(client_id, (id, seq)): &(&String, &(String, i64))| {
        by_client.get(client_id.as_str()).is_some_and(|found| *found == [(id.as_str(), *seq)])
    };
    let lost = acks.iter().filter(|ack| !stands(ack)).count();
    let doubled = by_client.values().filter(|found| found.len() > 1).count();
    let passed = lost == 0 && doubled == 0 && faults.is_empty() && !acks.is_empty();
    Ok(report(
        "kill",
        &json!({
            "kills": args.kills, "acknowledged": acks.len(), "messages": all.len(), "lost": lost,
            "doubled": doubled, "gaps": faults, "passed": passed,
        }),
    ))
}

/// Writes one message after the other; what was not acknowledged is sent again under its id.
async fn write(desk: &Desk, acks: &Acks, over: &AtomicBool, writer: usize) {
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(mut socket) = desk.socket("&features=ack").await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while !over.load(Ordering::Relaxed) {
            let client_id = format!("k-{writer}-{number}");
            if socket.send("m", &client_id).await.is_err() {
                break;
            }
            let Some((id, seq)) = acknowledged(&mut socket, &client_id).await else { break };
            acks.lock().unwrap_or_else(PoisonError::into_inner).insert(client_id, (id, seq));
            number += 1;
            // Within the pace of a socket.
            tokio::time::sleep(Duration::from_millis(210)).await;
        }
    }
}

async fn acknowledged(socket: &mut super::client::Socket, wanted: &str) -> Option<(String, i64)> {
    loop {
        match socket.next().await {
            Ok(Came::Ack { client_message_id, id, seq }) if client_message_id == wanted => {
                return Some((id, seq));
            }
            Ok(Came::Closed) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
