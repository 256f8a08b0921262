-- A receipt whose id may be written in another form is parked under each id that it may mean.
-- guessed: 1 = the id of this row is one of those, 0 = it is the receipt's own. siblings: the ids of
-- its other rows, with spaces between; all of them go when one has led to a message.
ALTER TABLE early_receipts ADD COLUMN guessed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE early_receipts ADD COLUMN siblings TEXT NOT NULL DEFAULT '';
UPDATE early_receipts SET guessed = 1 WHERE recipient_mac IS NOT NULL;
