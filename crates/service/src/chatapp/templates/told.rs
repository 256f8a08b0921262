//! How a template stands by what the upstream says of it.

use cloud_api::business::{self, Listed};

use super::{Error, Status, Template};

/// What the upstream says of a template is so from now on.
pub(super) fn take_over(template: &mut Template, listed: &Listed) {
    if !listed.id.is_empty() {
        template.provider_id.clone_from(&listed.id);
    }
    if let Some(category) = listed.category {
        template.category = category;
    }
    hear_of(template, &listed.status, listed.reason.clone());
}

pub(super) fn hear_of(template: &mut Template, word: &str, reason: Option<String>) {
    if let Some(status) = business::status(word).and_then(|word| word.parse().ok()) {
        // What has something that values do not fill is sent no sooner than a sync finds it
        // without, whatever is said of it meanwhile; but that it is gone.
        if is_unfit(template) && word != "DELETED" {
            word.clone_into(&mut template.provider_status);
            return;
        }
        template.status = status;
        // That one is back (`REINSTATED`) is news, and no status of its own.
        let stands = if status == Status::Approved { status.as_str() } else { word };
        stands.clone_into(&mut template.provider_status);
        let why = reason.unwrap_or_else(|| word.to_owned());
        template.rejection_reason = (status == Status::Rejected).then_some(why);
    }
}

/// Whether a sync found something in it that values do not fill. Its reason says so, as to people.
pub(super) fn is_unfit(template: &Template) -> bool {
    template.rejection_reason.as_ref() == Some(&Error::Unfit.to_string())
}

/// What the upstream shows is what people read; `false` = values alone do not fill it.
pub(super) fn take_over_parts(template: &mut Template, Listed { contents, .. }: &Listed) -> bool {
    if !contents.is_fillable {
        return false;
    }
    template.body = contents.body.clone().unwrap_or_default();
    template.footer.clone_from(&contents.footer);
    template.buttons.clone_from(&contents.buttons);
    true
}
