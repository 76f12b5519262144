//! A part of the GPU driver that the image tells the container runtime to leave out.

use super::rule_subject::{RuleSubject, escaped, text};
use crate::facts::{ImageFacts, InjectionMode};
use crate::knowledge::rule::SubjectKind;

/// The parts that the image's environment leaves out.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    // CDI ignores both variables, and sets the first to `void` itself (nvidia-container-toolkit, pkg/nvcdi/wrapper.go).
    if facts
        .host
        .as_ref()
        .is_some_and(|host| host.mode == Some(InjectionMode::Cdi))
    {
        return Vec::new();
    }
    let context = &facts.contexts.as_is;
    let capabilities = context.capabilities.as_deref();
    let visible = facts.image.config.env("NVIDIA_VISIBLE_DEVICES");
    let mut found = Vec::new();
    if let Some(value) = visible.filter(|value| hides_devices(value)) {
        let words = "no GPU is visible unless the start of the container sets the variable";
        found.push(subject("NVIDIA_VISIBLE_DEVICES", value, "devices", words));
    }
    // CUPTI needs nothing from `video`, `graphics` or `display`.
    let lacking = [
        ("compute", "libcuda.so.1"),
        ("utility", "libnvidia-ml.so.1 and nvidia-smi"),
    ];
    for (capability, files) in lacking {
        if let Some(value) = capabilities.filter(|value| lacks(value, capability)) {
            let variable = "NVIDIA_DRIVER_CAPABILITIES";
            let words = format!(
                "a container runtime in legacy mode does not add {files} from the host; one in CDI mode, the default \
                 since 1.18, does"
            );
            found.push(subject(variable, value, capability, &words));
        }
    }
    found
}

/// `void`, `none` and an empty value provide no device (container-toolkit, "Environment variables").
fn hides_devices(value: &str) -> bool {
    matches!(value, "" | "void" | "none")
}

/// Whether a list of capabilities lacks one; an empty list means the default, `utility,compute`.
fn lacks(value: &str, capability: &str) -> bool {
    let mut words = value.split(',').map(str::trim);
    !value.is_empty() && !words.any(|word| word == "all" || word == capability)
}

fn subject(variable: &str, value: &str, lacks: &str, words: &str) -> RuleSubject {
    SubjectKind::Runtime.subject([
        ("variable", text(variable)),
        ("value", escaped(value)),
        ("lacks", text(lacks)),
        ("words", text(words)),
    ])
}

#[cfg(test)]
mod tests {
    use super::{hides_devices, lacks};

    #[test]
    fn which_values_leave_something_out() {
        assert!(hides_devices("void") && hides_devices("") && hides_devices("none"));
        assert!(!hides_devices("all") && !hides_devices("0,1"));
        assert!(lacks("utility", "compute") && lacks("graphics,video", "utility"));
        assert!(!lacks("compute, utility", "utility"));
        assert!(!lacks("all", "compute") && !lacks("", "compute"));
    }
}
