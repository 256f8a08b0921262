-- A template that a message was refused for is asked about within minutes.
CREATE INDEX chatapp_templates_doubted ON chatapp_templates (account_id)
    WHERE status = 'REJECTED' AND provider_status = 'APPROVED';
