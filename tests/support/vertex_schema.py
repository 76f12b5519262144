# Reads files of Vertex AI jobs by Google's own definition of CustomJobSpec, and prints what it takes from each as JSON, or
# its complaint.
import json
import sys
import types

import google.cloud

# The packages themselves would import the clients of all services.
for name in ["google.cloud.aiplatform_v1", "google.cloud.aiplatform_v1.types"]:
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [folder + name.removeprefix("google.cloud").replace(".", "/") for folder in google.cloud.__path__]

import yaml
from google.cloud.aiplatform_v1.types import custom_job
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

for text in sys.argv[1:]:
    try:
        spec = ParseDict(yaml.safe_load(text), custom_job.CustomJobSpec.pb()())
        print(json.dumps(MessageToDict(spec)))
    except ParseError as error:
        print(json.dumps(str(error)))
