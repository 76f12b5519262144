//! Removes names that mislead programs, where the right library is behind them.

use crate::make::choose::Obstacle;
use crate::make::choose::misleading_names::misleading_names;
use crate::make::choose::request::PatchContext;
use crate::make::patch::ImagePatch;

/// Removes all of them.
///
/// Errors: The image has none.
pub(in crate::make::choose) fn propose(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let deletes = misleading_names(context.request.target);
    if deletes.is_empty() {
        return Err("no name misleads".into());
    }
    let paths: Vec<String> = deletes.iter().map(ToString::to_string).collect();
    Ok(vec![ImagePatch {
        title: format!(
            "remove {}, so that programs find the library of the right release",
            paths.join(" and ")
        ),
        deletes,
        ..ImagePatch::default()
    }])
}
