//! Rank 0: the schema. It is the whole service's, so it belongs to no room: `wiring` migrates
//! to it, and tests of other rooms begin with it.

use store::Migration;

/// The schema, one file after the other.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "foundation",
        sql: include_str!("../../../migrations/0001_foundation.sql"),
    },
    Migration {
        version: 2,
        name: "retention",
        sql: include_str!("../../../migrations/0002_retention.sql"),
    },
    Migration {
        version: 3,
        name: "events_and_webhooks",
        sql: include_str!("../../../migrations/0003_events_and_webhooks.sql"),
    },
    Migration {
        version: 4,
        name: "handsets",
        sql: include_str!("../../../migrations/0004_handsets.sql"),
    },
    Migration {
        version: 5,
        name: "index order",
        sql: include_str!("../../../migrations/0005_index_order.sql"),
    },
    Migration {
        version: 6,
        name: "seals",
        sql: include_str!("../../../migrations/0006_seals.sql"),
    },
    Migration {
        version: 7,
        name: "promises",
        sql: include_str!("../../../migrations/0007_promises.sql"),
    },
    Migration {
        version: 8,
        name: "people",
        sql: include_str!("../../../migrations/0008_people.sql"),
    },
    Migration {
        version: 9,
        name: "limits",
        sql: include_str!("../../../migrations/0009_limits.sql"),
    },
    Migration {
        version: 10,
        name: "operations",
        sql: include_str!("../../../migrations/0010_operations.sql"),
    },
    Migration {
        version: 11,
        name: "support",
        sql: include_str!("../../../migrations/0011_support.sql"),
    },
    Migration {
        version: 12,
        name: "inbound",
        sql: include_str!("../../../migrations/0012_inbound.sql"),
    },
    Migration {
        version: 21,
        name: "master keys",
        sql: include_str!("../../../migrations/0021_master_keys.sql"),
    },
    Migration {
        version: 22,
        name: "dispatch",
        sql: include_str!("../../../migrations/0022_dispatch.sql"),
    },
    Migration {
        version: 23,
        name: "sms messages",
        sql: include_str!("../../../migrations/0023_sms_messages.sql"),
    },
    Migration {
        version: 24,
        name: "log and seals",
        sql: include_str!("../../../migrations/0024_log_and_seals.sql"),
    },
    Migration {
        version: 25,
        name: "key proofs",
        sql: include_str!("../../../migrations/0025_key_proofs.sql"),
    },
    Migration {
        version: 26,
        name: "delivered leg",
        sql: include_str!("../../../migrations/0026_delivered_leg.sql"),
    },
    Migration {
        version: 28,
        name: "chat-app",
        sql: include_str!("../../../migrations/0028_chatapp.sql"),
    },
    Migration {
        version: 29,
        name: "chat-app callbacks",
        sql: include_str!("../../../migrations/0029_chatapp_callbacks.sql"),
    },
    Migration { version: 31, name: "smpp", sql: include_str!("../../../migrations/0031_smpp.sql") },
    Migration {
        version: 32,
        name: "conversion",
        sql: include_str!("../../../migrations/0032_conversion.sql"),
    },
    Migration {
        version: 34,
        name: "email",
        sql: include_str!("../../../migrations/0034_email.sql"),
    },
    Migration {
        version: 35,
        name: "email_checks",
        sql: include_str!("../../../migrations/0035_email_checks.sql"),
    },
    Migration {
        version: 36,
        name: "notices",
        sql: include_str!("../../../migrations/0036_notices.sql"),
    },
    Migration {
        version: 37,
        name: "email_records_seen",
        sql: include_str!("../../../migrations/0037_email_records_seen.sql"),
    },
    Migration {
        version: 38,
        name: "transcripts",
        sql: include_str!("../../../migrations/0038_transcripts.sql"),
    },
    Migration {
        version: 39,
        name: "refused_by",
        sql: include_str!("../../../migrations/0039_refused_by.sql"),
    },
    Migration {
        version: 41,
        name: "guessed_receipts",
        sql: include_str!("../../../migrations/0041_guessed_receipts.sql"),
    },
    Migration {
        version: 42,
        name: "oldest_queued",
        sql: include_str!("../../../migrations/0042_oldest_queued.sql"),
    },
    Migration {
        version: 43,
        name: "due_events",
        sql: include_str!("../../../migrations/0043_due_events.sql"),
    },
    Migration {
        version: 44,
        name: "newest_answer",
        sql: include_str!("../../../migrations/0044_newest_answer.sql"),
    },
    Migration {
        version: 45,
        name: "fraud_told",
        sql: include_str!("../../../migrations/0045_fraud_told.sql"),
    },
    Migration {
        version: 46,
        name: "one_index_by_recipient",
        sql: include_str!("../../../migrations/0046_one_index_by_recipient.sql"),
    },
    Migration {
        version: 47,
        name: "due_in_one_environment",
        sql: include_str!("../../../migrations/0047_due_in_one_environment.sql"),
    },
    Migration {
        version: 48,
        name: "one_index_by_person",
        sql: include_str!("../../../migrations/0048_one_index_by_person.sql"),
    },
    Migration {
        version: 49,
        name: "first_tries",
        sql: include_str!("../../../migrations/0049_first_tries.sql"),
    },
    Migration {
        version: 50,
        name: "disabled_keys",
        sql: include_str!("../../../migrations/0050_disabled_keys.sql"),
    },
    Migration {
        version: 51,
        name: "failing_binds",
        sql: include_str!("../../../migrations/0051_failing_binds.sql"),
    },
    Migration {
        version: 52,
        name: "doubted_templates",
        sql: include_str!("../../../migrations/0052_doubted_templates.sql"),
    },
    Migration {
        version: 53,
        name: "callbacks_by_signer",
        sql: include_str!("../../../migrations/0053_callbacks_by_signer.sql"),
    },
    Migration {
        version: 54,
        name: "forgetting",
        sql: include_str!("../../../migrations/0054_forgetting.sql"),
    },
];
