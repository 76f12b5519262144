"""Writes docs/field.md from tests/field/results.json."""

HEAD = """<!-- `make field` writes this page from tests/field/results.json. Do not edit it. -->
# Tried on

Real packages, installed by the real pip and uv in a Debian, and broken in ways that happen. `make field` asks three
times, on a machine without a GPU: the real Python, which imports the framework and opens what its profiler would
open; and `cupti-audit`. It asks about the environment as installed, about the broken one, and once more after the
commands that the report prints were run as printed. Commands of NVIDIA's apt repository get their packages from a
local one that has the same names and files.

"""

STACKS = """## Stacks

*Answer* is about the environment as installed. *Copy* is the libcupti that the real process mapped. *Time*
(of the processors) and *memory* are of one audit of the folder without a cache; *lines* is the length of its report.

| stack | installed by | answer | copy | time | memory | lines | breakages that stop it | named | cured | date |
|---|---|---|---|---|---|---|---|---|---|---|
"""

BREAKAGES = """
## Breakages

*Stops it* counts the stacks in which the real program fails then. In the others it still works, and the audit has to
say that. *Named* counts the reports whose first line names the cause. *Cured* counts the printed commands after which
the real program works; the second number is how many reports have commands.

| breakage | what is done | tried | stops it | right verdict | named | cured |
|---|---|---|---|---|---|---|
"""


def page(results, stacks, breakages):
    """The page as Markdown."""
    asked = [answer for result in results.values() for answer in result["broken"].values()]
    text = HEAD + totals(results, asked) + STACKS
    for name, result in results.items():
        text += stack_row(name, result)
    missing = [name for name in stacks if name not in results]
    if missing:
        text += f"\nNot tried in this run: {', '.join(missing)}.\n"
    text += BREAKAGES
    for name, breakage in breakages.items():
        answers = [result["broken"][name] for result in results.values() if name in result["broken"]]
        if answers:
            text += breakage_row(name, breakage, answers)
    return text + exceptions(results)


def totals(results, asked):
    stopped = [answer for answer in asked if answer["error"]]
    states = len(results) + len(asked) + sum("fixed" in answer for answer in asked)
    wrong = sum(result["wrong"] for result in results.values()) + sum(answer["wrong"] for answer in asked)
    named = sum(answer["named"] for answer in stopped)
    fixed = [answer for answer in stopped if answer["fix"]]
    cured = sum(answer["cured"] for answer in fixed)
    return (f"{len(results)} stacks, {len(asked)} breakages, {states} verdicts: {wrong} wrong. The first line names the "
            f"cause of {share(named, len(stopped))} failures. {share(cured, len(fixed))} fixes with commands cure; "
            f"{len(stopped) - len(fixed)} failures have no commands.\n\n")


def share(part, whole):
    return f"{part} of {whole}" + (f" ({100 * part // whole} %)" if whole else "")


def stack_row(name, result):
    stopped = [answer for answer in result["broken"].values() if answer["error"]]
    fixed = [answer for answer in stopped if answer["fix"]]
    cells = [
        f"**{name}**: {', '.join(result['packages'])}",
        f"{result['layout']}, Python {result['python']}",
        answer_word(result),
        result["copy"] or "none",
        f"{result['seconds']} s",
        f"{result['mebibytes']} MiB",
        result["lines"],
        f"{len(stopped)} of {len(result['broken'])}",
        f"{sum(answer['named'] for answer in stopped)} of {len(stopped)}",
        f"{sum(answer['cured'] for answer in fixed)} of {len(fixed)}",
        result["date"],
    ]
    return row(cells)


def answer_word(answer):
    real = "fails" if answer["error"] else "works"
    if answer["exit_code"] == 2:
        return f"{real}; open"
    return f"{real}; wrong" if answer["wrong"] else f"{real}; right"


def breakage_row(name, breakage, answers):
    stopped = [answer for answer in answers if answer["error"]]
    fixed = [answer for answer in stopped if answer["fix"]]
    right = [answer for answer in answers if not answer["wrong"] and answer["exit_code"] != 2]
    cells = [name, breakage["text"], len(answers), len(stopped), f"{len(right)} of {len(answers)}",
             f"{sum(answer['named'] for answer in stopped)} of {len(stopped)}",
             f"{sum(answer['cured'] for answer in fixed)} of {len(fixed)}"]
    return row(cells)


def row(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def exceptions(results):
    """What is wrong, open, not named or not cured, each with both answers."""
    lines = []
    for stack, result in results.items():
        lines += exception(stack, "as installed", result)
        for breakage, answer in result["broken"].items():
            lines += exception(stack, breakage, answer)
    if not lines:
        return ""
    return "\n## Exceptions\n\n" + "".join(lines)


def exception(stack, breakage, answer):
    faults = []
    if answer["wrong"]:
        faults.append("wrong verdict")
    if answer["exit_code"] == 2:
        faults.append("no answer")
    if answer["error"] and not answer.get("named", True):
        faults.append("cause not named")
    if answer.get("fix") and not answer["cured"]:
        faults.append("not cured")
    if not faults:
        return []
    real = answer["error"] or "works"
    return [f"- {stack}, {breakage}: {', '.join(faults)}. Real: `{cut(real)}`. Audit, exit code {answer['exit_code']}: "
            f"`{cut(answer['verdict'])}`\n"]


def cut(text):
    text = text.replace("`", "'")
    return text if len(text) <= 160 else text[:157] + "…"
