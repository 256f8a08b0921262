//! Heads that HTTP does not allow, and headers that every answer has.

use super::wire::{Raw, header, is_last_problem};
use crate::world::{Engine, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_its_host_once() {
    let world = World::new(Engine::Lite).await;
    for (head, code) in [
        ("GET /livez HTTP/1.1\r\n\r\n", "required"),
        ("GET http://x/livez HTTP/1.1\r\n\r\n", "required"),
        ("GET /livez HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "invalid_type"),
        ("GET /livez HTTP/1.0\r\nHost: x\r\nhost: y\r\n\r\n", "invalid_type"),
        ("GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", "invalid_type"),
        ("GET /livez HTTP/1.1\r\nHost: me@x\r\n\r\n", "invalid_type"),
    ] {
        let mut raw = Raw::open(&world).await;
        raw.send(head).await;
        let (bytes, _) = raw.rest().await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains(&format!("\"code\":\"{code}\"")), "{text}");
        assert!(text.contains("header:Host"), "{text}");
        if head.contains("HTTP/1.1") {
            is_last_problem(&text, 400, "invalid_request");
        }
    }
    for good in [
        "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.0\r\n\r\n",
    ] {
        let mut raw = Raw::open(&world).await;
        raw.send(good).await;
        let (bytes, _) = raw.rest().await;
        assert!(bytes.starts_with(b"HTTP/1.") && bytes.ends_with(b"ok\n"), "{good}");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_chunked_or_of_a_length_and_nothing_else() {
    let world = World::new(Engine::Lite).await;
    let head = "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    for coding in ["gzip, chunked", "chunked\r\nTransfer-Encoding: chunked"] {
        let mut raw = Raw::open(&world).await;
        raw.send(format!("{head}Transfer-Encoding: {coding}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n")).await;
        let (bytes, _) = raw.rest().await;
        is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
    }
    for both in [
        "Content-Length: 12\r\nTransfer-Encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 12",
    ] {
        let mut raw = Raw::open(&world).await;
        raw.send(format!("{head}{both}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n")).await;
        let (bytes, _) = raw.rest().await;
        is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
    }
    for odd in ["Content-Encoding: gzip", "Content-Type: application/json"] {
        let mut raw = Raw::open(&world).await;
        raw.send(format!("{head}{odd}\r\nContent-Length: 2\r\n\r\n{{}}")).await;
        let (answer, _) = raw.answer().await;
        assert!(answer.starts_with("HTTP/1.1 415"), "{odd}: {answer}");
        // All of the body is there, so the connection goes on.
        raw.send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let (answer, _) = raw.answer().await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{odd}: {answer}");
        // Where it comes late, or not at all, the answer says that it does not.
        for promise in ["", "Expect: 100-continue\r\n"] {
            let mut raw = Raw::open(&world).await;
            raw.send(format!("{head}{odd}\r\n{promise}Content-Length: 2\r\n\r\n")).await;
            let (bytes, _) = raw.rest().await;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            is_last_problem(&text, 415, "unsupported_media_type");
        }
    }
    let mut raw = Raw::open(&world).await;
    let good = "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    raw.send(format!("{head}{good}")).await;
    let (bytes, _) = raw.rest().await;
    assert!(bytes.starts_with(b"HTTP/1.1 422"), "{}", String::from_utf8_lossy(&bytes));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_a_head_ends_in_crlf() {
    let world = World::new(Engine::Lite).await;
    let good = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let body = "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 4\r\n\r\n{\n\n}";
    for bad in [
        "GET /livez HTTP/1.1\nHost: x\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: x\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: x\r\n\n",
        "\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
        "PRI /livez HTTP/1.1\nHost: x\r\n\r\n",
    ] {
        let mut raw = Raw::open(&world).await;
        raw.send(bad).await;
        let (bytes, _) = raw.rest().await;
        is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
        // Nor behind others, one by one or at once, with and without a body.
        for (before, status) in [(good, "200"), (body, "422")] {
            let mut raw = Raw::open(&world).await;
            raw.send(before).await;
            assert!(raw.answer().await.0.starts_with(&format!("HTTP/1.1 {status}")));
            raw.send(bad).await;
            let (bytes, _) = raw.rest().await;
            is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
            let mut raw = Raw::open(&world).await;
            raw.send([before, bad].concat()).await;
            assert!(raw.answer().await.0.starts_with(&format!("HTTP/1.1 {status}")));
            let (bytes, _) = raw.rest().await;
            is_last_problem(&String::from_utf8_lossy(&bytes), 400, "invalid_request");
        }
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_for_browsers_load_nothing_foreign_and_are_in_no_frame() {
    let world = World::new(Engine::Lite).await;
    for path in ["/docs/", "/docs/start.js", "/errors/not_found"] {
        let mut raw = Raw::open(&world).await;
        raw.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let (head, _) = raw.answer().await;
        let policy = header(&head, "content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{path}: {head}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {head}");
        assert_eq!(header(&head, "x-frame-options"), "DENY", "{path}");
        assert_eq!(header(&head, "strict-transport-security"), "", "not without TLS");
    }
    world.finish().await;
}
