//! Migrations: numbered SQL texts that are applied once and never change.

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number; ascending in the list.
    pub version: u32,
    /// A few words for whoever reads the table of migrations.
    pub name: &'static str,
    /// The statements, separated by semicolons, without BEGIN and COMMIT. What only one kind of
    /// engine takes stands between a line `--@sqlite` or `--@postgresql` and a line `--@all`.
    pub sql: &'static str,
}

impl Migration {
    /// FNV-1a of the text, in hex: enough to notice an edit, not a protection against forgers.
    #[must_use]
    pub fn checksum(&self) -> String {
        let hash = self.sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::Migration;

    #[test]
    fn the_checksum_is_fnv_1a_and_so_the_same_for_ever() {
        let migration = |sql| Migration { version: 1, name: "x", sql };
        assert_eq!(migration("").checksum(), "cbf29ce484222325");
        assert_eq!(migration("foobar").checksum(), "85944171f73967e8");
    }
}
