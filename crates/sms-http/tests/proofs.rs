//! Which callbacks are believed, how much of them, and which descriptions are refused.

use sms_http::{Gateway, Incoming, Secrets};

#[test]
fn twilio_may_sign_with_the_usual_port_or_without_it() {
    use base64::Engine;
    use hmac::{Hmac, KeyInit, Mac};
    let prove = |url: &str, signed: &str| {
        let mut mac = <Hmac<sha1::Sha1> as KeyInit>::new_from_slice(b"12345").unwrap();
        mac.update(format!("{signed}MessageSidSM1").as_bytes());
        let mac = base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes());
        let headers = [("X-Twilio-Signature".to_owned(), mac)];
        let body = b"MessageSid=SM1";
        let incoming = Incoming { url, query: "", headers: &headers, body, from: None };
        let gateway = Gateway::preset("twilio").unwrap();
        gateway.prove(incoming, Secrets { token: "", key: "12345" }).is_ok()
    };
    for host in ["sms.example.org", "[2001:db8::1]"] {
        let url = format!("https://{host}/v1/upstream?a=b:1");
        assert!(prove(&url, &url));
        assert!(prove(&url, &format!("https://{host}:443/v1/upstream?a=b:1")), "{host}");
        assert!(!prove(&url, &format!("https://{host}:80/v1/upstream?a=b:1")));
    }
    let own = "https://sms.example.org:8443/v1";
    assert!(prove(own, own) && !prove(own, "https://sms.example.org:443/v1"));
    assert!(prove("http://sms.example.org/v1", "http://sms.example.org:80/v1"));
}

#[test]
fn what_is_not_proved_is_not_believed() {
    // The example of Twilio's documentation of its signatures.
    let url = "https://mycompany.com/myapp.php?foo=1&bar=2";
    let body = "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&\
        From=%2B14158675309&To=%2B18005551212";
    let signed = |signature: &str| vec![("X-Twilio-Signature".to_owned(), signature.to_owned())];
    let prove = |headers: &[(String, String)], key| {
        let incoming =
            Incoming { url, query: "foo=1&bar=2", headers, body: body.as_bytes(), from: None };
        let gateway = Gateway::preset("twilio").unwrap();
        gateway.prove(incoming, Secrets { token: "", key }).is_ok()
    };
    let good = "RSOYDt4T1cUTdK1PDd93/VVr8B8=";
    assert!(prove(&signed(good), "12345"));
    assert!(!prove(&signed(good), "12346") && !prove(&signed(good), "") && !prove(&[], "12345"));
    let token = |query: &str, token| {
        let incoming = Incoming { url: "", query, headers: &[], body: b"", from: None };
        let gateway = Gateway::preset("vonage").unwrap();
        gateway.prove(incoming, Secrets { token, key: "" }).is_ok()
    };
    assert!(token("a=b&token=s%20s", "s s"));
    assert!(!token("token=s", "t") && !token("", "t") && !token("token=", ""));
    let own = "[request]\nmethod='POST'\nurl='http://h'\n[answer]\n[verify]\n\
        by='hmac_sha256'\nheader='X-Sig'";
    let gateway = Gateway::read_description(own).unwrap();
    let mac = "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
    for (key, is_good) in [("key", true), ("kay", false)] {
        let headers = [("x-sig".to_owned(), mac.to_owned())];
        let body = b"The quick brown fox jumps over the lazy dog";
        let incoming = Incoming { url: "", query: "", headers: &headers, body, from: None };
        assert_eq!(gateway.prove(incoming, Secrets { token: "", key }).is_ok(), is_good);
    }
    // The signature covers the body: what stands in the URL is nobody's word, and of an empty body
    // nothing is signed.
    let sign = |mac: &str| [("x-sig".to_owned(), mac.to_owned())];
    let headers = sign(mac);
    let body = b"The quick brown fox jumps over the lazy dog";
    let query = "from=447400123456&text=STOP";
    let incoming = Incoming { url: "", query, headers: &headers, body, from: None };
    let proved = gateway.prove(incoming, Secrets { token: "", key: "key" }).unwrap();
    assert_eq!((proved.parameter("from"), proved.body), (None, &body[..]));
    let of_nothing = "5d5d139563c95b5967b9bd9a8c9b233a9dedb45072794cd232dc1b74832607d0";
    let headers = sign(of_nothing);
    let incoming = Incoming { url: "", query, headers: &headers, body: b"", from: None };
    assert!(gateway.prove(incoming, Secrets { token: "", key: "key" }).is_err());
    let by_url = format!("{own}\n[report]\nfate = 'status'\n[report.fates]\n");
    let refused = Gateway::read_description(&by_url);
    assert!(refused.is_err(), "a receipt whose message only the URL names");
}

#[test]
fn what_would_be_left_out_is_refused_when_it_is_read() {
    let described = |headers: &str, rules: &str| {
        let request = format!("[request]\nmethod = 'POST'\nurl = 'http://h'\n{headers}\n");
        Gateway::read_description(&format!("{request}[answer]\n{rules}"))
    };
    let rule = |status: &str| format!("[[answer.rules]]\nstatus = {status}\nis = 'permanent'\n");
    assert!(described("headers = { X-Key = 'a' }", &rule("[500, 599]")).is_ok());
    let told = described("headers = { 'X Bad' = 'a' }", "").err().unwrap().to_string();
    assert!(told.contains("\"X Bad\" is not the name of a header"), "{told}");
    let told = described("", &rule("[500, 200]")).err().unwrap().to_string();
    assert!(told.contains("[500, 200] is never met"), "{told}");
}
