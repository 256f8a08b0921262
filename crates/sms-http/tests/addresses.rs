//! The URLs of requests, and those that gateways call back.

use sms_http::{Gateway, Message};

#[test]
fn a_link_in_a_text_is_no_part_of_the_url() {
    let text = "[request]\nmethod = 'GET'\nurl = '{base_url}/send?text={text}&dlr={callback_url}'\n\
                [request.fields]\nto = '{to_digits}'\n[answer]\n";
    let gateway = Gateway::read_description(text).unwrap();
    let message = Message {
        to: "+33612345678",
        text: "https://x.example/a&to=1 b#",
        callback_url: "https://otp.example/sms/main?token=t&attempt=att_1",
        ..Message::default()
    };
    let settings = [("base_url", "http://127.0.0.1:9/")];
    let url = gateway.request(&settings, &message).unwrap().url;
    let text = "https%3A%2F%2Fx.example%2Fa%26to%3D1%20b%23";
    let callback = "https%3A%2F%2Fotp.example%2Fsms%2Fmain%3Ftoken%3Dt%26attempt%3Datt_1";
    let expected = format!("http://127.0.0.1:9/send?text={text}&dlr={callback}&to=33612345678");
    assert_eq!(url, expected);
}

#[test]
fn a_receipt_is_of_one_segment_where_the_gateway_has_an_id_for_each() {
    let are = |preset| Gateway::preset(preset).unwrap().reports_segments();
    assert!(are("vonage"));
    for preset in ["twilio", "infobip", "kannel", "africastalking"] {
        assert!(!are(preset), "{preset}");
    }
}
