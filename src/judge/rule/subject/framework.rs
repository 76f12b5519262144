//! A framework that includes a profiler.

use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::ImageFacts;
use crate::knowledge::ProfiledFramework;
use crate::knowledge::rule::SubjectKind;
use python_path::PythonDistribution;

/// The frameworks of each Python environment.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let all = &facts.related.distributions;
    let known = |dist: &PythonDistribution| {
        let mut frameworks = facts.tables.frameworks.iter();
        frameworks.find(|known| known.distributions.contains(&dist.name))
    };
    let frameworks = all.iter().filter_map(|dist| Some((dist, known(dist)?)));
    frameworks.map(|(dist, known)| subject(facts, dist, known)).collect()
}

fn subject(facts: &ImageFacts, framework: &PythonDistribution, known: &ProfiledFramework) -> RuleSubject {
    let all = &facts.related.distributions;
    // TensorBoard finds only the plugins of its own environment.
    let has = |name: &str| all.iter().any(|dist| dist.site == framework.site && dist.name == name);
    let mut consumers = facts.consumers.iter();
    let asks = consumers.any(|consumer| consumer.profile.as_ref() == Some(&known.consumer));
    let daemon = known.daemon.as_deref().and_then(|name| facts.image.config.env(name));
    SubjectKind::Framework
        .subject([
            ("name", text(framework.name.clone())),
            ("version", escaped(&framework.version)),
            ("asks_for_cupti", flag(asks)),
            ("tensorboard", flag(has(&known.viewer))),
            ("has_plugin", flag(known.plugins.iter().any(|plugin| has(plugin)))),
            ("plugin", text(known.plugins.first().cloned().unwrap_or_default())),
            ("daemon", flag(daemon.is_some())),
        ])
        .at([(&framework.metadata, Some(framework.layer))])
}
