"""Help names choices and defaults without importing what defines them; here both are compared."""

from farm.cli.commands import baseline, options, quantize, report, serve, store, tune
from farm.jobs.compare.stored_runs import LATEST
from farm.jobs.fleet.dispatch import FLEET
from farm.nightly.configuration import SERIES
from farm.quantization.methods import METHODS
from farm.quantization.qdq import LARGEST
from farm.report.write import ReportFormat
from farm.serve.server import DEFAULT_PORT, ServeOptions
from farm.store.exporting import ExportFormat
from tuner.search import LEVELS


def test_choices_are_those_of_the_jobs() -> None:
    assert tuple(LEVELS) == tune.LEVELS
    assert tuple(ReportFormat) == report.FORMATS
    assert tuple(ExportFormat) == store.FORMATS
    assert tuple(METHODS) == quantize.METHODS and tuple(LARGEST) == quantize.BITS
    defaults = {parameter.name: parameter.default for parameter in report.command.params}
    assert (defaults["run"], defaults["baseline"]) == (LATEST, SERIES)
    named = {parameter.name: parameter.default for parameter in baseline.set_command.params}
    assert named["run"] == LATEST


def test_defaults_are_those_of_the_jobs() -> None:
    defaults = {parameter.name: parameter.default for parameter in serve.command.params}
    assert (defaults["listen"], defaults["every_s"]) == (f"{ServeOptions.host}:{DEFAULT_PORT}", ServeOptions.every_s)
    assert (FLEET.wait_s, FLEET.retries) == (options.WAIT_S, options.RETRIES)
