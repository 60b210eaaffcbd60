"""Reads engines.yml: programs of one's own that run models, or anything else, and C libraries of engines.

    engines:
      llama:                                    # the name for --engine
        program: {host: bin/llama-bench, arm64: arm64/llama-bench}   # a file by ABI or one for all; a bare name: what
        sha256: {host: 625c95...}               # the unit has. A file whose hash is another is refused
        arguments: [-m, "{weights}", -o, json, -r, "{rounds}"]       # no shell; a brace is doubled to stand for itself
        files: {weights: tiny.gguf}             # sent to the unit; so are {onnx} and {source}, the deployment's model
        time_limit: 600                         # seconds
        figures:
          prompt: {json: 0.samples_ts.*, unit: tokens/s, better: up}
          latency_ms: {pattern: 'round: ([0-9.]+) us', unit: ms, scale: 0.001}     # each match is a sample
      qwen: {tool: llama-bench, program: bin/llama-bench, files: {weights: qwen.gguf}}   # has its words and figures
    libraries:
      onnxruntime:                              # an engine of farm's that has a C library
        file: {arm64-v8a: onnxruntime-android.aar}      # by ABI or one for all: the library, or an archive that has it
        sha256: {arm64-v8a: 9f2b1c...}
        beside: {arm64-v8a: [libQnnHtp.so]}     # further libraries, which it opens by their names

A path into JSON has keys, indices and `*` for all items, with dots between them. Figures named latency_ms, init_ms and
first_ms are the row's own; those of language models have their unit and direction by their name. Paths start in the
folder that farm is called in.
"""

from __future__ import annotations

import os
import re
import string
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from farm.config import yaml_source
from farm.config.fields import Abi, Checksum, SafeName, Text, not_empty
from farm.config.yaml_source import YamlSection

DEFAULT_FILE = Path("engines.yml")
WORDS = ("onnx", "source", "rounds", "warmup", "threads")


LANGUAGE_MODELS = {
    "prompt_tokens_per_s": {"unit": "tokens/s", "better": "up"},
    "generated_tokens_per_s": {"unit": "tokens/s", "better": "up"},
    "first_token_ms": {"unit": "ms", "better": "down"},
}
TOOLS = {
    "llama-bench": {  # which writes a test a list entry, that of the prompt first; its end is the first token
        "arguments": ["-m", "{weights}", "-p", "512", "-n", "128", "-r", "{rounds}", "-o", "json"],
        "figures": {
            "prompt_tokens_per_s": {"json": "0.samples_ts.*"},
            "generated_tokens_per_s": {"json": "1.samples_ts.*"},
            "first_token_ms": {"json": "0.samples_ns.*", "scale": 1e-6},
        },
    },
    "benchmark_model": {  # of TensorFlow Lite
        "arguments": ["--graph={source}", "--num_runs={rounds}", "--warmup_runs={warmup}"],
        "figures": {
            "latency_ms": {"pattern": r"Inference \(avg\): ([0-9.e+]+)", "unit": "ms", "scale": 1e-3},
            "init_ms": {"pattern": r"Inference timings in us: Init: (\d+)", "unit": "ms", "scale": 1e-3},
            "first_ms": {"pattern": r"First inference: (\d+)", "unit": "ms", "scale": 1e-3},
        },
    },
}


class FigureSection(YamlSection):
    """Where a program's output has a figure, and what it is; numbers are multiplied by `scale`."""

    pattern: Text | None = None
    json_path: Annotated[Text | None, Field(alias="json")] = None
    unit: Text = ""
    better: Literal["up", "down"] = "down"
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @field_validator("pattern")
    @classmethod
    def _has_one_group(cls, value: str) -> str:
        try:
            groups = re.compile(value).groups
        except re.error as error:
            raise ValueError(f"{value!r} is no pattern: {error}") from None
        if groups != 1:
            raise ValueError(f"{value!r} has {groups} groups; put the number into one: ([0-9.]+)")
        return value

    @model_validator(mode="after")
    def _is_found_in_one_way(self) -> FigureSection:
        if (self.pattern is None) == (self.json_path is None):
            raise ValueError("write pattern, or json, which is a path such as 0.samples.*")
        return self


def _by_abi(value: Any) -> Any:
    return dict.fromkeys(get_args(Abi), value) if isinstance(value, str | list) else value


class EngineSection(YamlSection):
    """A program that is an engine; what a `tool` that farm knows takes and prints need not be written."""

    tool: Literal["llama-bench", "benchmark_model"] | None = None
    program: Annotated[dict[Abi, Text], BeforeValidator(_by_abi), AfterValidator(not_empty)]
    sha256: Annotated[dict[Abi, Checksum], BeforeValidator(_by_abi)] = Field(default_factory=dict)
    arguments: tuple[Text, ...] = ()
    files: dict[SafeName, Text] = Field(default_factory=dict)
    time_limit: Annotated[float, Field(gt=0, le=1_000_000)] = 600.0
    figures: Annotated[dict[SafeName, FigureSection], AfterValidator(not_empty)]

    @model_validator(mode="before")
    @classmethod
    def _of_tool(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        value = {**TOOLS.get(str(value.get("tool")), {}), **value}
        if isinstance(figures := value.get("figures"), dict):
            known = {name: LANGUAGE_MODELS.get(name, {}) for name in figures}
            value["figures"] = {
                name: {**known[name], **each} if isinstance(each, dict) else each for name, each in figures.items()
            }
        return value

    @model_validator(mode="after")
    def _knows_its_words(self) -> EngineSection:
        known = (*WORDS, *self.files)
        for argument in self.arguments:
            try:
                named = [name for _, name, _, _ in string.Formatter().parse(argument) if name is not None]
            except ValueError as error:
                raise ValueError(f"argument {argument!r}: {error}; write {{{{ for a brace") from None
            for name in named:
                if name not in known:
                    raise ValueError(f"argument {argument!r}: {{{name}}} is unknown; known are {', '.join(known)}")
        return self


class LibrarySection(YamlSection):
    """The C library of an engine, by ABI."""

    file: Annotated[dict[Abi, Text], BeforeValidator(_by_abi), AfterValidator(not_empty)]
    sha256: Annotated[dict[Abi, Checksum], BeforeValidator(_by_abi)] = Field(default_factory=dict)
    beside: Annotated[dict[Abi, tuple[Text, ...]], BeforeValidator(_by_abi)] = Field(default_factory=dict)


class EngineFile(YamlSection):
    """The whole file."""

    engines: Annotated[dict[SafeName, EngineSection], AfterValidator(not_empty)] = Field(default_factory=dict)
    libraries: Annotated[dict[SafeName, LibrarySection], AfterValidator(not_empty)] = Field(default_factory=dict)


def load_engine_file(path: Path = DEFAULT_FILE) -> EngineFile:
    """What the file names, by paths that start here; nothing without the file. ConfigError names the first mistake."""
    return yaml_source.load(path).validate(EngineFile) if os.path.lexists(path) else EngineFile()
