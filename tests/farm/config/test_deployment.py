"""Deployment files: every key is read, and every mistake is an error with file, line and key."""

from pathlib import Path

import pytest

from farm.config import deployment, yaml_source
from farm.config.deployment import Deployment
from runtime.errors import ConfigError

VALID = """\
library_name: mobile
target_abis: host, arm64-v8a
target_socs: [SDM845]
models:
  net:
    platform: onnx
    model_file_path: zoo://mobilenet_v1?width=0.5
    subgraphs:
      - input_tensors: [image, mask]
        input_shapes:
          - 1,224,224,3
          - [1, 5]
        input_data_formats: NHWC
        output_tensors: prob
        output_shapes: "1,1000"
    runtime: cpu+gpu
    winograd: 2
    validation_threshold: {CPU: 0.999}
"""


def load(tmp_path: Path, text: str | bytes) -> Deployment:
    path = tmp_path / "net.yml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return deployment.load(path)


def refusal(tmp_path: Path, text: str | bytes) -> str:
    """The error's text without the folder: `net.yml:LINE: ...`, and one line."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(("runtime", "falls_back"), [("gpu", False), ("cpu", False), ("cpu+gpu", True)])
def test_the_gpu_alone_runs_what_it_runs_beside_the_cpu(tmp_path: Path, runtime: str, falls_back: bool) -> None:
    """--runtime gpu chooses rows: it refuses no operator that `runtime: cpu+gpu` has the CPU run."""
    chosen = load(tmp_path, VALID.replace("runtime: cpu+gpu", f"runtime: {runtime}")).on_runtimes(["gpu"])
    model = chosen.on_runtimes(["gpu"]).models["net"]
    assert (model.runtimes, model.falls_back) == (("gpu",), falls_back)


def test_reads_every_key(tmp_path: Path) -> None:
    read = load(tmp_path, VALID)
    assert (read.library_name, read.target_abis, read.target_socs) == ("mobile", ("host", "arm64-v8a"), ("sdm845",))
    model = read.models["net"]
    assert model.runtimes == ("cpu", "gpu")
    assert (model.data_type_on("gpu"), model.data_type_on("cpu")) == ("fp16_fp32", "fp32_fp32")
    assert model.validation_threshold == {"cpu": 0.999}
    assert (model.winograd, model.obfuscate, model.limit_opencl_kernel_time) == (2, False, False)


def test_one_format_stands_for_all_tensors(tmp_path: Path) -> None:
    image, mask = load(tmp_path, VALID).models["net"].subgraph.inputs
    assert (image.name, image.shape, image.data_format) == ("image", (1, 224, 224, 3), "NHWC")
    assert (mask.shape, mask.data_format) == ((1, 5), "NHWC")
    assert (image.value_range, mask.data_type) == ((-1.0, 1.0), "float32")


@pytest.mark.parametrize(
    ("platform", "own", "oracle"),
    [
        ("onnx", "NCHW", "onnxruntime"),
        ("tensorflow", "NHWC", "tensorflow"),
        ("keras", "NHWC", "tensorflow"),
        ("tflite", "NHWC", "litert"),
        ("pytorch", "NCHW", "pytorch"),
    ],
)
def test_format_and_oracle_default_to_the_platforms_own(tmp_path: Path, platform: str, own: str, oracle: str) -> None:
    text = VALID.replace("platform: onnx", f"platform: {platform}").replace("        input_data_formats: NHWC\n", "")
    model = load(tmp_path, text).models["net"]
    assert {tensor.data_format for tensor in (*model.subgraph.inputs, *model.subgraph.outputs)} == {own}
    assert model.oracle == oracle


def test_backend_chooses_the_oracle(tmp_path: Path) -> None:
    text = VALID.replace("platform: onnx", "platform: keras\n    backend: onnxruntime")
    assert load(tmp_path, text).models["net"].oracle == "onnxruntime"


def test_only_the_caller_can_trust_models(tmp_path: Path) -> None:
    read = load(tmp_path, VALID)
    assert not read.trusts_models
    assert deployment.load(read.path, trust_models=True).trusts_models
    assert "models.net.trust_models: unknown key" in refusal(tmp_path, VALID.replace("winograd: 2", "trust_models: 1"))


def test_ranges_may_be_text_or_lists(tmp_path: Path) -> None:
    text = VALID.replace("        input_data", '        input_ranges: ["0,255", [-2, 0.5]]\n        input_data')
    assert [tensor.value_range for tensor in load(tmp_path, text).models["net"].subgraph.inputs] == [
        (0.0, 255.0),
        (-2.0, 0.5),
    ]


def test_absent_output_shapes_are_left_to_the_graph(tmp_path: Path) -> None:
    text = VALID.replace('        output_shapes: "1,1000"\n', "")
    assert load(tmp_path, text).models["net"].subgraph.outputs[0].shape is None


@pytest.mark.parametrize("text", ["fp32, fp16_fp32", "[fp32_fp32, fp16_fp32]"])
def test_several_data_types_are_allowed_and_the_first_is_the_default(tmp_path: Path, text: str) -> None:
    model = load(tmp_path, VALID.replace("winograd: 2", f"data_type: {text}")).models["net"]
    assert model.data_types_on("gpu") == ("fp32_fp32", "fp16_fp32") and model.data_type_on("gpu") == "fp32_fp32"
    assert model.data_types_on("cpu") == ("fp32_fp32", "fp16_fp32") and model.data_type_on("cpu") == "fp32_fp32"


def test_maces_spelling_of_a_cpu_model_is_accepted(tmp_path: Path) -> None:
    text = VALID.replace("runtime: cpu+gpu", "runtime: cpu\n    data_type: fp32")
    model = load(tmp_path, text).models["net"]
    assert (model.runtimes, model.data_type) == (("cpu",), ("fp32_fp32",))


@pytest.mark.parametrize("runtime", ["dsp", "hta", "apu", "cpu+dsp"])
def test_an_engine_with_a_delegate_reaches_other_runtimes(tmp_path: Path, runtime: str) -> None:
    text = VALID.replace("runtime: cpu+gpu", f"runtime: {runtime}\n    engine: litert:delegate=libvendor.so")
    assert load(tmp_path, text).models["net"].runtimes == ("cpu",)
    assert "not supported yet by farmrt" in refusal(tmp_path, text.replace(":delegate=libvendor.so", ""))


def test_a_threshold_of_a_runtime_that_is_not_used_is_noted(tmp_path: Path) -> None:
    text = VALID.replace("cpu+gpu", "cpu").replace("{CPU: 0.999}", "{CPU: 0.999, GPU: 0.9, HEXAGON: 0.8}")
    read = load(tmp_path, text)
    where = f"{tmp_path / 'net.yml'}:18: models.net.validation_threshold"
    assert read.notes == [f"{where}.{name}: has no effect, it runs on cpu" for name in ("GPU", "HEXAGON")]
    assert load(tmp_path, VALID).notes == []


@pytest.mark.parametrize("word", ["all", "random", "[random]", "ALL"])
def test_maces_words_for_socs_name_none(tmp_path: Path, word: str) -> None:
    read = load(tmp_path, VALID.replace("[SDM845]", word))
    assert (read.target_socs, read.takes_one) == ((), "random" in word)


def test_what_a_subgraph_leaves_out_is_left_to_the_model(tmp_path: Path) -> None:
    text = VALID.replace("    subgraphs:\n", "").replace(
        VALID.partition("    subgraphs:\n")[2].partition("    run")[0], ""
    )
    assert load(tmp_path, text).models["net"].subgraph.is_open
    whole = load(tmp_path, VALID).models["net"].subgraph
    assert not whole.is_open and not any(tensor.has_type for tensor in whole.inputs)


def test_text_that_looks_like_another_type_stays_text(tmp_path: Path) -> None:
    read = load(tmp_path, VALID.replace("library_name: mobile", "library_name: 007").replace("  net:", "  no:"))
    assert (read.library_name, list(read.models)) == ("007", ["no"])


REFUSALS = {
    "misspelt key": ("winograd: 2", "winogrd: 2", "17: models.net.winogrd: unknown key, did you mean 'winograd'?"),
    "misspelt nested key": (
        "output_shapes:",
        "output_shape:",
        "15: models.net.subgraphs[0].output_shape: unknown key, did you mean 'output_shapes'?",
    ),
    "key of MACE": ("winograd: 2", "quantize: 1", "17: models.net.quantize: quantize_range_file has to name"),
    "weights file": (
        "winograd: 2",
        "weight_file_path: w",
        "17: models.net.weight_file_path: the file of platform onnx holds its weights; leave it out",
    ),
    "checksum of no weights": (
        "platform: onnx",
        f"platform: caffe\n    weight_sha256_checksum: {'0' * 64}",
        "7: models.net.weight_sha256_checksum: there is no weight_file_path that it could be of",
    ),
    "code format": (
        "models:",
        "model_graph_format: bytes\nmodels:",
        "4: model_graph_format: 'file' or 'code' is expected",
    ),
    "weights without their plan": (
        "models:",
        "model_data_format: code\nmodels:",
        "4: model_data_format: weights as code need model_graph_format: code",
    ),
    "platform": (
        "platform: onnx",
        "platform: kers",
        "6: models.net.platform: 'kers' is no platform that is supported, did",
    ),
    "hta": (
        "runtime: cpu+gpu",
        "runtime: cpu+hta",
        "16: models.net.runtime: 'cpu+hta' is not supported yet by farmrt, which has cpu, gpu and cpu+gpu; "
        "an engine reaches it: runtime: cpu, engine: onnxruntime:provider=QNN or litert:delegate=libQnn",
    ),
    "apu": (
        "runtime: cpu+gpu",
        "runtime: apu",
        "16: models.net.runtime: 'apu' is not supported yet by farmrt, which has cpu, gpu and cpu+gpu; "
        "an engine reaches it: runtime: cpu, engine: litert:delegate=PATH, the library of NeuroPilot's delegate",
    ),
    "dsp": (
        "runtime: cpu+gpu",
        "runtime: dsp",
        "16: models.net.runtime: 'dsp' is not supported yet by farmrt, which has cpu, gpu",
    ),
    "no runtime": ("runtime: cpu+gpu", "runtime: tpu", "16: models.net.runtime: 'tpu' is no runtime; write cpu, gpu"),
    "backend": (
        "winograd: 2",
        "backend: litert",
        "17: models.net.backend: 'litert' cannot run models of platform onnx",
    ),
    "unknown threshold": (
        "CPU:",
        "HEXAGN:",
        "18: models.net.validation_threshold: 'HEXAGN' is no runtime, did you mean",
    ),
    "a SoC beside all": ("[SDM845]", "[all, SDM845]", "3: target_socs: write all, random or names of SoCs"),
    "threshold": (
        "0.999",
        "1.5",
        "18: models.net.validation_threshold.CPU: '1.5' is not accepted: should be less than",
    ),
    "winograd": (
        "winograd: 2",
        "winograd: 3",
        "17: models.net.winograd: 3 is no output tile; write 0 (off), 2, 4, auto (the best of each layer) or default",
    ),
    "data type": (
        "winograd: 2",
        "data_type: int8",
        "17: models.net.data_type: 'fp16_fp32', 'fp32_fp32' or 'fp16_fp16'",
    ),
    "data type twice": ("winograd: 2", "data_type: fp32, fp32_fp32", "17: models.net.data_type: a data type is named"),
    "no data type": ("winograd: 2", "data_type: []", "17: models.net.data_type: at least one is needed"),
    "abi": ("host,", "x86,", "2: target_abis[0]: 'host', 'arm64-v8a', 'armeabi-v7a', 'arm64' or 'armhf' is expected"),
    "library name": ("mobile", "../x", "1: library_name: '../x' cannot name a file; use letters"),
    "model name": ("  net:", "  a/b:", "5: models.a/b: 'a/b' cannot name a file; use letters"),
    "scheme": ("zoo:", "ftp:", "7: models.net.model_file_path: ftp:// is not supported; use a path, http://"),
    "checksum": (
        "winograd: 2",
        "model_sha256_checksum: 12",
        "17: models.net.model_sha256_checksum: a SHA-256 checksum",
    ),
    "missing key": ("library_name: mobile\n", "", "1: library_name: this key is missing"),
    "misspelt required key": (
        "runtime: cpu+gpu",
        "runtme: cpu+gpu",
        "16: models.net.runtme: unknown key, did you mean 'runtime'? (and 1 more)",
    ),
    "misspelt key of a tensor": (
        "input_tensors:",
        "input_tensor:",
        "9: models.net.subgraphs[0].input_tensor: unknown key, did you mean 'input_tensors'?",
    ),
    "missing in model": ("    runtime: cpu+gpu\n", "", "5: models.net.runtime: this key is missing"),
    "missing shape": (
        "          - [1, 5]\n",
        "",
        "10: models.net.subgraphs[0].input_shapes: 1 given for 2 input_tensors; write a shape as 1,3,224,224",
    ),
    "formats": (
        "NHWC",
        "[NHWC, NONE, NONE]",
        "13: models.net.subgraphs[0].input_data_formats: 3 given for 2 input_ten",
    ),
    "zero dimension": ("1,224,", "0,224,", "11: models.net.subgraphs[0].input_shapes[0][0]: '0' is not accepted:"),
    "word in a shape": ("1,224,", "N,224,", "11: models.net.subgraphs[0].input_shapes[0][0]: 'N' is not accepted: sho"),
    "same tensor": ("image, mask", "a, a", "9: models.net.subgraphs[0].input_tensors: a tensor is named twice"),
    "range": (
        "        input_data",
        "        input_ranges: 1,-1\n        input_data",
        "13: models.net.subgraphs[0].input_ranges[0]: a range is low,high with low < high, not 1,-1",
    ),
    "two missing keys": (
        "library_name: mobile\ntarget_abis: host, arm64-v8a\n",
        "",
        "1: library_name: this key is missing, and so is target_abis",
    ),
    "missing keys of both levels": (
        "target_abis: host, arm64-v8a\ntarget_socs: [SDM845]\nmodels:\n  net:\n    platform: onnx\n",
        "models:\n  net:\n",
        "1: target_abis: this key is missing, and so is models.net.platform",
    ),
    "no tensors": ("[image, mask]", "[]", "9: models.net.subgraphs[0].input_tensors: at least one is needed"),
    "empty value": ("[image, mask]", "", "9: models.net.subgraphs[0].input_tensors: a list is expected, not nothing"),
    "mapping for text": ("mobile", "{a: b}", "1: library_name: a mapping is not accepted: should be a valid string"),
    "text for mapping": ("    platform: onnx\n", "    - onnx\n", "7: not valid YAML"),
    "duplicate key": (
        "    platform: onnx",
        "    platform: onnx\n" * 2,
        "7: models.net.platform: given twice, first in ",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_with_file_line_and_key(tmp_path: Path, name: str) -> None:
    old, new, message = REFUSALS[name]
    assert VALID.count(old) >= 1
    assert refusal(tmp_path, VALID.replace(old, new, 1)).startswith(f"net.yml:{message}")


HOSTILE = {
    "empty": (b"", "net.yml:1: the file is empty"),
    "comment only": (b"# nothing\n", "net.yml:1: the file is empty"),
    "list": (b"- 1\n", "net.yml:1: a mapping (key: value) is expected, not a list"),
    "text": (b"word\n", "net.yml:1: a mapping (key: value) is expected, not 'word'"),
    "unclosed": (b"a: [1, 2\nb: }\n", "net.yml:2: not valid YAML"),
    "tab": (b"a:\n\t- b\n", "net.yml:2: not valid YAML"),
    "control character": (b"a: \x07\n", "net.yml: not valid YAML: unacceptable character #x0007"),
    "not UTF-8": (b"a: b\nc: \xff\n", "net.yml:2: not UTF-8 text"),
    "alias bomb": (b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "net.yml:1: anchors and aliases (& and *) are not"),
    "merge key": (b"a: 1\n<<: *b\n", "net.yml:2: anchors and aliases"),
    "tag": (
        b"a: !!python/object/apply:os.system [ls]\n",
        "net.yml:1: the tag 'tag:yaml.org,2002:python/object/apply:os",
    ),
    "two documents": (b"a: b\n---\nc: d\n", "net.yml:2: a second document"),
    "key that is a list": (b"[a, b]: c\n", "net.yml:1: a key must be plain text"),
    "deep": (b"[" * 100_000, "net.yml:1: nested deeper than 20 levels"),
    "large": (b"#" * (yaml_source.MAX_SIZE_BYTES + 1), "net.yml: larger than 256 KiB"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = HOSTILE[name]
    assert refusal(tmp_path, content).startswith(message)


def test_of_several_mistakes_the_first_is_told(tmp_path: Path) -> None:
    text = VALID.replace("mobile", "/").replace("winograd: 2", "winograd: 3")
    assert refusal(tmp_path, text).startswith("net.yml:1: library_name: '/' cannot")
    assert refusal(tmp_path, text).endswith("(and 1 more)")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yml: no such file"):
        deployment.load(tmp_path / "none.yml")
    with pytest.raises(ConfigError, match="a folder, not a file"):
        deployment.load(tmp_path)


def test_later_stages_can_name_the_line(tmp_path: Path) -> None:
    error = load(tmp_path, VALID).error(("models", "net", "winograd"), "no such layer")
    assert str(error) == f"{tmp_path}/net.yml:17: models.net.winograd: no such layer"
