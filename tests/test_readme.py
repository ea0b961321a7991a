"""The README: what it says of modules, profiles and settings is so."""

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from clusterdyn.config import StudyConfig
from clusterdyn.profiles import PROFILES
from clusterdyn.strict.config import StrictConfig

REPO = Path(__file__).resolve().parents[1]
PACKAGE = REPO / "clusterdyn"
README = (REPO / "README.md").read_text("utf-8")
MODULES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"})


def rows() -> list[list[str]]:
    """The places that each row of the table of modules names."""
    table = README.split("## Where things live")[1].split("A module imports")[0]
    first_cells = re.findall(r"^\| (`.+?) \|", table, flags=re.MULTILINE)
    return [re.findall(r"`(.+?)`", cell) for cell in first_cells]


def row_of(module: Path) -> int:
    """Number of a module's row: by its own name, else by its directory's."""
    place = module.relative_to(PACKAGE)
    for name in (place.as_posix(), f"{place.parts[0]}/"):
        found = [number for number, names in enumerate(rows()) if name in names]
        if found:
            (number,) = found
            return number
    raise AssertionError(f"the README's table of modules has no row for {place}")


def imported(module: Path) -> set[Path]:
    """Modules of the package that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("clusterdyn"):
            base = REPO / Path(*node.module.split("."))
            for place in (base, *(base / alias.name for alias in node.names)):
                found |= {place.with_suffix(".py"), place / "__init__.py"} & set(MODULES)
    return found


def test_every_place_that_the_table_names_exists():
    places = [name for names in rows() for name in names]
    assert len(places) > 20 and len(places) == len(set(places))
    for place in places:
        path = PACKAGE / place
        assert path.is_dir() if place.endswith("/") else path.is_file(), place


@pytest.mark.parametrize(
    "module",
    MODULES,
    ids=lambda m: m.relative_to(PACKAGE).as_posix(),
)
def test_a_module_imports_from_its_own_row_and_the_rows_above_it(module):
    for other in imported(module):
        assert row_of(other) <= row_of(module), f"{module.name} imports {other}"


def test_the_table_of_profiles_names_every_profile():
    table = README.split("| profile |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE) == list(PROFILES)


def test_settings_that_the_readme_names_exist():
    study, strict = README.split("`settings = {...}`:")[1].split("and more")[:2]
    for sentence, config in ((study, StudyConfig), (strict.split("too:")[1], StrictConfig)):
        names = set(re.findall(r"`(\w+)`", sentence))
        assert len(names) > 2
        assert names <= {field.name for field in dataclasses.fields(config)}
