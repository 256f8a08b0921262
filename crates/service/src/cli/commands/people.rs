//! The commands about people: staff, users and their accounts, API keys, recipients.

use clap::{Args, Subcommand};

use super::numbers::of_list;

/// Who logs in, and how the password gets here.
#[derive(Args)]
pub(in crate::cli) struct LoginArgs {
    /// Email address, the name for logging in.
    #[arg(long)]
    pub(in crate::cli) email: String,
    /// Read the password from the standard input, one line. Without this one is made up and shown.
    #[arg(long)]
    pub(in crate::cli) password_stdin: bool,
}

/// `staff …`
#[derive(Subcommand)]
pub(in crate::cli) enum StaffCommand {
    /// Add a member of staff, who may use /v1/admin.
    #[command(after_help = "\
Works beside a running service, on its database.

Examples:
  estafette staff add --email ops@example.com
  estafette staff add --email ops@example.com --password-stdin --json < password.txt

--json: {staff_id}, and password when it was made up.")]
    Add(LoginArgs),
    /// List the staff, newest first.
    #[command(after_help = "\
Examples:
  estafette staff list
  estafette staff list --json

--json: {staff: [{id, email, created_at, last_login_at}], more}; more: beyond --limit.")]
    List(ListArgs),
    /// Remove a member of staff; their tokens end at once.
    #[command(after_help = "\
Here the last one can be removed too: `staff add` makes another.

Examples:
  estafette staff remove --email ops@example.com
  estafette staff remove --id stf_01h455vb4pex5vsknk084sn02q --json

--json: {staff_id}.")]
    Remove(RemoveStaffArgs),
    /// Give a member of staff another password; all their tokens end.
    #[command(after_help = "\
Examples:
  estafette staff set-password --email ops@example.com
  estafette staff set-password --email ops@example.com --password-stdin --json < password.txt

--json: {staff_id}, and password when it was made up.")]
    SetPassword(LoginArgs),
}

/// Of `staff remove`.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct RemoveStaffArgs {
    /// Whom, by email.
    #[arg(long)]
    pub(in crate::cli) email: Option<String>,
    /// Whom, by id.
    #[arg(long)]
    pub(in crate::cli) id: Option<String>,
}

/// How much of a list.
#[derive(Args)]
pub(in crate::cli) struct ListArgs {
    /// How many at most, newest first.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = of_list)]
    pub(in crate::cli) limit: i64,
}

/// `account …`
#[derive(Subcommand)]
pub(in crate::cli) enum AccountCommand {
    /// Add a user with an account in each environment.
    #[command(after_help = "\
Works beside a running service, on its database.

Examples:
  estafette account add --email dev@example.com
  estafette account add --email dev@example.com --password-stdin --json < password.txt

--json: {user_id, accounts: {live, sandbox}}, and password when it was made up.")]
    Add(LoginArgs),
    /// List accounts, newest first.
    #[command(after_help = "\
Examples:
  estafette account list --status pending
  estafette account list --email dev@example.com --json

--json: {accounts: [as GET /v1/admin/accounts], more}; more: beyond --limit.")]
    List(AccountsArgs),
    /// Stop an account: its owner can read it, its keys open nothing.
    #[command(after_help = "\
A running service knows within five seconds.

Examples:
  estafette account suspend --account acc_01h455vb4pex5vsknk084sn02q
  estafette account suspend --account acc_01h455vb4pex5vsknk084sn02q --json

--json: {account_id, status}.")]
    Suspend(AccountArgs),
    /// Let an account work that is pending or suspended.
    #[command(after_help = "\
Examples:
  estafette account activate --account acc_01h455vb4pex5vsknk084sn02q
  estafette account activate --account acc_01h455vb4pex5vsknk084sn02q --json

--json: {account_id, status}.")]
    Activate(AccountArgs),
    /// Give a user another password; all their logins end.
    #[command(after_help = "\
Examples:
  estafette account set-password --email dev@example.com
  estafette account set-password --email dev@example.com --password-stdin --json < password.txt

--json: {user_id}, and password when it was made up.")]
    SetPassword(LoginArgs),
}

/// Of `account suspend` and `account activate`.
#[derive(Args)]
pub(in crate::cli) struct AccountArgs {
    /// The account's id.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) account: String,
}

/// Of `account list`.
#[derive(Args)]
pub(in crate::cli) struct AccountsArgs {
    /// Only the accounts of this email.
    #[arg(long)]
    pub(in crate::cli) email: Option<String>,
    /// Only this environment.
    #[arg(long, value_parser = ["live", "sandbox"])]
    pub(in crate::cli) env: Option<String>,
    /// Only this status.
    #[arg(long, value_parser = ["pending", "active", "suspended"])]
    pub(in crate::cli) status: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) list: ListArgs,
}

/// `key …`
#[derive(Subcommand)]
pub(in crate::cli) enum KeyCommand {
    /// Make an API key for an account; it is shown this once.
    #[command(after_help = "\
Works beside a running service, on its database. Scopes: otp:send, otp:verify, sms:send,
chatapp:send, chatapp:receive, email:send, account:read. Without --scope, all.

Examples:
  estafette key add --account acc_01h455vb4pex5vsknk084sn02q --name shop
  estafette key add --account acc_01h455vb4pex5vsknk084sn02q --name shop \\
    --scope otp:send --scope otp:verify --json

--json: {api_key, key: {id, name, key_prefix, active, scopes, created_at}}.")]
    Add(KeyArgs),
    /// List an account's API keys, newest first; the keys themselves are not kept.
    #[command(after_help = "\
Examples:
  estafette key list --account acc_01h455vb4pex5vsknk084sn02q
  estafette key list --account acc_01h455vb4pex5vsknk084sn02q --json

--json: {keys: [{id, name, key_prefix, active, scopes, created_at}], more}.")]
    List(KeysArgs),
    /// End an API key.
    #[command(after_help = "\
A running service refuses it within five seconds. Doing it again changes nothing.

Examples:
  estafette key disable --account acc_01h455vb4pex5vsknk084sn02q \\
    --key key_01h455vb4pex5vsknk084sn02q
  estafette key disable --account acc_01h455vb4pex5vsknk084sn02q \\
    --key key_01h455vb4pex5vsknk084sn02q --json

--json: {id, active}.")]
    Disable(DisableKeyArgs),
}

/// Of `key list`.
#[derive(Args)]
pub(in crate::cli) struct KeysArgs {
    /// The account's id.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) account: String,
    #[command(flatten)]
    pub(in crate::cli) list: ListArgs,
}

/// Of `key disable`.
#[derive(Args)]
pub(in crate::cli) struct DisableKeyArgs {
    /// The account's id.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) account: String,
    /// The key's id.
    #[arg(long, visible_alias = "id", value_name = "ID")]
    pub(in crate::cli) key: String,
}

/// Of `key add`.
#[derive(Args)]
pub(in crate::cli) struct KeyArgs {
    /// The account's id; it decides the environment.
    #[arg(long)]
    pub(in crate::cli) account: String,
    /// A label.
    #[arg(long)]
    pub(in crate::cli) name: String,
    /// What the key may do; repeat it for several.
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(in crate::cli) scopes: Vec<String>,
}

/// Of `erase`.
#[derive(Args)]
pub(in crate::cli) struct EraseArgs {
    /// The phone number, in international form, or the email address; - reads it from the standard
    /// input.
    #[arg(long, value_name = "RECIPIENT")]
    pub(in crate::cli) recipient: String,
    /// Only in this account; without it, in all accounts of both environments.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) account: Option<String>,
}
