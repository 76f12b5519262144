#!/usr/bin/env python3
"""Compares torch with copies of itself that lost the GPU code for other GPUs.

    pruned_code.py --prune PROGRAM [--gpu sm_90]

The script needs Python 3.9 with torch and numpy, one NVIDIA GPU, and 3 GB in $TMPDIR. It takes at most 10 minutes.
PROGRAM is the example `prune` of the crate gpu-code:

    PROGRAM FILE OUT GPU[,GPU...] [--in-place] [--keep-ptx]   exit 0: OUT written, 2: left alone, reason on stderr

Each copy runs the same operations as the stock torch, in its own process and with the same seeds. Results must have
the same bytes. A small difference passes if two stock runs differ, too, or if OPERATIONS marks the group with `~`.
A copy for another GPU must fail with "no kernel image is available". The profiler must see kernels of a copy.
If bitsandbytes, cupy or vllm is installed, a pruned copy of it must compute what the stock one computes.

Each case prints PASS, FAIL or SKIP. $OUT/pruned_code.json has the details. The exit code is 0 if no case fails.
OPS_DEVICE=cpu tests the script itself on a machine without a GPU. It loads the copies, but runs none of their GPU code.
"""

import argparse
import contextlib
import glob
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

DEVICE = os.environ.get("OPS_DEVICE", "cuda")
DEADLINE = time.monotonic() + 570
PROCESS_SECONDS = 180
EAGER = {"CUDA_MODULE_LOADING": "EAGER"}
WRONG_GPU_ERROR = "no kernel image is available"
# The order of additions may change this much, in bfloat16 as well.
TOLERANCE = {"rtol": 2e-2, "atol": 2e-3}
# Below this share the machine is broken, and equal errors prove nothing.
LEAST_WORKING = 0.9

# NVIDIA's licence forbids changes to its libraries.
NVIDIA_NAMES = ("libcu", "libnv", "libnpp", "libnccl")
TORCH_OBJECTS = ["lib/libtorch_cuda.so", "lib/libtorch_cuda_linalg.so"]
PACKAGES = {
    "bitsandbytes": [
        "module('bitsandbytes.functional').quantize_4bit(normal(256, 256).half())[0]",
        "module('bitsandbytes.functional').int8_vectorwise_quant(normal(256, 256).half())[:2]",
    ],
    "cupy": [
        "torch.from_numpy(module('cupy').sort(module('cupy').asarray(torch.randn(10000).numpy())).get())",
        "torch.from_numpy(module('cupy').random.default_rng(1).standard_normal(1000).get())",
    ],
    "vllm": ["vllm_rms_norm()", "vllm_attention(2)", "vllm_attention(3)"],
}
FIRST_KERNEL = "torch.ones(4, device=device) + 1"
PROFILED_STEP = "profiled_kernels()"

# A pattern and the words that replace {} in it.
FAMILIES = {
    "torch.{}(a)": "abs neg exp exp2 expm1 sin cos tan sinh cosh tanh asinh atan sigmoid erf erfc floor ceil round"
    " trunc frac sgn sign relu square deg2rad isnan isinf logical_not nan_to_num tril",
    "torch.{}(p)": "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma i0 acosh poisson _standard_gamma",
    "torch.special.{}(p)": "ndtr log_ndtr erfcx bessel_j0 bessel_j1 i0e i1 i1e entr sinc",
    "torch.{}(a, b)": "add sub mul div maximum minimum atan2 fmod remainder hypot copysign logaddexp nextafter eq lt"
    " ge floor_divide logical_and cdist",
    "torch.{}(i, j)": "bitwise_and bitwise_or bitwise_xor gcd lcm",
    "(a * 3).to(torch.{}).add(1).sum(0)": "float16 bfloat16 float64 int8 uint8 int32 int64 complex64",
    "torch.{}(a, dim=1)": "sum mean std var amax amin argmax argmin norm all any count_nonzero logsumexp median",
    "~ torch.{}(a * 0.1, dim=1)": "prod cumsum cumprod cummax logcumsumexp",
    "F.{}(a)": "gelu silu mish elu selu softplus hardswish hardtanh leaky_relu logsigmoid relu6 celu dropout",
    "F.{}(a, dim=1)": "softmax log_softmax softmin normalize",
    "a.to(torch.{0}) @ b.to(torch.{0}).T": "float32 float16 bfloat16 float64 complex64",
    "torch.bmm(normal(5, 33, 47).to(torch.{0}), normal(5, 47, 21).to(torch.{0}))": "float32 float16 bfloat16",
    "~ torch.linalg.{}(s)": "inv slogdet cholesky qr svdvals eigvalsh lu_factor matrix_exp pinv",
    "~ torch.linalg.{}(s.expand(8, 64, 64).contiguous())": "inv cholesky lu_factor",
    "F.interpolate(x, size=(37, 41), mode='{}')": "nearest bilinear bicubic area",
    "~ F.{}(a, b)": "mse_loss l1_loss smooth_l1_loss huber_loss",
    "~ attention(torch.nn.attention.SDPBackend.{})": "MATH FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION",
    "~ recurrent(torch.nn.{})": "LSTM GRU RNN",
    "~ train(torch.optim.{})": "SGD Adam AdamW RMSprop Adagrad",
    "~ train(torch.optim.{}, foreach=True)": "SGD Adam AdamW",
    "~ train(torch.optim.{}, fused=True)": "SGD Adam AdamW",
    "torch.empty(1000, device=device).{}_()": "normal uniform exponential cauchy log_normal",
}
# Expressions with semicolons between them.
OPERATIONS = """
torch.sort(a, 1); torch.sort(normal(100000)); torch.argsort(a, dim=0, stable=True); torch.topk(a, 7, 1);
torch.kthvalue(a, 5, 1); torch.unique(integers(50, 5000), return_counts=True); torch.bincount(integers(50, 5000));
torch.histc(a, 20); torch.searchsorted(torch.sort(a, 1)[0], b); torch.nonzero(a > 1); a[a > 0.5];
torch.where(a > 0, a, b); torch.gather(a, 1, integers(129, 257, 40)); a.index_select(0, integers(257, 33));
a.roll(3, 0).flip(1); torch.cat([a, b], 1); a[:9].repeat_interleave(integers(4, 9), 0); torch.lerp(a, b, 0.3);
a.renorm(2, 0, 1.0); torch.addcmul(a, a, b); p.pow(2.5); torch.polygamma(1, p); F.pdist(a[:50]);
torch._foreach_add([a, b], [b, a]); torch._foreach_norm([a, b]); torch.addmm(normal(257, 257), a, b.T);
torch._int_mm(i.reshape(20, 25)[:, :16].char().repeat(4, 4), i[:512].char()[:64].repeat(64, 1)); torch.kron(a, b[:2]);
torch.nested.nested_tensor([a[:5], a[:9]]).to_padded_tensor(0.0); torch.einsum('ij,kj->ik', a, b);
F.fold(F.unfold(x, 3), (28, 28), 3); F.max_pool2d(x, 3, 2); F.avg_pool2d(x, 3, 2); F.adaptive_avg_pool2d(x, 5);
F.layer_norm(a, (129,)); F.group_norm(x, 4); F.instance_norm(x); F.rms_norm(a, (129,)); F.pixel_shuffle(x, 2);
F.grid_sample(x, normal(4, 9, 9, 2).clamp(-1, 1), align_corners=False); F.pad(x, (2, 2, 2, 2), mode='reflect');
F.embedding(integers(100, 7, 9), normal(100, 16)); torch.fake_quantize_per_tensor_affine(a, 0.1, 0, -128, 127);
torch.rand(1000, device=device); torch.randint(99, (1000,), device=device); torch.randperm(1000, device=device);
torch.bernoulli(p - p.floor()); torch.multinomial(p, 9); torch.binomial(20 * torch.ones_like(p), p - p.floor());
~ scaled_matmul(by_row=False); ~ scaled_matmul(by_row=True);
~ torch._grouped_mm(normal(64, 32).bfloat16(), normal(4, 32, 48).bfloat16(), offs=ends);
~ torch.zeros(50, device=device).scatter_add(0, integers(50, 5000), normal(5000));
~ torch.zeros(50, 8, device=device).index_add(0, integers(50, 500), normal(500, 8));
~ torch.zeros(100, device=device).index_put((integers(100, 300),), normal(300), accumulate=True);
~ torch.linalg.solve(s, normal(64, 8)); ~ torch.linalg.lstsq(s, normal(64, 8))[0]; ~ torch.linalg.eigvals(s).abs();
~ torch.linalg.solve_triangular(s.tril(), normal(64, 8), upper=False); ~ torch.fft.irfft(torch.fft.rfft(a));
~ torch.fft.fft(normal(16, 128)); ~ torch.fft.rfft2(normal(4, 32, 48)); ~ torch.stft(a, 64, return_complex=True);
~ F.conv2d(x, normal(16, 8, 3, 3), padding=1); ~ F.conv2d(x, normal(8, 1, 3, 3), groups=8);
~ F.conv2d(x.bfloat16(), normal(16, 8, 3, 3).bfloat16()); ~ F.conv1d(normal(4, 8, 100), normal(16, 8, 5));
~ F.conv3d(normal(2, 4, 8, 10, 12), normal(6, 4, 3, 3, 3)); ~ F.conv_transpose2d(x, normal(8, 4, 4, 4), stride=2);
~ F.batch_norm(x, None, None, training=True); ~ F.embedding_bag(integers(100, 7, 9), normal(100, 16));
~ F.cross_entropy(a, integers(129, 257)); ~ F.binary_cross_entropy_with_logits(a, (b > 0).float());
~ F.kl_div(F.log_softmax(a, 1), F.softmax(b, 1)); ~ F.multi_margin_loss(a, integers(129, 257));
~ F.ctc_loss(F.log_softmax(normal(50, 4, 20), 2), integers(19, 4, 10) + 1, [50] * 4, [10] * 4);
~ sparse().to_dense(); ~ torch.sparse.mm(sparse(), normal(80, 30)); ~ sparse().to_sparse_csr() @ normal(80, 30);
~ torch.sparse.softmax(sparse(), 1).to_dense(); ~ s.relu().to_sparse_bsr((16, 16)) @ normal(64, 32);
~ gradients(lambda a, b: (a @ b.T).tanh(), a, b); ~ gradients(lambda a: F.layer_norm(a, (129,)).square(), a);
~ gradients(lambda x, w: F.gelu(F.conv2d(x, w)), x, normal(16, 8, 3, 3)); ~ gradients(lambda a: a.cumsum(1).tanh(), a);
~ gradients(lambda x: F.max_pool2d(x, 2), x); ~ gradients(lambda w: F.embedding(integers(100, 50), w), normal(100, 16));
~ gradients(lambda x: F.interpolate(x, scale_factor=2, mode='bilinear').square(), x);
~ gradients(lambda x: F.batch_norm(x, None, None, training=True).square(), x); ~ gradients(torch.linalg.cholesky, s)
"""

cases, objects, machine = [], [], {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prune", metavar="PROGRAM", help="the program that prunes one object")
    parser.add_argument("--gpu", metavar="sm_90", help="the architecture to prune for [default: that of the machine]")
    parser.add_argument("--evaluate", metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.evaluate:
        return evaluate(json.load(sys.stdin), arguments.evaluate)
    if not arguments.prune or not os.access(arguments.prune, os.X_OK):
        parser.error("name an executable program with --prune")
    if arguments.gpu and not re.fullmatch(r"sm_\d+", arguments.gpu):
        parser.error(f"{arguments.gpu} is no architecture such as sm_90")
    with tempfile.TemporaryDirectory(prefix="pruned-code-") as scratch:
        scratch = os.path.realpath(scratch)
        check_torch(os.path.abspath(arguments.prune), arguments.gpu, scratch)
        for package in PACKAGES:
            check_package(package, [os.path.abspath(arguments.prune), machine.get("gpu", "sm_90")], scratch)
    path = os.path.join(os.environ.get("OUT") or tempfile.mkdtemp(prefix="pruned-code-report-"), "pruned_code.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "objects": objects, "cases": cases}, file, indent=1)
    count = [sum(case["verdict"] == verdict for case in cases) for verdict in ("PASS", "FAIL", "SKIP")]
    print("{} passed, {} failed, {} skipped; details: {}".format(*count, path))
    return 1 if count[1] else 0


def check_torch(program, gpu, scratch):
    families = [pattern.format(word) for pattern, words in FAMILIES.items() for word in words.split()]
    operations = families + [" ".join(part.split()) for part in OPERATIONS.split(";")]
    stock, again = (start(operations, scratch) for _ in range(2))
    if not stock["results"] or not again["results"]:
        return report("stock", "FAIL", stock["error"] or again["error"])
    failing = {key: value for key, value in stock["results"].items() if isinstance(value, str)}
    works = len(failing) <= (1 - LEAST_WORKING) * len(operations)
    detail = f"{len(operations) - len(failing)} of {len(operations)} operations work; {times(stock)}"
    report("stock", "PASS" if works else "FAIL", detail + indented(failing), failing=failing)
    gpu = gpu or stock["gpu"]
    machine.update(stock["machine"], gpu=gpu)
    with pruned_copy("torch", TORCH_OBJECTS, [program, gpu], scratch) as copy:
        if copy:
            report_equality("compacted", stock, again, start(operations, scratch, copy), copy)
            report_equality("compacted, eager", stock, again, start(operations, scratch, copy, EAGER), copy)
            report_kernels(start([PROFILED_STEP], scratch, copy))
    with pruned_copy("torch", TORCH_OBJECTS, [program, gpu, "--in-place"], scratch) as copy:
        if copy:
            report_equality("in place", stock, again, start(operations, scratch, copy), copy)
    other = other_architecture(gpu, stock["machine"]["built for"])
    with pruned_copy("torch", TORCH_OBJECTS, [program, other], scratch) as copy:
        if copy:
            report_error(f"wrong GPU {other}", start([FIRST_KERNEL], scratch, copy))
            report_error(f"wrong GPU {other}, eager", start([FIRST_KERNEL], scratch, copy, EAGER))


def check_package(package, prune, scratch):
    root = package_folder(package)
    if not root:
        return report(package, "SKIP", "not installed")
    found = sorted(glob.glob(f"{root}/**/*.so", recursive=True))
    names = [os.path.relpath(path, root) for path in found if not os.path.basename(path).startswith(NVIDIA_NAMES)]
    stock = start(PACKAGES[package], scratch)
    if all(isinstance(value, str) for value in stock["results"].values()):
        return report(package, "SKIP", f"no stock kernel runs: {stock['error'] or list(stock['results'].values())}")
    with pruned_copy(package, names, prune, scratch) as copy:
        if copy:
            report_equality(package, stock, stock, start(PACKAGES[package], scratch, copy), copy)


def report(name, verdict, detail, **more):
    print(f"{verdict} {name}: {detail}", flush=True)
    cases.append({"case": name, "verdict": verdict, "detail": detail, **more})


def report_equality(name, stock, again, ran, copy):
    """The copy must be in use, and each result must be that of the stock run."""
    if not ran["results"]:
        return report(name, "FAIL", ran["error"])
    count, differ = {"equal": 0, "near": 0, "same error": 0}, []
    for operation, expected in stock["results"].items():
        value = ran["results"][operation]
        varies = operation.startswith("~") or not are_equal(expected, again["results"][operation])
        if are_equal(expected, value):
            count["same error" if isinstance(expected, str) else "equal"] += 1
        elif varies and are_near(expected, value):
            count["near"] += 1
        else:
            errors = [f"; {side}" for side in (expected, value) if isinstance(side, str)]
            differ.append(f"{operation}: differs{''.join(errors)}")
    loaded = [path for path in ran["mapped"] if path in copy]
    detail = ", ".join(f"{number} {kind}" for kind, number in count.items()) + f", {len(differ)} differ; {times(ran)}"
    detail += indented(differ) if loaded else "; no pruned object is loaded"
    unproven = "SKIP" if DEVICE == "cpu" and not loaded and not differ else "FAIL"
    report(name, "PASS" if loaded and not differ else unproven, detail, **count, differ=differ, loaded=loaded)


def report_kernels(ran):
    """Kernels of torch's own code must be on the timeline: CUPTI sees the code that was kept."""
    kernels = ran["results"].get(PROFILED_STEP)
    if not isinstance(kernels, list):
        return report("profiler", "FAIL", kernels or ran["error"])
    own = [name for name in kernels if "at::native" in name]
    cupti = [path for path in ran["mapped"] if "libcupti" in path]
    detail = f"{len(kernels)} kernels, {len(own)} of torch's own; {' '.join(cupti) or 'no libcupti is mapped'}"
    report("profiler", "SKIP" if DEVICE == "cpu" else "PASS" if own else "FAIL", detail, kernels=own[:5])


def report_error(name, ran):
    """The error must be the one that users know, and not a crash or a wrong number."""
    value = ran["results"].get(FIRST_KERNEL)
    if DEVICE == "cpu" and isinstance(value, list):
        return report(name, "SKIP", "needs a GPU; the copy loads")
    text = ran["error"] or (value if isinstance(value, str) else "the kernel ran")
    report(name, "PASS" if WRONG_GPU_ERROR in text else "FAIL", text)


def indented(lines):
    return "".join(f"\n     {line}" for line in list(lines)[:10])


def times(ran):
    return ", ".join(f"{what} {seconds:.1f} s" for what, seconds in ran["seconds"].items())


def other_architecture(gpu, built_for):
    """An architecture of another generation that torch has code for."""
    numbers = sorted(int(name[3:]) for name in built_for if re.fullmatch(r"sm_\d+", name)) or [80, 90]
    return next((f"sm_{number}" for number in numbers if number // 10 != int(gpu[3:]) // 10), "sm_90")


def package_folder(package):
    found = importlib.util.find_spec(package)
    return os.path.dirname(os.path.realpath(found.origin)) if found and found.origin else None


@contextlib.contextmanager
def pruned_copy(package, names, prune, scratch):
    """Makes a folder of links for PYTHONPATH, in which the objects of a package are pruned.

    Gives the paths of these objects: none, after a FAIL, if the first of torch or all of another package stay.
    """
    program, gpu, *options = prune
    source, folder, pruned, reasons = package_folder(package), os.path.join(scratch, "copy"), [], []
    os.mkdir(folder)
    for neighbour in set(os.listdir(os.path.dirname(source))) - {os.path.basename(source)}:
        os.symlink(os.path.join(os.path.dirname(source), neighbour), os.path.join(folder, neighbour))
    target = os.path.join(folder, package)
    shutil.copytree(source, target, copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__"))
    for link in (os.path.join(target, name) for name in names):
        original, new = os.path.realpath(link), os.path.join(scratch, "pruned.so")
        run = run_in_time([program, original, new, gpu, *options])
        if run.returncode == 0:
            os.replace(new, link)
            pruned.append(link)
            sizes = {"before": os.path.getsize(original), "after": os.path.getsize(link)}
            objects.append({"file": os.path.relpath(link, folder), "prune": prune[1:], **sizes})
        elif run.returncode != 2 or link.endswith(TORCH_OBJECTS[0]):
            reasons.append(f"{link}: exit {run.returncode}: {error_line(run.stderr)}")
    if reasons or not pruned:
        report(f"prune {package} {' '.join(prune[1:])}", "FAIL", "; ".join(reasons) or "no object was pruned")
    yield [] if reasons else pruned
    shutil.rmtree(folder)


def start(expressions, scratch, copy=(), environment=None):
    """Evaluates expressions in a Python of their own, with the copy if there is one."""
    import torch

    file = os.path.join(scratch, "results.pt")
    variables = {key: value for key, value in os.environ.items() if key != "CUDA_MODULE_LOADING"} | (environment or {})
    if copy:
        variables["PYTHONPATH"] = os.path.join(scratch, "copy")
    command = [sys.executable, "-B", os.path.abspath(__file__), "--evaluate", file]
    run = run_in_time(command, input=json.dumps(expressions), env=variables)
    if run.returncode != 0:
        return {"results": {}, "error": f"exit {run.returncode}: {error_line(run.stderr)}"}
    return torch.load(file, weights_only=False)


def run_in_time(command, **keywords):
    seconds = max(1, min(PROCESS_SECONDS, DEADLINE - time.monotonic()))
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **keywords)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no result in {seconds:.0f} s")


def error_line(text):
    """The last line that names an exception, because CUDA's advice comes after it; otherwise the last line."""
    lines = text.strip().splitlines() or ["no output"]
    return next((line for line in reversed(lines) if "Error: " in line), lines[-1])


def are_equal(one, other):
    """The same error, or the same bytes; NaN equals NaN this way."""
    import torch

    if isinstance(one, str) or isinstance(other, str):
        return one == other
    pairs = [[tensor.contiguous().flatten().view(torch.uint8) for tensor in pair] for pair in zip(one, other)]
    return are_alike(one, other) and all(torch.equal(*pair) for pair in pairs)


def are_near(one, other):
    import torch

    if isinstance(one, str) or isinstance(other, str) or not are_alike(one, other):
        return False
    return all(torch.allclose(*pair, **TOLERANCE, equal_nan=True) for pair in zip(one, other))


def are_alike(one, other):
    return [(tensor.shape, tensor.dtype) for tensor in one] == [(tensor.shape, tensor.dtype) for tensor in other]


def evaluate(expressions, file):
    """Runs in the other process: saves each result, or the text of its error."""
    began = time.monotonic()
    import torch

    imported = time.monotonic()
    names = names_for_expressions(torch, DEVICE)
    evaluate_one(torch, FIRST_KERNEL, names)
    first = time.monotonic()
    results = {expression: evaluate_one(torch, expression, names) for expression in expressions}
    seconds = {"import": imported - began, "first kernel": first - imported, "rest": time.monotonic() - first}
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = sorted({line.split()[-1] for line in maps if ".so" in line})
    cuda = torch.cuda if DEVICE == "cuda" else None
    gpu = "sm_{}{}".format(*cuda.get_device_capability()) if cuda else "sm_90"
    about = {"device": cuda.get_device_name() if cuda else DEVICE, "torch": torch.__version__}
    about["built for"] = cuda.get_arch_list() if cuda else []
    saved = {"results": results, "error": None, "seconds": seconds, "mapped": mapped, "gpu": gpu, "machine": about}
    torch.save(saved, file)
    return 0


def evaluate_one(torch, expression, names):
    torch.manual_seed(zlib.crc32(expression.encode()))
    try:
        value = eval(expression.removeprefix("~ "), names)
        return [part if isinstance(part, str) else part.detach().cpu().clone() for part in flatten(value)]
    except Exception as error:  # the copies must repeat each error of the stock torch
        line = str(error).partition("\n")[0]
        return f"{type(error).__name__}: {line[:200]}"


def flatten(value):
    return [part for item in value for part in flatten(item)] if isinstance(value, (list, tuple)) else [value]


def names_for_expressions(torch, device):
    """The names that expressions use. The CPU makes the inputs, so they do not depend on GPU code."""
    import torch.nn.functional as F
    from torch.nn.attention import sdpa_kernel

    module = importlib.import_module

    def normal(*shape):
        return torch.randn(*shape).to(device)

    def integers(below, *shape):
        return torch.randint(0, below, shape).to(device)

    torch.manual_seed(1)
    a, b, x, s = torch.randn(257, 129), torch.randn(257, 129), torch.randn(4, 8, 28, 28), torch.randn(64, 64)
    p, i, j = torch.rand(257, 129) + 1.1, torch.randint(1, 1000, (500,)), torch.randint(1, 1000, (500,))
    s, ends = s @ s.T + 64 * torch.eye(64), torch.tensor([16, 32, 48, 64], dtype=torch.int32)
    a, b, x, s, p, i, j, ends = (tensor.to(device) for tensor in (a, b, x, s, p, i, j, ends))

    def sparse():
        places = torch.stack([integers(100, 400), integers(80, 400)])
        return torch.sparse_coo_tensor(places, normal(400), (100, 80)).coalesce()

    def gradients(function, *inputs):
        inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
        function(*inputs).sum().backward()
        return [tensor.grad for tensor in inputs]

    def attention(backend):
        inputs = [normal(2, 4, 256, 64).bfloat16() for _ in range(3)]
        with sdpa_kernel(backend):
            forward = F.scaled_dot_product_attention(*inputs)
            return forward, gradients(lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True), *inputs)

    def recurrent(kind):
        model = kind(16, 32, 2).to(device)
        return gradients(lambda steps: model(steps)[0], normal(11, 3, 16))

    def scaled_matmul(by_row):
        """By row it is CUTLASS code for exactly one architecture, such as sm_90a."""
        left, right = ((normal(size, 256) * 0.1).to(torch.float8_e4m3fn) for size in (128, 64))
        one, rows, columns = torch.ones((), device=device), p[:128, :1].contiguous(), p[:64, :1].contiguous().T
        scales = {"scale_a": rows, "scale_b": columns} if by_row else {"scale_a": one, "scale_b": one}
        return torch._scaled_mm(left, right.T, **scales, out_dtype=torch.bfloat16)

    def train(optimizer, **options):
        layers = torch.nn.Linear(129, 64), torch.nn.ReLU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 10)
        model = torch.nn.Sequential(*layers).to(device)
        steps = optimizer(model.parameters(), lr=0.01, **options)
        for _ in range(3):
            steps.zero_grad()
            F.cross_entropy(model(a), integers(10, 257)).backward()
            steps.step()
        return list(model.parameters())

    def profiled_kernels():
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")) as timeline:
            train(torch.optim.SGD)
        on_gpu = [event.name for event in timeline.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        return [name for name in on_gpu if "kernel" in name or "gemm" in name]

    def vllm_rms_norm():
        out = torch.empty(16, 512, dtype=torch.float16, device=device)
        module("vllm._custom_ops").rms_norm(out, normal(16, 512).half(), normal(512).half(), 1e-6)
        return out

    def vllm_attention(version):
        q, starts = normal(128, 4, 64).half(), torch.tensor([0, 128], dtype=torch.int32, device=device)
        lengths = {"max_seqlen_q": 128, "cu_seqlens_q": starts, "max_seqlen_k": 128, "cu_seqlens_k": starts}
        run = module("vllm.vllm_flash_attn").flash_attn_varlen_func
        return run(q, q, q, **lengths, causal=True, fa_version=version)

    return locals()


if __name__ == "__main__":
    sys.exit(main())
