//! A framework that brings a profiler.

use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::judge::facts::ImageFacts;
use crate::judge::facts::python_distributions::PythonDistribution;
use crate::knowledge::rule::SubjectKind;

/// A framework's distributions, the name of its program, and its plugins for `TensorBoard`, the first of which
/// is the one to install.
struct KnownFramework {
    names: &'static [&'static str],
    program: &'static str,
    plugins: &'static [&'static str],
}

const KNOWN: [KnownFramework; 2] = [
    KnownFramework {
        names: &["torch"],
        program: "PyTorch",
        plugins: &["torch-tb-profiler"],
    },
    KnownFramework {
        // TensorFlow had a distribution of its own for GPUs up to 2.11.
        names: &["tensorflow", "tensorflow-gpu"],
        program: "TensorFlow",
        // xprof is the later name of tensorboard-plugin-profile, and either shows the profiles.
        plugins: &["xprof", "tensorboard-plugin-profile"],
    },
];

/// The frameworks of each Python environment.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let all = &facts.related.distributions;
    let known = |dist: &PythonDistribution| KNOWN.iter().find(|known| known.names.contains(&dist.name.as_str()));
    let frameworks = all.iter().filter_map(|dist| Some((dist, known(dist)?)));
    frameworks.map(|(dist, known)| subject(facts, dist, known)).collect()
}

fn subject(facts: &ImageFacts, framework: &PythonDistribution, known: &KnownFramework) -> RuleSubject {
    let all = &facts.related.distributions;
    // TensorBoard finds only the plugins of its own environment.
    let has = |name: &str| all.iter().any(|dist| dist.site == framework.site && dist.name == name);
    let asks = facts.consumers.iter().any(|consumer| consumer.name == known.program);
    // libkineto starts profiles for a daemon, such as dynolog, where the variable is set.
    let daemon = facts.image.config.env("KINETO_USE_DAEMON");
    SubjectKind::Framework
        .subject([
            ("name", text(framework.name.clone())),
            ("version", escaped(&framework.version)),
            ("asks_for_cupti", flag(asks)),
            ("tensorboard", flag(has("tensorboard"))),
            ("has_plugin", flag(known.plugins.iter().any(|plugin| has(plugin)))),
            ("plugin", text(known.plugins.first().copied().unwrap_or_default())),
            ("daemon", flag(daemon.is_some())),
        ])
        .at([(&framework.metadata, Some(framework.layer))])
}
