-- Support tickets. A ticket's messages are numbered by last_seq, without gaps. event_count: events
-- told of the ticket so far. version rises with every change but a message. due_*: when the first
-- reply and the resolution are due; NULL = there is no target, or it is met or missed. paused_at:
-- since when nobody waits for us, so targets stand still; paused_ms: how long they did before.
-- next_at: when the ticket has due work (a
-- target comes near or is missed, a resolved ticket closes), NULL when it has none.
CREATE TABLE tickets (
    account_id      TEXT NOT NULL,
    ticket_id       TEXT NOT NULL,
    env             TEXT NOT NULL,
    subject         TEXT NOT NULL,
    category        TEXT NOT NULL,
    priority        TEXT NOT NULL,
    status          TEXT NOT NULL,
    assignee        TEXT,
    last_seq        BIGINT NOT NULL,
    event_count     BIGINT NOT NULL,
    version         BIGINT NOT NULL,
    user_read_seq   BIGINT NOT NULL,
    staff_read_seq  BIGINT NOT NULL,
    first_reply_at  BIGINT,
    reply_due_at    BIGINT,
    reply_near_at   BIGINT,
    resolve_due_at  BIGINT,
    resolve_near_at BIGINT,
    paused_at       BIGINT,
    paused_ms       BIGINT NOT NULL,
    reply_missed    BIGINT NOT NULL,
    resolve_missed  BIGINT NOT NULL,
    resolved_at     BIGINT,
    closed_at       BIGINT,
    rating          BIGINT,
    rating_comment  TEXT,
    merged_into     TEXT,
    follows         TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    next_at         BIGINT,
    PRIMARY KEY (account_id, ticket_id)
);
CREATE UNIQUE INDEX tickets_by_id ON tickets (ticket_id);
CREATE INDEX tickets_due ON tickets (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX tickets_closed ON tickets (closed_at) WHERE closed_at IS NOT NULL;
-- side: user or admin. internal = 1: a note that no user ever sees. text_id: its row in the index
-- of words.
CREATE TABLE ticket_messages (
    account_id        TEXT NOT NULL,
    ticket_id         TEXT NOT NULL,
    seq               BIGINT NOT NULL,
    message_id        TEXT NOT NULL,
    side              TEXT NOT NULL,
    author_id         TEXT NOT NULL,
    internal          BIGINT NOT NULL,
    body              TEXT NOT NULL,
    client_message_id TEXT,
    text_id           BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    PRIMARY KEY (account_id, ticket_id, seq)
);
CREATE UNIQUE INDEX ticket_messages_by_id ON ticket_messages (message_id);
CREATE UNIQUE INDEX ticket_messages_by_text ON ticket_messages (text_id);
CREATE UNIQUE INDEX ticket_messages_of_client ON ticket_messages (client_message_id, ticket_id, author_id)
    WHERE client_message_id IS NOT NULL;
-- The words of every message, and of the ticket's subject with its first one. The account and who
-- may see it are among the words, so that a search looks at nobody else's.
--@sqlite
CREATE VIRTUAL TABLE ticket_texts USING fts5(words, tokenize = 'unicode61 remove_diacritics 0');
-- What is deleted from the index is gone, not only marked.
INSERT INTO ticket_texts (ticket_texts, rank) VALUES ('secure-delete', 1);
--@postgresql
CREATE TABLE ticket_texts (
    rowid  BIGINT PRIMARY KEY,
    words  TEXT NOT NULL,
    tokens tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, words)) STORED
);
CREATE INDEX ticket_texts_tokens ON ticket_texts USING gin (tokens);
--@all
-- Every change of a ticket: who, when, which field, from what to what.
CREATE TABLE ticket_changes (
    account_id TEXT NOT NULL,
    ticket_id  TEXT NOT NULL,
    change_id  TEXT NOT NULL,
    at         BIGINT NOT NULL,
    actor_kind TEXT NOT NULL,
    actor_id   TEXT NOT NULL,
    field      TEXT NOT NULL,
    was        TEXT,
    became     TEXT,
    PRIMARY KEY (account_id, ticket_id, change_id)
);
-- Answers that staff keep at hand.
CREATE TABLE canned_replies (
    reply_id   TEXT PRIMARY KEY,
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- Attachments. The object is support/ACCOUNT/FILE in the object storage; a preview, if there is
-- one, is beside it. deleted_at: the object is gone.
CREATE TABLE ticket_files (
    account_id   TEXT NOT NULL,
    file_id      TEXT NOT NULL,
    ticket_id    TEXT NOT NULL,
    seq          BIGINT NOT NULL,
    filename     TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size         BIGINT NOT NULL,
    sha256       BYTEA NOT NULL,
    preview      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    deleted_at   BIGINT,
    PRIMARY KEY (account_id, file_id)
);
CREATE UNIQUE INDEX ticket_files_by_id ON ticket_files (file_id);
CREATE INDEX ticket_files_of_ticket ON ticket_files (ticket_id, account_id, seq, file_id);
-- Bytes that an account's attachments take.
CREATE TABLE ticket_storage (
    account_id TEXT PRIMARY KEY,
    bytes      BIGINT NOT NULL
);
-- Objects that are to be deleted from due_at on: those of deleted attachments, and those of uploads
-- that did not come to their end.
CREATE TABLE object_trash (
    object_key TEXT PRIMARY KEY,
    due_at     BIGINT NOT NULL
);
CREATE INDEX object_trash_due ON object_trash (due_at);
-- One-use tokens of live chat. session_hash: the portal or staff token that asked for it.
CREATE TABLE ticket_tokens (
    token_hash   BYTEA PRIMARY KEY,
    ticket_id    TEXT NOT NULL,
    side         TEXT NOT NULL,
    session_hash BYTEA NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX ticket_tokens_by_expiry ON ticket_tokens (expires_at);
-- Several nodes on one database: which of them has sockets of a ticket and of which sides, until
-- when a node counts as alive, and what the others left for it. typing: the side that types, NULL
-- where there is news to be read.
CREATE TABLE chat_nodes (
    node        BIGINT PRIMARY KEY,
    alive_until BIGINT NOT NULL
);
CREATE TABLE chat_watchers (
    ticket_id TEXT NOT NULL,
    node      BIGINT NOT NULL,
    has_user  BIGINT NOT NULL,
    has_staff BIGINT NOT NULL,
    PRIMARY KEY (ticket_id, node)
);
CREATE INDEX chat_watchers_of_node ON chat_watchers (node, ticket_id);
CREATE TABLE chat_mail (
    node    BIGINT NOT NULL,
    mail_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    ticket_id  TEXT NOT NULL,
    typing     TEXT,
    PRIMARY KEY (node, mail_id)
);
