"""What the policies of deploy/admission decide, by the languages' own interpreters.

The predicates of an image that passes for training and of one that does not come on standard input; each line on standard
output is a policy, a case and `admitted` or `refused`. CEL is evaluated by Google's interpreter, Rego by Microsoft's; what only the controllers can do, to find and verify
an attestation, is given here.
"""

import json
import sys

import regopy
import yaml
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

PASSES, FAILS = json.load(sys.stdin)
PASSING, OTHER = "a" * 64, "b" * 64


def documents(name):
    with open(f"deploy/admission/{name}.yaml") as file:
        return list(yaml.safe_load_all(file))


def say(policy, case, admitted):
    print(policy, case, "admitted" if admitted else "refused")


def kyverno():
    spec = documents("kyverno")[0]["spec"]
    names = {kind: {one["name"]: one["name"] for one in spec[kind]} for kind in ["attestors", "attestations"]}
    for case, verified, predicate in [
        ("passes", 1, PASSES),
        ("fails", 1, FAILS),
        ("unsigned", 0, PASSES),
    ]:
        dyn, text = cel.Type.DYN, cel.Type.STRING
        functions = [
            function("verifyAttestationSignatures", [text, text, cel.Type.LIST], lambda *_, found=verified: found),
            function("extractPayload", [text, text], lambda *_, said=predicate: {"predicate": said}),
        ]
        env = cel.NewEnv(variables={"images": dyn, "attestors": dyn, "attestations": dyn}, functions=functions)
        data = {"images": {"containers": ["reg.example/team/a:1"]}, **names}
        say("kyverno", case, holds(env, spec, data))


def function(name, parameters, body):
    overload = cel.Overload(name, return_type=cel.Type.DYN, parameters=parameters, impl=body)
    return cel.FunctionDecl(name, [overload])


def holds(env, spec, data):
    """Whether all validations of a policy hold. What cannot be evaluated is said instead of True or False."""
    said = [env.compile(one["expression"]).eval(data=data).plain_value() for one in spec["validations"]]
    wrong = [one for one in said if not isinstance(one, bool)]
    assert not wrong, wrong
    return all(said)


def policy_controller():
    attestation = documents("policy-controller")[0]["spec"]["authorities"][0]["attestations"][0]
    for case, predicate in [("passes", PASSES), ("fails", FAILS), ("says-nothing", {})]:
        statement = {"predicateType": attestation["predicateType"], "predicate": predicate}
        said = evaluate(attestation["policy"]["data"], "data.sigstore.isCompliant", statement)
        say("policy-controller", case, said is True)


def evaluate(rego, query, asked, data=None):
    interpreter = regopy.Interpreter()
    interpreter.add_module("policy", rego)
    interpreter.add_data_json(json.dumps(data or {}))
    interpreter.set_input(asked)
    # A query that is false has no result, so what it is is bound to a name.
    return json.loads(str(interpreter.query(f"it := {query}")))["bindings"]["it"]


def pods():
    """Pods with one image, and whether they run."""
    good, other = f"reg/a@sha256:{PASSING}", f"reg/a@sha256:{OTHER}"
    yield "passing", {"containers": [{"image": good}]}
    yield "other", {"containers": [{"image": other}]}
    yield "by-tag", {"containers": [{"image": "reg/a:1"}]}
    yield "init", {"containers": [{"image": good}], "initContainers": [{"image": other}]}
    yield "debugged", {"containers": [{"image": good}], "ephemeralContainers": [{"image": "busybox"}]}
    yield "both", {"containers": [{"image": good}, {"image": good}], "initContainers": [{"image": good}]}


def gatekeeper():
    code = next(one for one in documents("gatekeeper") if one["kind"] == "ConstraintTemplate")["spec"]["targets"][0]["code"]
    passing = {"v1": {"ConfigMap": {"passing": {"data": {PASSING: "reg/a"}}}}}
    for case, spec in pods():
        asked = {"review": {"object": {"spec": spec}}}
        data = {"inventory": {"namespace": {"cupti-audited": passing}}}
        said = evaluate(code[0]["source"]["rego"], "data.auditedimages.violation", asked, data)
        say("gatekeeper", case, said == [])


def admission_policy():
    spec = documents("admission-policy")[0]["spec"]
    dyn = cel.Type.DYN
    env = cel.NewEnv(
        variables={"object": dyn, "params": dyn, "variables": dyn}, extensions=[ext_strings.ExtStrings()]
    )
    for case, pod in pods():
        data = {"object": {"spec": pod}, "params": {"data": {PASSING: "reg/a"}}, "variables": {}}
        for variable in spec["variables"]:
            data["variables"][variable["name"]] = env.compile(variable["expression"]).eval(data=data).plain_value()
        say("admission-policy", case, holds(env, spec, data))


for judge in [kyverno, policy_controller, gatekeeper, admission_policy]:
    judge()
