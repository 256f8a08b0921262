-- Passcodes sent and verified, by account, by country or range of numbers (all digits but the last
-- four), and by hour or day. span: 'h' = an hour, 'd' = a day; bucket: which one since 1970.
CREATE TABLE otp_conversion (
    account_id TEXT NOT NULL,
    span       TEXT NOT NULL,
    bucket     BIGINT NOT NULL,
    place      TEXT NOT NULL,
    sent       BIGINT NOT NULL,
    verified   BIGINT NOT NULL,
    PRIMARY KEY (account_id, span, bucket, place)
);
CREATE INDEX otp_conversion_by_age ON otp_conversion (span, bucket);
