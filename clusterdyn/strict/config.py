"""Settings of the strict protocol, beside those of the study."""

from dataclasses import dataclass

from clusterdyn.settings import check_distinct, check_positive, check_seeds, check_types


@dataclass(frozen=True)
class StrictConfig:
    """What the strict protocol trains, selects on and tests on; the defaults are ``full``.

    Attributes:
        selection_rates: of Adam; a geometric grid, the same for every arm.
        grid_extensions: how often a grid may grow by one rate at the side where its best is.
        selection_seeds: every arm's learning rate is chosen on the mean validation MSE over them.
        test_seeds: fresh seeds; each arm is trained on them once, at its chosen rate, and tested.
        side_rates: the grid that side experiments start from, in place of ``selection_rates``.
            They are budgets other than the claims', other horizons, more epochs, and the places
            beyond the published setting.
        side_selection_seeds, side_test_seeds: how many of the seeds, from the first, they use.
        work_budgets: node updates a time step; each arm gets the sweeps that come closest. The
            middle one is the budget of the claims at equal work.
        horizons: T, for the arms in ``core``.
        epoch_budgets: for the arms in ``core``.
        noise_levels: of round robin with noise.
        test_relaxations: eta at test time.
    """

    selection_rates: tuple[float, ...] = (0.001, 0.00316, 0.01, 0.0316, 0.1)
    grid_extensions: int = 2
    selection_seeds: tuple[int, ...] = tuple(range(8))
    test_seeds: tuple[int, ...] = tuple(range(100, 132))
    side_rates: tuple[float, ...] = (0.00316, 0.01, 0.0316)
    side_selection_seeds: int = 3
    side_test_seeds: int = 12
    work_budgets: tuple[int, ...] = (12, 48, 192)
    horizons: tuple[int, ...] = (4, 8, 16)
    epoch_budgets: tuple[int, ...] = (12, 48, 192)
    noise_levels: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    test_relaxations: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 1.0)

    def __post_init__(self) -> None:
        check_types(self)
        check_seeds("selection_seeds", self.selection_seeds)
        check_seeds("test_seeds", self.test_seeds)
        shared = sorted(set(self.selection_seeds) & set(self.test_seeds))
        if shared:
            raise ValueError(
                f"test_seeds must be fresh; got {shared}, which selection_seeds hold as well"
            )
        check_positive(
            self,
            (
                "selection_rates", "side_rates", "work_budgets", "horizons", "epoch_budgets",
                "noise_levels", "test_relaxations",
            ),
        )  # fmt: skip
        for name in (
            "selection_rates", "side_rates", "work_budgets", "horizons", "epoch_budgets",
            "noise_levels", "test_relaxations",
        ):  # fmt: skip
            check_distinct(name, getattr(self, name))
        for name in ("selection_rates", "side_rates"):
            if len(getattr(self, name)) < 3:
                raise ValueError(
                    f"{name} must hold at least 3 rates, or every best would be an edge; got "
                    f"{list(getattr(self, name))}"
                )
        if self.grid_extensions < 0:
            raise ValueError(f"grid_extensions must not be negative; got {self.grid_extensions}")
        for name in ("side_selection_seeds", "side_test_seeds"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2; got {getattr(self, name)}")
        for name in ("noise_levels", "test_relaxations"):
            if max(getattr(self, name)) > 1:
                raise ValueError(f"{name} must lie in (0, 1]; got {list(getattr(self, name))}")
