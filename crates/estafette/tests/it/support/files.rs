//! Attachments from outside: what is taken, what comes back, who gets it, and when it goes.

use std::time::Duration;

use clock::{DAY, HOUR};
use estafette::app::Env;
use estafette::config::Config;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{answer, change, each, messages, open, staff};
use crate::on_every_engine;
use crate::world::contract::is_id;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, Engine, World, eventually};

on_every_engine!(
    a_file_is_uploaded_and_downloaded,
    content_name_and_declared_type_must_agree,
    a_file_is_judged_by_its_first_bytes,
    a_file_of_ten_mebibytes_is_the_largest,
    others_files_and_files_of_notes_do_not_exist,
    a_preview_is_drawn_anew,
    an_upload_that_is_no_multipart_is_refused,
    a_file_that_is_lost_is_not_asked_for_again,
    storage_of_an_account_is_bounded with little_storage,
    files_go_after_their_time_and_with_the_person with patient_people,
);

/// A PNG of one pixel, from the libpng test images.
pub fn png() -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        let body = [&kind[..], data].concat();
        bytes.extend(&body);
        bytes.extend(crc(&body).to_be_bytes());
    };
    chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]);
    // zlib, stored: one row, no filter, one grey pixel.
    chunk(b"IDAT", &[0x78, 0x01, 0x01, 2, 0, 0xfd, 0xff, 0, 0x80, 0, 0x82, 0, 0x81]);
    chunk(b"IEND", &[]);
    bytes
}

/// CRC-32 as PNG has it.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

/// A GIF of one pixel.
fn gif() -> Vec<u8> {
    let mut bytes = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff".to_vec();
    bytes.extend(b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b");
    bytes
}

pub fn pdf(size: usize) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    bytes.resize(size - 7, b' ');
    bytes.extend(b"\n%%EOF\n");
    bytes
}

pub const BOUNDARY: &str = "Xy7boundary";

/// One part of a form.
fn part(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("--{BOUNDARY}\r\n{head}\r\n\r\n").as_bytes(), body, b"\r\n"].concat()
}

/// A form with a file, and what else is in it.
pub fn form(name: &str, kind: Option<&str>, bytes: &[u8], more: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![];
    for (name, value) in more {
        let head = format!("Content-Disposition: form-data; name=\"{name}\"");
        body.extend(part(&head, value.as_bytes()));
    }
    let kind = kind.map(|kind| format!("\r\nContent-Type: {kind}")).unwrap_or_default();
    let head = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"{kind}");
    body.extend(part(&head, bytes));
    body.extend(format!("--{BOUNDARY}--\r\n").into_bytes());
    body
}

pub fn kind() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// The user uploads.
pub async fn upload(
    ada: &Tenant<'_>,
    ticket: &str,
    (name, kind_of, bytes): (&str, Option<&str>, &[u8]),
    more: &[(&str, &str)],
) -> Answer {
    let path = format!("/v1/support/tickets/{ticket}/files");
    ada.desk("POST", &path).raw(&kind(), form(name, kind_of, bytes, more)).await
}

async fn upload_by_staff(world: &World, ticket: &str, more: &[(&str, &str)]) -> Answer {
    let path = format!("/support/tickets/{ticket}/files");
    let body = form("note.png", Some("image/png"), &png(), more);
    staff(world, "POST", &path).await.raw(&kind(), body).await
}

fn file_of(message: &Value) -> String {
    message["attachments"][0]["id"].as_str().expect("an attachment").to_owned()
}

async fn a_file_is_uploaded_and_downloaded(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let file = ("été.png", Some("image/png"), &png()[..]);
    let sent =
        upload(&ada, &id, file, &[("message", "see there"), ("client_message_id", "c")]).await;
    let sent = sent.ok();
    assert_eq!((sent.number("seq"), sent.word("message")), (2, "see there"));
    let attached = &sent.field("attachments")[0];
    let length = i64::try_from(png().len()).unwrap();
    assert_eq!(attached["filename"], "été.png");
    assert_eq!(
        (&attached["content_type"], &attached["size"]),
        (&json!("image/png"), &json!(length))
    );
    let file_id = file_of(&sent.body);
    assert!(is_id("fil", &file_id));
    assert_eq!(each(&messages(&ada, &id).await, "attachments")[1], sent.field("attachments"));
    let again = upload(&ada, &id, file, &[("client_message_id", "c")]).await.ok();
    assert_eq!(again.word("id"), sent.word("id"), "a repeat is no second file");
    let got =
        ada.desk("GET", &format!("/v1/support-ticket-files/{file_id}")).header("accept", "image/*");
    let got = got.await.ok();
    assert_eq!(got.head("content-length"), length.to_string());
    for (name, value) in [
        ("content-type", "image/png"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "private, no-store"),
    ] {
        assert_eq!(got.head(name), value, "{name}");
    }
    let disposition = got.headers["content-disposition"].to_str().unwrap();
    assert_eq!(disposition, "attachment; filename=\"_t_.png\"; filename*=UTF-8''%C3%A9t%C3%A9.png");
    let there = staff(world, "GET", &format!("/support-ticket-files/{file_id}")).await.await.ok();
    assert_eq!(there.text, got.text);
    change(world, &id, json!({"status": "closed"})).await.ok();
    upload(&ada, &id, file, &[]).await.problem("ticket_closed");
    ada.desk("GET", &format!("/v1/support-ticket-files/{file_id}")).await.ok();
}

async fn content_name_and_declared_type_must_agree(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let (png, gif, pdf) = (png(), gif(), pdf(100));
    for (name, kind, bytes) in [
        ("a.png", Some("image/png"), &png),
        ("A.PNG", Some("IMAGE/PNG; x=y"), &png),
        ("a.png", None, &png),
        ("a.b.gif", Some("image/gif"), &gif),
        ("a.pdf", Some("application/pdf"), &pdf),
    ] {
        upload(&ada, &id, (name, kind, bytes), &[]).await.ok();
    }
    for (name, kind, bytes) in [
        ("a.gif", Some("image/png"), &png),
        ("a.png", Some("image/gif"), &png),
        ("a.png", Some("text/html"), &png),
        ("a.png", Some("image/png"), &gif),
        ("a", Some("image/png"), &png),
        ("a.png.exe", Some("image/png"), &png),
        ("a.svg", Some("image/svg+xml"), &b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec()),
        ("a.html", Some("text/html"), &b"<script>alert(1)</script>".to_vec()),
        ("a.png", Some("image/png"), &vec![]),
        ("a.pdf", Some("application/pdf"), &b"MZ %PDF-1.7 %%EOF".to_vec()),
    ] {
        let refused = upload(&ada, &id, (name, kind, bytes), &[]).await;
        refused.problem("unsupported_file_type");
    }
    assert_eq!(messages(&ada, &id).await.len(), 6, "nothing is left of what was refused");
}

async fn a_file_is_judged_by_its_first_bytes(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let with = |bytes: Vec<u8>, tail: &[u8]| [&bytes[..], tail].concat();
    for (name, bytes, has_preview) in [
        ("a.png", png(), true),
        ("a.png", png()[..20].to_vec(), false),
        ("a.gif", b"GIF89a".to_vec(), false),
        ("a.jpg", b"\xff\xd8\xff\xd9".to_vec(), false),
        ("a.webp", b"RIFF\x04\0\0\0WEBP".to_vec(), false),
        ("a.pdf", b"%PDF-1.4\n%%EOF".to_vec(), false),
    ] {
        let sent = upload(&ada, &id, (name, None, &bytes), &[]).await.ok();
        let path = format!("/v1/support-ticket-files/{}/preview", file_of(&sent.body));
        let preview = ada.desk("GET", &path).await;
        assert_eq!(preview.status, if has_preview { 200 } else { 404 }, "{name}");
    }
    let script = b"<script>alert(1)</script>";
    let mut huge = png();
    huge[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
    huge[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
    let sum = crc(&huge[12..29]).to_be_bytes();
    huge[29..33].copy_from_slice(&sum);
    let page = b"GIF89a/*<script>*/=1;alert(1)".to_vec();
    let (image, text) = (with(png(), b"\0"), with(pdf(100), script));
    for (name, bytes) in [("a.png", image), ("a.pdf", text), ("a.gif", page), ("a.png", huge)] {
        let refused = upload(&ada, &id, (name, None, &bytes), &[]).await;
        refused.problem("unsupported_file_type");
    }
}

async fn a_file_of_ten_mebibytes_is_the_largest(world: &World) {
    const LARGEST: usize = 10 * 1024 * 1024;
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let whole = upload(&ada, &id, ("a.pdf", None, &pdf(LARGEST)), &[]).await.ok();
    let path = format!("/v1/support-ticket-files/{}", file_of(&whole.body));
    assert_eq!(ada.desk("GET", &path).await.ok().text.len(), LARGEST);
    upload(&ada, &id, ("a.pdf", None, &pdf(LARGEST + 1)), &[]).await.problem("file_too_large");
    // What is much larger is not even read: the client may see a broken connection instead.
    let body = form("a.pdf", None, &vec![b'x'; 3 * LARGEST], &[]);
    let path = format!("/v1/support/tickets/{id}/files");
    let url = format!("http://{}{path}", world.address(ada.env));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let call = client.post(url).bearer_auth(&ada.token).header("content-type", kind()).body(body);
    if let Ok(answer) = call.send().await {
        assert_eq!(answer.status(), 413);
    }
    assert_eq!(messages(&ada, &id).await.len(), 2);
}

async fn others_files_and_files_of_notes_do_not_exist(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let id = open(&ada, "a", "m").await;
    let file = ("a.png", Some("image/png"), &png()[..]);
    let own = file_of(&upload(&ada, &id, file, &[]).await.ok().body);
    upload(&eve, &id, file, &[]).await.problem("not_found");
    let note =
        upload_by_staff(world, &id, &[("internal", "true"), ("message", "hidden")]).await.ok();
    assert_eq!(note.field("internal"), &json!(true));
    // What is not quite `true` must not become public.
    for word in ["True", "1", "yes"] {
        let refused = upload_by_staff(world, &id, &[("internal", word)]).await;
        refused.fault("/internal", "invalid_type");
    }
    let hidden = file_of(&note.body);
    let public = file_of(&upload_by_staff(world, &id, &[]).await.ok().body);
    for suffix in ["", "/preview"] {
        let path = |file: &str| format!("/v1/support-ticket-files/{file}{suffix}");
        ada.desk("GET", &path(&own)).await.ok();
        ada.desk("GET", &path(&public)).await.ok();
        ada.desk("GET", &path(&hidden)).await.problem("not_found");
        ada.get(&path(&own)).await.problem("missing_credentials");
        for file in [&own, &public, &hidden] {
            eve.desk("GET", &path(file)).await.problem("not_found");
            let path = format!("/support-ticket-files/{file}{suffix}");
            staff(world, "GET", &path).await.await.ok();
        }
    }
    let live = ada.on_live().await;
    live.desk("GET", &format!("/v1/support-ticket-files/{own}")).await.problem("not_found");
    assert_eq!(messages(&ada, &id).await.len(), 3, "the note's file is in no list");
    // A user cannot make notes, however they ask.
    let tricked = upload(&ada, &id, file, &[("internal", "true")]).await;
    tricked.problem("invalid_request");
}

async fn a_preview_is_drawn_anew(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let mut secretive = png();
    let text = b"tEXtLocation\0the secret place";
    let length = u32::try_from(text.len() - 4).unwrap().to_be_bytes();
    let chunk = [&length[..], text, &crc(text).to_be_bytes()].concat();
    secretive.splice(33..33, chunk);
    let file = ("a.png", Some("image/png"), &secretive[..]);
    let sent = file_of(&upload(&ada, &id, file, &[]).await.ok().body);
    let whole = ada.desk("GET", &format!("/v1/support-ticket-files/{sent}")).await.ok();
    assert!(whole.text.contains("the secret place"), "the original is as it was sent");
    let small = ada.desk("GET", &format!("/v1/support-ticket-files/{sent}/preview")).await.ok();
    assert_eq!(
        (small.head("content-type"), small.head("content-disposition")),
        ("image/png", "inline")
    );
    assert!(!small.text.contains("secret") && small.text.contains("IHDR"), "{}", small.text);
    let file = ("a.pdf", None, &pdf(100)[..]);
    let paper = file_of(&upload(&ada, &id, file, &[]).await.ok().body);
    let none = ada.desk("GET", &format!("/v1/support-ticket-files/{paper}/preview")).await;
    none.problem("not_found");
}

async fn an_upload_that_is_no_multipart_is_refused(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let path = format!("/v1/support/tickets/{id}/files");
    let post = |kind: &str, body: Vec<u8>| ada.desk("POST", &path).raw(kind, body);
    post("application/json", b"{}".to_vec()).await.problem("unsupported_media_type");
    post("multipart/form-data", vec![]).await.problem("unsupported_media_type");
    post(&kind(), b"nonsense".to_vec()).await.problem("invalid_request");
    let whole = form("a.png", None, &png(), &[]);
    post(&kind(), whole[..whole.len() - 20].to_vec()).await.problem("invalid_request");
    let odd = post(&kind(), form("a.png", None, &png(), &[("x/y", "y")])).await;
    assert_eq!(odd.problem("invalid_request").item("/x~1y"), Some("unknown_field".into()));
    let two = form("a.png", None, &png(), &[("message", "1"), ("message", "2")]);
    let twice = post(&kind(), two).await.problem("invalid_request");
    assert_eq!(twice.item("/message"), Some("invalid_type".into()), "{}", twice.text);
    let long = "x".repeat(10_001);
    let long = form("a.png", None, &png(), &[("message", &long)]);
    post(&kind(), long).await.fault("/message", "too_long");
    let text = part("Content-Disposition: form-data; name=\"message\"", b"m");
    let text = [text, format!("--{BOUNDARY}--\r\n").into_bytes()].concat();
    post(&kind(), text).await.fault("/file", "required");
    let nameless = part("Content-Disposition: form-data; name=\"file\"", b"m");
    let nameless = [nameless, format!("--{BOUNDARY}--\r\n").into_bytes()].concat();
    post(&kind(), nameless).await.fault("/file", "invalid_type");
    // JSON routes take no forms.
    let path = "/v1/support/tickets";
    let form = ada.desk("POST", path).raw(&kind(), form("a.png", None, &png(), &[]));
    form.await.problem("unsupported_media_type");
    assert_eq!(messages(&ada, &id).await.len(), 1);
}

pub fn little_storage(config: &mut Config) {
    config.support.account_storage_mib = 1;
}

/// Somebody restored the database and not the files.
async fn a_file_that_is_lost_is_not_asked_for_again(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let file = ("a.png", Some("image/png"), &png()[..]);
    let sent = file_of(&upload(&ada, &id, file, &[]).await.ok().body);
    let path = format!("/v1/support-ticket-files/{sent}");
    ada.desk("GET", &path).await.ok();
    std::fs::remove_dir_all(world.folder().join("files")).unwrap();
    let lost = ada.desk("GET", &path).await.problem("storage_unavailable");
    assert_eq!(lost.head("retry-after"), "", "it does not come back: {}", lost.text);
    assert!(lost.word("detail").contains("restore it"), "{}", lost.text);
}

async fn storage_of_an_account_is_bounded(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (of_ada, of_eve) = (open(&ada, "a", "m").await, open(&eve, "a", "m").await);
    let big = pdf(600 * 1024);
    upload(&ada, &of_ada, ("a.pdf", None, &big), &[]).await.ok();
    upload(&ada, &of_ada, ("b.pdf", None, &big), &[]).await.problem("limit_reached");
    // What staff send takes nothing of it, and gives nothing back.
    for _ in 0..2 {
        let path = format!("/v1/admin/support/tickets/{of_ada}/files");
        let body = form("s.pdf", None, &big, &[("internal", "true")]);
        let call = world.call("POST", Env::Live, &path).bearer(world.staff().await);
        call.raw(&kind(), body).await.ok();
    }
    upload(&eve, &of_eve, ("a.pdf", None, &big), &[]).await.ok();
    upload(&ada, &of_ada, ("c.png", None, &png()), &[]).await.ok();
    assert_eq!(messages(&ada, &of_ada).await.len(), 3);
}

fn patient_people(config: &mut Config) {
    config.access.staff_token_s = 366 * 86_400;
    config.access.portal_token_s = 366 * 86_400;
    config.retention.ticket_files_d = 100;
}

/// Files that are in the storage.
pub fn objects(world: &World) -> usize {
    let mut folders = vec![world.folder().join("files")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { count += 1 }
        }
    }
    count
}

async fn files_go_after_their_time_and_with_the_person(world: &World) {
    let ada = world.account("ada").await;
    let (old, named) = (open(&ada, "a", "m").await, open(&ada, "b", "m").await);
    let file = ("a.png", Some("image/png"), &png()[..]);
    let of_old = file_of(&upload(&ada, &old, file, &[]).await.ok().body);
    let words = format!("a picture of {}", phone("5678"));
    let of_person = file_of(&upload(&ada, &named, file, &[("message", &words)]).await.ok().body);
    let by_name = (&*format!("{}.png", phone("5678")), Some("image/png"), &png()[..]);
    let of_name = file_of(&upload(&ada, &named, by_name, &[]).await.ok().body);
    let other = file_of(&upload(&ada, &named, file, &[]).await.ok().body);
    assert_eq!(objects(world), 8, "four files and their previews");
    let path = |file: &str| format!("/v1/support-ticket-files/{file}");
    change(world, &old, json!({"status": "closed"})).await.ok();
    let body = json!({"phone": phone("5678")});
    let staff = world.staff().await;
    world.post(Env::Live, "/v1/admin/erasures").bearer(staff).json(body).await.ok();
    ada.desk("GET", &path(&of_person)).await.problem("file_expired");
    ada.desk("GET", &path(&of_name)).await.problem("file_expired");
    assert_eq!(crate::erasure::holding(world, &phone("5678")).await, Vec::<String>::new());
    world.advance(HOUR).await;
    world.housekeep().await;
    assert_eq!(objects(world), 4);
    world.advance(101 * DAY).await;
    world.housekeep().await;
    ada.desk("GET", &path(&of_old)).await.problem("file_expired");
    world.advance(HOUR).await;
    world.housekeep().await;
    assert_eq!(objects(world), 2);
    ada.desk("GET", &path(&other)).await.ok();
    answer(world, &named, json!({"message": "still there"})).await.ok();
}

/// A scanner that says one thing to everybody.
async fn scanner(says: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut seen = vec![];
                let mut buffer = [0; 4096];
                while !seen.ends_with(&[0, 0, 0, 0]) {
                    match stream.read(&mut buffer).await {
                        Ok(count) if count > 0 => seen.extend_from_slice(&buffer[..count]),
                        _ => return,
                    }
                }
                let _gone = stream.write_all(says).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_scanner_does_not_clear_is_not_taken() {
    for (says, code) in [
        (&b"stream: OK\0"[..], ""),
        (b"stream: Win.Test.EICAR_HDB-1 FOUND\0", "unsupported_file_type"),
        (b"INSTREAM size limit exceeded. ERROR\0", "overloaded"),
        (b"", "overloaded"),
    ] {
        let address = scanner(says).await;
        let world = World::with(Engine::Lite, |config| config.support.clamd = address).await;
        let ada = world.account("ada").await;
        let id = open(&ada, "a", "m").await;
        let answer = upload(&ada, &id, ("a.png", None, &png()), &[]).await;
        if code.is_empty() {
            answer.ok();
        } else {
            answer.problem(code);
            assert_eq!(objects(&world), 0, "nothing is left of it");
        }
        world.finish().await;
    }
    let nobody = |config: &mut Config| "127.0.0.1:1".clone_into(&mut config.support.clamd);
    let world = World::with(Engine::Lite, nobody).await;
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    upload(&ada, &id, ("a.png", None, &png()), &[]).await.problem("overloaded");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_drips_is_cut_and_holds_nobody_up() {
    let hurry = |config: &mut Config| {
        config.server.body_timeout_ms = 400;
        config.server.slowest_bytes_per_s = 100_000;
    };
    let world = World::with(Engine::Lite, hurry).await;
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let mut stream = tokio::net::TcpStream::connect(world.address(ada.env)).await.unwrap();
    let head = format!(
        "POST /v1/support/tickets/{id}/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: {}\r\nContent-Length: 100000\r\n\r\n",
        ada.token,
        kind()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let form = form("a.png", None, &png(), &[]);
    for byte in form.chunks(10).take(5) {
        let _cut = stream.write_all(byte).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("an end").unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("request_timeout"));
    upload(&ada, &id, ("a.png", None, &png()), &[]).await.ok();
    let place = async || upload(&ada, &id, ("b.png", None, &png()), &[]).await;
    eventually(async || Some(place().await).filter(|answer| answer.status == 200)).await;
    world.finish().await;
}
