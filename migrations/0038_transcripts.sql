-- What a mail relay and the service said at the last submission of an attempt that the relay did not
-- take at once: without secrets, addresses and content, at most 2 kB. NULL = nothing is kept.
ALTER TABLE attempts ADD COLUMN transcript TEXT;
