"""ONNX Runtime, on the CPU or by the execution provider that its option names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from farm.engines.base import Choices, EngineModel
from farm.engines.python_engine import RUNNERS, PythonEngine


class OnnxRuntimeProgram:
    """Runs on the unit."""

    def __init__(self, files: Mapping[str, str], threads: int | None, provider: str = "CPU", **more: str) -> None:
        import onnxruntime

        def given(kind: str) -> dict[str, str]:
            return {key.removeprefix(kind): value for key, value in more.items() if key.startswith(kind)}

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads or 0
        for key, value in {"x64quantprecision": str(int(self.bytes_overflow())), **given("session.")}.items():
            options.add_session_config_entry(f"session.{key}", value)
        name = provider if provider.endswith("ExecutionProvider") else f"{provider}ExecutionProvider"
        if name not in onnxruntime.get_available_providers():
            known = ", ".join(each.removesuffix("ExecutionProvider") for each in onnxruntime.get_available_providers())
            raise ValueError(f"this build has no execution provider {provider}; it has {known}")
        wanted = [(name, given("provider.")), *([] if provider == "CPU" else ["CPUExecutionProvider"])]
        with_nodes = hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")
        if with_nodes:
            options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        self.session = onnxruntime.InferenceSession(files["model"], options, wanted)
        self.names = [output.name for output in self.session.get_outputs()]
        self.nodes: dict[str, int] = {}
        for part in self.session.get_provider_graph_assignment_info() if with_nodes else ():
            self.nodes[part.ep_name] = self.nodes.get(part.ep_name, 0) + len(part.get_nodes())

    @staticmethod
    def bytes_overflow(cpus: str = "/proc/cpuinfo") -> bool:
        """Whether sums of products of unsigned and signed bytes overflow 16 bits here: on x86 CPUs that lack VNNI."""
        import pathlib  # this class alone is sent to a unit

        facts = pathlib.Path(cpus)
        return not facts.is_file() or "vnni" not in facts.read_text()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A round."""
        return dict(zip(self.names, self.session.run(None, dict(inputs)), strict=True))


class OnnxRuntime(PythonEngine):
    """Takes every model, as the ONNX model that farm reads or makes of it."""

    name = "onnxruntime"
    package = "onnxruntime"
    module = "onnxruntime"
    library = ("libonnxruntime.so*",)
    options: ClassVar[Choices] = {"provider": (), "provider.": (), "session.": (), **RUNNERS}
    program = OnnxRuntimeProgram

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """See PythonEngine.files."""
        return {"model": model.onnx_file}
