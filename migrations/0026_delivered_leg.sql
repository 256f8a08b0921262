-- The leg of a passcode that is known to have arrived, kept while a resend is tried: when that one
-- fails, the challenge shows this one again. NULL = there was no resend after a delivery.
ALTER TABLE challenges ADD COLUMN delivered_channel TEXT;
ALTER TABLE challenges ADD COLUMN delivered_id TEXT;
