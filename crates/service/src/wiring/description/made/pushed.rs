//! The requests that webhook targets get, one for each kind of event, as the description has them.

use utoipa::openapi::path::{HttpMethod, OperationBuilder, PathItem, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{ContentBuilder, Ref, Required, ResponseBuilder};

use crate::events;

/// One for each kind of event, with its example.
pub(super) fn requests() -> Paths {
    let mut paths = Paths::new();
    for kind in events::Kind::ALL {
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("EventView")))
            .example(Some(kind.example_event()))
            .build();
        let body = RequestBodyBuilder::new()
            .content("application/json", content)
            .required(Some(Required::True));
        let taken = ResponseBuilder::new().description("Any 2xx within 15 s: it is delivered");
        let operation = OperationBuilder::new()
            .operation_id(Some(kind.as_str().replace('.', "_")))
            .summary(Some(kind.as_str()))
            .description(Some(format!(
                "{} Signed as Standard Webhooks have it: `webhook-id`, `webhook-timestamp` and \
                 `webhook-signature`.",
                kind.meaning()
            )))
            .tag("Events")
            .securities(Some([]))
            .request_body(Some(body.build()))
            .response("2XX", taken.build())
            .build();
        paths.paths.insert(kind.as_str().to_owned(), PathItem::new(HttpMethod::Post, operation));
    }
    paths
}
