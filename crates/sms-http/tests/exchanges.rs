//! Recorded exchanges with each gateway: the request that it gets, what its answers and callbacks
//! mean.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use sms_http::{
    Brought, Fate, Gateway, Incoming, Meaning, Message, PRESETS, Part, Secrets, Written,
};

const SETTINGS: [(&str, &str); 3] =
    [("username", "user&1"), ("password", "se cret"), ("base_url", "http://127.0.0.1:9/")];

fn message() -> Message<'static> {
    Message {
        to: "+33612345678",
        from: "ACME",
        text: "Ça & {va}? \"1\"",
        id: "att_1",
        callback_url: "https://otp.example/v1/upstream/sms/main?token=t&attempt=att_1",
        validity_s: 301,
        is_unicode: false,
        to_national: "612345678",
        class: "bulk",
        segments: 1,
    }
}

fn sent(preset: &str) -> sms_http::Request {
    Gateway::preset(preset).unwrap().request(&SETTINGS, &message()).unwrap()
}

fn meaning(preset: &str, status: u16, body: &str) -> (Meaning, Vec<String>, String) {
    let answer = Gateway::preset(preset).unwrap().read(status, body.as_bytes());
    (answer.meaning, answer.ids, answer.code)
}

fn taken(preset: &str, kind: &str, query: &str, body: &str) -> Brought {
    let headers = [("content-type".to_owned(), kind.to_owned())];
    let body = body.as_bytes();
    let incoming = Incoming { url: "", query, headers: &headers, body, from: None };
    Gateway::preset(preset).unwrap().take(&incoming)
}

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

#[test]
fn every_preset_is_well_formed() {
    for preset in PRESETS {
        let request = sent(preset);
        assert!(request.url.starts_with("http://127.0.0.1:9/"), "{preset}: {}", request.url);
        assert!(!request.url.contains('{'), "{preset}");
    }
    assert!(Gateway::preset("nobody").is_err());
    assert!(Gateway::read_description("[request]\nmethod = 'PUT'").is_err());
}

#[test]
fn values_are_written_as_their_place_needs_them() {
    let twilio = sent("twilio");
    assert_eq!(twilio.url, "http://127.0.0.1:9/2010-04-01/Accounts/user%261/Messages.json");
    assert!(twilio.body.contains("To=%2B33612345678&ValidityPeriod=301"), "{}", twilio.body);
    assert!(twilio.body.starts_with("Body=%C3%87a+%26+%7Bva%7D%3F+%221%22&From=ACME&"));
    let login = ("Authorization".to_owned(), "Basic dXNlciYxOnNlIGNyZXQ=".to_owned());
    assert!(twilio.headers.contains(&login));
    let infobip = sent("infobip");
    let body: serde_json::Value = serde_json::from_str(&infobip.body).unwrap();
    assert_eq!(body["messages"][0]["text"], "Ça & {va}? \"1\"");
    assert_eq!(body["messages"][0]["validityPeriod"], 5);
    assert_eq!(body["messages"][0]["destinations"][0]["to"], "33612345678");
    let kannel = sent("kannel");
    assert_eq!((kannel.method, kannel.body.as_str()), ("GET", ""));
    assert!(kannel.url.contains("dlr-url=https%3A%2F%2Fotp.example"), "{}", kannel.url);
    assert!(kannel.url.contains("%26status%3D%25d"), "{}", kannel.url);
    assert!(kannel.url.contains("text=%C3%87a+%26+%7Bva%7D"), "{}", kannel.url);
    // A header does not end where a value says so.
    let settings = [("username", "u"), ("password", "a\r\nX: y"), ("base_url", "http://h")];
    let odd = Gateway::preset("africastalking").unwrap().request(&settings, &message()).unwrap();
    assert!(odd.headers.contains(&("apiKey".to_owned(), "aX: y".to_owned())));
    let jasmin = Gateway::preset("jasmin").unwrap();
    let unicode = Message { text: "я", is_unicode: true, ..message() };
    let unicode = jasmin.request(&SETTINGS, &unicode).unwrap().body;
    assert!(unicode.contains("coding=8") && unicode.contains("hex-content=044F"), "{unicode}");
    assert!(!unicode.contains("&content="), "{unicode}");
    assert!(Gateway::preset("twilio").unwrap().request(&[], &message()).is_err(), "no login");
}

#[test]
fn validity_stays_within_what_a_gateway_takes() {
    let body = |preset: &str, validity_s| {
        let message = Message { validity_s, ..message() };
        Gateway::preset(preset).unwrap().request(&SETTINGS, &message).unwrap().body
    };
    for (validity_s, expected) in [(301, "=301"), (86_400, "=36000")] {
        let twilio = body("twilio", validity_s);
        assert!(twilio.ends_with(&format!("&ValidityPeriod{expected}")), "{twilio}");
    }
    for (validity_s, expected) in [(5, "20000"), (301, "301000")] {
        let vonage = body("vonage", validity_s);
        assert!(vonage.ends_with(&format!("&ttl={expected}")), "{vonage}");
    }
    let infobip = body("infobip", 3 * 86_400);
    assert!(infobip.contains("\"validityPeriod\":2880"), "{infobip}");
}

/// What an answer means, with the ids of what was taken and the gateway's code.
fn says(preset: &str, status: u16, body: &str, (meaning, ids, code): (Meaning, &[&str], &str)) {
    let found = self::meaning(preset, status, body);
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(found, (meaning, ids, code.to_owned()), "{preset} {status} {body}");
}

/// What a refused login means where the gateway has no word for it.
const NOT_US: (Meaning, &[&str], &str) = (Meaning::Unfit, &[], "http 401");

#[test]
fn answers_of_twilio_and_vonage_mean_what_they_say() {
    use Meaning::{
        Accepted, BadRecipient, BadSender, Permanent, Temporary, Throttled, Unfit, Unknown,
    };
    let twilio = |status, body: &str, means| says("twilio", status, body, means);
    let queued = r#"{"sid": "SM1", "status": "queued", "error_code": null}"#;
    twilio(201, queued, (Accepted, &["SM1"], "http 201"));
    let refused = r#"{"code": 21211, "message": "x", "status": 400}"#;
    twilio(400, refused, (BadRecipient, &[], "21211"));
    twilio(400, r#"{"code": 21606}"#, (BadSender, &[], "21606"));
    twilio(429, r#"{"code": 20429}"#, (Throttled, &[], "20429"));
    twilio(403, r#"{"code": 21408}"#, (Unfit, &[], "21408"));
    twilio(401, r#"{"code": 20003}"#, (Unfit, &[], "20003"));
    twilio(404, r#"{"code": 20404}"#, (Unfit, &[], "20404"));
    twilio(400, r#"{"code": 21617}"#, (Permanent, &[], "21617"));
    // The gateway's own word counts, whatever the status.
    twilio(403, r#"{"code": 21610}"#, (BadRecipient, &[], "21610"));
    twilio(500, "oops", (Unknown, &[], "http 500"));
    twilio(503, "", (Temporary, &[], "http 503"));
    twilio(200, "<html>", (Unknown, &[], "http 200"));
    let vonage = |body: &str, means| says("vonage", 200, body, means);
    let both = r#"{"message-count": "2", "messages": [{"status": "0", "message-id": "A"},
        {"status": "0", "message-id": "B"}]}"#;
    vonage(both, (Accepted, &["A", "B"], "0"));
    let throttled = r#"{"messages": [{"status": "1", "error-text": "Throughput"}]}"#;
    vonage(throttled, (Throttled, &[], "1"));
    vonage(r#"{"messages": [{"status": "15"}]}"#, (BadSender, &[], "15"));
    let half = r#"{"messages": [{"status": "0", "message-id": "A"}, {"status": "12"}]}"#;
    vonage(half, (Permanent, &[], "12"));
    vonage(r#"{"messages": [{"status": "4"}]}"#, (Unfit, &[], "4"));
    vonage("<html>", (Unknown, &[], "http 200"));
}

#[test]
fn answers_of_africas_talking_and_infobip_mean_what_they_say() {
    use Meaning::{Accepted, BadRecipient, BadSender, Later, Permanent, Temporary, Unfit, Unknown};
    let africa = |status: u32, means| {
        let body = format!(
            "{{\"SMSMessageData\": {{\"Message\": \"Sent\", \"Recipients\": [{{\"statusCode\": \
             {status}, \"number\": \"+33612345678\", \"cost\": \"KES 0.8000\", \"status\": \"S\", \
             \"messageId\": \"ATX1\"}}]}}}}"
        );
        says("africastalking", 201, &body, means);
    };
    africa(101, (Accepted, &["ATX1"], "S"));
    africa(403, (BadRecipient, &[], "S"));
    africa(405, (Unfit, &[], "S"));
    africa(407, (Unfit, &[], "S"));
    africa(501, (Temporary, &[], "S"));
    says("africastalking", 401, "The supplied authentication is invalid", NOT_US);
    for (word, meaning) in [
        ("InvalidSenderId", BadSender),
        ("InsufficientBalance", Unfit),
        ("InvalidPhoneNumber", BadRecipient),
        ("InvalidRequest", Permanent),
    ] {
        let nobody = format!(r#"{{"SMSMessageData": {{"Message": "{word}", "Recipients": []}}}}"#);
        says("africastalking", 201, &nobody, (meaning, &[], "http 201"));
    }
    // A page in between says neither yes nor no.
    says("africastalking", 200, "<html>", (Unknown, &[], "http 200"));
    says("africastalking", 200, "{}", (Unknown, &[], "http 200"));
    let infobip = |group: &str, name: &str, means| {
        let body = format!(
            "{{\"messages\": [{{\"to\": \"33612345678\", \"messageId\": \"m1\", \"status\": \
             {{\"groupName\": \"{group}\", \"name\": \"{name}\"}}}}]}}"
        );
        says("infobip", 200, &body, means);
    };
    infobip("PENDING", "PENDING_ACCEPTED", (Accepted, &["m1"], "PENDING_ACCEPTED"));
    infobip("REJECTED", "REJECTED_DESTINATION", (BadRecipient, &[], "REJECTED_DESTINATION"));
    let poor = "REJECTED_NOT_ENOUGH_CREDITS";
    infobip("REJECTED", poor, (Unfit, &[], poor));
    infobip("REJECTED", "REJECTED_FLOODING", (Permanent, &[], "REJECTED_FLOODING"));
    for (name, meaning) in [
        ("REJECTED_ROUTE_NOT_AVAILABLE", Unfit),
        ("REJECTED_FLOODING_FILTER", Later),
        ("REJECTED_SYSTEM_ERROR", Temporary),
    ] {
        infobip("REJECTED", name, (meaning, &[], name));
    }
    // Sent once more under the same id: it has the first one.
    let again = "REJECTED_DUPLICATE_MESSAGE_ID";
    infobip("REJECTED", again, (Accepted, &["m1"], again));
    says("infobip", 401, r#"{"requestError": {"serviceException": {}}}"#, NOT_US);
    says("infobip", 200, "<html>", (Unknown, &[], "http 200"));
}

#[test]
fn answers_of_kannel_and_jasmin_mean_what_they_say() {
    use Meaning::{Accepted, Permanent, Temporary, Throttled, Unfit, Unknown};
    let kannel = |status, body: &str, means| says("kannel", status, body, means);
    kannel(202, "0: Accepted for delivery", (Accepted, &[""], "http 202"));
    kannel(200, "3: Queued for later delivery", (Accepted, &[""], "http 200"));
    kannel(200, "<html>", (Unknown, &[], "http 200"));
    kannel(503, "Temporal failure, try again later.", (Temporary, &[], "http 503"));
    kannel(404, "Not routable. Do not try again.", (Unfit, &[], "http 404"));
    kannel(403, "Authorization failed for sendsms", (Unfit, &[], "http 403"));
    let id = "07033084-5cfd-4812-90a4-e4d24ffb6e3d";
    says("jasmin", 200, &format!("Success \"{id}\""), (Accepted, &[id], "http 200"));
    says("jasmin", 200, "<html>", (Unknown, &[], "http 200"));
    for (status, why, meaning) in [
        (403, "Authentication failure for username:u", Unfit),
        (412, "Message is too long", Permanent),
        (412, "No route found", Unfit),
        (403, "User throughput exceeded", Throttled),
        (412, "Failover route has no bound connectors", Temporary),
        (500, "Cannot send submit_sm, check SMPPClientManagerPB log file for details", Temporary),
    ] {
        says("jasmin", status, &format!("Error \"{why}\""), (meaning, &[], why));
    }
}

#[test]
fn callbacks_bring_receipts() {
    let report = |brought: Brought| -> Vec<(String, Fate, String)> {
        brought.reports.into_iter().map(|it| (it.id, it.fate, it.error)).collect()
    };
    let one = |id: &str, fate, error: &str| vec![(id.to_owned(), fate, error.to_owned())];
    let twilio = "MessageSid=SM1&MessageStatus=undelivered&ErrorCode=30003&To=%2B336";
    assert_eq!(report(taken("twilio", FORM, "", twilio)), one("SM1", Fate::Undelivered, "30003"));
    let vonage = "messageId=A&status=delivered&err-code=0&msisdn=336";
    assert_eq!(report(taken("vonage", "", vonage, "")), one("A", Fate::Delivered, "0"));
    let json = r#"{"messageId": "A", "status": "expired", "err-code": "1"}"#;
    for kind in [JSON, "", "text/plain"] {
        assert_eq!(report(taken("vonage", kind, "", json)), one("A", Fate::Expired, "1"), "{kind}");
    }
    let batch = r#"{"results": [
        {"messageId": "m1", "status": {"groupName": "DELIVERED"}, "error": {"name": "NO_ERROR"}},
        {"messageId": "m2", "status": {"groupName": "UNDELIVERABLE"},
            "error": {"name": "EC_ABSENT"}},
        {"messageId": "m3", "status": {"groupName": "WHATEVER"}}, 7, {"messageId": ""}]}"#;
    let expected = [("m1", Fate::Delivered, "NO_ERROR"), ("m2", Fate::Undelivered, "EC_ABSENT")];
    let expected: Vec<_> =
        expected.map(|(id, fate, error)| (id.to_owned(), fate, error.to_owned())).to_vec();
    assert_eq!(report(taken("infobip", JSON, "", batch)), expected);
    let africa = "id=ATX1&status=Success&phoneNumber=%2B336";
    assert_eq!(report(taken("africastalking", FORM, "", africa)), one("ATX1", Fate::Delivered, ""));
    let kannel = "token=t&attempt=att_1&status=16&error=NACK%2F11";
    assert_eq!(report(taken("kannel", "", kannel, "")), one("", Fate::Rejected, "NACK/11"));
    let jasmin = "id=0703&message_status=UNDELIV&level=3&err=034&donedate=2601010000";
    assert_eq!(report(taken("jasmin", FORM, "", jasmin)), one("0703", Fate::Undelivered, "034"));
    let refused = "id=0704&message_status=ESME_RINVDSTADR&level=1";
    assert_eq!(report(taken("jasmin", FORM, "", refused)), one("0704", Fate::Rejected, ""));
    for odd in ["", "status=", "a=b", "%%%", "id=&message_status=DELIVRD"] {
        assert_eq!(taken("jasmin", FORM, "", odd), Brought::default(), "{odd}");
    }
}

#[test]
fn callbacks_bring_what_people_wrote() {
    let written = |text: &str, id: &str| {
        let (from, to) = ("33612345678".to_owned(), "38000".to_owned());
        vec![Written { from, to, text: text.to_owned(), id: id.to_owned(), ..Written::default() }]
    };
    for (preset, query, body, id) in [
        ("twilio", "", "From=33612345678&To=38000&Body=Stop+%26+go&MessageSid=SM2", "SM2"),
        ("vonage", "msisdn=33612345678&to=38000&text=Stop+%26+go&messageId=V2", "", "V2"),
        ("africastalking", "", "from=33612345678&to=38000&text=Stop+%26+go&id=A2", "A2"),
        ("kannel", "from=33612345678&to=38000&text=Stop+%26+go", "", ""),
        ("jasmin", "", "from=33612345678&to=38000&content=Stop+%26+go&id=J2", "J2"),
    ] {
        let mut brought = taken(preset, FORM, query, body);
        let raw = std::mem::take(&mut brought.written[0].raw);
        assert_eq!(
            raw["from"].as_str().or(raw["From"].as_str()).or(raw["msisdn"].as_str()),
            Some("33612345678")
        );
        assert_eq!(brought.written, written("Stop & go", id), "{preset}");
        assert!(brought.reports.is_empty(), "{preset}");
    }
}

#[test]
fn the_gateways_own_time_is_read_in_its_form() {
    let at = |preset: &str, kind: &str, query: &str, body: &str| {
        taken(preset, kind, query, body).written.first().unwrap().at_ms
    };
    let vonage = |time: &str| {
        let query = format!("msisdn=336&to=1&text=a&messageId=V&message-timestamp={time}");
        at("vonage", FORM, &query, "")
    };
    let noon = Some(1_763_899_200_000);
    assert_eq!(vonage("2025-11-23+12:00:00"), noon);
    assert_eq!(vonage("soon"), None);
    let infobip = |time: &str| {
        let body = format!(
            "{{\"results\": [{{\"from\": \"336\", \"to\": \"1\", \"text\": \"a\", \
             \"receivedAt\": \"{time}\"}}]}}"
        );
        at("infobip", JSON, "", &body)
    };
    assert_eq!(infobip("2025-11-23T12:00:00.000+0000"), noon);
    assert_eq!(infobip("2025-11-23T14:00:00.000+0200"), noon);
    assert_eq!(at("kannel", FORM, "from=336&to=1&text=a&time=1763899200", ""), noon);
    assert_eq!(at("kannel", FORM, "from=336&to=1&text=a&time=99999999999999999", ""), None);
    let africa = "from=336&to=1&text=a&id=A&date=2025-11-23+12%3A00%3A00";
    assert_eq!(at("africastalking", FORM, "", africa), noon);
}

#[test]
fn parts_and_octets_are_read() {
    let part = |rest: &str| {
        let query = format!("msisdn=336&to=1&text=a&messageId=V&concat=true&{rest}");
        taken("vonage", FORM, &query, "").written.first().unwrap().part.clone()
    };
    let second = Part { reference: "7".to_owned(), number: 2, total: 3 };
    assert_eq!(part("concat-ref=7&concat-total=3&concat-part=2"), Some(second));
    for whole in [
        "",
        "concat-ref=7&concat-total=1&concat-part=1",
        "concat-ref=7&concat-total=2",
        "concat-ref=7&concat-total=2&concat-part=3",
        "concat-ref=7&concat-total=2&concat-part=0",
        "concat-ref=7&concat-total=999&concat-part=1",
    ] {
        assert_eq!(part(whole), None, "{whole}");
    }
    let text = |rest: &str| {
        let body = format!("from=336&to=1&id=J&content=%04%4F&{rest}");
        taken("jasmin", FORM, "", &body).written.first().unwrap().text.clone()
    };
    assert_eq!(text("coding=8&binary=044f043D0020D83DDE00"), "ян 😀");
    assert_eq!(text("coding=0&binary=044F"), "\u{4}O");
    assert_eq!(text("coding=8&binary=04zz"), "\u{4}O");
    // Kannel brings the octets themselves. Those of many letters are no UTF-8.
    let text = |rest: &str| {
        let query = format!("from=336&to=1&{rest}");
        taken("kannel", "", &query, "").written.first().unwrap().text.clone()
    };
    assert_eq!(text("text=%04%4F%04%3D%00+%D8%3D%DE%00&coding=2"), "ян 😀");
    assert_eq!(text("coding=2&text=%00%C9%00%E9"), "Éé");
    assert_eq!(text("coding=0&text=%C3%89+%26+%0a"), "É & \n");
    assert_eq!(text("coding=2&text=%04%4F%0"), "я\u{2530}", "cut short");
    assert_eq!(text("coding=2&text="), "");
}

#[test]
fn what_has_no_text_is_a_message_all_the_same() {
    let picture = "From=336&To=1&Body=&MessageSid=MM1&NumMedia=1&MediaContentType0=image%2Fjpeg\
        &MediaUrl0=https%3A%2F%2Fexample.com%2F1";
    let incoming = taken("twilio", FORM, "token=t", picture);
    assert_eq!(incoming.written[0].text, "[image]");
    assert_eq!(incoming.written[0].raw["MediaUrl0"], "https://example.com/1");
    assert!(incoming.written[0].raw.get("token").is_none());
    let empty = taken("twilio", FORM, "", "From=336&To=1&Body=&MessageSid=SM1");
    assert_eq!(empty.written[0].text, "");
    let nul = taken("twilio", FORM, "", "From=336&To=1&Body=a%00b&MessageSid=SM1");
    assert_eq!(nul.written[0].text, "a\u{fffd}b");
}

#[test]
fn what_the_operator_has_is_not_delivered() {
    let fate = |name: &str| {
        let body = format!(
            "{{\"results\": [{{\"messageId\": \"m\", \"status\": \
             {{\"groupName\": \"DELIVERED\", \"name\": \"{name}\"}}}}]}}"
        );
        taken("infobip", JSON, "", &body).reports.first().unwrap().fate
    };
    assert_eq!(fate("DELIVERED_TO_OPERATOR"), Fate::Sent);
    assert_eq!(fate("DELIVERED_TO_HANDSET"), Fate::Delivered);
}

/// A login or an address that is refused says nothing of the message, unless the description does.
#[test]
fn an_answer_that_is_no_word_on_the_message_is_unfit() {
    let described = |rules: &str| {
        let text = format!("[request]\nmethod = 'POST'\nurl = 'http://h'\n[answer]\n{rules}");
        Gateway::read_description(&text)
    };
    let plain = described("").unwrap();
    for status in [301, 302, 308, 401, 402, 403, 404, 405, 407] {
        assert_eq!(plain.read(status, b"").meaning, Meaning::Unfit, "{status}");
    }
    for status in [400, 406, 410, 422] {
        assert_eq!(plain.read(status, b"").meaning, Meaning::Permanent, "{status}");
    }
    let own = "[[answer.rules]]\nat = '/why'\nin = ['blocked']\nis = 'bad_recipient'\n\
        [[answer.rules]]\nstatus = [404, 404]\nis = 'permanent'\n\
        [[answer.rules]]\nat = '/why'\nin = ['no credit']\nis = 'unfit'\n";
    let own = described(own).unwrap();
    for (status, body, meaning) in [
        (403, r#"{"why": "blocked"}"#, Meaning::BadRecipient),
        (404, "", Meaning::Permanent),
        (200, r#"{"why": "no credit"}"#, Meaning::Unfit),
        (403, r#"{"why": "who are you?"}"#, Meaning::Unfit),
    ] {
        assert_eq!(own.read(status, body.as_bytes()).meaning, meaning, "{status} {body}");
    }
    // A word that is none is answered with those that there are.
    let fault = described("[[answer.rules]]\nis = 'no'\n").unwrap_err().to_string();
    assert!(fault.contains("`unfit`") && fault.contains("`bad_sender`"), "{fault}");
}

/// A gateway of the field that no preset describes.
const OTHER: &str = r#"
[request]
method = "POST"
url = "{base_url}/send"
json = """{"n": "{to_national}", "c": "{class}", "parts": "number:segments",
    "enc": "{encoding}", "hex": "{text_hex}"}"""

[answer]
id = "/id"

[report]
id = "id"
status = "state"
states = { ok = "delivered" }

[verify]
by = "addresses"
networks = ["192.0.2.0/24", "2001:db8::7"]
"#;

#[test]
fn a_description_may_say_all_that_gateways_ask_for() {
    let gateway = Gateway::read_description(OTHER).unwrap();
    for (message, encoding, hex) in [
        (Message { text: "h\u{20ac}", ..message() }, "gsm7", "681B65"),
        (Message { text: "я😀", is_unicode: true, ..message() }, "ucs2", "044FD83DDE00"),
    ] {
        let request = gateway.request(&SETTINGS, &message).unwrap();
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        let wanted = serde_json::json!({
            "n": "612345678", "c": "bulk", "parts": 1, "enc": encoding, "hex": hex,
        });
        assert_eq!(body, wanted);
    }
}

#[test]
fn a_callback_may_be_proved_by_its_address() {
    let gateway = Gateway::read_description(OTHER).unwrap();
    assert!(!gateway.needs_token());
    let secrets = Secrets { token: "", key: "" };
    for (from, is_good) in [
        (Some("192.0.2.200"), true),
        (Some("::ffff:192.0.2.1"), true),
        (Some("2001:db8::7"), true),
        (Some("192.0.3.1"), false),
        (Some("2001:db8::8"), false),
        (None, false),
    ] {
        let address = from.map(|text| text.parse().unwrap());
        let incoming =
            Incoming { url: "", query: "token=t", headers: &[], body: b"", from: address };
        assert_eq!(gateway.prove(incoming, secrets).is_ok(), is_good, "{from:?}");
    }
    for wrong in ["[]", "['nowhere']"] {
        let text = OTHER.replace(r#"["192.0.2.0/24", "2001:db8::7"]"#, wrong);
        assert!(Gateway::read_description(&text).is_err(), "{wrong}");
    }
}

#[test]
fn the_description_in_the_docs_is_one() {
    let docs = include_str!("../../../docs/sms.md");
    let (_, text) = docs.split_once("```toml\n[defaults]").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let gateway = Gateway::read_description(&format!("[defaults]{text}")).unwrap();
    let request = gateway.request(&SETTINGS, &message()).unwrap();
    assert!(request.body.contains("dst=33612345678"), "{}", request.body);
    let body = br#"{"messages": [{"message-id": "m1", "status": "0"}]}"#;
    assert_eq!(gateway.read(200, body).ids, ["m1"]);
}
