//! The guides of `docs/` as the reference shows them: beside the endpoints that they are about,
//! linked with each other, and without what only whoever runs the service reads.

/// How guides say where the reference is, for those who read them elsewhere.
const ELSEWHERE: &str = "Endpoints and fields are in the reference at `/docs` of a running \
    service, errors in\n[errors.md](errors.md).\n\n";
/// What stands between these is the operator's, and not in the reference. No page of Markdown shows
/// them.
const OPERATOR: [&str; 2] = ["<!-- operator -->", "<!-- /operator -->"];

/// A guide, and the name of its file.
struct Guide {
    file: &'static str,
    text: &'static str,
    /// What it is called where a link has only the name of its file.
    title: &'static str,
    place: Place,
}

/// Where a guide is shown.
#[derive(PartialEq, Eq)]
enum Place {
    /// Before all endpoints.
    Introduction,
    /// Above the endpoints of the tag that is its title.
    Tag,
}

const fn introduction(title: &'static str, file: &'static str, text: &'static str) -> Guide {
    Guide { file, text, title, place: Place::Introduction }
}

const fn of_tag(title: &'static str, file: &'static str, text: &'static str) -> Guide {
    Guide { file, text, title, place: Place::Tag }
}

const GUIDES: [Guide; 10] = [
    introduction("First steps", "first-steps.md", include_str!("../../../../docs/first-steps.md")),
    introduction("API design", "api-design.md", include_str!("../../../../docs/api-design.md")),
    of_tag("OTP", "otp.md", include_str!("../../../../docs/otp.md")),
    of_tag("Chat-app", "chatapp.md", include_str!("../../../../docs/chatapp.md")),
    of_tag("SMS", "sms.md", include_str!("../../../../docs/sms.md")),
    of_tag("Email", "email.md", include_str!("../../../../docs/email.md")),
    of_tag("Credits", "credits.md", include_str!("../../../../docs/credits.md")),
    of_tag("Webhooks", "webhooks.md", include_str!("../../../../docs/webhooks.md")),
    of_tag("Events", "events.md", include_str!("../../../../docs/events.md")),
    of_tag("Support", "support.md", include_str!("../../../../docs/support.md")),
];

impl Guide {
    /// Where the viewer shows it.
    fn anchor(&self) -> String {
        match self.place {
            Place::Introduction => {
                format!("#description/{}", self.file.trim_end_matches(".md"))
            }
            Place::Tag => format!("#tag/{}", self.title.to_ascii_lowercase()),
        }
    }

    fn shown(&self) -> String {
        let text = match self.place {
            Place::Introduction => self.text,
            Place::Tag => without_title(self.text),
        };
        relinked(&without_operators(text).replacen(ELSEWHERE, "", 1), &self.anchor())
    }
}

/// What stands before all endpoints.
pub(super) fn beginning() -> String {
    let guides = GUIDES.iter().filter(|guide| guide.place == Place::Introduction);
    guides.map(Guide::shown).collect::<Vec<_>>().join("\n")
}

/// The guide to a tag.
pub(super) fn to(tag: &str) -> Option<String> {
    GUIDES.iter().find(|guide| guide.place == Place::Tag && guide.title == tag).map(Guide::shown)
}

/// The tag is the title.
fn without_title(guide: &str) -> &str {
    let titled = guide.strip_prefix("# ").and_then(|text| text.split_once('\n'));
    titled.map_or(guide, |(_, text)| text)
}

/// What tenants read.
fn without_operators(guide: &str) -> String {
    let [begin, end] = OPERATOR;
    let mut text = String::with_capacity(guide.len());
    let mut rest = guide;
    while let Some((before, after)) = rest.split_once(begin) {
        text.push_str(before);
        let after = after.split_once(end).map_or("", |(_, after)| after);
        // A section that is gone leaves no hole.
        rest = if before.ends_with("\n\n") { after.trim_start_matches('\n') } else { after };
    }
    text.push_str(rest);
    text
}

/// Links from file to file, as links from tag to tag, and to the pages of errors. What is beside
/// the program only is named, and no link leads to it.
fn relinked(guide: &str, here: &str) -> String {
    let mut text = String::with_capacity(guide.len());
    let mut rest = guide;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else { break };
        match (shown_at(target, here), before.rsplit_once('[')) {
            (None, Some((before, words))) => text.push_str(&format!("{before}{words}")),
            (shown, Some((before, words))) => {
                let place = shown.unwrap_or_default();
                text.push_str(&format!("{before}[{}]({place})", titled(words)));
            }
            (shown, None) => {
                let target = shown.unwrap_or_else(|| here.to_owned());
                text.push_str(&format!("{before}]({target})"));
            }
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The words of a link; those that name a file are of no use where there are no files.
fn titled(words: &str) -> &str {
    match words {
        "errors.md" => "errors",
        _ => GUIDES.iter().find(|guide| guide.file == words).map_or(words, |guide| guide.title),
    }
}

/// Where this address shows what a link of a guide leads to.
fn shown_at(target: &str, here: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    if let Some(guide) = GUIDES.iter().find(|guide| guide.file == file) {
        return Some(guide.anchor());
    }
    match file {
        "" => Some(here.to_owned()),
        "errors.md" if anchor.is_empty() => Some("/errors".to_owned()),
        "errors.md" => Some(format!("/errors/{anchor}")),
        _ => target.starts_with("http").then(|| target.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{GUIDES, OPERATOR, relinked, without_operators, without_title};

    #[test]
    fn links_between_files_are_links_between_tags() {
        let guide = "# SMS\nSee [codes](otp.md#fraud), [otp.md](otp.md), [top](#x), \
                     [errors](errors.md), [one](errors.md#not_found) and \
                     [the web](https://example.com/a).";
        let told = relinked(without_title(guide), "#tag/sms");
        let expected = "See [codes](#tag/otp), [OTP](#tag/otp), [top](#tag/sms), \
                        [errors](/errors), [one](/errors/not_found) and \
                        [the web](https://example.com/a).";
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_not_served_is_named_without_a_link() {
        let told = relinked("All of it: [the `README`](../README.md), [codes](otp.md).", "#x");
        assert_eq!(told, "All of it: the `README`, [codes](#tag/otp).");
    }

    #[test]
    fn what_is_the_operators_is_left_out() {
        let guide = "One<!-- operator --> (`two`)<!-- /operator -->.\n\n<!-- operator -->\n\n\
                     ## Three\n\n<!-- /operator -->\n\n## Four\n";
        assert_eq!(without_operators(guide), "One.\n\n## Four\n");
    }

    /// A line that begins with a mark is HTML to the end: what else is in it is not Markdown.
    #[test]
    fn marks_are_pairs_and_begin_no_line_of_text() {
        for guide in GUIDES {
            let marks = guide.text.match_indices("<!--").map(|(at, _)| &guide.text[at..]);
            for (mark, wanted) in marks.zip(OPERATOR.into_iter().cycle()) {
                assert!(mark.starts_with(wanted), "{}: {mark:.60}", guide.file);
            }
            let [begin, end] = OPERATOR;
            assert_eq!(guide.text.matches(begin).count(), guide.text.matches(end).count());
            for line in guide.text.lines().filter(|line| line.trim_start().starts_with("<!--")) {
                assert!(OPERATOR.contains(&line), "{}: {line}", guide.file);
            }
        }
    }

    #[test]
    fn nobody_who_reads_the_guides_here_is_sent_to_files() {
        for guide in GUIDES {
            let shown = guide.shown();
            assert!(!shown.contains("of a running service"), "{}", guide.file);
            let at = shown.find(".md");
            let around = at.map(|at| shown[..at].chars().rev().take(60).collect::<Vec<_>>());
            let around = around.map(|text| text.into_iter().rev().collect::<String>());
            assert_eq!(around, None, "{}", guide.file);
        }
    }

    #[test]
    fn tenants_read_nothing_that_only_an_operator_does() {
        for guide in GUIDES {
            let shown = guide.shown();
            for word in ["account", "audit", "carriers", "credits", "doctor", "key", "migrate"] {
                let command = format!("estafette {word} ");
                assert!(!shown.contains(&command), "{}: {command}", guide.file);
            }
            for trace in ["```toml", "$STAFF", "[sms.", "default.toml", "scripts/"] {
                assert!(!shown.contains(trace), "{}: {trace}", guide.file);
            }
        }
    }

    /// As GitHub makes them of headings.
    fn slug(heading: &str) -> String {
        let kept = heading
            .trim()
            .chars()
            .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    }

    #[test]
    fn links_lead_to_sections_that_are_shown() {
        let sections = |file: &str| -> Option<BTreeSet<String>> {
            let guide = GUIDES.into_iter().find(|guide| guide.file == file)?;
            let text = without_operators(guide.text);
            let headings = text.lines().filter_map(|line| line.split_once("# "));
            let headings = headings.filter(|(marks, _)| marks.chars().all(|mark| mark == '#'));
            Some(headings.map(|(_, heading)| slug(heading)).collect())
        };
        let mut seen = 0;
        for guide in GUIDES {
            let text = without_operators(guide.text);
            for link in text.split("](").skip(1) {
                let target = link.split(')').next().unwrap();
                let Some((file, anchor)) = target.split_once('#') else { continue };
                let file = if file.is_empty() { guide.file } else { file };
                let Some(sections) = sections(file) else { continue };
                assert!(sections.contains(anchor), "{}: {target} leads nowhere", guide.file);
                seen += 1;
            }
        }
        assert!(seen > 20, "only {seen} links");
    }
}
