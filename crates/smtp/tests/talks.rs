//! Talks with a server that keeps to a script.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use smtp::{Client, Envelope, Error, Sent, Stage, Transcript};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

const PATIENCE: Duration = Duration::from_secs(5);

/// What a server waits for, by its beginning, and what it says then; an empty answer closes.
type Script = Vec<(&'static str, &'static str)>;

/// Plays a script and answers all that it heard.
async fn play(stream: DuplexStream, script: Script) -> String {
    let mut stream = BufReader::new(stream);
    let mut heard = String::new();
    stream.write_all(b"220 mx.example.org\r\n").await.unwrap();
    for (expected, answer) in script {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap() == 0 {
                return heard;
            }
            said.push_str(&line);
            // A message ends with its dot, everything else with its line.
            if expected != "." || line == ".\r\n" {
                break;
            }
        }
        heard.push_str(&said);
        assert!(expected == "." || said.starts_with(expected), "{said:?} is not {expected:?}");
        if answer.is_empty() {
            return heard;
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
    let mut rest = String::new();
    drop(stream.read_to_string(&mut rest).await);
    heard + &rest
}

const ENVELOPE: Envelope<'_> = Envelope {
    from: "bounce@rp.example.com",
    to: "ada@example.org",
    parts: &[b"X: y\r\n", b"Subject: z\r\n\r\n.dot\r\n..two\r\nend"],
};

async fn sent(script: Script) -> (Sent, String) {
    let (ours, theirs) = duplex(1 << 16);
    let server = tokio::spawn(play(theirs, script));
    let mut client = Client::greet(ours, PATIENCE, Transcript::default()).await.unwrap();
    let sent = client.send(ENVELOPE).await;
    drop(client);
    (sent, server.await.unwrap())
}

fn until_data(rest: Script) -> Script {
    let mut script = vec![
        ("MAIL FROM:<bounce@rp.example.com>", "250 ok\r\n"),
        ("RCPT TO:<ada@example.org>", "250 ok\r\n"),
        ("DATA", "354 go\r\n"),
    ];
    script.extend(rest);
    script
}

#[tokio::test(start_paused = true)]
async fn a_message_is_taken_with_its_dots_doubled() {
    let (sent, heard) = sent(until_data(vec![(".", "250-2.0.0 queued\r\n250 as 1\r\n")])).await;
    let Sent::Taken(reply) = sent else { unreachable!("{sent:?}") };
    assert_eq!((reply.code, reply.text.as_str()), (250, "2.0.0 queued as 1"));
    assert!(
        heard.ends_with("X: y\r\nSubject: z\r\n\r\n..dot\r\n...two\r\nend\r\n.\r\n"),
        "{heard}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_certain_wherever_it_comes() {
    for (stage, script) in [
        (Stage::Sender, vec![("MAIL", "550 5.1.8 no\r\n"), ("RSET", "250 ok\r\n")]),
        (
            Stage::Recipient,
            vec![("MAIL", "250 ok\r\n"), ("RCPT", "550 5.1.8 no\r\n"), ("RSET", "250 ok\r\n")],
        ),
        (Stage::Message, until_data(vec![(".", "550 5.1.8 no\r\n")])),
    ] {
        let (sent, _) = sent(script).await;
        let Sent::Refused(refused, reply) = sent else { unreachable!("{sent:?}") };
        assert_eq!((refused, reply.code, reply.text.as_str()), (stage, 550, "5.1.8 no"));
    }
}

#[tokio::test(start_paused = true)]
async fn who_refuses_and_hangs_up_has_refused() {
    let until_recipient = [("MAIL", "250 ok\r\n"), ("RCPT", "550 5.1.1 nobody\r\n")];
    for last in ["", "421 closing\r\n"] {
        let script = until_recipient.into_iter().chain([("RSET", last)]).collect();
        let (sent, _) = sent(script).await;
        assert!(matches!(sent, Sent::Last(Stage::Recipient, _)), "{last:?}: {sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_after_the_final_dot_nobody_knows() {
    for script in [
        vec![("MAIL", "")],
        vec![("MAIL", "250 ok\r\n"), ("RCPT", "")],
        vec![("MAIL", "250 ok\r\n"), ("RCPT", "250 ok\r\n"), ("DATA", "")],
        vec![("MAIL", "421 4.3.2 closing\r\n")],
        vec![("MAIL", "what\r\n")],
        // It hangs.
        vec![("MAIL", "250 ok\r\n"), ("RCPT", "250-wait\r\n")],
    ] {
        let (sent, _) = sent(script.clone()).await;
        assert!(matches!(sent, Sent::NotTaken(_)), "{script:?}: {sent:?}");
    }
    for answer in ["", "250-wait\r\n", "what\r\n", "354 more\r\n"] {
        let (sent, _) = sent(until_data(vec![(".", answer)])).await;
        assert!(matches!(sent, Sent::Unknown(_)), "{answer}: {sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_plain_text_after_starttls_is_not_believed() {
    for (answer, is_good) in
        [("220 go\r\n", true), ("220 go\r\n250 injected\r\n", false), ("454 no\r\n", false)]
    {
        let (ours, theirs) = duplex(1 << 16);
        let ehlo = "250-mx\r\n250-STARTTLS\r\n250-SIZE 1000\r\n250 AUTH PLAIN LOGIN\r\n";
        let server = tokio::spawn(play(theirs, vec![("EHLO", ehlo), ("STARTTLS", answer)]));
        let mut client = Client::greet(ours, PATIENCE, Transcript::default()).await.unwrap();
        let offered = client.hello("estafette.example").await.unwrap();
        assert!(offered.start_tls && offered.auth_plain && offered.auth_login);
        assert_eq!(offered.size, 1_000);
        let stream = client.start_tls().await;
        assert_eq!(stream.is_ok(), is_good, "{answer}");
        drop(stream);
        server.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn endless_replies_end() {
    for nonsense in
        ["2".repeat(5_000), "250-x\r\n".repeat(500), "999 x\r\n".into(), "25\r\n".into()]
    {
        let (ours, mut theirs) = duplex(1 << 16);
        theirs.write_all(nonsense.as_bytes()).await.unwrap();
        let greeted = Client::greet(ours, PATIENCE, Transcript::default()).await;
        assert!(matches!(greeted, Err(Error::Nonsense)), "{nonsense:.20}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_address_begins_another_command() {
    let (ours, theirs) = duplex(1 << 16);
    let server = tokio::spawn(play(theirs, vec![]));
    let mut client = Client::greet(ours, PATIENCE, Transcript::default()).await.unwrap();
    let attack = Envelope { to: "a@b.example>\r\nRCPT TO:<evil@example.org", ..ENVELOPE };
    let sent = client.send(Envelope { from: "x\r\nDATA", ..attack }).await;
    assert_eq!(sent, Sent::NotTaken(Error::Nonsense));
    drop(client);
    assert_eq!(server.await.unwrap(), "");
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_out_of_step_decide_nothing() {
    // An answer too many: what follows would be taken for the answer to another command.
    let early = vec![("MAIL FROM:<bounce@rp.example.com>", "250 ok\r\n550 5.1.1 nobody\r\n")];
    let (found, _) = sent(early).await;
    assert_eq!(found, Sent::NotTaken(Error::OutOfTurn));
    // One that fits no answer to its command, and a server that lost count itself.
    for (answer, to) in
        [("250 ok\r\n", "DATA"), ("354 go\r\n", "RCPT"), ("503 5.5.1 order\r\n", "RCPT")]
    {
        let mut script = vec![("MAIL FROM:<bounce@rp.example.com>", "250 ok\r\n")];
        if to == "DATA" {
            script.push(("RCPT TO:<ada@example.org>", "250 ok\r\n"));
        }
        script.push((to, answer));
        let (found, _) = sent(script).await;
        assert_eq!(found, Sent::NotTaken(Error::Nonsense), "{answer} to {to}");
    }
    // Control: a refusal in its turn is final.
    let refusing = vec![
        ("MAIL FROM:<bounce@rp.example.com>", "250 ok\r\n"),
        ("RCPT TO:<ada@example.org>", "550 5.1.1 nobody\r\n"),
        ("RSET", "250 ok\r\n"),
    ];
    let (found, _) = sent(refusing).await;
    assert!(matches!(found, Sent::Refused(Stage::Recipient, _)), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reply_too_many_is_no_answer_to_what_comes_next() {
    for script in [
        vec![("MAIL", "250 ok\r\n250 ok\r\n")],
        vec![("MAIL", "250 ok\r\n"), ("RCPT", "550 no\r\n250 ok\r\n")],
        until_data(vec![]).into_iter().take(2).chain([("DATA", "354 go\r\n250 ok\r\n")]).collect(),
    ] {
        let (sent, _) = sent(script.clone()).await;
        assert!(matches!(sent, Sent::NotTaken(_)), "{script:?}: {sent:?}");
    }
    let (sent, _) = sent(until_data(vec![(".", "250 ok\r\n550 no\r\n")])).await;
    assert_eq!(sent, Sent::Unknown(Error::OutOfTurn), "which of them is the answer?");
}

#[tokio::test(start_paused = true)]
async fn a_transcript_tells_no_secret_and_no_content() {
    for (ways, script) in [
        ("PLAIN", vec![("AUTH PLAIN ", "535 5.7.8 no: AHJvYm90AHMzY3JldA==, s3cret\r\n")]),
        (
            "LOGIN",
            vec![
                ("AUTH LOGIN", "334 VXNlcm5hbWU6\r\n"),
                ("cm9ib3Q=", "334 UGFzc3dvcmQ6\r\n"),
                ("czNjcmV0", "235 2.7.0 ok\r\n"),
            ],
        ),
    ] {
        let (ours, theirs) = duplex(1 << 16);
        let ehlo: &'static str = format!("250-mx\r\n250 AUTH {ways}\r\n").leak();
        let mut all = vec![("EHLO", ehlo)];
        all.extend(script);
        all.extend(until_data(vec![(".", "550 5.7.1 not wanted\r\n")]));
        let server = tokio::spawn(play(theirs, all));
        let transcript = Transcript::default();
        let mut client = Client::greet(ours, PATIENCE, transcript.clone()).await.unwrap();
        let offered = client.hello("estafette.example").await.unwrap();
        let login = client.login(&offered, "robot", "s3cret").await;
        drop(client.send(ENVELOPE).await);
        // What is logged of a refusal, as what is shown of it, and what `{:?}` would show.
        let refused = login.err().map(|error| format!("{error} {error:?}")).unwrap_or_default();
        assert_eq!(refused.contains("no: ***, ***"), ways == "PLAIN", "{refused}");
        let text = transcript.text();
        for secret in ["s3cret", "AHJvYm90AHMzY3JldA=="] {
            assert!(!refused.contains(secret), "{secret}: {refused}");
        }
        for secret in ["s3cret", "AHJvYm90AHMzY3JldA==", "czNjcmV0", "cm9ib3Q=", "@", "Subject"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains(&format!("> AUTH {ways}")) && text.contains("***"), "{text}");
        let end = "> RCPT TO:<recipient>\n< 250 ok\n> DATA\n< 354 go\n> [36 bytes]\n> .\n\
                   < 550 5.7.1 not wanted\n";
        assert!(text.ends_with(end), "{text}");
        drop(client);
        server.await.unwrap();
    }
}
