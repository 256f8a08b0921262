-- The instant that the rows and the nodes' own time agreed on last. confirmations: how often an
-- operator has said what time it is.
CREATE TABLE clock_witness (
    witness       BIGINT PRIMARY KEY,
    witnessed_at  BIGINT NOT NULL,
    confirmations BIGINT NOT NULL
);
