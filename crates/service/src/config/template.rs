//! The file of settings that operators begin with.

use super::load::DEFAULTS;

const HEAD: &str = "\
# To change a setting, take the # away from its line and change the value. Every other setting
# keeps the default of the program that reads this file, also after an upgrade.
#
";

/// `default.toml` with every value as a comment.
#[must_use]
pub fn template() -> String {
    let mut text = HEAD.to_owned();
    for line in DEFAULTS.lines() {
        // Sections and what is a comment already stay; a list goes on in lines with a margin.
        let is_value = !line.is_empty() && !line.starts_with(['#', '[']);
        if is_value {
            text.push('#');
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{DEFAULTS, HEAD, template};
    use crate::config::{Flags, load, show};

    #[test]
    fn the_template_changes_nothing_and_has_everything() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("estafette.toml");
        std::fs::write(&file, template()).unwrap();
        let read = |file: Option<&std::path::Path>| {
            show(&load(file, std::iter::empty(), Flags::default()).unwrap())
        };
        assert_eq!(read(Some(&file)), read(None));
        // With the # of its values taken away it is the defaults: every one of them is there.
        let text = template();
        let mut lines = text.strip_prefix(HEAD).unwrap().lines();
        for default in DEFAULTS.lines() {
            let line = lines.next().unwrap();
            let is_value = !default.is_empty() && !default.starts_with(['#', '[']);
            let expected = if is_value { format!("#{default}") } else { default.to_owned() };
            assert_eq!(line, expected);
        }
        assert_eq!(lines.next(), None);
    }
}
