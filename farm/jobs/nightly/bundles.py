"""The bundles of a nightly run: what a case leaves for later nights, and what earlier nights have left for it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from farm.config.execution import Execution
from farm.decision.build_spread import measured_change
from farm.decision.duet_schedule import PastNight
from farm.decision.judgement import Judgement, Verdict
from farm.jobs.compare.bundle import Bundle
from farm.jobs.compare.duet import Arm, Entry
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.nightly.case import Software
from farm.nightly.night import Night
from farm.rows.bundle import BundleManifest
from farm.rows.core_waits import mean_share
from farm.rows.duet import DuetFigures
from farm.rows.nightly import NightlyRow
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Metric, highest_temperature_c
from farm.rows.status import Status
from farm.store.bundle_archive import BundleArchive
from runtime.graph import Array

Inputs = Mapping[str, Array]

FINISHED = "finished"
NEWEST = 60  # nights that are looked back on: a month, twice over
ACCEPTED = (
    Verdict.UNCHANGED,
    Verdict.NEW,
    Verdict.REPLACED,
    Verdict.IMPROVEMENT,
    Verdict.PROVISIONAL_IMPROVEMENT,
    Verdict.ENVIRONMENT_CHANGED,
)
TOLD_DEGREES_C = 8.0
TOLD_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class NightBundles:
    """The archive as one nightly run uses it: `info` is the run, `of_case` what each case's earlier nights left."""

    archive: BundleArchive
    info: RunInfo
    of_case: Mapping[Case, Sequence[BundleManifest]]

    def before(self, case: Case) -> Sequence[BundleManifest]:
        """The manifests of a case's earlier nights, oldest first."""
        return self.of_case.get(case, ())

    def past(self, case: Case) -> list[PastNight]:
        """Returns the past nights in the form that the duet schedule reads."""
        return [past_night(manifest) for manifest in self.before(case)]


def night_bundles(
    archive: BundleArchive, info: RunInfo, runs: Sequence[RunInfo], others: Sequence[BundleManifest] = ()
) -> NightBundles:
    """What the archive, and other hosts, hold of earlier runs of this name that the store knows."""
    started = {run.id: run.started for run in runs if run.id < info.id and run.state == FINISHED}
    both = {(one.series, one.run): one for one in (*others, *archive.manifests(info.name, NEWEST))}
    of_case: dict[Case, list[BundleManifest]] = {}
    for manifest in sorted(both.values(), key=lambda one: one.run):
        if started.get(manifest.run) == manifest.started:
            of_case.setdefault(case_of_manifest(manifest), []).append(manifest)
    return NightBundles(archive, info, {case: found[-NEWEST:] for case, found in of_case.items()})


def case_of_manifest(manifest: BundleManifest) -> Case:
    """The case that a manifest is of."""
    return Case(manifest.unit, manifest.library, manifest.model, manifest.runtime, manifest.setting, manifest.engine)


def past_night(manifest: BundleManifest) -> PastNight:
    """A manifest as the schedule reads it."""
    return PastNight(
        run=manifest.run,
        has_bundle=bool(manifest.files),
        against=manifest.against,
        verdict=manifest.verdict,
        suspected=manifest.suspected,
        pairs=manifest.pairs,
        duet_s=manifest.duet_s,
        busy_s=manifest.busy_s,
        blocks=max(manifest.blocks, 1),
        times=manifest.pair_times,
        build=manifest.program,
        change=manifest.change,
        variance=manifest.change_variance,
        claim=manifest.claim,
    )


def leave_bundle(
    bundles: NightBundles, opened: OpenUnit, case: Case, software: Software, facts: Mapping[str, str]
) -> BundleManifest:
    """Leaves what the unit works with tonight; only a run that ends well makes a bundle of it that others use."""
    manifest = BundleManifest(
        name=bundles.info.name,
        unit=case.unit,
        soc=opened.unit.soc,
        library=case.library,
        model=case.model,
        runtime=case.runtime,
        setting=case.setting,
        engine=case.engine,
        run=bundles.info.id,
        started=bundles.info.started,
        commit=bundles.info.commit,
        settings=dict(software.settings),
        facts={**facts, **software.facts},
        build=software.build,
    )
    return bundles.archive.leave(manifest, software.files)


def changed_facts(before: BundleManifest, tonight: BundleManifest) -> tuple[str, ...]:
    """What the unit said otherwise in the two nights, as `driver: 3.1 in run 12, 3.2 tonight`."""
    changed = [
        f"{name}: {was} in run {before.run}, {tonight.facts[name]} tonight"
        for name, was in before.facts.items()
        if name in tonight.facts and tonight.facts[name] != was
    ]
    was_c, now_c = before.temperature_c, tonight.temperature_c
    if was_c is not None and now_c is not None and abs(now_c - was_c) >= TOLD_DEGREES_C:
        changed.append(f"temperature: {was_c:.0f} °C in run {before.run}, {now_c:.0f} °C tonight")
    was, now = before.waited_share, tonight.waited_share
    if was is not None and now is not None and abs(now - was) >= TOLD_SHARE:
        changed.append(f"rounds waited {was:.0%} of their time for a core in run {before.run}, {now:.0%} tonight")
    return tuple(changed)


def duet_entry(archive: BundleArchive, arm: Arm, manifest: BundleManifest, folder: Path, inputs: Inputs) -> Entry:
    """A bundle as one of the two of a duet, its files in a folder; raises LostBundleError."""
    files = archive.fetch(manifest, folder)
    bundle = Bundle(
        source="",
        versions={},
        library=manifest.library,
        model=manifest.model,
        runtime=manifest.runtime,
        outputs=(),
        fingerprint={},
        settings=manifest.settings,
        limit_kernel_time=bool(manifest.settings.get("limit_kernel_time")),
        execution=Execution(**manifest.settings.get("execution", {})),
    )
    return Entry(arm, bundle, folder, inputs, files.get("kernels"), files.get("tuned"))


def keep_bundles(archive: BundleArchive, night: Night) -> None:
    """Settles what a night leaves: accepted cases keep their files, the others what their duet said alone."""
    tonights = [one for one in archive.manifests(night.run.name, NEWEST) if one.run == night.run.id]
    left = {case_of_manifest(manifest): manifest for manifest in tonights}
    for device in night.devices:
        for report in device.cases:
            if report.row is not None and (manifest := left.get(report.case)) is not None:
                latency = next((one.judgement for one in report.series if one.key.metric == Metric.LATENCY), None)
                archive.write(_settled(manifest, report.row, latency))


def _settled(manifest: BundleManifest, row: NightlyRow, latency: Judgement | None) -> BundleManifest:
    is_accepted = row.status == Status.OK and latency is not None and latency.verdict in ACCEPTED
    duet = row.duet or DuetFigures()
    measured = measured_change(duet.good_pairs)
    return manifest.model_copy(
        update={
            "files": manifest.files if is_accepted else {},
            "build": manifest.program,
            "against": duet.against if duet.verdict else None,
            "verdict": duet.verdict,
            "suspected": duet.suspected,
            "pairs": len(duet.pairs),
            "duet_s": duet.seconds,
            "pair_times": tuple(duet.good_pairs) if duet.left_open else (),
            "change": measured.change if measured else None,
            "change_variance": measured.variance if measured else 0.0,
            "claim": duet.claim,
            "busy_s": row.busy_s,
            "blocks": len(row.blocks),
            "temperature_c": highest_temperature_c(row.blocks),
            "waited_share": mean_share(block.waited_share for block in row.blocks),
        }
    )
