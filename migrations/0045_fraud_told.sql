-- Whether otp.fraud was told of a place and its hour or day: 1 = it was. Once, by whichever node,
-- before and after a restart.
ALTER TABLE otp_conversion ADD COLUMN told BIGINT NOT NULL DEFAULT 0;
