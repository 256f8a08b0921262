//! `estafette rotate-key`: another master key, beside a running service.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::commands::RotateKeyArgs;
use super::output::Output;
use crate::access::By;
use crate::app::App;
use crate::config::Config;
use crate::rotation::{self, Error};

/// Rotates, goes on with a rotation that was begun, or drops what is over.
pub(super) async fn run(
    config: Config,
    args: &RotateKeyArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let service = super::open(config, output).await?;
    let done = if args.drop {
        drop_former(&service.live, output).await
    } else {
        rotate(&service.live, Duration::from_secs(args.patience_s), output).await
    };
    service.close().await;
    done?;
    Ok(ExitCode::SUCCESS)
}

async fn rotate(app: &App, patience: Duration, output: Output) -> anyhow::Result<()> {
    let told = |text: &str| output.hint(text);
    let goes_on = rotation::has_former(app).await?;
    if !goes_on {
        let key_id = new_key(app).await?;
        rotation::turn_to(app, &key_id, patience, By::CLI, &told).await?;
    }
    let resealed = rotation::reseal(app, &told).await?;
    let standing = rotation::standing(app, resealed).await?;
    let mut object = json!(standing);
    object["begun"] = (!goes_on).into();
    output.answer(&object, || {
        let mut text = format!("The master key {} writes.", standing.key_id);
        if goes_on {
            text = format!(
                "The previous rotation was not finished, so it was continued; no new one was \
                 begun. {text}"
            );
        }
        for former in &standing.former {
            text += &format!(
                "\nKeep {} until {}; then: estafette rotate-key{} --drop\nBackups made \
                 before then still need this key: keep a copy of it for as long as you keep them.",
                former.key_id, former.until, app.config.named_by
            );
        }
        text
    })?;
    Ok(())
}

/// The one that was given; in a file of our own it is made.
async fn new_key(app: &App) -> Result<String, Error> {
    let given = rotation::new_key(app).await;
    if let (Err(Error::NoNewKey { .. }), true) = (&given, app.config.master_key.is_empty()) {
        app.vault.add_to_file(&app.config.data_dir.join("master.key"))?;
        return rotation::new_key(app).await;
    }
    given
}

async fn drop_former(app: &App, output: Output) -> anyhow::Result<()> {
    let dropped = rotation::drop_former(app, By::CLI).await?;
    let is_own = app.config.master_key.is_empty();
    // Also what an earlier command dropped, and could not take out of the file.
    let removed = if is_own { rotation::unused(app).await? } else { Vec::new() };
    if !removed.is_empty() {
        app.vault.drop_from_file(&app.config.data_dir.join("master.key"), &removed)?;
    }
    let key_id = app.vault.writes_with();
    let object = json!({ "key_id": key_id, "dropped": dropped, "removed": removed });
    output.answer(&object, || {
        let gone = if dropped.is_empty() { &removed } else { &dropped };
        if gone.is_empty() {
            return format!("There is no former key; {key_id} writes.");
        }
        let verb = if dropped.is_empty() { "Removed from master.key:" } else { "Dropped" };
        let gone = gone.join(", ");
        let rest = if is_own { "" } else { " Take it out of the file of every node." };
        format!(
            "{verb} {gone}; {key_id} writes.{rest}\nOlder backups still need {gone}: \
             keep the key for as long as you keep them."
        )
    })?;
    Ok(())
}
