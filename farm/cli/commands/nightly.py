"""Options and help of `farm nightly`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult

EXAMPLE = """\b
A NIGHTLY.yml (only models is needed):
  models: [zoo://mobilenet_v1, my_net.yml]   # deployment files, from this file's folder
  units: [{soc: sdm845}, {device: host}]     # default: those that the deployment files are for
  jobs: [validate, benchmark, tune_check]
  settings: {default: {}, untuned: {tuned: none, kernels: none, selection: none}}
  repeats: 6                                 # blocks of each case
  budget_minutes: 240                        # for each unit
  notify_command: [notify, --verdict]        # gets the verdict as JSON on standard input
  webhook: https://chat.lab/farm             # gets the same by POST
"""


@click.command(name="nightly", epilog=EXAMPLE)
@click.argument("nightly_file", metavar="NIGHTLY.yml", type=options.FILE)
@click.option("--resume", is_flag=True, help="Go on with the last run of this file, which was interrupted.")
@click.option("--dry-run", is_flag=True, help="Only say what would be measured, and for how long.")
@click.option("-o", "--output", metavar="FOLDER", type=paths.NEW_FOLDER, help="Report.  [default: reports/<name>]")
@options.fleet_options("farm nightly")
@options.cluster_options_of("nightly", stays_for="its store and the nights before")
@options.trust_model_option
@options.store_option
@options.share_option("Leave bundles in a folder or URL that other hosts reach, and use theirs.")
@options.json_option
def command(**given: Any) -> CommandResult:
    """Measure models on many units, decide what has become worse, and write a report.

    Models, units, settings and the number of repeats stand in NIGHTLY.yml. What looks changed is
    measured again at once. How models are executed (num_threads, cpu_affinity_policy, gpu_perf_hint,
    gpu_priority_hint) stands in its settings too, since each setting has series of its own.

    Exit status 0: nothing worse; 1: a confirmed regression, a wrong result, or something that
    failed or is missing; 2: configuration; 3: no unit.
    """
    from farm.cli import nightly

    return nightly.nightly(**given)
