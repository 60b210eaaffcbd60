"""Which kernels a run of the CI computes every product of, and which files' slow tests `make test` takes."""

from tests.exhaustive import FOLDERS, KERNELS, TENTHS
from tests.exhaustive import chosen as chosen_kernels
from tests.turns import ALWAYS, FIFTHS, ROOT, changed_paths, chosen, share

FILES = [f"tests/farm/test_{letter}.py" for letter in "abcdefghijklmno"]


def test_the_turns_take_everything_once() -> None:
    kernels = [name for turn in range(20_000, 20_000 + TENTHS) for name in chosen_kernels([], turn)]
    assert sorted(kernels) == sorted(KERNELS)
    files = [name for turn in range(20_000, 20_000 + FIFTHS) for name in chosen(FILES, [], turn) - ALWAYS]
    assert sorted(files) == FILES


def test_a_kernel_whose_source_changed_is_taken_at_any_turn() -> None:
    for turn in range(TENTHS):
        found = chosen_kernels(["runtime/families/pooling/pool.image.cl", "docs/tour.md"], turn)
        assert set(found) == {*chosen_kernels([], turn), "image-pool"}


def test_a_file_that_changed_and_the_tests_of_a_changed_module_are_taken_at_any_turn() -> None:
    changed = ["tests/farm/test_a.py", "farm/deep/down/b.py", "runtime/c.py", "docs/d.md"]
    for turn in range(FIFTHS):
        assert chosen(FILES, changed, turn) == {*chosen(FILES, [], turn), FILES[0], FILES[1]}


def test_tests_whose_cases_take_turns_by_themselves_are_always_taken() -> None:
    assert all(chosen([*FILES, *ALWAYS], [], turn) >= ALWAYS for turn in range(FIFTHS))
    assert all((ROOT / name).exists() for name in ALWAYS)


def test_where_very_many_changed_the_coming_turns_take_the_others() -> None:
    numbers = range(50)
    found = [share(numbers, numbers, turn, 10) for turn in range(10)]
    assert all(len(each) == 10 for each in found)
    assert all({*share(numbers, (), turn, 10)} <= {*each} for turn, each in enumerate(found))


def test_changed_paths_are_those_of_the_folders() -> None:
    assert all(path.startswith(FOLDERS) for path in changed_paths(*FOLDERS))
